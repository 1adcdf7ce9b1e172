"""What keeps the gate from a verdict, what would help, and what to know when reading one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kvlab.ttft import model, samples
from kvlab.ttft.calibration import Calibration
from kvlab.ttft.distributions import f_above, t_quantile
from kvlab.ttft.result import Result
from kvlab.ttft.samples import Cell, Sample
from kvlab.ttft.verdict import ProfileVerdict

MOST_STARTS = 1000
"""Nobody measures more; a change that needs them is too close to the limit to be decided."""
DISTURBED_P = 0.01


def missing(grid: Sequence[Cell], sides: Sequence[Sequence[Sample]], rule: model.Rule) -> list[str]:
    """What keeps a profile from being judged: starts, or proven passes of a cell."""
    found = [] if grid else ["neither side has a hot pass; see why in the log of the run"]
    for side, name, least in zip(
        sides, ("base", "candidate"), (rule.min_base, rule.min_candidate), strict=True
    ):
        if len(side) < least:
            found.append(f"the {name} has {len(side)} of {least} starts; measure {least - len(side)} more")
            continue
        few = [cell for cell in grid if sum(cell in s.medians for s in side) < least]
        if few:
            reasons = list(dict.fromkeys(reason for s in side for reason in s.reasons))
            why = f" ({'; '.join(reasons[:3])})" if reasons else ""
            found.append(
                f"the {name} has fewer than {least} starts with {samples.MIN_PASSES} proven hot passes at "
                f"{'; '.join(map(str, few))}{why}; mend that and measure again"
            )
    return found


def more_starts(
    shift: model.Shifts, weight: float, starts: tuple[int, int], tests: int, rule: model.Rule
) -> int | None:
    """How many more starts on each side would decide, if shift and spread stay what they are; None: too many.

    `weight` is the root of the summed reciprocals of the starts, so that `shift.error / weight` is the spread.
    """
    if not math.isfinite(float(shift.shift)):
        return None
    more = np.arange(1, MOST_STARTS + 1)
    base, candidate = starts[0] + more, starts[1] + more
    error = float(shift.error) / weight * np.sqrt(1 / base + 1 / candidate)
    df = np.maximum(base + candidate - 2, float(shift.df))
    # As the gate decides: slower beyond chance and beyond `size`, or a slowdown of `rule_out` excluded.
    slower = (float(shift.shift) > math.log1p(rule.size)) & (
        shift.shift > -t_quantile(rule.profiles_level / max(tests, 1), df) * error
    )
    clear = shift.shift + t_quantile(rule.confidence, df) * error < math.log1p(rule.rule_out)
    decided = np.flatnonzero(slower | clear)
    return int(more[decided[0]]) if decided.size else None


def undecided(more: int | None, shift: float | None, rule: model.Rule) -> str:
    """Why a profile with all its samples is inconclusive, and what would decide."""
    seen = "no shift could be seen" if shift is None else f"a shift of {shift:+.1%} is seen"
    if more is None:
        return f"{seen}, too close to the limit to be decided by measuring more; look at its contexts"
    return (
        f"{seen}, which is neither a proven slowdown nor excludes one of {rule.rule_out:.0%}; about {more} more "
        f"start{'s' if more > 1 else ''} on each side would decide"
    )


def notes(
    base: Sequence[Result],
    candidate: Sequence[Result],
    sides: tuple[Sequence[Sample], Sequence[Sample]],
    profiles: Sequence[ProfileVerdict],
    calibration: Calibration | None,
    calibrated: Calibration | None,
    rule: model.Rule,
) -> list[str]:
    """What to know when reading the verdict."""
    found = []
    if {r.id for r in base} & {r.id for r in candidate}:
        found.append("a run is on both sides; it cannot differ from itself")
    for name, side in zip(("base", "candidate"), sides, strict=True):
        unproven = sum(s.unproven for s in side)
        if unproven:
            found.append(f"{unproven} unproven hot passes of the {name} are in no figure")
    for result in dict.fromkeys(r.id for r in (*base, *candidate) if not r.complete):
        found.append(f"run {result} was stopped before its end; what it measured is used")
    if all(sides) and rule.min_candidate > 1 and (_before(*sides) or _before(sides[1], sides[0])):
        found.append(
            "the sides were measured one after the other; a lab that drifts would look like a change"
        )
    if calibration is None:
        found.append("the lab is not calibrated; kvlab gate calibrate tells what its TTFT does by itself")
    elif calibrated is None:
        found.append("the calibration is of another environment and was not used; calibrate this one")
    for profile in profiles:
        known = calibrated.profiles.get(profile.profile) if calibrated else None
        if known and profile.spread and sum(profile.starts) > 2:
            ratio = (profile.spread / known.spread) ** 2 if known.spread else math.inf
            if f_above(ratio, sum(profile.starts) - 2, known.starts - 1) < DISTURBED_P:
                found.append(
                    f"{profile.profile} spread {profile.spread:.1%} from start to start, and {known.spread:.1%} when "
                    "the lab was calibrated; something disturbs it"
                )
    return found


def _before(one: Sequence[Sample], other: Sequence[Sample]) -> bool:
    return one[-1].at < other[0].at
