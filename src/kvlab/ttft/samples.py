"""What the statistics take from results: one sample for each start of a profile, the medians of its proven hot passes.

Passes of one start share whatever that start was dealt (placement, memory, neighbours), so they are no samples of
their own. The median leaves a lone slow pass without effect.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median

import numpy as np

from kvlab.ttft.result import Pass, Result
from kvlab.ttft.variance import Floats

MIN_PASSES = 3
"""Fewer have no median that an outlier cannot move."""
STAGES = ("lookup", "retrieve", "copy", "prefill")
TTFT, CPU, PAYLOAD = "ttft", "cpu", "payload"
COLUMNS = (TTFT, CPU, PAYLOAD, *STAGES)


@dataclass(frozen=True, order=True)
class Cell:
    """A series of a profile: prompts of `context` tokens, `concurrency` at once."""

    context: int
    concurrency: int = 1

    def __str__(self) -> str:
        at_once = f", {self.concurrency} at once" if self.concurrency > 1 else ""
        return f"{self.context} tokens{at_once}"


@dataclass(frozen=True)
class Sample:
    """One start of a profile.

    `medians` holds by cell what was measured: TTFT, CPU and stages in seconds, PAYLOAD in bytes.

    `short` are the cells with passes of which fewer than MIN_PASSES are proven; they are in no statistic.
    """

    run: str
    profile: str
    at: str  # ISO 8601, UTC
    medians: Mapping[Cell, Mapping[str, float]]
    short: frozenset[Cell]
    unproven: int
    reasons: tuple[str, ...]  # why the start failed, and passes are unproven; each once


def of(results: Iterable[Result], wanted: Collection[str] = COLUMNS) -> list[Sample]:
    """The samples of results, in order of time, with the medians of what is wanted."""
    found = [sample for result in results for sample in _of_one(result, wanted)]
    return sorted(found, key=lambda sample: sample.at)


def _of_one(result: Result, wanted: Collection[str]) -> Iterator[Sample]:
    hot: dict[int, list[Pass]] = {start.number: [] for start in result.starts}
    for one in result.passes:
        if one.series == "hot":
            hot[one.start].append(one)
    for start in result.starts:
        passes: dict[Cell, list[Pass]] = {}
        for one in hot[start.number]:
            passes.setdefault(Cell(one.context, one.concurrency), []).append(one)
        proven = {cell: [p for p in all_ if _usable(p)] for cell, all_ in passes.items()}
        unproven = [one for one in hot[start.number] if not one.proven]
        yield Sample(
            run=result.id,
            profile=start.profile,
            at=start.at,
            medians={cell: _medians(good, wanted) for cell, good in proven.items() if _enough(good)},
            short=frozenset(cell for cell, good in proven.items() if not _enough(good)),
            unproven=len(unproven),
            reasons=tuple(
                dict.fromkeys([*filter(None, [start.error]), *(r for one in unproven for r in one.reasons)])
            ),
        )


def _usable(one: Pass) -> bool:
    return one.proven and one.ttft_first_token_s is not None


def _enough(passes: Sequence[Pass]) -> bool:
    return len({one.index for one in passes}) >= MIN_PASSES


def _medians(passes: Sequence[Pass], wanted: Collection[str]) -> dict[str, float]:
    """Medians of what all passes have; what one of them lacks is left out."""
    found = {}
    for name in wanted:
        values = [_READ[name](one) for one in passes]
        if None not in values:
            found[name] = median(value for value in values if value is not None)
    return found


def _payload(one: Pass) -> float | None:
    if one.rdma_bytes is None or one.http_bytes is None:
        return None
    return float(one.rdma_bytes + one.http_bytes)


_READ: dict[str, Callable[[Pass], float | None]] = {
    TTFT: attrgetter("ttft_first_token_s"),
    CPU: attrgetter("client_cpu_s"),
    PAYLOAD: _payload,
    **{stage: attrgetter(f"stages.{stage}") for stage in STAGES},
}


def cells_of(samples: Iterable[Sample]) -> list[Cell]:
    """Every cell that was asked for, proven or not, shortest context first."""
    return sorted({cell for sample in samples for cell in (*sample.medians, *sample.short)})


def array(
    samples: Sequence[Sample], profiles: Sequence[str], cells: Sequence[Cell], what: str = TTFT
) -> Floats:
    """Values of shape (P, starts, C), NaN where there is none; profiles may have different numbers of starts."""
    of_profile = {profile: [s for s in samples if s.profile == profile] for profile in profiles}
    found = np.full((len(profiles), max(map(len, of_profile.values()), default=0), len(cells)), np.nan)
    for p, profile in enumerate(profiles):
        for s, sample in enumerate(of_profile[profile]):
            found[p, s] = [sample.medians.get(cell, {}).get(what, np.nan) for cell in cells]
    return found
