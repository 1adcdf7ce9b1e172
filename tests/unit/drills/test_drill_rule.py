"""When a drill passes: its check passes before, fails while the thing is broken with the words that are wanted, and
passes again. The facts are a clock's; nothing of a lab is broken here."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvlab.checks import REGISTRY
from kvlab.drills import record
from kvlab.drills.catalogue import DRILLS, find
from kvlab.drills.drill import Drill, Scene, run
from kvlab.errors import KvlabError

RIGHT = {"offset_s": 0.02, "uncertainty_s": 0.01, "synchronised": True}
WRONG = {**RIGHT, "offset_s": -1210.4}
BENCH = cast(Any, SimpleNamespace(simulated=True, left_healthy={}))


class Clock:
    """A thing to break: what is seen of it before, broken and after."""

    def __init__(self, before: dict[str, Any], broken: dict[str, Any], after: dict[str, Any]) -> None:
        self.now, self._broken, self._after = before, broken, after
        self.restored = False

    @contextmanager
    def breaking(self) -> Iterator[None]:
        self.now = self._broken
        try:
            yield
        finally:
            self.now, self.restored = self._after, True


def drill(clock: Clock, **other: Any) -> Drill:
    about = {
        "name": "clock-skew",
        "kind": "facts",
        "breaks": "the clock",
        "staged": "here",
        "origin": "thought up here",
    }
    scene = Scene(lambda: {"clock": clock.now}, clock.breaking)
    return Drill(**{**about, "reference": "-", "expects": "HOST066", "scene": lambda _: scene, **other})


def test_a_fault_that_its_check_names_and_that_is_mended_passes() -> None:
    clock = Clock(RIGHT, WRONG, RIGHT)
    outcome = run(drill(clock, words="1210"), BENCH)
    assert (outcome.verdict, outcome.exit_code, outcome.simulated) == ("named", 0, True)
    assert outcome.seconds is not None
    assert clock.restored


@pytest.mark.parametrize(
    ("clock", "other", "verdict", "status", "reason"),
    [
        (Clock(RIGHT, RIGHT, RIGHT), {}, "missed", 1, "while it was broken: HOST066 is pass"),
        (Clock(RIGHT, WRONG, RIGHT), {"words": "leap second"}, "missed", 1, "does not say 'leap second'"),
        (Clock(RIGHT, WRONG, WRONG), {}, "not restored", 1, "afterwards: HOST066 is fail"),
        (Clock(WRONG, WRONG, RIGHT), {}, "could not run", 2, "not healthy before: HOST066 is fail"),
        (Clock(RIGHT, WRONG, RIGHT), {"expects": "S3003"}, "could not run", 2, "does not look at"),
    ],
)
def test_anything_less_does_not_pass(
    clock: Clock, other: dict[str, Any], verdict: str, status: int, reason: str
) -> None:
    outcome = run(drill(clock, **other), BENCH)
    assert (outcome.verdict, outcome.exit_code) == (verdict, status)
    assert reason in outcome.reason


def test_a_drill_that_leaves_another_check_failing_does_not_pass() -> None:
    fast = {"topics": {"clock": RIGHT}}

    @contextmanager
    def breaking() -> Iterator[None]:
        fast["topics"] = {"clock": WRONG}
        yield
        fast["topics"] = {
            "clock": RIGHT,
            "files": {"secrets": [{"path": "key", "mode": "0644", "owner": "root"}]},
        }

    scene = Scene(lambda: {"files": {"secrets": []}, **fast["topics"]}, breaking)
    outcome = run(drill(Clock(RIGHT, WRONG, RIGHT), scene=lambda _: scene), BENCH)
    assert outcome.verdict == "not restored"
    assert "HOST067" in outcome.reason


def test_alike_drills_look_at_the_healthy_thing_once_between_them() -> None:
    clock, looks = Clock(RIGHT, WRONG, RIGHT), []

    def look() -> dict[str, Any]:
        looks.append(clock.now)
        return {"clock": clock.now}

    for _ in range(2):
        outcome = run(drill(clock, scene=lambda _: Scene(look, clock.breaking, like="clock")), BENCH)
        assert outcome.verdict == "named"
    assert looks == [RIGHT, WRONG, RIGHT, WRONG, RIGHT]
    BENCH.left_healthy.clear()


def test_the_thing_is_restored_when_looking_at_it_fails() -> None:
    clock = Clock(RIGHT, WRONG, RIGHT)

    def look() -> dict[str, Any]:
        if clock.now is WRONG:
            raise KvlabError("the host does not answer")
        return {"clock": clock.now}

    outcome = run(drill(clock, scene=lambda _: Scene(look, clock.breaking)), BENCH)
    assert (outcome.verdict, outcome.reason) == ("could not run", "the host does not answer")
    assert clock.restored


def test_every_drill_expects_a_check_that_exists_and_says_where_its_fault_comes_from() -> None:
    assert len(DRILLS) >= 40
    assert sum(one.ci for one in DRILLS.values()) == 10
    for one in DRILLS.values():
        assert one.expects in REGISTRY
        assert one.reference
        assert one.breaks
    with pytest.raises(KvlabError, match="there is no drill 'none'"):
        find("none")


def test_what_ran_again_replaces_its_outcome_and_the_others_stay() -> None:
    missed, named = (run(drill(Clock(RIGHT, wrong, RIGHT)), BENCH) for wrong in (RIGHT, WRONG))
    other = dataclasses.replace(named, name="other")
    old = record.document(True, [missed, other])
    new = record.joined(old, record.document(False, [named]))
    assert [(one["name"], one["verdict"]) for one in new["outcomes"]] == [
        ("other", "named"),
        ("clock-skew", "named"),
    ]
    assert new["simulated"] is True


def test_a_file_of_outcomes_names_no_folder_of_the_machine() -> None:
    missed = dataclasses.replace(
        run(drill(Clock(RIGHT, RIGHT, RIGHT)), BENCH),
        evidence=("/home/lab/.lab/key: 0644",),
        reason="/home/lab/.lab/log",
    )
    (one,) = record.document(True, [missed], Path("/home/lab"))["outcomes"]
    assert (one["evidence"], one["reason"]) == ([".lab/key: 0644"], ".lab/log")


def test_outcomes_are_written_and_read_with_their_label(tmp_path: Path) -> None:
    outcomes = [run(drill(Clock(RIGHT, wrong, RIGHT)), BENCH) for wrong in (RIGHT, WRONG)]
    file = tmp_path / "drills.json"
    record.write(record.document(True, outcomes), file)
    assert record.read(file)["simulated"] is True
    lines = record.summary(outcomes, simulated=True).splitlines()
    assert lines[0].startswith("clock-skew (facts): named")
    assert lines[1].startswith("clock-skew (facts): missed")
    assert lines[2] == "1 of 2 drills named by the right check (simulated)"
    file.write_text(json.dumps({"kind": "kvlab-drills", "schema": 0}))
    with pytest.raises(KvlabError, match="no result of drills of schema 1"):
        record.read(file)
