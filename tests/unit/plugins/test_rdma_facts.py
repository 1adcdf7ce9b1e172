"""rdma_facts: sysfs of real machines, and the GID index computed from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_sysfs
import pytest
from ansible_collections.kvlab.lab.plugins.module_utils import rdma_sysfs
from fake_sysfs import Device, Gid, Port, nic

Run = Callable[..., dict[str, Any]]

TABLES = Path(__file__).parents[2] / "fixtures/commands/show_gids"
KINDS = {"v1": "IB/RoCE v1", "v2": "RoCE v2"}
INFINIBAND = "mlx5_5"  # the only one in the tables


def recorded(name: str) -> list[Device]:
    """The devices of a recorded `show_gids`, each with one port."""
    gids: dict[str, list[Gid]] = {}
    for line in (TABLES / f"{name}.txt").read_text().splitlines()[2:-1]:
        device, _port, index, gid, _ipv4, version, netdev = line.split("\t")
        gids.setdefault(device, []).append(Gid(int(index), gid, KINDS[version], netdev or None))
    return [
        Device(
            device,
            f"0000:{number:02x}:00.0",
            # A bond's GIDs are the bond's, the device's own netdev is the first slave.
            ("ens9f0np0",) if "bond" in device else tuple({gid.netdev for gid in found if gid.netdev}),
            {1: Port(tuple(found), link_layer="InfiniBand" if device == INFINIBAND else "Ethernet")},
        )
        for number, (device, found) in enumerate(gids.items(), 1)
    ]


def ports(run: Run, root: Path, made: list[Device], **arguments: Any) -> dict[str, dict[str, Any]]:
    """The first port of each device, as the module reports it."""
    result = run("rdma_facts", sysfs_root=str(fake_sysfs.write(root, made)), **arguments)
    assert not result["changed"]
    return {device["name"]: device["ports"][0] for device in result["devices"]}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "mixed-with-infiniband",
            {
                "mlx5_0": (None, None),
                "mlx5_2": (3, "172.17.242.56"),
                "mlx5_3": (3, "192.168.242.56"),
                INFINIBAND: (None, None),
            },
        ),
        ("cx6-two-link-local", {"mlx5_0": (5, "172.19.0.60")}),
        ("pod-with-holes", {"mlx5_0": (7, "10.152.0.12"), "mlx5_1": (7, "10.152.4.12")}),
        ("bond-below-vxlan", {"mlx5_bond_0": (5, "30.153.10.175")}),
        (
            "ipv6-only",
            {"rocep105s0": (1, "fd93:16d3:59b6:010d:0690:81ff:fe39:e3e8"), "rocep193s0f0": (None, None)},
        ),
        ("none", {}),
    ],
)
def test_the_gid_index_of_a_real_machine_is_computed_and_never_three_by_habit(
    run: Run, tmp_path: Path, name: str, expected: dict[str, tuple[int | None, str | None]]
) -> None:
    found = ports(run, tmp_path, recorded(name))
    assert {device: (port["gid_index"], port["address"]) for device, port in found.items()} == expected


def test_a_port_without_a_usable_gid_says_why(run: Run, tmp_path: Path) -> None:
    only_v1 = Port((Gid(0, fake_sysfs.mapped("192.0.2.1"), "IB/RoCE v1", "eth1"),))
    devices = [
        *recorded("mixed-with-infiniband"),
        Device("mlx5_6", "0000:0a:00.0", ("eth0",), {1: Port(())}),
        Device("mlx5_7", "0000:0b:00.0", ("eth1",), {1: only_v1}),
        nic("mlx5_8", "eth2", "169.254.3.4", 12),
    ]
    found = ports(run, tmp_path, devices)
    assert {name: port["gid_reason"] for name, port in found.items()} == {
        "mlx5_0": "its RoCE v2 GIDs are link-local only; give ens4f0 an address",
        "mlx5_2": None,
        "mlx5_3": None,
        "mlx5_5": "its link layer is InfiniBand, not Ethernet",
        "mlx5_6": "it has no GID; eth0 is down, or in another network namespace",
        "mlx5_7": "all its GIDs are RoCE v1; let the NIC offer RoCE v2",
        "mlx5_8": "its RoCE v2 GIDs are link-local only; give eth2 an address",
    }


def test_an_ipv4_address_goes_before_an_ipv6_address_of_a_lower_index(run: Run, tmp_path: Path) -> None:
    six = Gid(1, "fd93:16d3:59b6:010d:0690:81ff:fe39:e3e8", "RoCE v2", "eth0")
    gids = (six, Gid(4, fake_sysfs.mapped("192.0.2.5"), "RoCE v2", "eth0"))
    found = ports(run, tmp_path, [Device("mlx5_0", "0000:01:00.0", ("eth0",), {1: Port(gids)})])["mlx5_0"]
    assert (found["gid_index"], found["address"]) == (4, "192.0.2.5")


def test_a_network_chooses_among_several_addresses_of_one_netdev(run: Run, tmp_path: Path) -> None:
    gids = (
        *fake_sysfs.table("eth0", "198.51.100.5"),
        Gid(9, fake_sysfs.mapped("192.0.2.5"), "RoCE v2", "eth0"),
    )
    devices = [Device("mlx5_0", "0000:01:00.0", ("eth0",), {1: Port(gids)})]
    any_network = ports(run, tmp_path / "a", devices)["mlx5_0"]
    assert (any_network["gid_index"], any_network["address"]) == (3, "198.51.100.5")
    one = ports(run, tmp_path / "b", devices, networks=["192.0.2.0/24", "2001:db8::/32"])["mlx5_0"]
    assert (one["gid_index"], one["address"]) == (9, "192.0.2.5")


def test_a_device_is_reported_with_what_the_kernel_says_and_null_where_it_says_nothing(
    run: Run, tmp_path: Path
) -> None:
    device = replace(nic("mlx5_3", "ens3np0", "192.0.2.3", 0x5E), numa_node=-1)
    result = run("rdma_facts", sysfs_root=str(fake_sysfs.write(tmp_path, [device])))
    found = result["devices"][0]
    port = found.pop("ports")[0]
    assert found == {
        "name": "mlx5_3",
        "pci": "0000:5e:00.0",
        "numa_node": None,
        "type": "MT4129",
        "firmware": "28.41.1000",
        "board_id": "DEL0000000036",
        "node_guid": "58a2:e103:001a:677e",
    }
    assert (port["state"], port["phys_state"], port["rate"]) == ("ACTIVE", "LinkUp", "400 Gb/sec (4X NDR)")
    assert (port["netdev"], port["mtu"]) == ("ens3np0", 9000)
    assert [(gid["index"], gid["type"], gid["scope"], gid["ipv4"]) for gid in port["gids"]] == [
        (0, "RoCE v1", "link-local", None),
        (1, "RoCE v2", "link-local", None),
        (2, "RoCE v1", "routable", "192.0.2.3"),
        (3, "RoCE v2", "routable", "192.0.2.3"),
    ]


def test_the_ports_of_one_device_have_their_own_netdevs(tmp_path: Path) -> None:
    two = {1: Port(fake_sysfs.table("eth0", "192.0.2.1")), 2: Port((), state="1: DOWN")}
    fake_sysfs.write(tmp_path, [Device("mlx4_0", "0000:01:00.0", ("eth0", "eth1"), two)])
    found = rdma_sysfs.devices(tmp_path)[0]["ports"]
    assert [(port["netdev"], port["state"]) for port in found] == [("eth0", "ACTIVE"), ("eth1", "DOWN")]


def test_a_bond_s_port_belongs_to_the_bond_and_a_soft_roce_port_to_its_parent(tmp_path: Path) -> None:
    fake_sysfs.write(tmp_path, recorded("bond-below-vxlan"))
    soft = tmp_path / "class/infiniband/rxe0"
    (soft / "ports/1/gids").mkdir(parents=True)
    (soft / "parent").write_text("eth7\n")
    found = {device["name"]: device["ports"][0]["netdev"] for device in rdma_sysfs.devices(tmp_path)}
    assert found == {"mlx5_bond_0": "bond1", "rxe0": "eth7"}


def test_devices_come_in_the_order_of_their_numbers(run: Run, tmp_path: Path) -> None:
    devices = [nic(f"mlx5_{number}", f"eth{number}", None, number + 1) for number in (10, 9, 0)]
    assert list(ports(run, tmp_path, devices)) == ["mlx5_0", "mlx5_9", "mlx5_10"]


def test_named_devices_only_are_read_and_a_missing_one_is_named(run: Run, tmp_path: Path) -> None:
    devices = [nic("mlx5_0", "eth0", None, 1), nic("mlx5_1", "eth1", None, 2)]
    assert list(ports(run, tmp_path, devices, devices=["mlx5_1"])) == ["mlx5_1"]
    result = run("rdma_facts", sysfs_root=str(tmp_path), devices=["mlx5_1", "mlx5_4"])
    assert result["failed"]
    assert result["msg"].startswith("no RDMA device mlx5_4; there is mlx5_0, mlx5_1. Correct the name")


def test_a_host_without_rdma_drivers_has_no_device_and_that_is_no_failure(run: Run, tmp_path: Path) -> None:
    assert ports(run, tmp_path, []) == {}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"sysfs_root": "/proc"}, "/proc has no folder class, so it is no sysfs"),
        ({"networks": ["192.0.2.7/24"]}, "'192.0.2.7/24' is no network: 192.0.2.7/24 has host bits set"),
        ({"networks": ["storage"]}, "'storage' is no network"),
    ],
    ids=["sysfs", "host-bits", "word"],
)
def test_bad_options_are_one_sentence(run: Run, tmp_path: Path, arguments: dict[str, Any], why: str) -> None:
    fake_sysfs.write(tmp_path, [nic("mlx5_0", "eth0", "192.0.2.1", 1)])
    result = run("rdma_facts", **{"sysfs_root": str(tmp_path), **arguments})
    assert result["failed"]
    assert result["msg"].startswith(why)


def test_a_gid_entry_that_the_kernel_refuses_to_type_is_not_taken(run: Run, tmp_path: Path) -> None:
    gids = (
        Gid(0, fake_sysfs.mapped("192.0.2.1"), None, None),
        Gid(5, fake_sysfs.mapped("192.0.2.1"), "RoCE v2", "eth0"),
    )
    found = ports(run, tmp_path, [Device("mlx5_0", "0000:01:00.0", ("eth0",), {1: Port(gids)})])["mlx5_0"]
    assert found["gid_index"] == 5
    assert found["gids"][0]["type"] is None
