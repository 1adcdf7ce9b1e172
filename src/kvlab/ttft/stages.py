"""Which part of TTFT moved between two sides: lookup, retrieve, copy or prefill, from what the services counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvlab.ttft import samples
from kvlab.ttft.samples import Cell, Sample
from kvlab.ttft.variance import Floats

WORTH_NAMING = 0.01
"""A stage that moved by less than a hundredth of the TTFT explains nothing."""
ERRORS = 3.0
"""So many standard errors away from nothing: with four stages a chance hit is under 2 % at five starts a side."""


@dataclass(frozen=True)
class StageShift:
    """Change of a stage, as a share of the base's TTFT (mean over cells), with its standard error over starts."""

    stage: str
    shift: float
    error: float

    @property
    def moved(self) -> bool:
        return abs(self.shift) > max(WORTH_NAMING, ERRORS * self.error)


def shifts(
    base: Sequence[Sample], candidate: Sequence[Sample], profile: str, cells: Sequence[Cell]
) -> list[StageShift]:
    """Shifts of the stages that both sides counted in two starts or more, the largest first."""
    ttft = _mean(samples.array(base, [profile], cells)[0], 0)
    found = []
    for stage in samples.STAGES:
        sides = [samples.array(side, [profile], cells, stage)[0] for side in (base, candidate)]
        counted = np.isfinite(ttft) & np.isfinite(sides[0]).any(0) & np.isfinite(sides[1]).any(0)
        if not counted.any():
            continue
        shares = [_mean(side[:, counted] / ttft[counted], 1) for side in sides]
        known = [share[np.isfinite(share)] for share in shares]
        if min(map(len, known)) < 2:
            continue
        error = np.sqrt(sum(share.var(ddof=1) / len(share) for share in known))
        found.append(StageShift(stage, float(known[1].mean() - known[0].mean()), float(error)))
    return sorted(found, key=lambda one: -abs(one.shift))


def _mean(values: Floats, axis: int) -> Floats:
    known = np.isfinite(values)
    count = known.sum(axis)
    total = np.where(known, values, 0.0).sum(axis)
    return np.asarray(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0))
