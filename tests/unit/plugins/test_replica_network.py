"""The bridges of a replica are made once, mended, removed alone, and never over a network that is in use."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

# ip(8) for bridges: its state is a file, and each change is a line of a log.
IP = f"""#!{sys.executable}
import json, sys
from pathlib import Path
state, log = Path(__file__).with_name("state.json"), Path(__file__).with_name("log")
have = json.loads(state.read_text())
words = sys.argv[1:]
if "show" in words and "route" in words:
    print(json.dumps(have["routes"]))
elif "show" in words:
    print(json.dumps([{{}}, *have["links"].values()]))
else:
    if have["broken"]:
        sys.exit("RTNETLINK answers: Operation not permitted")
    with log.open("a") as out:
        print(*words, file=out)
    links = have["links"]
    if words[:2] == ["link", "add"]:
        links[words[2]] = {{"ifname": words[2], "flags": [], "mtu": 1500, "addr_info": []}}
    elif words[:2] == ["link", "del"]:
        del links[words[2]]
    elif words[:2] == ["link", "set"]:
        links[words[2]].update(mtu=int(words[words.index("mtu") + 1]), flags=["UP"])
    elif words[:2] == ["addr", "add"]:
        local, _, length = words[2].partition("/")
        links[words[4]]["addr_info"].append({{"family": "inet", "local": local, "prefixlen": int(length)}})
    elif words[:2] == ["addr", "del"]:
        links[words[4]]["addr_info"].clear()
    state.write_text(json.dumps(have))
"""
BRIDGES = [
    {"name": "kvm", "address": "10.77.0.1/24", "mtu": 1500},
    {"name": "kvs", "address": "", "mtu": 9000},
]


class Machine:
    """A machine with a stand-in for ip."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "ip").write_text(IP)
        (folder / "ip").chmod(0o755)
        self.set(links={}, routes=[{"dst": "default", "dev": "eth0"}], broken=False)

    def set(self, **values: Any) -> None:
        file = self.folder / "state.json"
        have = json.loads(file.read_text()) if file.exists() else {}
        file.write_text(json.dumps({**have, **values}))

    @property
    def links(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "state.json").read_text())["links"]
        return found

    def changes(self) -> list[str]:
        log = self.folder / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return Machine(folder)


def test_bridges_are_made_once_and_check_mode_makes_none(run: Any, machine: Machine) -> None:
    told = run("replica_network", check=True, bridges=BRIDGES)
    assert (told["changed"], told["bridges"], machine.changes()) == (True, ["kvm", "kvs"], [])
    assert run("replica_network", bridges=BRIDGES)["changed"] is True
    assert set(machine.links) == {"kvm", "kvs"}
    assert machine.links["kvm"]["addr_info"] == [{"family": "inet", "local": "10.77.0.1", "prefixlen": 24}]
    assert (machine.links["kvs"]["mtu"], machine.links["kvs"]["addr_info"]) == (9000, [])
    machine.changes()
    assert run("replica_network", bridges=BRIDGES)["changed"] is False
    assert machine.changes() == []


def test_only_the_bridge_that_differs_is_mended(run: Any, machine: Machine) -> None:
    run("replica_network", bridges=BRIDGES)
    machine.changes()
    other = [{**BRIDGES[0], "address": "10.78.0.1/24"}, BRIDGES[1]]
    assert run("replica_network", bridges=other)["changed"] is True
    assert machine.changes() == [
        "addr del 10.77.0.1/24 dev kvm",
        "addr add 10.78.0.1/24 dev kvm",
        "link set kvm mtu 1500 up",
    ]


@pytest.mark.parametrize("dst", ["10.77.0.0/16", "10.77.0.128/25", "10.77.0.9"])
def test_a_network_that_is_in_use_is_refused_and_nothing_is_made(
    run: Any, machine: Machine, dst: str
) -> None:
    machine.set(routes=[{"dst": "default", "dev": "eth0"}, {"dst": dst, "dev": "eth0"}])
    result = run("replica_network", bridges=BRIDGES)
    assert result["failed"]
    assert "10.77.0.0/24 of the replica is taken" in result["msg"]
    assert f"reaches {dst} by eth0" in result["msg"]
    assert machine.changes() == []


def test_the_route_of_the_bridge_itself_is_no_reason(run: Any, machine: Machine) -> None:
    machine.set(routes=[{"dst": "10.77.0.0/24", "dev": "kvm"}, {"dst": "10.76.0.0/24", "dev": "eth0"}])
    assert run("replica_network", bridges=BRIDGES)["changed"] is True


def test_only_the_bridges_that_are_named_are_removed(run: Any, machine: Machine) -> None:
    run("replica_network", bridges=[*BRIDGES, {"name": "docker0", "address": "", "mtu": 1500}])
    machine.changes()
    assert run("replica_network", check=True, bridges=BRIDGES, state="absent")["changed"] is True
    assert machine.changes() == []
    assert run("replica_network", bridges=BRIDGES, state="absent")["bridges"] == []
    assert machine.changes() == ["link del kvm", "link del kvs"]
    assert set(machine.links) == {"docker0"}
    assert run("replica_network", bridges=BRIDGES, state="absent")["changed"] is False


def test_a_complaint_of_ip_is_one_sentence(run: Any, machine: Machine) -> None:
    machine.set(broken=True)
    result = run("replica_network", bridges=BRIDGES)
    assert result["failed"]
    assert (
        "ip link add kvm type bridge: RTNETLINK answers: Operation not permitted; run this as root"
        in result["msg"]
    )
