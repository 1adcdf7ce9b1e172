"""roce_settings.py: what it reads, sets and reads again. The commands are stand-ins."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fake_sysfs
import pytest

ROOT = Path(__file__).parents[3]
IP = """#!{python}
import json, sys
from pathlib import Path
state = Path({state!r})
have = json.loads(state.read_text())
words = sys.argv[1:]
with Path({log!r}).open("a") as log:
    log.write(" ".join(words) + "\\n")
if words[:3] == ["-j", "link", "show"]:
    print(json.dumps([{{"ifname": words[-1], "mtu": have["mtu"]}}]))
elif words[:2] == ["link", "set"]:
    have["mtu"] = int(words[-1])
elif words[:3] == ["-j", "rule", "show"]:
    print(json.dumps(have["rules"]))
elif words[:2] == ["rule", "add"]:
    have["rules"].append({{"src": words[3], "table": words[5]}})
elif words[:2] == ["rule", "del"]:
    have["rules"].remove({{"src": words[3], "table": words[5]}})
elif words[:3] == ["-j", "route", "show"]:
    if not have["routes"]:
        sys.exit("Error: ipv4: FIB table does not exist.")
    print(json.dumps(have["routes"]))
elif words[:2] == ["route", "replace"]:
    route = {{"dst": words[2], "dev": words[words.index("dev") + 1]}}
    if "via" in words:
        route["gateway"] = words[words.index("via") + 1]
    have["routes"].append(route)
else:
    sys.exit("unknown: " + " ".join(words))
state.write_text(json.dumps(have))
"""


@dataclass
class Port:
    """One port of a made-up host."""

    folder: Path
    config: dict[str, Any]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        file = self.folder / "ens1.json"
        file.write_text(json.dumps(self.config))
        environment = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "KVLAB_STANDINS": str(self.folder),
            "PYTHONPATH": str(ROOT / "plugins/module_utils"),
        }
        command = [sys.executable, ROOT / "roles/rdma_fabric/files/roce_settings.py", file, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    @property
    def ip(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "ip.json").read_text())
        return found

    def calls(self) -> list[str]:
        """What was asked of ip and mlnx_qos since the last look, reading left out."""
        lines = []
        for name in ("calls.log", "ip.log"):
            log = self.folder / name
            lines += log.read_text().splitlines() if log.exists() else []
            log.unlink(missing_ok=True)
        return [line for line in lines if not (line.startswith("-j") or line.endswith(" -a"))]


@pytest.fixture
def port(tmp_path: Path) -> Port:
    sysfs = fake_sysfs.write(tmp_path / "sys", [fake_sysfs.nic("mlx5_0", "ens1", "198.51.100.1")])
    files = {
        sysfs / "class/net/ens1/ecn/roce_np/enable/3": "0",
        sysfs / "class/net/ens1/ecn/roce_rp/enable/3": "0",
        sysfs / "class/net/ens1/ecn/roce_np/cnp_dscp": "4",
        sysfs / "class/infiniband/mlx5_0/tc/1/traffic_class": "",
        tmp_path / "configfs/rdma_cm/mlx5_0/ports/1/default_roce_mode": "IB/RoCE v1",
        tmp_path / "configfs/rdma_cm/mlx5_0/ports/1/default_roce_tos": "0",
        **{tmp_path / f"proc/sys/net/ipv4/conf/ens1/{name}": "0" for name in ("arp_ignore", "rp_filter")},
        tmp_path / "mlnx_qos/ens1.json": "{}",
        tmp_path / "ip.json": json.dumps({"mtu": 1500, "rules": [], "routes": []}),
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/mlnx_qos").symlink_to(ROOT / "tests/replica/commands/mlnx_qos.py")
    places = {"python": sys.executable, "state": str(tmp_path / "ip.json"), "log": str(tmp_path / "ip.log")}
    (tmp_path / "bin/ip").write_text(IP.format(**places))
    (tmp_path / "bin/ip").chmod(0o755)
    config = {
        "netdev": "ens1",
        "interface": "ens1",
        "mtu": 9000,
        "qos": {"dcbx": "os", "trust": "dscp", "dscp2prio": {"26": 3}, "pfc": [3]},
        "ecn": {"priority": 3, "cnp_dscp": 48},
        "roce_mode": "RoCE v2",
        "tos": 106,
        "traffic_class": True,
        "sysctl": {"arp_ignore": 2, "rp_filter": 2},
        "source_route": {
            "table": 4791,
            "address": "198.51.100.1",
            "network": "198.51.100.0/24",
            "gateway": None,
        },
        "sysfs_root": str(sysfs),
        "proc_root": str(tmp_path / "proc"),
        "configfs_root": str(tmp_path / "configfs"),
    }
    return Port(tmp_path, config)


def test_everything_is_set_and_a_second_run_finds_nothing_to_do(port: Port) -> None:
    first = port.run()
    assert first.returncode == 0, first.stderr
    assert len(first.stdout.splitlines()) == 14
    assert port.ip["mtu"] == 9000
    assert port.ip["rules"] == [{"src": "198.51.100.1", "table": "4791"}]
    mode = port.folder / "configfs/rdma_cm/mlx5_0/ports/1/default_roce_mode"
    assert mode.read_text() == "RoCE v2\n"
    assert port.calls()
    second = port.run()
    assert (second.returncode, second.stdout, port.calls()) == (0, "", [])


def test_with_check_it_tells_the_same_and_sets_nothing(port: Port) -> None:
    before = port.ip
    told = port.run("--check")
    assert told.returncode == 1
    assert len(told.stdout.splitlines()) == 14
    assert (port.ip, port.calls()) == (before, [])


def test_a_rule_of_an_earlier_table_is_taken_away(port: Port) -> None:
    have = {"mtu": 9000, "rules": [{"src": "198.51.100.1", "table": "7"}], "routes": []}
    (port.folder / "ip.json").write_text(json.dumps(have))
    assert port.run().returncode == 0
    assert port.ip["rules"] == [{"src": "198.51.100.1", "table": "4791"}]


def test_a_gateway_of_the_network_gets_a_default_route_in_the_ports_table(port: Port) -> None:
    port.config["source_route"]["gateway"] = "198.51.100.254"
    assert port.run().returncode == 0
    assert {"dst": "default", "dev": "ens1", "gateway": "198.51.100.254"} in port.ip["routes"]


def test_a_nic_that_does_not_keep_a_setting_is_an_error_and_no_success(port: Port) -> None:
    (port.folder / "mlnx_qos/ens1.json").write_text(json.dumps({"stuck": ["pfc"]}))
    failed = port.run()
    assert failed.returncode == 2
    assert "does not keep what mlnx_qos --pfc" in failed.stderr


def test_the_inbox_driver_has_no_ecn_files_and_the_remedy_is_said(port: Port) -> None:
    for end in ("roce_np", "roce_rp"):
        (port.folder / f"sys/class/net/ens1/ecn/{end}/enable/3").unlink()
    failed = port.run("--check")
    assert failed.returncode == 2
    assert "ROCE_CC_PRIO_MASK" in failed.stderr
    port.config["ecn"] = None
    assert port.run("--check").returncode == 1


@pytest.mark.parametrize(
    ("shown", "differs"),
    [("", True), ("Global tclass=96\n", True), ("Global tclass=106\ntclass=5 src=x\n", False)],
)
def test_the_traffic_class_is_read_as_the_driver_says_it(port: Port, shown: str, differs: bool) -> None:
    (port.folder / "sys/class/infiniband/mlx5_0/tc/1/traffic_class").write_text(shown)
    told = port.run("--check").stdout
    assert ("traffic class" in told) == differs


def test_a_vlan_above_a_port_gets_the_addresses_settings_and_the_port_those_of_the_nic(port: Port) -> None:
    port.config["interface"] = "ens1.100"
    for name in ("arp_ignore", "rp_filter"):
        setting = port.folder / f"proc/sys/net/ipv4/conf/ens1.100/{name}"
        setting.parent.mkdir(exist_ok=True)
        setting.write_text("0\n")
    done = port.run()
    assert done.returncode == 0, done.stderr
    calls = port.calls()
    assert "route replace 198.51.100.0/24 dev ens1.100 src 198.51.100.1 table 4791" in calls
    assert any(call.startswith("mlnx_qos -i ens1 ") for call in calls)
    assert (port.folder / "proc/sys/net/ipv4/conf/ens1.100/rp_filter").read_text() == "2\n"
    assert (port.folder / "proc/sys/net/ipv4/conf/ens1/rp_filter").read_text() == "0\n"


def test_an_interface_without_an_rdma_device_is_refused(port: Port) -> None:
    port.config["netdev"] = "eth0"
    (port.folder / "mlnx_qos/eth0.json").write_text("{}")
    failed = port.run()
    assert failed.returncode == 2
    assert "eth0 belongs to no RDMA device" in failed.stderr


def test_a_damaged_file_is_one_sentence(port: Port) -> None:
    (port.folder / "bad.json").write_text("{")
    command = [sys.executable, ROOT / "roles/rdma_fabric/files/roce_settings.py", port.folder / "bad.json"]
    environment = {"PYTHONPATH": str(ROOT / "plugins/module_utils")}
    failed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert "cannot be read" in failed.stderr
    assert "Traceback" not in failed.stderr
