"""Rules that others gate by, for comparison with the gate in `kvlab gate simulate`. None of them judges a lab.

Each takes log seconds of the passes of one run, base and candidate, shape (..., P, starts, C, passes), and says per
cell whether it calls the candidate slower: shape (..., P, C).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from kvlab.ttft.variance import Floats

Alarms = NDArray[np.bool_]
RATIO = 1.10
"""The fixed factor: that of `asv compare`."""
LEVEL = 0.05
GROWTH = 1.05
"""`--benchmark-compare-fail=mean:5%`, as in pytest-benchmark's manual."""


def fixed_ratio(base: Floats, candidate: Floats) -> Alarms:
    """The median of all passes has grown by more than a tenth."""
    return np.asarray(np.median(_flat(candidate), -1) - np.median(_flat(base), -1) > np.log(RATIO))


def mann_whitney(base: Floats, candidate: Floats) -> Alarms:
    """The passes rank higher (p under 5 % over all cells, Bonferroni), each pass taken for a sample of its own."""
    before, after = _flat(base), _flat(candidate)
    p = stats.mannwhitneyu(after, before, alternative="greater", axis=-1, method="asymptotic").pvalue
    return np.asarray(p < LEVEL / (before.shape[-3] * before.shape[-2]))


def pytest_benchmark(base: Floats, candidate: Floats) -> Alarms:
    """The mean of all passes has grown by more than 5 %."""
    return np.asarray(np.exp(_flat(candidate)).mean(-1) > GROWTH * np.exp(_flat(base)).mean(-1))


RIVALS: dict[str, Callable[[Floats, Floats], Alarms]] = {
    "fixed_ratio": fixed_ratio,
    "mann_whitney_on_passes": mann_whitney,
    "pytest_benchmark": pytest_benchmark,
}


def _flat(passes: Floats) -> Floats:
    """(..., P, starts, C, passes) as (..., P, C, starts x passes)."""
    moved = np.moveaxis(passes, -2, -3)
    return moved.reshape(*moved.shape[:-2], -1)
