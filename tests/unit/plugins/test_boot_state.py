"""boot_state: who asked for a reboot, and what else makes one due."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def state(run: Run, tmp_path: Path) -> Run:
    """The module on one made-up host without a reason to reboot."""
    (tmp_path / "boot").mkdir()
    (tmp_path / "proc").mkdir()
    places = {
        "requests_dir": "run/requests",
        "distribution_mark": "run/mark",
        "boot_dir": "boot",
        "proc_root": "proc",
    }
    fixed = {name: str(tmp_path / place) for name, place in places.items()}
    return lambda **more: run("boot_state", **fixed | more)


def test_a_host_that_nobody_asked_to_reboot_has_no_reason(state: Run) -> None:
    found = state()
    assert not found["changed"]
    assert found["reasons"] == []
    assert found["kernel"] == os.uname().release
    assert len(found["boot_id"]) == 36


def test_a_request_is_kept_with_its_reason_until_run_is_empty(state: Run) -> None:
    assert state(requester="nvidia_driver", reason="Driver 1 is loaded\n and 2 is installed.")["changed"]
    assert not state(requester="nvidia_driver", reason="Driver 1 is loaded and 2 is installed.")["changed"]
    assert state(requester="host_base", reason="iommu=pt is missing.")["changed"]
    assert state()["reasons"] == [
        "host_base: iommu=pt is missing.",
        "nvidia_driver: Driver 1 is loaded and 2 is installed.",
    ]


def test_a_later_request_of_the_same_role_takes_the_earlier_ones_place(state: Run) -> None:
    state(requester="nvidia_driver", reason="One.")
    assert state(requester="nvidia_driver", reason="Two.")["changed"]
    assert state()["reasons"] == ["nvidia_driver: Two."]


def test_check_mode_tells_the_request_and_leaves_none(state: Run, tmp_path: Path) -> None:
    asked = state(requester="nvidia_driver", reason="One.", check=True)
    assert asked["changed"]
    assert asked["reasons"] == ["nvidia_driver: One."]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("requester", "reason"), [("../x", "One."), ("", "One."), ("host_base", " "), (".x", "One.")]
)
def test_a_request_without_name_or_reason_is_refused(state: Run, requester: str, reason: str) -> None:
    refused = state(requester=requester, reason=reason)
    assert refused["failed"]
    assert "reason a sentence" in refused["msg"]


@pytest.mark.parametrize(
    ("installed", "due"),
    [
        (["9999.1.0-9-generic", "1.0.0-1-generic"], "9999.1.0-9-generic"),
        (["9999.8.0-9-generic", "9999.8.0-45-generic"], "9999.8.0-45-generic"),
        (["0.0.1-1"], None),
        (["0-rescue-9999"], None),
        ([], None),
    ],
)
def test_a_newer_kernel_is_a_reason_by_value_and_not_by_letter(
    state: Run, tmp_path: Path, installed: list[str], due: str | None
) -> None:
    for release in installed:
        (tmp_path / "boot" / f"vmlinuz-{release}").touch()
    found = state()
    assert [due in reason for reason in found["reasons"]] == ([True] if due else [])


def test_the_running_kernel_is_no_reason(state: Run, tmp_path: Path) -> None:
    (tmp_path / "boot" / f"vmlinuz-{os.uname().release}").touch()
    found = state()
    assert found["newest_kernel"] == found["kernel"]
    assert found["reasons"] == []


def test_the_distributions_mark_is_a_reason_unless_it_is_overlooked(state: Run, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/mark").touch()
    assert "run/mark" in state()["reasons"][0]
    assert state(distribution_mark="")["reasons"] == []


def test_loaded_modules_are_told_by_name(state: Run, tmp_path: Path) -> None:
    (tmp_path / "proc/modules").write_text(
        "nvidia 100 2 nvidia_uvm, Live 0x0 (OE)\nmlx5_core 5 0 - Live 0x0\n"
    )
    assert state()["modules"] == ["mlx5_core", "nvidia"]
