"""The firmware probe reads what DMI, sysfs and nvidia-smi say, and null where they say nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab.checks import judge
from kvlab.probes.host import firmware

ACCEPTED = {
    "bios": {"PowerEdge XE9680": ["2.6.3"]},
    "nics": {"MT_0000000838": ["28.43.1014"]},
    "gpus": {"NVIDIA H100 80GB HBM3": ["96.00.89.00.01"]},
}


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """A host with one H100 and one ConnectX-7."""
    files = {
        "class/dmi/id/sys_vendor": "Dell Inc.",
        "class/dmi/id/product_name": "PowerEdge XE9680",
        "class/dmi/id/bios_version": "2.6.3",
        "class/infiniband/mlx5_0/fw_ver": "28.43.1014",
        "class/infiniband/mlx5_0/board_id": "MT_0000000838",
        "bus/pci/devices/0000:19:00.0/vendor": "0x10de",
        "bus/pci/devices/0000:19:00.0/class": "0x030200",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"{text}\n")
    return tmp_path


def nvidia_smi(monkeypatch: pytest.MonkeyPatch, answer: str | None) -> None:
    monkeypatch.setattr(firmware, "said", lambda *command: answer if command[0] == "nvidia-smi" else None)


def statuses(sysfs: Path, accepted: object = ACCEPTED) -> dict[str, str]:
    facts = firmware.collect({"sysfs": str(sysfs), "firmware": {"stack": "s", "accepted": accepted}})
    return {one.id: one.status for one in judge({"firmware": facts}, ["FW"])}


def test_accepted_firmware_passes(sysfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(monkeypatch, "0, NVIDIA H100 80GB HBM3, 96.00.89.00.01\n")
    assert statuses(sysfs) == {"FW001": "pass", "FW002": "pass", "FW003": "pass"}


def test_other_firmware_fails_each_for_itself(sysfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvidia_smi(monkeypatch, "0, NVIDIA H100 80GB HBM3, 96.00.5E.00.01\n")
    assert statuses(sysfs) == {"FW001": "pass", "FW002": "pass", "FW003": "fail"}
    (sysfs / "class/dmi/id/bios_version").write_text("1.0.0\n")
    (sysfs / "class/infiniband/mlx5_0/fw_ver").write_text("28.36.1010\n")
    assert set(statuses(sysfs).values()) == {"fail"}


@pytest.mark.parametrize(
    "accepted", [{}, {"bios": {"Other": ["1"]}, "nics": {"OTHER": ["1"]}, "gpus": {"T4": ["1"]}}]
)
def test_what_no_list_names_is_inconclusive(
    sysfs: Path, monkeypatch: pytest.MonkeyPatch, accepted: object
) -> None:
    nvidia_smi(monkeypatch, "0, NVIDIA H100 80GB HBM3, 96.00.89.00.01\n")
    facts = firmware.collect({"sysfs": str(sysfs), "firmware": {"stack": "s", "accepted": accepted}})
    found = judge({"firmware": facts}, ["FW"])
    assert {one.status for one in found} == {"inconclusive"}
    assert all("stack s has no accepted firmware for" in one.evidence[0] for one in found)


@pytest.mark.parametrize("answer", [None, "", "0, NVIDIA H100 80GB HBM3, [N/A]\n", "No devices were found\n"])
def test_a_gpu_that_does_not_answer_is_inconclusive(
    sysfs: Path, monkeypatch: pytest.MonkeyPatch, answer: str | None
) -> None:
    nvidia_smi(monkeypatch, answer)
    assert statuses(sysfs)["FW003"] == "inconclusive"


def test_a_host_that_shows_nothing_is_inconclusive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "class").mkdir()
    nvidia_smi(monkeypatch, None)
    assert statuses(tmp_path) == dict.fromkeys(("FW001", "FW002", "FW003"), "inconclusive")
