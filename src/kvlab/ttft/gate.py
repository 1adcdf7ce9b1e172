"""The gate: has TTFT regressed between the runs of a base and those of a candidate? Pure; no I/O.

model.py has the statistics; this module decides what may be compared, and says what a doubtful verdict lacks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import numpy as np

from kvlab.errors import KvlabError
from kvlab.ttft import doubt, model, samples, stages
from kvlab.ttft.calibration import POWER, Calibration, applies
from kvlab.ttft.result import Result, comparable
from kvlab.ttft.samples import Cell, Sample
from kvlab.ttft.verdict import CellVerdict, ProfileVerdict, StageVerdict, Verdict, Word

WORDS: dict[int, Word] = {model.PASS: "pass", model.REGRESS: "regress", model.INCONCLUSIVE: "inconclusive"}


def compare(
    base: Sequence[Result],
    candidate: Sequence[Result],
    *,
    rule: model.Rule = model.PULL_REQUEST,
    across: Collection[str] = (),
    calibration: Calibration | None = None,
) -> Verdict:
    """Judge a candidate against a base; `across` names what of the environment was changed on purpose.

    Raises KvlabError when the sides measured different models.
    """
    _one_model([*base, *candidate])
    simulated = any(result.simulated for result in (*base, *candidate))
    ids = tuple(r.id for r in base), tuple(r.id for r in candidate)
    if problem := _incomparable([*base, *candidate], across):
        return Verdict(
            verdict="inconclusive", simulated=simulated, base=ids[0], candidate=ids[1], missing=(problem,)
        )
    sides = samples.of(base), samples.of(candidate)
    calibrated = calibration if calibration and applies(calibration, base[0].environment) else None
    profiles = _profiles(*sides, rule, calibrated)
    verdicts = {profile.verdict for profile in profiles}
    missing = [f"{p.profile}: {what}" for p in profiles for what in p.missing]
    if not profiles:
        missing.append("neither side holds a start with hot passes; measure again with kvlab ttft run")
    return Verdict(
        verdict="regress" if "regress" in verdicts else "pass" if verdicts == {"pass"} else "inconclusive",
        simulated=simulated,
        base=ids[0],
        candidate=ids[1],
        profiles=profiles,
        missing=tuple(missing),
        notes=tuple(doubt.notes(base, candidate, sides, profiles, calibration, calibrated, rule)),
    )


def model_of(result: Result) -> str:
    """The model that a run measured; empty when the run does not say."""
    return str(result.plan.get("model") or result.environment.get("workload.model") or "")


def _one_model(results: Sequence[Result]) -> None:
    of = {model_of(result): result.id for result in results if model_of(result)}
    if len(of) > 1:
        (one, first), (other, second) = list(of.items())[:2]
        raise KvlabError(
            f"run {first} measured {one} and run {second} measured {other}; compare runs of one model."
        )


def _incomparable(results: Sequence[Result], across: Collection[str]) -> str:
    """Why the runs are not of one environment, or nothing."""
    first = results[0]
    for other in results[1:]:
        if first.simulated != other.simulated:
            return f"of {first.id} and {other.id} one is simulated and one is not; measure both in one lab"
        ours, theirs = comparable(first.environment, across), comparable(other.environment, across)
        keys = sorted(key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key))
        if keys:
            listed = ", ".join(f"{key} ({ours.get(key)} against {theirs.get(key)})" for key in keys[:5])
            more = f" and {len(keys) - 5} more" if len(keys) > 5 else ""
            return (
                f"the environments of {first.id} and {other.id} differ in {listed}{more}; measure both in one, "
                "or name what was changed on purpose with --across"
            )
    if not first.environment:
        return "the runs do not say in which environment they were measured; measure them with kvlab ttft run"
    return ""


def _profiles(
    base: Sequence[Sample], candidate: Sequence[Sample], rule: model.Rule, calibration: Calibration | None
) -> tuple[ProfileVerdict, ...]:
    names = list(dict.fromkeys(sample.profile for sample in (*base, *candidate)))
    grids = {n: samples.cells_of(s for s in (*base, *candidate) if s.profile == n) for n in names}
    cells = sorted({cell for grid in grids.values() for cell in grid})
    if not cells:
        return ()
    asked = np.array([[cell in grids[name] for cell in cells] for name in names])
    before, after = (np.log(samples.array(side, names, cells)) for side in (base, candidate))
    judged = model.judge(before, after, rule, asked)
    found = []
    for p, name in enumerate(names):
        sides = [[s for s in side if s.profile == name] for side in (base, candidate)]
        found.append(_profile(p, name, cells, grids[name], judged, sides, rule, calibration))
    return tuple(found)


def _profile(
    p: int,
    name: str,
    cells: Sequence[Cell],
    grid: Sequence[Cell],
    judged: model.Judgement,
    sides: Sequence[Sequence[Sample]],
    rule: model.Rule,
    calibration: Calibration | None,
) -> ProfileVerdict:
    base, candidate = sides
    starts = tuple(sum(bool(s.medians) for s in side) for side in sides)
    verdict = WORDS[int(judged.profiles[p])]
    tests = int(np.isfinite(judged.profile_p).sum())
    one = model.Shifts(judged.profile.shift[p], judged.profile.error[p], judged.profile.df[p])
    weight = math.sqrt(sum(1 / count for count in starts)) if all(starts) else math.nan
    known = calibration.profiles.get(name) if calibration else None
    lacks = doubt.missing(grid, sides, rule)
    more = None
    if verdict == "inconclusive" and not lacks:
        more = doubt.more_starts(one, weight, (starts[0], starts[1]), tests, rule)
        lacks = [doubt.undecided(more, _fraction(one.shift), rule)]
    return ProfileVerdict(
        profile=name,
        verdict=verdict,
        starts=(starts[0], starts[1]),
        shift=_fraction(one.shift),
        low=_fraction(one.bound(0.025)),
        high=_fraction(one.bound(0.975)),
        p=_number(judged.profile_p[p]),
        spread=_number(one.error / weight),
        detectable=_number(one.detectable(rule.profiles_level / max(tests, 1), POWER, rule.size)),
        calibrated_spread=known.spread if known else None,
        calibrated_detectable=known.detectable.get(str(min(starts))) if known else None,
        more_starts=more,
        stages=tuple(
            StageVerdict(stage=s.stage, shift=round(s.shift, 6), error=round(s.error, 6), moved=s.moved)
            for s in stages.shifts(base, candidate, name, grid)
        ),
        cells=tuple(_cell(cell, (p, c), judged, sides) for c, cell in enumerate(cells) if cell in set(grid)),
        missing=tuple(lacks) if verdict == "inconclusive" else (),
    )


def _cell(
    cell: Cell, at: tuple[int, int], judged: model.Judgement, sides: Sequence[Sequence[Sample]]
) -> CellVerdict:
    own = model.Shifts(judged.cell.shift[at], judged.cell.error[at], judged.cell.df[at])
    seconds = [[s.medians[cell][samples.TTFT] for s in side if cell in s.medians] for side in sides]
    base_s, candidate_s = (float(np.exp(np.mean(np.log(s)))) if s else None for s in seconds)
    return CellVerdict(
        context=cell.context,
        concurrency=cell.concurrency,
        verdict=WORDS[int(judged.cells[at])],
        base_s=base_s,
        candidate_s=candidate_s,
        shift=_fraction(own.shift),
        low=_fraction(own.bound(0.025)),
        high=_fraction(own.bound(0.975)),
        p=_number(judged.cell_p[at]),
    )


def _fraction(log_shift: object) -> float | None:
    value = _number(log_shift)
    return None if value is None else round(math.expm1(value), 6)


def _number(value: object) -> float | None:
    found = float(value)  # type: ignore[arg-type]
    return found if math.isfinite(found) else None
