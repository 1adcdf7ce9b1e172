"""A made-up sysfs with RDMA devices, laid out as the kernel lays it out; what is found in it is `simulated`."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

LINK_LOCAL = "fe80:0000:0000:0000:0e42:a1ff:fe5d:4db8"
EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"


def mapped(address: str) -> str:
    """The GID of an IPv4 address, written as the kernel writes it."""
    return ipaddress.IPv6Address(f"::ffff:{address}").exploded


@dataclass(frozen=True)
class Gid:
    """One entry of a GID table; `kind` None is what the kernel refuses to show."""

    index: int
    gid: str
    kind: str | None
    netdev: str | None


def table(netdev: str, address: str | None) -> tuple[Gid, ...]:
    """The entries that mlx5 makes for one netdev: link-local and, with an address, IPv4, each as v1 and as v2."""
    gids = [LINK_LOCAL, *([mapped(address)] if address else [])]
    kinds = ("IB/RoCE v1", "RoCE v2")
    return tuple(
        Gid(2 * at + half, gid, kind, netdev)
        for at, gid in enumerate(gids)
        for half, kind in enumerate(kinds)
    )


@dataclass(frozen=True)
class Port:
    """One port; netdevs are what stands in the PCI device's folder `net`."""

    gids: tuple[Gid, ...] = ()
    state: str = "4: ACTIVE"
    phys_state: str = "5: LinkUp"
    link_layer: str = "Ethernet"
    rate: str = "400 Gb/sec (4X NDR)"
    table_size: int = 16


@dataclass(frozen=True)
class Device:
    """One RDMA device on a PCI function."""

    name: str
    pci: str
    netdevs: tuple[str, ...] = ()
    ports: dict[int, Port] = field(default_factory=dict)
    numa_node: int = 0
    mtu: int = 9000
    # PCI addresses of the bridges above it, from the root port down.
    bridges: tuple[str, ...] = ()
    board_id: str = "DEL0000000036"
    firmware: str = "28.41.1000"


def nic(name: str, netdev: str, address: str | None, number: int = 1, **port: str) -> Device:
    """A ConnectX with one port; `number` makes its PCI address."""
    return Device(name, f"0000:{number:02x}:00.0", (netdev,), {1: Port(table(netdev, address), **port)})


def function(
    root: Path, address: str, bridges: tuple[str, ...], vendor: str, device: str, kind: str, numa_node: int
) -> Path:
    """One PCI function below its bridges, with its link in bus/pci/devices; returns its folder."""
    home = Path(root, "devices/pci0000:00", *bridges, address)
    for name, text in {
        "vendor": vendor,
        "device": device,
        "class": kind,
        "numa_node": str(numa_node),
    }.items():
        _file(home / name, text)
    bus = root / "bus/pci/devices"
    bus.mkdir(parents=True, exist_ok=True)
    if not (bus / address).is_symlink():
        (bus / address).symlink_to(home)
    return home


def write(root: Path, devices: list[Device]) -> Path:
    """Make the tree of RDMA devices under `root`; returns `root`."""
    (root / "class/net").mkdir(parents=True, exist_ok=True)
    for device in devices:
        pci = Path(root, "devices/pci0000:00", *device.bridges, device.pci)
        home = pci / "infiniband" / device.name
        home.mkdir(parents=True)
        (root / "class/infiniband").mkdir(exist_ok=True)
        (root / "class/infiniband" / device.name).symlink_to(home)
        (home / "device").symlink_to(pci)
        _file(pci / "numa_node", str(device.numa_node))
        about = {"hca_type": "MT4129", "fw_ver": device.firmware, "board_id": device.board_id}
        for name, text in {**about, "node_guid": "58a2:e103:001a:677e"}.items():
            _file(home / name, text)
        for at, netdev in enumerate(device.netdevs):
            _file(pci / "net" / netdev / "dev_port", str(at if len(device.ports) > 1 else 0))
            _file(pci / "net" / netdev / "mtu", str(device.mtu))
            (root / "class/net" / netdev).symlink_to(pci / "net" / netdev)
        for number, port in device.ports.items():
            _port(home / "ports" / str(number), port)
    return root


def _port(home: Path, port: Port) -> None:
    for name in ("state", "phys_state", "link_layer", "rate"):
        _file(home / name, getattr(port, name))
    set_here = {gid.index: gid for gid in port.gids}
    for index in range(port.table_size):
        gid = set_here.get(index)
        _file(home / "gids" / str(index), gid.gid if gid else EMPTY)
        if gid and gid.kind:
            _file(home / "gid_attrs/types" / str(index), gid.kind)
        if gid and gid.netdev:
            _file(home / "gid_attrs/ndevs" / str(index), gid.netdev)


def _file(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
