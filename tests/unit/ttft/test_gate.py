"""The gate over results: what it may compare, what it says, and what it asks for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
import ttft_generator

from kvlab.errors import KvlabError
from kvlab.ttft import calibration, doubt, gate, model, samples, stages
from kvlab.ttft.result import Result
from kvlab.ttft.samples import Cell


def run(seed: int, **given: Any) -> Result:
    return ttft_generator.result(seed=seed, **given)


def change(result: Result, profile: str, **fields: Any) -> Result:
    """The run with fields of a profile's hot passes changed; `context` picks some of them."""
    context = fields.pop("context", None)
    passes = [
        msgspec.structs.replace(p, **fields)
        if p.profile == profile and p.series == "hot" and context in (None, p.context)
        else p
        for p in result.passes
    ]
    return msgspec.structs.replace(result, passes=passes)


def test_two_runs_of_the_same_pass() -> None:
    found = gate.compare([run(1)], [run(2)])
    assert (found.verdict, found.exit_code, found.missing) == ("pass", 0, ())
    assert found.simulated
    assert [p.profile for p in found.profiles] == list(ttft_generator.PROFILES)
    assert all(p.spread and 0.02 < p.spread < 0.05 for p in found.profiles)


@pytest.mark.parametrize("stage", ["lookup", "retrieve", "copy", "prefill"])
def test_a_slower_profile_is_a_regression_of_the_stage_that_moved(stage: str) -> None:
    found = gate.compare([run(1)], [run(2, slower={"s3-rdma": 1.2}, stage=stage)])
    assert (found.verdict, found.exit_code) == ("regress", 1)
    assert [p.verdict for p in found.profiles] == ["pass", "pass", "regress"]
    slow = found.profiles[2]
    assert slow.shift == pytest.approx(0.2, abs=0.06)
    assert slow.low is not None
    assert slow.low > 0.05
    assert slow.moved == (stage,)
    assert all(p.moved == () for p in found.profiles[:2])


def test_two_starts_are_inconclusive_and_the_starts_that_are_missing_are_counted() -> None:
    found = gate.compare([run(1)], [run(2, starts=2)])
    assert (found.verdict, found.exit_code) == ("inconclusive", 3)
    assert "s3-rdma: the candidate has 2 of 3 starts; measure 1 more" in found.missing


def test_unproven_passes_are_in_no_figure_and_a_context_without_proof_is_no_pass() -> None:
    broken = change(
        run(2), "s3-rdma", context=4096, proven=False, reasons=["took http"], ttft_first_token_s=99.0
    )
    found = gate.compare([run(1)], [broken])
    assert found.verdict == "inconclusive"
    rdma = found.profiles[2]
    assert rdma.shift == pytest.approx(0, abs=0.06)
    assert [cell.context for cell in rdma.cells if cell.candidate_s is None] == [4096]
    assert "at 4096 tokens (took http); mend that" in rdma.missing[0]
    assert "25 unproven hot passes of the candidate are in no figure" in found.notes


def test_a_profile_that_one_side_lacks_is_inconclusive() -> None:
    found = gate.compare([run(1)], [run(2, profiles=("baseline", "s3-http"))])
    assert found.verdict == "inconclusive"
    assert found.missing == ("s3-rdma: the candidate has 0 of 3 starts; measure 3 more",)


def test_a_start_that_failed_is_told_with_its_error() -> None:
    dead = run(2, starts=3)
    lost = dead.starts[2].number
    dead.passes = [p for p in dead.passes if p.start != lost]
    dead.starts[2] = msgspec.structs.replace(dead.starts[2], error="vLLM ended")
    found = gate.compare([run(1)], [dead])
    assert found.verdict == "inconclusive"
    assert "vLLM ended" in found.missing[0]


def test_a_profile_without_a_hot_pass_on_either_side_is_not_passed_over() -> None:
    sides = [run(1), run(2)]
    for side in sides:
        side.passes = [p for p in side.passes if p.profile != "s3-http" or p.series != "hot"]
    found = gate.compare(sides[:1], sides[1:])
    assert found.verdict == "inconclusive"
    assert found.missing == ("s3-http: neither side has a hot pass; see why in the log of the run",)


def test_profiles_may_have_been_asked_for_different_contexts() -> None:
    sides = [run(1), run(2)]
    for side in sides:
        side.passes = [p for p in side.passes if p.profile != "baseline" or p.context <= 1024]
    found = gate.compare(sides[:1], sides[1:])
    assert found.verdict == "pass"
    assert [len(p.cells) for p in found.profiles] == [3, 5, 5]


def test_a_wide_spread_is_inconclusive_and_the_starts_it_asks_for_decide() -> None:
    loud = {"start_sd": 0.2, "profiles": ("baseline",)}
    found = gate.compare([run(11, **loud)], [run(12, **loud)])
    profile = found.profiles[0]
    assert found.verdict == "inconclusive"
    assert profile.more_starts is not None
    assert f"about {profile.more_starts} more start" in found.missing[0]
    spread = model.Shifts(np.asarray(0.0), np.asarray(0.08), np.asarray(8.0))
    more = doubt.more_starts(spread, np.sqrt(2 / 5), (5, 5), 1, model.PULL_REQUEST)
    assert more is not None
    for extra, clear in ((more, True), (more - 1, False)):
        starts = 5 + extra
        error = 0.08 / np.sqrt(2 / 5) * np.sqrt(2 / starts)
        bound = replace(spread, error=np.asarray(error), df=np.asarray(2.0 * starts - 2)).bound(0.95)
        assert (bound < np.log(1.10)) == clear


def test_more_starts_count_for_the_side_that_has_few_of_them() -> None:
    one_start = np.sqrt(1 / 20 + 1)
    spread = model.Shifts(np.asarray(0.0), np.asarray(0.08 * one_start), np.asarray(19.0))
    # 0.08 sqrt(1/21 + 1/2) t(0.95) = 0.102 and 0.08 sqrt(1/22 + 1/3) t(0.95) = 0.084, around log 1.1 = 0.095.
    assert doubt.more_starts(spread, one_start, (20, 1), 1, model.NIGHTLY) == 2


def test_a_slowdown_that_is_seen_needs_starts_until_it_is_proven() -> None:
    seen = model.Shifts(np.asarray(0.15), np.asarray(0.08), np.asarray(8.0))
    # 0.08 / sqrt(2/5) * sqrt(2/n) * t(1 - 0.013/3) is 0.157 at 11 starts and 0.149 at 12.
    assert doubt.more_starts(seen, np.sqrt(2 / 5), (5, 5), 3, model.PULL_REQUEST) == 7


def test_a_shift_at_the_very_limit_is_not_promised_a_verdict() -> None:
    limit = model.Shifts(np.asarray(np.log1p(0.1)), np.asarray(np.inf), np.asarray(8.0))
    assert doubt.more_starts(limit, 1.0, (5, 5), 1, model.PULL_REQUEST) is None


def test_other_environments_are_not_compared_unless_changed_on_purpose() -> None:
    newer = run(2, environment=ttft_generator.ENVIRONMENT | {"versions.vllm": "0.33.0"})
    found = gate.compare([run(1)], [newer])
    assert (found.verdict, found.profiles) == ("inconclusive", ())
    assert "differ in versions.vllm (0.32.0 against 0.33.0)" in found.missing[0]
    assert gate.compare([run(1)], [newer], across=["versions"]).verdict == "pass"


def test_a_simulated_run_is_never_compared_with_a_real_one() -> None:
    found = gate.compare([run(1)], [run(2, simulated=False)], across=["versions"])
    assert found.verdict == "inconclusive"
    assert "one is simulated and one is not" in found.missing[0]


def test_runs_that_do_not_say_where_they_were_measured_are_not_compared() -> None:
    found = gate.compare([run(1, environment={})], [run(2, environment={})])
    assert found.verdict == "inconclusive"
    assert "in which environment" in found.missing[0]


def test_runs_of_different_models_are_an_error() -> None:
    with pytest.raises(KvlabError, match="run run-1 measured a and run run-2 measured b"):
        gate.compare([run(1, plan={"model": "a"})], [run(2, plan={"model": "b"})])


def test_the_notes_tell_what_weakens_a_verdict() -> None:
    late = run(2, created="2026-12-02T00:00:00Z")
    late.complete = False
    notes = gate.compare([run(1)], [late]).notes
    assert any("one after the other" in note for note in notes)
    assert any("run run-2 was stopped" in note for note in notes)
    assert any("not calibrated" in note for note in notes)
    assert any("both sides" in note for note in gate.compare([run(1)], [run(1)]).notes)


def test_the_calibrated_spread_is_told_and_a_disturbed_lab_is_noticed() -> None:
    known = calibration.calibrate(
        [run(10, start_sd=0.005, pass_sd=0.005), run(11, start_sd=0.005, pass_sd=0.005)]
    )
    found = gate.compare([run(1)], [run(2)], calibration=known)
    assert found.profiles[0].calibrated_spread == known.profiles["baseline"].spread
    assert found.profiles[0].calibrated_detectable == known.profiles["baseline"].detectable["5"]
    assert sum("something disturbs it" in note for note in found.notes) == 3
    elsewhere = msgspec.structs.replace(known, environment={**known.environment, "host.cpus": 64})
    other = gate.compare([run(1)], [run(2)], calibration=elsewhere)
    assert other.profiles[0].calibrated_spread is None
    assert any("of another environment" in note for note in other.notes)


def test_the_verdict_is_json_without_nan() -> None:
    found = gate.compare([run(1)], [run(2, starts=2)]).as_json()
    text = json.dumps(found, allow_nan=False)
    assert json.loads(text)["profiles"][0]["moved"] == []
    assert found["exit_code"] == 3


def test_a_start_is_the_median_of_its_proven_hot_passes() -> None:
    one = run(1, starts=1, hot=5, profiles=("s3-rdma",), contexts=(64,))
    hot = [p for p in one.passes if p.series == "hot"]
    seconds = [1.0, 2.0, 3.0, 100.0, 0.001]
    passes = [msgspec.structs.replace(p, ttft_first_token_s=s) for p, s in zip(hot, seconds, strict=True)]
    passes[4] = msgspec.structs.replace(passes[4], proven=False, reasons=["no hit", "no hit"])
    one.passes = passes
    (sample,) = samples.of([one])
    assert sample.medians[Cell(64)][samples.TTFT] == 2.5
    assert (sample.unproven, sample.reasons, sample.short) == (1, ("no hit",), frozenset())
    one.passes = [*passes[:2], passes[4]]
    (sample,) = samples.of([one])
    assert (sample.medians, sample.short) == ({}, {Cell(64)})


def test_requests_at_once_are_one_pass_and_a_cell_of_their_own() -> None:
    one = run(1, starts=1, hot=2, profiles=("s3-rdma",), contexts=(64,), concurrency=4)
    (sample,) = samples.of([one])
    assert sample.short == {Cell(64, 4)}
    (sample,) = samples.of([run(1, starts=1, hot=3, profiles=("s3-rdma",), contexts=(64,), concurrency=4)])
    assert list(sample.medians) == [Cell(64, 4)]


def test_a_stage_that_one_pass_lacks_is_not_guessed() -> None:
    base, candidate = run(1), run(2)
    assert stages.shifts(samples.of([base]), samples.of([candidate]), "s3-rdma", [Cell(64)])
    nothing = change(candidate, "s3-rdma", stages=type(base.passes[0].stages)())
    assert stages.shifts(samples.of([base]), samples.of([nothing]), "s3-rdma", [Cell(64)]) == []
