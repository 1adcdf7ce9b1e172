"""The switches' side agrees with the hosts': both are compared, not with numbers written here."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]


def filter_of(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"filter_{name}", ROOT / f"plugins/filter/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SWITCH, ROCE = filter_of("switch"), filter_of("roce")
WISHES = {
    "uplinks": [],
    "mtu_overhead": 216,
    "ecn": {"min_kb": 150, "max_kb": 1500, "probability": 100},
    "share": 50,
}
# A DSCP that is not of its priority by default (18 is of 2).
OTHER = {"priority": 5, "dscp": 18, "cnp_dscp": 4, "mtu": 4200}


def host(name: str = "one", **changes: Any) -> dict[str, Any]:
    """A host's values, as the role's variables have them by default."""
    fabric = yaml.safe_load((ROOT / "roles/rdma_fabric/defaults/main.yml").read_text())
    ports = [
        {"switch": "leaf-a", "os": "sonic", "port": "Ethernet0"},
        {"switch": "leaf-b", "os": "os10", "port": "ethernet1/1/1"},
    ]
    values = {key: fabric[f"rdma_fabric_{key}"] for key in SWITCH.SAME}
    return {"host": name, "ports": ports, **values, **changes}


def rendered(*hosts: dict[str, Any], **wishes: Any) -> dict[str, str]:
    result = SWITCH.switch_snippets(list(hosts), {**WISHES, **wishes})
    assert result["problems"] == []
    files: dict[str, str] = result["files"]
    return files


def on_host(values: dict[str, Any]) -> dict[str, Any]:
    """What the program of rdma_fabric sets on this host."""
    port = dict.fromkeys(("netdev", "interface", "table", "address", "network"), "x") | {"shared": False}
    roots = dict.fromkeys(("sysfs_root", "proc_root", "configfs_root"), "/")
    content = ROCE.roce_config(port, {**values, **roots, "gateway": {}, "ofed": True})["content"]
    config: dict[str, Any] = json.loads(content)
    return config


def members(text: str) -> set[int]:
    """The numbers of 0-2,4."""
    return {
        number
        for part in text.split(",")
        for first, _, last in [part.partition("-")]
        for number in range(int(first), int(last or first) + 1)
    }


@pytest.mark.parametrize("changes", [{}, OTHER])
def test_sonic_has_the_hosts_priority_dscp_and_mtu(changes: dict[str, Any]) -> None:
    values = host(**changes)
    tables, config = json.loads(rendered(values)["leaf-a.config_db.json"]), on_host(values)
    (priority,) = config["qos"]["pfc"]
    qos = tables["PORT_QOS_MAP"]["Ethernet0"]
    assert qos["pfc_enable"] == str(priority)
    dscps = tables["DSCP_TO_TC_MAP"][qos["dscp_to_tc_map"]]
    assert {dscp: int(dscps[dscp]) for dscp in config["qos"]["dscp2prio"]} == config["qos"]["dscp2prio"]
    assert dscps[str(config["tos"] >> 2)] == str(priority)
    assert dscps[str(config["ecn"]["cnp_dscp"])] != str(priority)
    assert len(dscps) == 64
    assert int(tables["PORT"]["Ethernet0"]["mtu"]) == config["mtu"] + 216
    assert tables["QUEUE"][f"Ethernet0|{priority}"]["wred_profile"] in tables["WRED_PROFILE"]


def test_sonic_names_only_maps_that_it_brings_and_its_values_are_texts() -> None:
    tables = json.loads(rendered(host())["leaf-a.config_db.json"])
    table_of = {
        "dscp_to_tc_map": "DSCP_TO_TC_MAP",
        "tc_to_queue_map": "TC_TO_QUEUE_MAP",
        "tc_to_pg_map": "TC_TO_PRIORITY_GROUP_MAP",
        "pfc_to_queue_map": "MAP_PFC_PRIORITY_TO_QUEUE",
    }
    qos = tables["PORT_QOS_MAP"]["Ethernet0"]
    assert set(qos) == {*table_of, "pfc_enable", "pfcwd_sw_enable"}
    for key, table in table_of.items():
        assert qos[key] in tables[table]
    (profile,) = tables["WRED_PROFILE"].values()
    assert profile["ecn"] == "ecn_all"
    for color in ("green", "yellow", "red"):
        # sonic-wred-profile.yang refuses a largest below the smallest; both are bytes.
        assert (profile[f"{color}_min_threshold"], profile[f"{color}_max_threshold"]) == ("153600", "1536000")
    values = [value for table in tables.values() for row in table.values() for value in row.values()]
    assert all(isinstance(value, str) for value in values)


@pytest.mark.parametrize("changes", [{}, OTHER])
def test_os10_has_the_hosts_priority_dscp_and_mtu(changes: dict[str, Any]) -> None:
    values = host(**changes)
    text, config = rendered(values)["leaf-b.os10.cfg"], on_host(values)
    (priority,) = config["qos"]["pfc"]
    assert re.findall(r"^  pfc-cos (\d+)$", text, re.MULTILINE) == [str(priority)]
    groups = {
        int(group): members(dscps)
        for group, dscps in re.findall(r"^ qos-group (\d) dscp (\S+)$", text, re.MULTILINE)
    }
    assert sorted(number for group in groups.values() for number in group) == list(range(64))
    assert set(map(int, config["qos"]["dscp2prio"])) <= groups[priority]
    assert config["ecn"]["cnp_dscp"] not in groups[priority]
    queues = dict(re.findall(r"^ queue (\d) qos-group (\S+)$", text, re.MULTILINE))
    assert members(queues["0"]) | members(queues[str(priority)]) == set(range(8))
    assert members(queues[str(priority)]) == {priority}
    assert re.findall(r"^ mtu (\d+)$", text, re.MULTILINE) == [str(config["mtu"] + 216)]
    # What is used on a port or in a policy is defined above.
    defined = set(
        re.findall(
            r"^(?:wred|class-map type \S+|trust dscp-map|qos-map traffic-class|policy-map type \S+) (\S+)$",
            text,
            re.MULTILINE,
        )
    )
    used = set(re.findall(r"^ +.*?(KVLAB_\S+)$", text, re.MULTILINE))
    assert len(used) == 8
    assert used == defined


def test_every_port_of_a_switch_is_in_its_file_uplinks_too() -> None:
    two = host("two", ports=[{"switch": "leaf-a", "os": "sonic", "port": "Ethernet8"}])
    up = [{"switch": "leaf-a", "os": "sonic", "port": "Ethernet112"}]
    tables = json.loads(rendered(host(), two, uplinks=up)["leaf-a.config_db.json"])
    assert set(tables["PORT"]) == set(tables["PORT_QOS_MAP"]) == {"Ethernet0", "Ethernet8", "Ethernet112"}


def test_dcbx_is_enabled_where_the_nic_listens_to_the_switch_and_only_there() -> None:
    assert "dcbx enable" not in rendered(host())["leaf-b.os10.cfg"]
    only = [{"switch": "leaf-b", "os": "os10", "port": "ethernet1/1/1"}]
    assert "\ndcbx enable\n" in rendered(host(dcbx="fw", ports=only))["leaf-b.os10.cfg"]


PORT = {"switch": "leaf-a", "os": "sonic", "port": "Ethernet0"}


@pytest.mark.parametrize(
    ("hosts", "wishes", "sentence"),
    [
        ([host(), host("two", ports=[], priority=4)], {}, "rdma_fabric_priority must be the same .*3 on one, 4 on two"),
        ([host(), host("two", ports=[], mtu=1500)], {}, "rdma_fabric_mtu must be the same"),
        ([host(priority=9)], {}, "rdma_fabric_priority is 9; it must be 0 to 7"),
        ([host(priority=0)], {}, "a lossless class needs one of its own"),
        ([host(dscp=64)], {}, "rdma_fabric_dscp is 64"),
        ([host(cnp_dscp=26)], {}, "falls into priority 3, the lossless one"),
        ([host(cnp_dscp=24)], {}, "falls into priority 3, the lossless one"),
        ([host(mtu=9100)], {}, "is 9316; switches take up to 9216"),
        ([host()], {"mtu_overhead": 0}, "a frame is 22 longer"),
        ([host()], {"ecn": {"min_kb": 1500, "max_kb": 150, "probability": 5}}, "below the second"),
        ([host()], {"share": 100}, "1 to 99 percent"),
        ([host(ports=[])], {}, "set switch_snippets_ports"),
        ([host(dcbx="fw")], {}, "SONiC speaks no DCBX"),
        ([host(ports=[PORT | {"port": "eth0"}])], {}, "eth0 of switch leaf-a is no name of a sonic port"),
        ([host(ports=[PORT | {"os": "eos"}])], {}, "known are sonic, os10"),
        ([host(ports=[PORT | {"switch": "../leaf"}])], {}, "no name of a switch"),
        ([host(), host("two")], {}, "Ethernet0 of switch leaf-a is named by one and by two"),
        ([host(ports=[PORT, PORT | {"os": "os10", "port": "ethernet1/1/1"}])], {}, "is os10 here and sonic elsewhere"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_a_sentence_and_gives_no_file(
    hosts: list[dict[str, Any]], wishes: dict[str, Any], sentence: str
) -> None:
    result = SWITCH.switch_snippets(hosts, {**WISHES, **wishes})
    assert result["files"] == {}
    assert any(re.search(sentence, one) for one in result["problems"]), result["problems"]


def play(
    folder: Path, hosts: dict[str, Any], variables: dict[str, Any], *more: str
) -> subprocess.CompletedProcess[str]:
    """Run playbooks/switches.yml for these hosts."""
    inventory = folder / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"gpu_hosts": {"hosts": hosts, "vars": variables}}))
    command = [
        Path(sys.executable).with_name("ansible-playbook"),
        "-i",
        inventory,
        "playbooks/switches.yml",
        *more,
    ]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".lab/collections")}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_the_play_reaches_no_host_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    hosts = {
        # Of documentation's range: an attempt to reach it would fail.
        "one": {"ansible_host": "192.0.2.1", "switch_snippets_ports": [PORT]},
        "two": {"ansible_host": "192.0.2.2", "switch_snippets_ports": [PORT | {"port": "Ethernet4"}]},
    }
    variables = {"rdma_fabric_priority": 4, "ansible_become": True}
    first = play(tmp_path, hosts, variables)
    assert first.returncode == 0, first.stdout
    tables = json.loads((tmp_path / "switches/leaf-a.config_db.json").read_text())
    assert {qos["pfc_enable"] for qos in tables["PORT_QOS_MAP"].values()} == {"4"}
    assert set(tables["PORT"]) == {"Ethernet0", "Ethernet4"}
    again = play(tmp_path, hosts, variables)
    assert not re.search(r"changed=[1-9]", again.stdout)


def test_the_play_refuses_with_the_sentence_and_writes_nothing(tmp_path: Path) -> None:
    hosts = {"one": {"switch_snippets_ports": [PORT], "rdma_fabric_mtu": 9500}}
    done = play(tmp_path, hosts, {})
    assert done.returncode != 0
    assert "switches take up to 9216" in " ".join(done.stdout.split())
    assert not (tmp_path / "switches").exists()
