"""mlxconfig: outputs of real devices, values in their several spellings, and resets only when allowed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kvlab.lab.plugins.module_utils import mlxconfig_state

Run = Callable[..., dict[str, Any]]
Commands = Callable[..., Path]

OUTPUTS = Path(__file__).parents[2] / "fixtures/commands/mlxconfig"
DEVICE = "0000:5e:00.0"
FACTORY = {
    "LINK_TYPE_P1": "IB(1)",
    "LINK_TYPE_P2": "IB(1)",
    "ROCE_CC_PRIO_MASK_P1": "0",
    "CNP_DSCP_P1": "48",
    "ATS_ENABLED": "True(1)",
    "ESWITCH_HAIRPIN_DESCRIPTORS": "Array[0..7]",
}


def table(name: str) -> dict[str, Any]:
    found: dict[str, Any] = mlxconfig_state.parse((OUTPUTS / f"{name}.txt").read_text())
    return found


class Nic:
    """A device behind the stand-ins of mlxconfig and mlxfwreset."""

    def __init__(self, run: Run, folder: Path) -> None:
        self.run_module, self.folder = run, folder
        (folder / "mlxconfig").mkdir()
        self.file = folder / f"mlxconfig/{DEVICE}.json"
        self.make()

    def make(self, *, without: str = "", **more: Any) -> None:
        """A device as it comes, with `more` such as stuck, old and boot_only."""
        has = {
            name: dict.fromkeys(("default", "current", "next"), v)
            for name, v in FACTORY.items()
            if name != without
        }
        self.file.write_text(json.dumps({"type": "ConnectX7", "parameters": has, **more}))

    def parameter(self, name: str) -> dict[str, str]:
        found: dict[str, str] = json.loads(self.file.read_text())["parameters"][name]
        return found

    def run(self, *, check: bool = False, allow_reset: bool = False, **settings: Any) -> dict[str, Any]:
        options = {"device": DEVICE, "settings": settings, "allow_reset": allow_reset}
        return self.run_module("mlxconfig", check=check, **options)

    def changes(self) -> list[str]:
        log = self.folder / "calls.log"
        calls = log.read_text().splitlines() if log.exists() else []
        return [call.replace(f" -d {DEVICE}", "") for call in calls if not call.endswith("query")]


@pytest.fixture
def nic(run: Run, commands: Commands) -> Nic:
    return Nic(run, commands("mlxconfig", "mlxfwreset"))


def test_the_three_columns_of_real_devices_are_read_with_and_without_a_mark() -> None:
    found = table("connectx5-changed")
    assert len(found) == 5
    assert found["ADVANCED_PCI_SETTINGS"] == {"default": "False(0)", "current": "True(1)", "next": "True(1)"}
    assert found["SAFE_MODE_THRESHOLD"]["next"] == "10"
    pending = table("connectx4-pending")
    assert pending["MEMIC_SIZE_LIMIT"] == {
        "default": "_256KB(1)",
        "current": "_256KB(1)",
        "next": "DISABLED(0)",
    }
    assert mlxconfig_state.differing(pending, {"MEMIC_SIZE_LIMIT": "DISABLED"}, "current")
    assert not mlxconfig_state.differing(pending, {"MEMIC_SIZE_LIMIT": "DISABLED"}, "next")


def test_a_device_that_shows_the_next_boot_only_has_no_current_value() -> None:
    found = table("connectx7-next-boot-only")
    assert found["MEMIC_ATOMIC"] == {"default": None, "current": None, "next": "MEMIC_ATOMIC_ENABLE(2)"}
    assert table("connectx5-congestion")["CNP_DSCP_P1"]["next"] == "48"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no table of configurations"),
        ("Device #1:\n----------\n\nDevice type:    ConnectX5\n", "no table of configurations"),
        (
            "Configurations:    Default    Current\n  A   1   1\n",
            "the columns Default    Current, and not Next Boot",
        ),
    ],
    ids=["empty", "cut", "columns"],
)
def test_an_output_without_its_table_is_refused(text: str, why: str) -> None:
    with pytest.raises(mlxconfig_state.ConfigError, match=why):
        mlxconfig_state.parse(text)


@pytest.mark.parametrize(
    ("shown", "wanted", "equal"),
    [
        ("ETH(2)", "ETH", True),
        ("ETH(2)", "eth", True),
        ("ETH(2)", 2, True),
        ("ETH(2)", "ETH(2)", True),
        ("ETH(2)", "IB", False),
        ("ETH(2)", 1, False),
        ("True(1)", True, True),
        ("True(1)", "1", True),
        ("False(0)", True, False),
        ("255", 255, True),
        ("255", "0xff", True),
        ("48", 4, False),
        ("_256KB(1)", "_256KB", True),
    ],
)
def test_a_value_is_the_same_by_word_by_number_and_as_a_boolean(shown: str, wanted: Any, equal: bool) -> None:
    assert mlxconfig_state.same(shown, wanted) is equal


def test_only_what_differs_is_set_and_a_reset_is_reported_and_not_made(nic: Nic) -> None:
    wanted = {"LINK_TYPE_P1": "ETH", "ROCE_CC_PRIO_MASK_P1": 255, "CNP_DSCP_P1": 48, "ATS_ENABLED": False}
    first = nic.run(**wanted)
    assert nic.changes() == ["mlxconfig -y set LINK_TYPE_P1=ETH ROCE_CC_PRIO_MASK_P1=255 ATS_ENABLED=0"]
    assert (first["changed"], first["reset_required"], first["reset"]) == (True, True, False)
    assert first["pending"] == ["LINK_TYPE_P1", "ROCE_CC_PRIO_MASK_P1", "ATS_ENABLED"]
    assert first["parameters"]["LINK_TYPE_P1"] == {"default": "IB(1)", "current": "IB(1)", "next": "ETH(2)"}
    second = nic.run(**wanted)
    assert (second["changed"], second["reset_required"]) == (False, True), "it is set, but not in force"
    assert len(nic.changes()) == 1


def test_a_reset_is_made_once_when_it_is_allowed_and_due(nic: Nic) -> None:
    first = nic.run(LINK_TYPE_P1="ETH", allow_reset=True)
    assert (first["changed"], first["reset"], first["reset_required"], first["pending"]) == (
        True,
        True,
        False,
        [],
    )
    assert (
        first["parameters"]["LINK_TYPE_P1"]["current"] == nic.parameter("LINK_TYPE_P1")["current"] == "ETH(2)"
    )
    assert nic.changes()[-1] == "mlxfwreset -y reset"
    second = nic.run(LINK_TYPE_P1="ETH", allow_reset=True)
    assert (second["changed"], second["reset"]) == (False, False)
    assert len(nic.changes()) == 2


def test_what_an_earlier_run_set_is_reset_when_it_becomes_allowed(nic: Nic) -> None:
    nic.run(LINK_TYPE_P1="ETH")
    later = nic.run(LINK_TYPE_P1="ETH", allow_reset=True)
    assert (later["changed"], later["reset"], later["reset_required"]) == (True, True, False)


def test_check_mode_says_what_it_would_do_and_does_nothing(nic: Nic) -> None:
    result = nic.run(LINK_TYPE_P1="ETH", CNP_DSCP_P1="48", allow_reset=True, check=True)
    assert (result["changed"], result["reset"], result["reset_required"]) == (True, True, True)
    assert (result["diff"]["before"], result["diff"]["after"]) == (
        "LINK_TYPE_P1: IB(1)\n",
        "LINK_TYPE_P1: ETH\n",
    )
    assert nic.changes() == []


def test_a_device_that_does_not_show_what_is_in_force_needs_a_reset_after_a_set_only(nic: Nic) -> None:
    nic.make(old=True)
    first = nic.run(LINK_TYPE_P1="ETH")
    assert (first["changed"], first["reset_required"], first["pending"]) == (True, True, ["LINK_TYPE_P1"])
    second = nic.run(LINK_TYPE_P1="ETH")
    assert (second["changed"], second["reset_required"]) == (False, False)


def test_a_parameter_of_a_second_port_is_skipped_on_a_device_with_one(nic: Nic) -> None:
    nic.make(without="LINK_TYPE_P2")
    result = nic.run(LINK_TYPE_P1="ETH", LINK_TYPE_P2="ETH")
    assert (result["changed"], result["skipped"]) == (True, ["LINK_TYPE_P2"])
    assert nic.changes() == ["mlxconfig -y set LINK_TYPE_P1=ETH"]


def test_a_value_with_word_and_number_is_set_by_its_number(nic: Nic) -> None:
    assert nic.run(LINK_TYPE_P1="ETH(2)")["parameters"]["LINK_TYPE_P1"]["next"] == "ETH(2)"
    assert nic.changes() == ["mlxconfig -y set LINK_TYPE_P1=2"]


def test_a_value_that_the_device_does_not_take_or_keep_is_named(nic: Nic) -> None:
    nic.make(stuck=["ATS_ENABLED"], boot_only=["LINK_TYPE_P1"])
    message = nic.run(ATS_ENABLED=False)["msg"]
    assert (
        message
        == f"{DEVICE}: the device did not take all: for the next boot ATS_ENABLED is True(1) and not 0"
    )
    message = nic.run(LINK_TYPE_P1="ETH", allow_reset=True)["msg"]
    assert message == f"{DEVICE}: LINK_TYPE_P1 is not in force after the reset; boot the host"


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"LINK_TYP_P1": "ETH"}, "the device has no parameter LINK_TYP_P1; is it LINK_TYPE_P1?"),
        ({"SRIOV_EN": True}, "a newer firmware, or ADVANCED_PCI_SETTINGS, may bring it"),
        ({"NOT_THERE_P2": 1}, "the device has no parameter NOT_THERE_P2"),
        ({"ESWITCH_HAIRPIN_DESCRIPTORS": 128}, "is an array, which this module does not set"),
        ({"CNP_DSCP_P1": "4 ATS_ENABLED=1"}, "CNP_DSCP_P1=4 ATS_ENABLED=1 is no setting"),
        ({"-y": "1"}, "-y=1 is no setting"),
        ({"LINK_TYPE_P1": "ETHER"}, "ended with 3: -E- Unknown value ETHER for LINK_TYPE_P1"),
    ],
)
def test_bad_input_is_one_sentence_and_sets_nothing(nic: Nic, settings: dict[str, Any], why: str) -> None:
    before = nic.file.read_text()
    result = nic.run(**settings)
    assert result["failed"]
    assert result["msg"].startswith(f"{DEVICE}: ")
    assert why in result["msg"]
    assert nic.file.read_text() == before


def test_a_missing_device_and_missing_tools_are_told(run: Run, nic: Nic, tmp_path: Path) -> None:
    result = run("mlxconfig", device="/dev/mst/mt4129_pciconf0", settings={"LINK_TYPE_P1": "ETH"})
    message = "mlxconfig -e query ended with 3: -E- Failed to open the device"
    assert result["msg"] == f"/dev/mst/mt4129_pciconf0: {message}"
    (tmp_path / "bin/mlxconfig").unlink()
    assert (
        nic.run(LINK_TYPE_P1="ETH")["msg"]
        == f"{DEVICE}: mlxconfig is not on this host; install mft, which DOCA-OFED brings"
    )
