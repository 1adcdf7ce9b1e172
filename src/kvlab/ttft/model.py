"""The gate's statistics: shifts of log TTFT between two sides, for profiles and for cells (profile x context).

    y[side, profile, start, cell] = level[profile, cell] + shift[profile, cell] + start effect + rest

All cells of a start share its start effect, so a start is one sample for its profile (the mean over its cells), and
a single cell can be seen against the other cells of the same start, where that effect cancels. docs/ttft-gate.md
says why this holds and what it was measured to do.

Everything works on arrays with any number of leading axes, so that `simulate` and `calibrate` judge thousands of
trials by the very function that judges a run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvlab.ttft.distributions import t_above, t_quantile
from kvlab.ttft.variance import Floats, moderated

PASS, REGRESS, INCONCLUSIVE = 0, 1, 2
Codes = NDArray[np.int8]


@dataclass(frozen=True)
class Rule:
    """What the gate asks for. Sizes are fractions of the base's TTFT.

    A slowdown of more than `size` that is established at the family's level is a regression; only where a slowdown
    of `rule_out` is excluded with `confidence` does a profile pass. Both levels are one-sided error rates over all
    profiles or all cells (Holm); together they keep a whole matrix under the 2 % that a gate may cry wolf.
    """

    size: float = 0.05
    rule_out: float = 0.10
    profiles_level: float = 0.013
    cells_level: float = 0.003
    confidence: float = 0.95
    min_base: int = 3  # starts; fewer give a spread that says little, and ranks that say nothing
    min_candidate: int = 3


PULL_REQUEST = Rule()
NIGHTLY = Rule(min_base=10, min_candidate=1)


@dataclass(frozen=True)
class Shifts:
    """Estimated shifts of log seconds (candidate minus base) with their uncertainty, shape (..., P) or (..., P, C)."""

    shift: Floats
    error: Floats  # standard error
    df: Floats

    def p_slower(self) -> Floats:
        """One-sided p of the hypothesis that the candidate is not slower."""
        return t_above(self.shift / self.error, self.df)

    def bound(self, confidence: float) -> Floats:
        """Upper confidence bound of the shift; a `confidence` under one half gives a lower one."""
        return self.shift + t_quantile(confidence, self.df) * self.error

    def detectable(self, level: float, power: float, size: float = 0.0) -> Floats:
        """The slowdown (fraction) found with probability `power` by a test at `level` that asks for `size` at least."""
        t = -t_quantile(level, self.df)
        spare = t_quantile(power, self.df) * self.error
        return np.asarray(np.expm1(np.maximum(t * self.error, np.log1p(size)) + spare), dtype=float)


@dataclass(frozen=True)
class Judgement:
    """Verdicts (PASS, REGRESS, INCONCLUSIVE) with the shifts behind them.

    `cell_test` is what a cell was judged by: its own shift, or that against its siblings. The p are one-sided,
    corrected for the number of tests in their family.
    """

    overall: Codes  # (...)
    profiles: Codes  # (..., P)
    cells: Codes  # (..., P, C)
    profile: Shifts
    cell: Shifts
    cell_test: Shifts
    profile_p: Floats  # (..., P)
    cell_p: Floats  # (..., P, C)


def judge(
    base: Floats, candidate: Floats, rule: Rule = PULL_REQUEST, asked: NDArray[np.bool_] | None = None
) -> Judgement:
    """Judge samples of log seconds, shape (..., P, starts, C) with NaN where there is none.

    The sides may have different numbers of starts. `asked` (P, C) are the cells without which a profile does not
    pass; all, if not given.
    """
    base, candidate = _enough(base, candidate, rule)
    centre = (mean(base, -2) + mean(candidate, -2))[..., None, :] / 2
    base, candidate = base - centre, candidate - centre
    profile = _compare(mean(base, -1)[..., None], mean(candidate, -1)[..., None])
    profile = Shifts(*(values[..., 0] for values in (profile.shift, profile.error, profile.df)))
    cell, cell_test = _cells(base, candidate)
    return _decide(
        profile, cell, cell_test, rule, np.ones(cell.shift.shape[-2:], bool) if asked is None else asked
    )


def _enough(base: Floats, candidate: Floats, rule: Rule) -> tuple[Floats, Floats]:
    """Cells that lack starts on either side become NaN on both: they take no part in anything."""
    judged = (np.isfinite(base).sum(-2) >= rule.min_base) & (
        np.isfinite(candidate).sum(-2) >= rule.min_candidate
    )
    keep = judged[..., None, :]
    return np.where(keep, base, np.nan), np.where(keep, candidate, np.nan)


def _cells(base: Floats, candidate: Floats) -> tuple[Shifts, Shifts]:
    """Shift of each cell, and the shift to test: against the siblings while they stand still, else its own.

    Against the siblings the start effect cancels, which sees far smaller changes; but siblings that got faster would
    make an unchanged cell look slow, and siblings that got slower would hide one.
    """
    own = _compare(base, candidate)
    if base.shape[-1] == 1:
        return own, own
    base_siblings, candidate_siblings = _siblings(base), _siblings(candidate)
    relative = _compare(base - base_siblings, candidate - candidate_siblings)
    siblings = _compare(base_siblings, candidate_siblings)
    still = np.abs(siblings.shift) < 2 * siblings.error
    pairs = ((relative.shift, own.shift), (relative.error, own.error), (relative.df, own.df))
    return own, Shifts(*(np.where(still, r, o) for r, o in pairs))


def _siblings(values: Floats) -> Floats:
    """For each cell of a start the mean of the start's other cells; NaN where there is none."""
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    count = known.sum(-1, keepdims=True) - known
    total = filled.sum(-1, keepdims=True) - filled
    return _divide(total, count)


def _compare(base: Floats, candidate: Floats) -> Shifts:
    """Two-sample shifts over the starts' axis of (..., P, starts, C), the family being all P x C."""
    n_base, n_candidate = np.isfinite(base).sum(-2), np.isfinite(candidate).sum(-2)
    shift = mean(candidate, -2) - mean(base, -2)
    df = np.maximum(n_base + n_candidate - 2, 0).astype(float)
    variance = _divide(_squares(base) + _squares(candidate), df)
    family = (*shift.shape[:-2], -1)
    # Cells of one start are no samples of their own: however many they are, a family knows as much as its starts.
    most = df.max(-1).sum(-1)[..., None]
    variance, df = moderated(variance.reshape(family), df.reshape(family))
    df = np.minimum(df, most)
    error = np.sqrt(variance.reshape(shift.shape) * (_divide(1.0, n_base) + _divide(1.0, n_candidate)))
    return Shifts(shift, error, df.reshape(shift.shape))


def _decide(
    profile: Shifts, cell: Shifts, cell_test: Shifts, rule: Rule, asked: NDArray[np.bool_]
) -> Judgement:
    size, limit = np.log1p(rule.size), np.log1p(rule.rule_out)
    profile_p = holm(profile.p_slower())
    cell_p = holm(cell_test.p_slower().reshape(*profile_p.shape[:-1], -1)).reshape(cell.shift.shape)

    slow_cell = (cell_p < rule.cells_level) & (cell.shift > size)
    # Not against its siblings: that these stand still is not proven by their not moving.
    clear_cell = cell.bound(rule.confidence) < limit
    cells = np.where(slow_cell, REGRESS, np.where(clear_cell, PASS, INCONCLUSIVE)).astype(np.int8)

    # A cell that was not measured, or that looks slow and cannot be cleared, keeps its profile from passing; one that
    # is only noisy does not.
    suspect = ((cells == INCONCLUSIVE) & ~(cell.shift <= size) & asked).any(-1)
    slow = ((profile_p < rule.profiles_level) & (profile.shift > size)) | slow_cell.any(-1)
    clear = (profile.bound(rule.confidence) < limit) & ~suspect
    profiles = np.where(slow, REGRESS, np.where(clear, PASS, INCONCLUSIVE)).astype(np.int8)
    overall = np.where(
        (profiles == REGRESS).any(-1), REGRESS, np.where((profiles == PASS).all(-1), PASS, INCONCLUSIVE)
    ).astype(np.int8)
    return Judgement(overall, profiles, cells, profile, cell, cell_test, profile_p, cell_p)


def holm(p: Floats) -> Floats:
    """p of several tests (..., G), corrected for their number by Holm's steps; NaN is no test."""
    order = np.argsort(p, axis=-1)  # NaN last
    tests = np.isfinite(p).sum(-1)[..., None]
    ordered = np.take_along_axis(p, order, -1) * np.maximum(tests - np.arange(p.shape[-1]), 1)
    corrected = np.empty_like(p)
    np.put_along_axis(corrected, order, np.minimum(np.maximum.accumulate(ordered, -1), 1.0), -1)
    return corrected


def _divide(above: Floats | float, below: NDArray[np.generic]) -> Floats:
    """`above / below`, NaN where `below` is 0."""
    count = np.asarray(below, dtype=float)
    return above / np.where(count > 0, count, np.nan)


def mean(values: Floats, axis: int) -> Floats:
    """Mean of what is there; NaN where nothing is."""
    known = np.isfinite(values)
    return _divide(np.where(known, values, 0.0).sum(axis), known.sum(axis))


def _squares(values: Floats) -> Floats:
    """Sum of squares around the mean, over the starts."""
    around = values - mean(values, -2)[..., None, :]
    total: Floats = np.where(np.isfinite(around), around**2, 0.0).sum(-2)
    return total
