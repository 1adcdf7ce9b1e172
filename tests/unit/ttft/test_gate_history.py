"""Calibration, trends and folders of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ttft_generator
from click.testing import CliRunner, Result
from scipy import stats

from kvlab.cli.gate import command
from kvlab.errors import KvlabError
from kvlab.ttft import calibration, runs, trend
from kvlab.ttft import result as results


def run(seed: int, **given: Any) -> results.Result:
    return ttft_generator.result(seed=seed, **given)


def night(day: int, **given: Any) -> results.Result:
    return run(day, starts=1, created=f"2026-01-{day:02}T00:00:00Z", **given)


def kvlab_gate(*args: object) -> Result:
    return CliRunner().invoke(command, [str(arg) for arg in args])


def test_calibration_finds_the_spread_that_was_put_in_and_promises_less_to_fewer_starts() -> None:
    found = calibration.calibrate([run(seed, starts=20, start_sd=0.04) for seed in (1, 2)])
    for profile in found.profiles.values():
        assert profile.low < 0.04 < profile.high
        assert profile.spread == pytest.approx(0.04, rel=0.35)
        reach = stats.t.isf(0.013 / 3, 24) + stats.t.ppf(0.9, 24)
        assert profile.detectable["5"] == pytest.approx(
            np.expm1(reach * profile.spread * (2 / 5) ** 0.5), rel=1e-3
        )
        assert profile.detectable["3"] > profile.detectable["5"] > profile.detectable["10"] > 0.05
    assert found.false_alarms <= 0.05
    assert found.simulated


def test_calibration_halves_starts_that_differ_into_false_alarms() -> None:
    one = run(1, starts=6, start_sd=0.001, pass_sd=0.001, profiles=("baseline",))
    slow = run(2, starts=2, start_sd=0.001, pass_sd=0.001, profiles=("baseline",), slower={"baseline": 3.0})
    quiet = calibration.calibrate(
        [one, run(3, starts=2, start_sd=0.001, pass_sd=0.001, profiles=("baseline",))]
    )
    assert quiet.false_alarms == 0
    assert calibration.calibrate([one, slow]).profiles["baseline"].spread > 0.3


def test_calibration_asks_for_the_starts_it_lacks_and_for_one_environment() -> None:
    with pytest.raises(KvlabError, match="baseline has 5 starts .* needs 6; add runs with 1 more"):
        calibration.calibrate([run(1)])
    with pytest.raises(KvlabError, match="different environments"):
        calibration.calibrate([run(1), run(2, environment={"a": 1})])


def test_a_calibration_speaks_of_runs_that_measured_other_profiles_besides() -> None:
    kept = {"hardware.cpu": "c", "about.load": 1.0, "profile.s3-rdma.tp": 1, "profile.s3-http.tp": 1}
    known = calibration.calibrate([run(1, environment=kept), run(2, environment=kept)])
    assert "about.load" not in known.environment
    for change, same in (
        ({"about.load": 9.0}, True),
        ({"profile.file.tp": 1}, True),
        ({"profile.s3-rdma.tp": 2}, False),
        ({"hardware.cpu": "d"}, False),
        ({"hardware.nic": "n"}, False),
    ):
        assert calibration.applies(known, kept | change) is same, change
    fewer = {key: value for key, value in kept.items() if "s3-http" not in key}
    assert calibration.applies(known, fewer)


def test_a_calibration_is_read_back_and_what_is_none_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "new" / "c.json"
    found = calibration.calibrate([run(1), run(2)])
    calibration.write(found, file)
    assert calibration.read(file) == found
    data = json.loads(file.read_text())
    for change, says in (
        ({"schema": 2}, "has schema 2"),
        ({"kind": "x"}, "no calibration"),
        ({"runs": 1}, "no calibration"),
    ):
        file.write_text(json.dumps(data | change))
        with pytest.raises(KvlabError, match=says):
            calibration.read(file)
    file.write_text("{")
    with pytest.raises(KvlabError, match="no calibration"):
        calibration.read(file)
    with pytest.raises(KvlabError, match="cannot be read"):
        calibration.read(tmp_path / "absent")


def test_a_trend_needs_thirty_starts() -> None:
    found = trend.trends([night(day) for day in range(1, 30)])
    assert [(t.points, t.changes) for t in found] == [(29, None)] * 3


def test_a_trend_names_the_start_at_which_a_profile_became_slower() -> None:
    nights = [night(day, slower={"s3-rdma": 1.2 if day > 20 else 1.0}) for day in range(1, 32)]
    found = {t.profile: t.changes for t in trend.trends(nights)}
    assert found["baseline"] == ()
    changes = found["s3-rdma"]
    assert changes
    assert abs(int(changes[0].run.removeprefix("run-")) - 21) <= 1
    assert changes[0].shift == pytest.approx(0.2, abs=0.06)


def test_chance_rarely_looks_like_a_change_and_two_changes_are_both_found() -> None:
    rng = np.random.default_rng(1)
    alarms = sum(bool(trend.splits(rng.normal(0, 1, 40), rng)) for _ in range(60))
    assert alarms <= 1
    series = np.repeat([0.0, 5.0, 1.0], 15) + rng.normal(0, 0.3, 45)
    assert trend.splits(series, rng) == [15, 30]


def test_a_history_gives_its_newest_runs_of_the_candidates_environment(tmp_path: Path) -> None:
    for day in range(1, 7):
        results.write(night(day), tmp_path / f"{9 - day}.json")
    results.write(night(9, environment={"a": 1}), tmp_path / "other.json")
    wanted = runs.like(night(6))
    assert [r.id for r in runs.newest(tmp_path, wanted, 3)] == ["run-3", "run-4", "run-5"]
    assert [r.id for r in runs.newest(tmp_path, runs.like(night(3, environment={"b": 1})))] == ["run-9"]
    assert len(runs.newest(tmp_path, runs.like(night(8, environment={"a": 2}), ["a"]))) == 1
    assert len(runs.read(tmp_path)) == 7


def test_an_empty_folder_and_a_damaged_file_in_a_history_are_errors(tmp_path: Path) -> None:
    with pytest.raises(KvlabError, match="holds no"):
        runs.read(tmp_path)
    results.write(night(1), tmp_path / "1.json")
    (tmp_path / "2.json").write_bytes((tmp_path / "1.json").read_bytes()[:-100])
    with pytest.raises(KvlabError, match=r"2.json is cut short"):
        runs.newest(tmp_path, runs.like(night(3)))


def test_a_header_is_the_same_by_either_way(tmp_path: Path) -> None:
    file, indented = tmp_path / "a.json", tmp_path / "b.json"
    written = night(
        1, plan={"model": 'x","starts":[', "starts": 3}, commit="c", stack="s", stopped='"],"complete":'
    )
    results.write(written, file)
    indented.write_text(json.dumps(json.loads(file.read_text()), indent=1))
    assert results.header(file) == results.header(indented)
    found = results.header(file)
    for field in (
        "id",
        "simulated",
        "plan",
        "environment",
        "fingerprint",
        "commit",
        "stack",
        "complete",
        "stopped",
    ):
        assert getattr(found, field) == getattr(written, field)


def test_the_command_ends_with_the_verdicts_status(tmp_path: Path) -> None:
    for name, result in {
        "base": run(1),
        "same": run(2),
        "slow": run(3, slower={"s3-rdma": 1.2}),
        "few": run(4, starts=2),
    }.items():
        results.write(result, tmp_path / f"{name}.json")
    base = tmp_path / "base.json"
    assert kvlab_gate(base, tmp_path / "same.json").exit_code == 0
    slow = kvlab_gate("--json", base, tmp_path / "slow.json")
    assert slow.exit_code == 1
    assert json.loads(slow.output)["verdict"] == "regress"
    few = kvlab_gate(base, tmp_path / "few.json")
    assert few.exit_code == 3
    assert "inconclusive  (simulated)" in few.output
    assert "measure 1 more" in few.output
    (tmp_path / "cut.json").write_bytes(base.read_bytes()[:500])
    with pytest.raises(KvlabError, match="cut short") as caught:
        CliRunner().invoke(command, [str(base), str(tmp_path / "cut.json")], catch_exceptions=False)
    assert caught.value.exit_code == 2


def test_the_command_calibrates_and_reads_what_it_wrote(tmp_path: Path) -> None:
    for name in ("1", "2"):
        results.write(run(int(name)), tmp_path / f"{name}.json")
    written = tmp_path / "c" / "calibration.json"
    found = kvlab_gate("calibrate", tmp_path / "1.json", tmp_path / "2.json", "-o", written)
    assert found.exit_code == 0
    assert "smallest change detectable" in found.output
    assert "(simulated)" in found.output
    judged = kvlab_gate(tmp_path / "1.json", tmp_path / "2.json", "--calibration", written)
    assert "calibrated" in judged.output
    assert "not calibrated" not in judged.output


def test_a_night_is_judged_against_a_folder_with_its_trend(tmp_path: Path) -> None:
    history = tmp_path / "history"
    for day in range(1, 31):
        results.write(night(day), history / f"{day}.json")
    results.write(night(31, slower={"s3-rdma": 1.5}), tmp_path / "tonight.json")
    found = kvlab_gate(history, tmp_path / "tonight.json", "--nightly")
    assert found.exit_code == 1
    assert "trend of baseline over 31 starts: no change" in found.output
