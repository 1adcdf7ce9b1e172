"""Where a history of starts changed its level: for reading after the gate has judged, never a verdict.

The strongest split of a series is kept if chance, the same values in random order, rarely has one as strong; then
both parts are looked at in turn (binary segmentation with a permutation test).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np

from kvlab.ttft import samples
from kvlab.ttft.model import mean
from kvlab.ttft.result import Result
from kvlab.ttft.variance import Floats

MIN_POINTS = 30
"""Starts; below, what looks like a trend is the spread of the lab."""
MIN_PART = 5
LEVEL = 0.001
"""That of Apache Otava: a history is looked at each night, so chance gets many tries."""
PERMUTATIONS = 2000
WORTH_NAMING = 0.05


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The level of a profile moved by `shift` (fraction) at the start `at` of `run`."""

    run: str
    at: str
    shift: float


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """Of one profile; `changes` is None while there are fewer than MIN_POINTS points."""

    profile: str
    points: int
    changes: tuple[Change, ...] | None


def trends(results: Sequence[Result], *, seed: int = 1) -> list[Trend]:
    """The trend of each profile over the starts of results of one environment."""
    found = samples.of(results, (samples.TTFT,))
    return [
        _trend(profile, [s for s in found if s.profile == profile and s.medians], np.random.default_rng(seed))
        for profile in dict.fromkeys(sample.profile for sample in found)
    ]


def _trend(profile: str, starts: Sequence[samples.Sample], rng: np.random.Generator) -> Trend:
    if len(starts) < MIN_POINTS:
        return Trend(profile=profile, points=len(starts), changes=None)
    values = np.log(samples.array(starts, [profile], samples.cells_of(starts))[0])
    points = mean(values - mean(values, 0), 1)
    bounds = [0, *splits(points, rng), len(points)]
    levels = [float(points[a:b].mean()) for a, b in pairwise(bounds)]
    changes = [
        Change(run=starts[at].run, at=starts[at].at, shift=round(float(np.expm1(after - before)), 6))
        for at, (before, after) in zip(bounds[1:-1], pairwise(levels), strict=True)
    ]
    return Trend(
        profile=profile,
        points=len(starts),
        changes=tuple(change for change in changes if abs(change.shift) > WORTH_NAMING),
    )


def splits(points: Floats, rng: np.random.Generator) -> list[int]:
    """Indices at which the level of a series (N,) changes, rising."""
    if len(points) < 2 * MIN_PART:
        return []
    strength = _strength(points[None])[0]
    shuffled = _strength(rng.permuted(np.tile(points, (PERMUTATIONS, 1)), axis=1)).max(-1)
    if (1 + (shuffled >= strength.max()).sum()) / (1 + PERMUTATIONS) > LEVEL:
        return []
    at = int(strength.argmax()) + MIN_PART
    return [*splits(points[:at], rng), at, *(at + later for later in splits(points[at:], rng))]


def _strength(series: Floats) -> Floats:
    """Sum of squares that a split between two levels explains, for each split of each series (M, N)."""
    length = series.shape[-1]
    left = np.arange(MIN_PART, length - MIN_PART + 1)
    before = np.cumsum(series - series.mean(-1, keepdims=True), -1)[:, left - 1]
    return np.asarray(before**2 * length / (left * (length - left)))
