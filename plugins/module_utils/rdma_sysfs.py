# SPDX-License-Identifier: Apache-2.0
"""RDMA devices, ports and GIDs as the kernel shows them in sysfs, and which GID index RoCE v2 traffic is to use.

Runs on hosts: standard library only. All functions take the root of sysfs, so that a made-up tree can be read.
"""

from __future__ import annotations

import errno
import ipaddress
from pathlib import Path

ROCE_V2 = "RoCE v2"


class RdmaSysfsError(Exception):
    """What was asked for cannot be read; the message says what to do."""


def devices(root, names=()):
    """All RDMA devices, or those named, in the order of their names; see `device` for one.

    Without RDMA drivers there is no device, and the list is empty. Raises RdmaSysfsError when a named one is missing
    or when `root` is no sysfs.
    """
    root = Path(root)
    if not (root / "class").is_dir():
        raise RdmaSysfsError(
            f"{root} has no folder class, so it is no sysfs; set sysfs_root to where sysfs is"
        )
    folder = root / "class/infiniband"
    there = _names(folder)
    missing = [name for name in names if name not in there]
    if missing:
        raise RdmaSysfsError(
            f"no RDMA device {', '.join(missing)}; there is {', '.join(there) or 'none'}. Correct the name, or load "
            "the NIC's driver"
        )
    return [device(folder / name) for name in (names or there)]


def device(folder):
    """One device: name, PCI address, NUMA node (None when the platform does not say), firmware, board and ports."""
    parent = folder / "device"
    numa = _read(parent / "numa_node")
    return {
        "name": folder.name,
        "pci": parent.resolve().name if parent.exists() else None,
        # -1 is the kernel's word for "the firmware did not say".
        "numa_node": int(numa) if numa not in (None, "-1") else None,
        "type": _read(folder / "hca_type"),
        "firmware": _read(folder / "fw_ver"),
        "board_id": _read(folder / "board_id"),
        "node_guid": _read(folder / "node_guid"),
        "ports": [port(folder, number) for number in _names(folder / "ports")],
    }


def port(folder, number):
    """One port: state, link layer, rate, netdev and its MTU in bytes, and the GID table without its empty entries."""
    where = folder / "ports" / number
    link_layer = _read(where / "link_layer")
    gids = gid_table(where, link_layer)
    netdev = _netdev(folder, int(number), gids)
    mtu = _read(folder.parents[1] / "net" / netdev / "mtu") if netdev else None
    return {
        "port": int(number),
        "state": _word(_read(where / "state")),
        "phys_state": _word(_read(where / "phys_state")),
        "link_layer": link_layer,
        "rate": _read(where / "rate"),
        "netdev": netdev,
        "mtu": int(mtu) if mtu else None,
        "gids": gids,
    }


def gid_table(where, link_layer):
    """The port's GIDs that are set, each with index, type, netdev, the IPv4 address in it (or None) and its scope.

    The scope is `routable` or `link-local`. An index is the kernel's own: the table has holes, and it changes with the
    order in which addresses come.
    """
    folder = where / "gids"
    table = []
    for index in _names(folder):
        text = _read(folder / index)
        if not text or int(ipaddress.IPv6Address(text)) == 0:
            continue
        gid = ipaddress.IPv6Address(text)
        address = gid.ipv4_mapped
        kind = _read(where / "gid_attrs/types" / index)
        if kind != ROCE_V2 and kind is not None:
            kind = "RoCE v1" if link_layer == "Ethernet" else "IB"
        table.append(
            {
                "index": int(index),
                "gid": text,
                "type": kind,
                "netdev": _read(where / "gid_attrs/ndevs" / index),
                "ipv4": str(address) if address else None,
                "scope": "link-local" if (address or gid).is_link_local else "routable",
            }
        )
    return table


def choose_gid(port, networks=()):
    """The GID to use for RoCE v2 and None, or None and the sentence why there is none.

    `port` is as `port()` gives it. `networks`, such as ["192.0.2.0/24"], restricts the choice to addresses in them. An
    IPv4 address goes before IPv6, the port's own netdev before a VLAN or tunnel above it, then the lowest index.
    Raises RdmaSysfsError for a network that is none.
    """
    netdev = port["netdev"] or "its netdev"
    if port["link_layer"] != "Ethernet":
        return None, f"its link layer is {port['link_layer']}, not Ethernet"
    if not port["gids"]:
        return None, f"it has no GID; {netdev} is down, or in another network namespace"
    usable = [gid for gid in port["gids"] if gid["type"] == ROCE_V2]
    if not usable:
        return None, "all its GIDs are RoCE v1; let the NIC offer RoCE v2"
    usable = [gid for gid in usable if gid["scope"] == "routable"]
    if not usable:
        return None, f"its RoCE v2 GIDs are link-local only; give {netdev} an address"
    if networks:
        wanted = [_network(text) for text in networks]
        usable = [gid for gid in usable if any(_address(gid) in network for network in wanted)]
    if not usable:
        return None, f"no address of {netdev} is in {', '.join(networks)}"
    return min(
        usable, key=lambda gid: (gid["ipv4"] is None, gid["netdev"] != port["netdev"], gid["index"])
    ), None


def _network(text):
    try:
        return ipaddress.ip_network(text)
    except ValueError as error:
        raise RdmaSysfsError(f"{text!r} is no network: {error}; write it as 192.0.2.0/24") from None


def _address(gid):
    return ipaddress.ip_address(gid["ipv4"] or gid["gid"])


def _netdev(folder, number, gids):
    """The port's netdev: the device's own, unless the GIDs are another's, as those of a bond are."""
    own = folder / "device/net"
    names = _names(own)
    # Netdevs of one device are told apart by dev_port, which counts from 0; ports count from 1.
    mine = [name for name in names if int(_read(own / name / "dev_port") or 0) == number - 1] or names
    if not mine:
        parent = _read(folder / "parent")  # soft-RoCE has no PCI device and names its netdev itself
        mine = [parent] if parent else []
    named = [gid["netdev"] for gid in gids if gid["netdev"]]
    if mine and (not named or set(mine) & set(named)):
        return next((name for name in mine if name in named), mine[0])
    return named[0] if named else None


def _read(path):
    """A sysfs file's text without its newline; None when there is none, or when the kernel has no value for it."""
    try:
        return path.read_text().strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENODEV, errno.EOPNOTSUPP):
            return None
        raise RdmaSysfsError(f"{path} cannot be read: {error.strerror}; run this as root") from error


def _word(text):
    """`4: ACTIVE` is ACTIVE."""
    return text.partition(":")[2].strip() or text if text else None


def _names(folder):
    """What a folder holds, mlx5_10 after mlx5_9; nothing when there is no folder."""

    def natural(name):
        head = name.rstrip("0123456789")
        return head, int(name[len(head) :] or -1)

    return sorted((path.name for path in folder.iterdir()), key=natural) if folder.is_dir() else []
