"""mlnx_qos: outputs of real ports, the calls that are needed and no others, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kvlab.lab.plugins.module_utils import qos_state

Run = Callable[..., dict[str, Any]]
Commands = Callable[..., Path]

OUTPUTS = Path(__file__).parents[2] / "fixtures/commands/mlnx_qos"
ROCE = {"dcbx": "os", "trust": "dscp", "pfc": [3]}


def output(name: str) -> str:
    return (OUTPUTS / f"{name}.txt").read_text()


def state(name: str) -> dict[str, Any]:
    found: dict[str, Any] = qos_state.parse(output(name))
    return found


class Nic:
    """A port behind the stand-in of mlnx_qos."""

    def __init__(self, run: Run, folder: Path) -> None:
        self.run_module, self.folder = run, folder
        (folder / "mlnx_qos").mkdir()
        self.set()

    def set(self, **fields: Any) -> None:
        (self.folder / "mlnx_qos/ens3np0.json").write_text(json.dumps(fields))

    def has(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "mlnx_qos/ens3np0.json").read_text())
        return found

    def run(self, *, check: bool = False, **wanted: Any) -> dict[str, Any]:
        return self.run_module("mlnx_qos", check=check, **{"interface": "ens3np0", **wanted})

    def changes(self) -> list[str]:
        calls = (self.folder / "calls.log").read_text().splitlines()
        return [call.removeprefix("mlnx_qos -i ens3np0 ") for call in calls if not call.endswith(" -a")]


@pytest.fixture
def port(run: Run, commands: Commands) -> Nic:
    return Nic(run, commands("mlnx_qos"))


def test_a_port_as_it_comes_and_one_set_up_for_roce_are_read() -> None:
    assert state("cx6-pcp") == {
        "dcbx": "os",
        "trust": "pcp",
        "dscp2prio": None,
        "cable_len": 7,
        "pfc": [],
        "prio2buffer": [0] * 8,
        "buffer_size": [524160, 0, 0, 0, 0, 0, 0, 0],
        "tsa": ["vendor"] * 8,
        "tc_bw": [0] * 8,
        "prio_tc": [1, 0, 2, 3, 4, 5, 6, 7],
    }
    roce = state("dscp-no-buffers")
    assert (roce["trust"], roce["pfc"], roce["buffer_size"], roce["prio2buffer"]) == ("dscp", [3], None, None)
    assert roce["dscp2prio"] == {dscp: dscp // 8 for dscp in range(64)}


def test_ets_percentages_and_a_total_behind_the_buffers_are_read() -> None:
    found = state("ets-production")
    assert found["tsa"] == ["ets"] * 4 + ["strict"] * 4
    assert found["tc_bw"] == [9, 1, 80, 10, 0, 0, 0, 0]
    assert (found["cable_len"], found["pfc"]) == (30, [5])
    assert found["buffer_size"] == [19872, 220896, 0, 0, 0, 0, 0, 0]
    assert found["prio2buffer"] == [0, 0, 0, 0, 0, 1, 0, 0]


def test_a_mapping_over_several_lines_is_read_whole() -> None:
    found = state("moved-dscp")
    assert (found["dscp2prio"][30], found["dscp2prio"][48], found["dscp2prio"][26]) == (6, 6, 3)
    assert len(found["dscp2prio"]) == 64
    assert found["prio2buffer"] == [0, 2, 5, 7, 1, 2, 3, 6]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has no line DCBX mode, Priority trust state, PFC configuration, Cable len"),
        (output("cx6-pcp").partition("PFC")[0], "it has no line PFC configuration"),
        (output("cx6-pcp").partition("tc: 6")[0], "which traffic class priority 6 is in"),
        ("ETS features are not supported on your system\n", "it has no line DCBX mode"),
    ],
    ids=["empty", "cut-before-pfc", "cut-in-classes", "no-ets"],
)
def test_an_output_that_is_cut_is_refused(text: str, why: str) -> None:
    with pytest.raises(qos_state.QosError, match=why):
        qos_state.parse(text)


@pytest.mark.parametrize(
    ("name", "want", "calls"),
    [
        ("dscp-no-buffers", ROCE, []),
        ("dscp-no-buffers", {"pfc": [3, 3]}, []),
        ("cx6-pcp", ROCE, ["--trust dscp", "--pfc 0,0,0,1,0,0,0,0 --cable_len 7"]),
        ("ets-production", {"pfc": [3]}, ["--pfc 0,0,0,1,0,0,0,0 --cable_len 30"]),
        ("ets-production", {"cable_len": 5}, ["--pfc 0,0,0,0,0,1,0,0 --cable_len 5"]),
        ("moved-dscp", {"dscp2prio": {26: 3, 30: 3, 48: 6}}, ["--dscp2prio set,30,3"]),
        (
            "cx6-pcp",
            {"tsa": ["ets", "ets", *["strict"] * 6], "tc_bw": [40, 60, 0, 0, 0, 0, 0, 0]},
            ["--tsa ets,ets,strict,strict,strict,strict,strict,strict --tcbw 40,60,0,0,0,0,0,0"],
        ),
        ("cx6-pcp", {"prio2buffer": [0, 0, 0, 1, 0, 0, 0, 0]}, ["--prio2buffer 0,0,0,1,0,0,0,0"]),
    ],
)
def test_only_what_differs_is_called_for(name: str, want: dict[str, Any], calls: list[str]) -> None:
    assert [" ".join(words) for words in qos_state.calls(state(name), want)] == calls


def test_a_port_is_set_up_for_roce_and_a_second_run_makes_no_call(port: Nic) -> None:
    port.set(dcbx="fw", cable_len=30)
    first = port.run(**ROCE, dscp2prio={"26": 3, "48": 5})
    assert first["changed"]
    assert port.changes() == [
        "--dcbx os",
        "--trust dscp",
        "--dscp2prio set,48,5",
        "--pfc 0,0,0,1,0,0,0,0 --cable_len 30",
    ]
    assert first["commands"] == [f"mlnx_qos -i ens3np0 {call}" for call in port.changes()]
    assert (first["qos"]["dcbx"], first["qos"]["trust"], first["qos"]["pfc"]) == ("os", "dscp", [3])
    assert first["qos"]["cable_len"] == port.has()["cable_len"] == 30
    calls = port.changes()
    second = port.run(**ROCE, dscp2prio={"26": 3, "48": 5})
    assert (second["changed"], second["commands"], second["problems"]) == (False, [], [])
    assert port.changes() == calls


def test_all_priorities_in_one_class_and_buffers_are_set_and_read_back(port: Nic) -> None:
    wanted = {
        "prio_tc": [0] * 8,
        "tsa": ["ets", *["strict"] * 7],
        "tc_bw": [100, 0, 0, 0, 0, 0, 0, 0],
        "prio2buffer": [0, 0, 0, 1, 0, 0, 0, 0],
        "buffer_size": [87296, 87296, 0, 0, 0, 0, 0, 0],
    }
    first = port.run(**wanted)
    assert {name: first["qos"][name] for name in wanted} == wanted
    assert not port.run(**wanted)["changed"]


def test_check_mode_says_the_calls_and_makes_none(port: Nic) -> None:
    result = port.run(check=True, **ROCE)
    assert result["changed"]
    assert result["commands"] == [
        "mlnx_qos -i ens3np0 --trust dscp",
        "mlnx_qos -i ens3np0 --pfc 0,0,0,1,0,0,0,0 --cable_len 7",
    ]
    assert result["diff"] == {"before": 'trust: "pcp"\npfc: []\n', "after": 'trust: "dscp"\npfc: [3]\n'}
    assert port.changes() == []


def test_a_setting_that_the_nic_does_not_take_is_named(port: Nic) -> None:
    port.set(stuck=["trust"])
    assert port.run(**ROCE)["msg"] == "ens3np0: the NIC took the settings but has trust pcp, pfc [] now"


def test_a_switch_or_a_daemon_that_can_overrule_the_host_is_warned_of(port: Nic) -> None:
    port.set(dcbx="fw")
    (port.folder / "mlnx_qos/lldpad").touch()
    lldpad, firmware = port.run(pfc=[3])["problems"]
    assert lldpad.startswith("lldpad runs and can overrule the settings of ens3np0")
    assert firmware.startswith("firmware has DCBX on ens3np0")


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"pfc": [8]}, "pfc has 8; priorities go from 0 to 7"),
        ({"tsa": ["ets"] * 7}, "tsa has 7 items; give eight"),
        ({"tsa": ["wrr"] * 8}, "tsa has wrr; possible are strict, ets, vendor"),
        ({"tc_bw": [100] + [0] * 7}, "tc_bw needs tsa beside it"),
        ({"tsa": ["ets"] * 8, "tc_bw": [10] * 8}, "must total 100"),
        ({"tsa": ["strict", *["ets"] * 7], "tc_bw": [30, 70, 0, 0, 0, 0, 0, 0]}, "and the others be 0"),
        ({"tsa": ["ets"] * 8}, "tc_bw is None; the percentages of the ets classes"),
        ({"prio_tc": [9] * 8}, "prio_tc has 9; values from 0 to 7 are possible"),
        ({"dscp2prio": {"64": 3}}, "dscp2prio maps 64 to 3"),
        ({"dscp2prio": {"ef": 3}}, "give whole numbers, such as 26: 3"),
        ({"dscp2prio": {"26": 3}}, "dscp2prio has no effect with trust pcp; set trust to dscp"),
        ({"dscp2prio": {"26": 3}, "trust": "pcp"}, "dscp2prio has no effect with trust pcp"),
        ({"interface": "ens4np0", "pfc": [3]}, "ens4np0: mlnx_qos -i ens4np0 -a ended: Interface not found"),
    ],
)
def test_bad_input_is_one_sentence_and_changes_nothing(port: Nic, wanted: dict[str, Any], why: str) -> None:
    (port.folder / "calls.log").touch()
    result = port.run(**wanted)
    assert result["failed"]
    assert why in result["msg"]
    assert port.changes() == []


def test_a_nic_without_buffers_and_a_host_without_the_tool_are_told_so(
    run: Run, port: Nic, tmp_path: Path
) -> None:
    port.set(buffer_size=None)
    assert (
        "this NIC shows no receive buffers, so prio2buffer cannot be set"
        in port.run(prio2buffer=[0] * 8)["msg"]
    )
    (tmp_path / "bin/mlnx_qos").unlink()
    assert run("mlnx_qos", interface="ens3np0")["msg"].startswith(
        "mlnx_qos is not on this host; install mlnx-tools"
    )
