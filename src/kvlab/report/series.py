"""What the report shows of results: for each profile, series and context the passes, and the medians of the starts.

Pure. Times are seconds. Hot passes are summed up as the gate and the claims do. A pass that is not proven is kept
beside the others and enters no median.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean, geometric_mean, median
from typing import NamedTuple

from kvlab.ttft.result import Pass, Result
from kvlab.ttft.samples import MIN_PASSES


class Key(NamedTuple):
    """Where a pass belongs."""

    profile: str
    series: str
    context: int  # tokens
    concurrency: int


@dataclass
class Cell:
    """All passes of one key. `starts` holds the medians of the starts with enough proven passes."""

    starts: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)  # client CPU seconds, medians of the starts
    proven: list[float] = field(default_factory=list)
    unproven: list[float] = field(default_factory=list)
    untimed: int = 0  # passes without a first token

    @property
    def ttft_s(self) -> float | None:
        """Geometric mean over the starts."""
        return geometric_mean(self.starts) if self.starts else None

    @property
    def cpu_s(self) -> float | None:
        """Mean over the starts of the client's CPU seconds for a pass."""
        return fmean(self.cpu) if self.cpu else None

    @property
    def spread(self) -> float | None:
        """Largest start over smallest, minus 1; None for fewer than two starts."""
        return max(self.starts) / min(self.starts) - 1 if len(self.starts) > 1 else None

    @property
    def total(self) -> int:
        return len(self.proven) + len(self.unproven) + self.untimed


class Unproven(NamedTuple):
    """Why passes, or a whole start, count for nothing."""

    profile: str
    series: str  # empty for a start
    reason: str
    contexts: tuple[int, ...]
    passes: int


Cells = Mapping[Key, Cell]


def cells(results: Iterable[Result]) -> dict[Key, Cell]:
    """The passes of results by key, warm-ups left out, shortest context first."""
    found: dict[Key, Cell] = {}
    by_start: dict[tuple[str, int, Key], list[Pass]] = {}
    for result in results:
        for one in result.passes:
            if one.series == "warmup":
                continue
            key = Key(one.profile, one.series, one.context, one.concurrency)
            cell = found.setdefault(key, Cell())
            if one.ttft_first_token_s is None:
                cell.untimed += 1
            elif one.proven:
                cell.proven.append(one.ttft_first_token_s)
                by_start.setdefault((result.id, one.start, key), []).append(one)
            else:
                cell.unproven.append(one.ttft_first_token_s)
    for (_, _, key), passes in by_start.items():
        if key.series == "hot" and len({one.index for one in passes}) < MIN_PASSES:
            continue
        found[key].starts.append(median(one.ttft_first_token_s or 0.0 for one in passes))
        cpu = [one.client_cpu_s for one in passes if one.client_cpu_s is not None]
        if len(cpu) == len(passes):
            found[key].cpu.append(median(cpu))
    return dict(sorted(found.items(), key=lambda item: (item[0].context, item[0])))


def profiles(found: Cells) -> list[str]:
    """The profiles measured, in the order of the source document; others after them, by name."""
    known = ("baseline", "s3-http", "s3-rdma", "file")
    names = {key.profile for key in found}
    return [name for name in known if name in names] + sorted(names.difference(known))


def ratio(found: Cells, over: str, under: str, concurrency: int) -> dict[int, float]:
    """TTFT of hot passes of one profile over that of another, by context, where both are proven."""
    result = {}
    for key, cell in found.items():
        if (key.profile, key.series, key.concurrency) == (over, "hot", concurrency):
            other = found.get(key._replace(profile=under))
            if other and other.ttft_s and cell.ttft_s:
                result[key.context] = cell.ttft_s / other.ttft_s
    return result


def unproven(results: Iterable[Result]) -> list[Unproven]:
    """What counts for nothing, by profile and reason; the most frequent first."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for result in results:
        for start in result.starts:
            if start.error:
                found.setdefault((start.profile, "", start.error), [])
        for one in result.passes:
            if one.proven and one.ttft_first_token_s is not None:
                continue
            for reason in one.reasons or ["no reason was recorded" if not one.proven else "no token came"]:
                found.setdefault((one.profile, one.series, reason), []).append(one.context)
    lines = [
        Unproven(profile, series, reason, tuple(sorted(set(contexts))), len(contexts))
        for (profile, series, reason), contexts in found.items()
    ]
    return sorted(lines, key=lambda line: (-line.passes, line))
