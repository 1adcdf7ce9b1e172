"""Which RoCE ports are chosen, and what is to be set on each."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import fake_sysfs
import pytest
from ansible_collections.kvlab.lab.plugins.module_utils import rdma_sysfs

ROOT = Path(__file__).parents[3]
WISHES = {
    "mtu": 9000,
    "priority": 3,
    "dscp": 26,
    "cnp_dscp": 48,
    "dcbx": "os",
    "ofed": True,
    "sysfs_root": "/sys",
    "proc_root": "/proc",
    "configfs_root": "/sys/kernel/config",
    "gateway": {},
}


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PORTS, ROCE = load("plugins/modules/roce_ports.py"), load("plugins/filter/roce.py")


@pytest.fixture
def devices(tmp_path: Path) -> list[dict[str, Any]]:
    """Two storage ports, a management port, and one without an address."""
    nics = [
        fake_sysfs.nic("mlx5_0", "ens1", "198.51.100.1", 1),
        fake_sysfs.nic("mlx5_1", "ens2", "198.51.100.2", 2),
        fake_sysfs.nic("mlx5_2", "ens3", "192.0.2.1", 3),
        fake_sysfs.nic("mlx5_3", "ens4", None, 4),
    ]
    found: list[dict[str, Any]] = rdma_sysfs.devices(fake_sysfs.write(tmp_path / "sys", nics))
    return found


def known(*prefixes: int) -> dict[str, tuple[str, str]]:
    """Networks as `ip -j -4 addr` tells them."""
    addresses = ["198.51.100.1", "198.51.100.2", "192.0.2.1"]
    links = [
        {"ifname": f"ens{at}", "addr_info": [{"local": address, "prefixlen": prefix}]}
        for at, (address, prefix) in enumerate(zip(addresses, prefixes, strict=True), 1)
    ]
    found: dict[str, tuple[str, str]] = PORTS.networks_of([{"ifname": "lo", "addr_info": []}, *links])
    return found


def test_ports_in_the_wanted_network_are_chosen_and_each_other_one_is_told_with_its_reason(
    devices: list[dict[str, Any]],
) -> None:
    ports, left_out = PORTS.choose(devices, ["198.51.100.0/24"], [], known(24, 24, 24))
    assert [(port["netdev"], port["address"], port["pci"]) for port in ports] == [
        ("ens1", "198.51.100.1", "0000:01:00.0"),
        ("ens2", "198.51.100.2", "0000:02:00.0"),
    ]
    assert [line.split(":")[0] for line in left_out] == ["ens3", "ens4"]


def test_ports_of_one_network_are_marked_and_get_tables_of_their_own(devices: list[dict[str, Any]]) -> None:
    ports, _ = PORTS.choose(devices, [], [], known(24, 24, 24))
    assert [port["shared"] for port in ports] == [True, True, False]
    assert len({port["table"] for port in ports}) == len(ports)


def test_a_ports_table_stays_the_same_when_another_port_goes(devices: list[dict[str, Any]]) -> None:
    both, _ = PORTS.choose(devices, ["198.51.100.0/24"], [], known(24, 24, 24))
    second, _ = PORTS.choose(devices, ["198.51.100.0/24"], ["ens1"], known(24, 24, 24))
    assert second[0]["table"] == both[1]["table"]


def test_an_address_on_a_vlan_names_the_port_and_the_vlan(devices: list[dict[str, Any]]) -> None:
    above = {"198.51.100.1": ("198.51.100.0/24", "ens1.100")}
    ports, _ = PORTS.choose(devices, ["198.51.100.0/24"], ["ens2"], above)
    assert [(port["netdev"], port["interface"]) for port in ports] == [("ens1", "ens1.100")]


@pytest.mark.parametrize(
    ("name", "unit"), [("ens1", "ens1"), ("ens1.100", "ens1.100"), ("rail-0", r"rail\x2d0")]
)
def test_an_interface_is_named_in_units_as_systemd_does(name: str, unit: str) -> None:
    assert PORTS.escaped(name) == unit


def test_ports_of_two_networks_are_not_taken_for_one(devices: list[dict[str, Any]]) -> None:
    ports, _ = PORTS.choose(devices, ["198.51.100.0/24"], [], known(31, 32, 24))
    assert [port["shared"] for port in ports] == [False, False]


@pytest.mark.parametrize("name", ["ens2", "mlx5_1"])
def test_what_is_excluded_is_left_out_by_either_name(devices: list[dict[str, Any]], name: str) -> None:
    ports, left_out = PORTS.choose(devices, ["198.51.100.0/24"], [name], known(24, 24, 24))
    assert [port["netdev"] for port in ports] == ["ens1"]
    assert "ens2 is excluded" in left_out


def config(**more: Any) -> dict[str, Any]:
    port = {
        "netdev": "ens1",
        "interface": "ens1",
        "shared": True,
        "table": 100,
        "address": "198.51.100.1",
        "network": "198.51.100.0/24",
    }
    written = ROCE.roce_config({**port, **more.pop("port", {})}, {**WISHES, **more})
    assert written["mode"] == "0644"
    found: dict[str, Any] = json.loads(written["content"])
    return found


def test_the_type_of_service_carries_the_dscp_and_says_that_ecn_is_understood() -> None:
    assert config()["tos"] == 106
    assert config(dscp=48)["tos"] == 194


def test_dscp_and_pfc_lead_to_the_same_priority() -> None:
    assert config(priority=4)["qos"] == {"dcbx": "os", "trust": "dscp", "dscp2prio": {"26": 4}, "pfc": [4]}
    assert config(priority=4)["ecn"] == {"priority": 4, "cnp_dscp": 48}
    inbox = config(ofed=False)
    assert (inbox["ecn"], inbox["traffic_class"]) == (None, False)
    assert config()["traffic_class"]


def test_only_ports_that_share_a_network_get_routes_of_their_own() -> None:
    assert config(port={"shared": False})["source_route"] is None
    route = config(gateway={"198.51.100.0/24": "198.51.100.254"})["source_route"]
    assert route == {
        "table": 100,
        "address": "198.51.100.1",
        "network": "198.51.100.0/24",
        "gateway": "198.51.100.254",
    }
