"""lab_lock: one holder at a time, who is named to everybody else."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., dict[str, Any]]
OURS, THEIRS = "https://ci.example.org/1", "https://ci.example.org/2"


@pytest.fixture
def lock(run: Run, tmp_path: Path) -> Run:
    """The module on one host's file."""
    return lambda holder=OURS, **more: run(
        "lab_lock", holder=holder, path=str(tmp_path / "state/lab.lock"), **more
    )


def test_who_comes_first_holds_it_and_may_come_again(lock: Run, tmp_path: Path) -> None:
    first = lock(purpose="hardware suite")
    assert first["changed"]
    assert json.loads((tmp_path / "state/lab.lock").read_text()) == first["lock"]
    again = lock()
    assert not again["changed"]
    assert again["lock"]["purpose"] == "hardware suite"


def test_the_second_is_told_who_holds_it_since_when_and_how_to_free_it(lock: Run) -> None:
    since = lock(purpose="nightly")["lock"]["since"]
    refused = lock(THEIRS)
    assert refused["failed"]
    for word in (OURS, since, "nightly", "playbooks/unlock.yml", "kvlab_lock_force=true"):
        assert word in refused["msg"]


def test_freeing_takes_ones_own_lock_and_leaves_anothers(lock: Run) -> None:
    lock()
    other = lock(THEIRS, state="free")
    assert not other["changed"]
    assert other["lock"]["holder"] == OURS
    assert OURS in str(other["warnings"])
    assert lock(state="free")["changed"]
    assert lock(THEIRS)["changed"]


def test_force_frees_the_lock_of_a_run_that_died(lock: Run) -> None:
    lock()
    assert lock(THEIRS, state="free", force=True)["lock"] is None
    assert not lock(state="free")["changed"]


def test_check_mode_says_what_it_would_do_and_does_nothing(lock: Run, tmp_path: Path) -> None:
    assert lock(check=True)["changed"]
    assert not (tmp_path / "state/lab.lock").exists()
    lock()
    assert lock(state="free", check=True)["changed"]
    assert lock(THEIRS, check=True)["failed"]
    assert not lock()["changed"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"holder": ""}', "\x00"])
def test_a_damaged_lock_is_not_taken_for_a_free_one(lock: Run, tmp_path: Path, content: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/lab.lock").write_text(content)
    refused = lock()
    assert "is damaged" in refused["msg"]
    assert lock(state="free", force=True)["changed"]


def test_a_holder_without_a_name_is_refused(lock: Run) -> None:
    assert "holder is empty" in lock(" ")["msg"]


def test_of_many_at_the_same_moment_one_gets_it(run: Run, tmp_path: Path) -> None:
    names = [f"run-{number}" for number in range(16)]
    with multiprocessing.get_context("fork").Pool(8) as pool:
        taken = pool.starmap(_take, [(str(tmp_path / "lab.lock"), name) for name in names])
    assert sum(taken) == 1
    (left,) = list(tmp_path.glob("*lock*")) + list(tmp_path.glob(".lab-lock-*"))
    assert json.loads(left.read_text())["holder"] == names[taken.index(True)]


def _take(path: str, name: str) -> bool:
    import importlib.util

    source = Path(__file__).parents[3] / "plugins/modules/lab_lock.py"
    spec = importlib.util.spec_from_file_location("lab_lock", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return bool(module.take(Path(path), {"holder": name}))
