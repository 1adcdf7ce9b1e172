"""Programs as units of systemd: what systemctl says of them, and what it is told. systemctl itself is a script here."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab.errors import KvlabError
from kvlab.serving import systemd
from kvlab.serving.manager import BACKOFF, RUNNING, STARTING

LMCACHE, VLLM = "lmcache-s3-rdma", "vllm-s3-rdma"
SHOWN = """Id=kvlab-lmcache@s3-rdma.service
LoadState=loaded
ActiveState={active}
SubState={sub}
MainPID=4711
Result=success
ConditionResult={condition}
ConditionTimestampMonotonic={tried}
ExecMainStartTimestampMonotonic=1000000
NRestarts=2
"""
NOT_INSTALLED = "Id=kvlab-vllm@s3-rdma.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\n"


def shown(active: str = "active", sub: str = "running", condition: str = "yes", tried: int = 5) -> str:
    return SHOWN.format(active=active, sub=sub, condition=condition, tried=tried)


@pytest.fixture
def commands(tmp_path: Path) -> tuple[systemd.Systemd, Path]:
    """A manager whose systemctl prints the file `says`, notes its arguments in `calls`, and fails where `fails` is."""
    script = tmp_path / "systemctl"
    script.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n'
        f'[ ! -e {tmp_path}/fails ] || {{ echo "Access denied" >&2; exit 1; }}\n'
        f'[ "$1" != show ] || cat {tmp_path}/says\n'
    )
    script.chmod(0o755)
    (tmp_path / "says").write_text(shown() + "\n" + NOT_INSTALLED)
    return systemd.Systemd([LMCACHE, VLLM], systemctl=str(script), journalctl=str(script)), tmp_path


def called(folder: Path) -> list[str]:
    return [line for line in (folder / "calls").read_text().splitlines() if not line.startswith("show")]


@pytest.mark.parametrize(
    ("active", "sub", "state"),
    [
        ("active", "running", RUNNING),
        ("activating", "start-post", STARTING),
        ("activating", "auto-restart", BACKOFF),
        ("failed", "failed", "FATAL"),
        ("inactive", "dead", "STOPPED"),
    ],
)
def test_a_units_state_in_supervisors_words(active: str, sub: str, state: str) -> None:
    units = {systemd.unit_of(LMCACHE): LMCACHE}
    (program,) = systemd.parse(shown(active, sub), units)
    assert (program.name, program.state, program.pid) == (LMCACHE, state, 4711)
    assert "2 restarts" in program.description


def test_the_first_dash_parts_kind_and_profile() -> None:
    assert systemd.unit_of(VLLM) == "kvlab-vllm@s3-rdma.service"


def test_a_unit_whose_condition_does_not_hold_says_so() -> None:
    units = {systemd.unit_of(LMCACHE): LMCACHE}
    (skipped,) = systemd.parse(shown("inactive", "dead", "no"), units)
    assert "skipped" in skipped.description
    (untried,) = systemd.parse(shown("inactive", "dead", "no", tried=0), units)
    assert "skipped" not in untried.description


def test_a_unit_that_was_never_written_is_no_program(commands: tuple[systemd.Systemd, Path]) -> None:
    manager, _ = commands
    assert [program.name for program in manager.programs()] == [LMCACHE]
    with pytest.raises(KvlabError, match="there is no unit kvlab-vllm@s3-rdma.service"):
        manager.program(VLLM)


def test_what_runs_is_not_started_and_is_stopped(commands: tuple[systemd.Systemd, Path]) -> None:
    manager, folder = commands
    assert not manager.start_program(LMCACHE)
    assert manager.stop_program(LMCACHE)
    assert called(folder) == ["stop kvlab-lmcache@s3-rdma.service"]


def test_what_failed_is_started_anew_and_not_stopped(commands: tuple[systemd.Systemd, Path]) -> None:
    manager, folder = commands
    (folder / "says").write_text(shown("failed", "failed"))
    assert manager.start_program(LMCACHE)
    assert called(folder) == [
        "reset-failed kvlab-lmcache@s3-rdma.service",
        "start --no-block kvlab-lmcache@s3-rdma.service",
    ]
    assert not manager.stop_program(LMCACHE)


def test_a_refusal_is_one_sentence(commands: tuple[systemd.Systemd, Path]) -> None:
    manager, folder = commands
    (folder / "fails").touch()
    assert not manager.alive()
    with pytest.raises(KvlabError, match=r"systemctl show .* failed: Access denied"):
        manager.programs()


def test_a_host_without_systemd_is_told_apart(tmp_path: Path) -> None:
    manager = systemd.Systemd([LMCACHE], systemctl=str(tmp_path / "none"))
    with pytest.raises(KvlabError, match="run this on the GPU host itself"):
        manager.programs()
