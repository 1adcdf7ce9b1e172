"""Intervals by resampling starts: what a figure might have been, had the lab dealt other starts.

Resamples of a handful of samples spread too little: they have the variance of a sample divided by n, not by n - 1, and
know nothing of how uncertain that variance is. So their distance from the mean is stretched by sqrt(n / (n - 1)) and
by Student's t over the normal quantile (T. C. Hesterberg, "What teachers should know about the bootstrap", The
American Statistician 69(4), 2015, section 4.1, names both faults).
"""

from __future__ import annotations

import numpy as np

from kvlab.ttft.distributions import normal_quantile, t_quantile
from kvlab.ttft.model import mean
from kvlab.ttft.variance import Floats

RESAMPLES = 10_000
MIN_STARTS = 3
"""Two samples have an interval only on paper."""
TAIL = 0.025
"""On each side of an interval, which so is one of 95 %."""


def resampled(values: Floats, rng: np.random.Generator, resamples: int = RESAMPLES) -> Floats:
    """Stretched means over starts of resamples with replacement: (starts, C) to (resamples, C).

    NaN is no sample; a column with fewer than MIN_STARTS is NaN.
    """
    known = np.isfinite(values).sum(0)
    starts = np.where(known >= MIN_STARTS, known, np.nan)
    stretch = np.sqrt(starts / (starts - 1)) * t_quantile(TAIL, starts - 1) / normal_quantile(TAIL)
    centre = mean(values, 0)
    drawn = rng.integers(0, max(values.shape[0], 1), (resamples, values.shape[0]))
    return np.asarray(centre + stretch * (mean(values[drawn], -2) - centre))


def interval(replicates: Floats) -> tuple[float, float]:
    """The 95 % interval from replicates (resamples,) of a figure; NaN where all are.

    A resample may have drawn only starts that lack the figure; those are left out.
    """
    known = replicates[~np.isnan(replicates)]
    if not known.size:
        return np.nan, np.nan
    # Order statistics: between two values there may be an infinity, which nothing can be interpolated with.
    low, high = np.quantile(known, TAIL, method="lower"), np.quantile(known, 1 - TAIL, method="higher")
    return float(low), float(high)
