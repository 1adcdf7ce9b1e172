"""What kvlab gate prints, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kvlab.errors import KvlabError
from kvlab.ttft import history, runs, selection
from kvlab.ttft import result as results
from kvlab.ttft.calibration import Calibration
from kvlab.ttft.history import History
from kvlab.ttft.result import Result
from kvlab.ttft.selection import By
from kvlab.ttft.trend import MIN_POINTS, Trend
from kvlab.ttft.verdict import CellVerdict, ProfileVerdict, Verdict


def sides(
    given: Sequence[str], kept: History | None, by: By | None, across: Sequence[str]
) -> tuple[list[Result], list[Result]]:
    """The runs of base and candidate. Raises KvlabError when it is not said, or not there, what to compare."""
    if by and kept is None:
        raise KvlabError("--by compares runs of a history; name it with --history.")
    wanted = 1 if kept is not None and not by else 2
    if len(given) != wanted:
        what = "CANDIDATE alone" if wanted == 1 else f"two values of {by}" if by else "BASE and CANDIDATE"
        raise KvlabError(f"{len(given)} runs are named, and {what} should be; see kvlab gate compare --help.")
    if kept is not None and by:
        found = history.entries(kept)
        chosen = selection.sides(found, by, given[0], given[1], runs.WINDOW)
        before, after = ([results.read(one.file) for one in side] for side in chosen)
        return before, after
    after = runs.read(Path(given[-1]))
    base = kept.folder() if kept is not None else Path(given[0])
    return runs.newest(base, runs.like(after[0], across), runs.TREND), after


def plain(value: Any) -> Any:
    """Structs as values that json.dumps takes."""
    return msgspec.to_builtins(value)


def verdict_lines(found: Verdict) -> Iterator[str]:
    label = "  (simulated)" if found.simulated else ""
    yield f"{found.verdict}{label}: {', '.join(found.base[-3:])} against {', '.join(found.candidate[-3:])}"
    for profile in found.profiles:
        yield from _profile(profile)
    yield from (f"missing: {what}" for what in found.missing)
    yield from (f"note: {what}" for what in found.notes)


def _profile(found: ProfileVerdict) -> Iterator[str]:
    base, candidate = found.starts
    yield (
        f"{found.profile}: {found.verdict}; {_shift(found)}, {base} against {candidate} starts, "
        f"p {'unknown' if found.p is None else f'{found.p:.2g}'}"
    )
    if found.spread is not None and found.detectable is not None:
        calibrated = "not calibrated"
        if found.calibrated_spread is not None:
            sees = found.calibrated_detectable
            calibrated = f"calibrated {found.calibrated_spread:.1%}"
            calibrated += f", which shows {sees:.1%}" if sees is not None else ""
        yield (
            f"  spread between starts {found.spread:.1%}, smallest change detectable {found.detectable:.1%} "
            f"({calibrated})"
        )
    if found.stages:
        moved = [f"{s.stage} {s.shift:+.1%}" for s in found.stages if s.moved]
        yield f"  stages that moved, of the TTFT: {', '.join(moved) or 'none beyond chance'}"
    yield from (_cell(cell) for cell in found.cells)


def _cell(found: CellVerdict) -> str:
    at_once = f" x{found.concurrency}" if found.concurrency > 1 else ""
    return (
        f"  {f'{found.context}{at_once}':>10}  {_ms(found.base_s):>10} -> {_ms(found.candidate_s):>10}  "
        f"{_shift(found):32}{found.verdict}"
    )


def _shift(found: ProfileVerdict | CellVerdict) -> str:
    if found.shift is None or found.low is None or found.high is None:
        return "shift unknown"
    return f"{found.shift:+.1%} ({found.low:+.1%} to {found.high:+.1%})"


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:.1f} ms"


def trend_lines(found: Sequence[Trend]) -> Iterator[str]:
    for trend in found:
        if trend.changes is None:
            yield f"trend of {trend.profile}: {trend.points} of {MIN_POINTS} starts, too few for one"
            continue
        changes = [f"{c.shift:+.1%} at {c.at} ({c.run})" for c in trend.changes]
        yield f"trend of {trend.profile} over {trend.points} starts: {', '.join(changes) or 'no change'}"


def calibration_lines(found: Calibration) -> Iterator[str]:
    label = "  (simulated)" if found.simulated else ""
    yield f"calibrated from {len(found.runs)} runs{label}"
    for name, profile in found.profiles.items():
        sees = ", ".join(
            f"{value:.1%} with {side} starts a side" for side, value in profile.detectable.items()
        )
        yield (
            f"{name}: spread {profile.spread:.2%} ({profile.low:.2%} to {profile.high:.2%}) over {profile.starts} "
            f"starts; smallest change detectable {sees}"
        )
    yield f"{found.false_alarms:.1%} of {found.halvings} halvings of these starts were called a regression"
