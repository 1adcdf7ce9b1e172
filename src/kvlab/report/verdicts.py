"""Verdicts as plain data, whoever gave them: the gate's JSON, and findings of checks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kvlab.checks.finding import Finding
from kvlab.errors import KvlabError


@dataclass(frozen=True)
class Judgement:
    """One verdict: pass, fail, regress or inconclusive. `missing` says what a doubtful one lacks."""

    name: str
    verdict: str
    evidence: tuple[str, ...]
    missing: tuple[str, ...] = ()
    simulated: bool = False


@dataclass(frozen=True)
class ChangePoint:
    """The level of a profile moved by `shift` (fraction) from a start of `run` on, at the time `at`."""

    profile: str
    run: str
    at: str
    shift: float


@dataclass(frozen=True)
class Judged:
    """What a gate said. `trends` has a sentence for each profile whose history was looked at."""

    judgements: tuple[Judgement, ...] = ()
    changes: tuple[ChangePoint, ...] = ()
    trends: tuple[str, ...] = ()


class _Cell(msgspec.Struct, frozen=True):
    context: int
    verdict: str
    concurrency: int = 1
    shift: float | None = None


class _Profile(msgspec.Struct, frozen=True):
    profile: str
    verdict: str
    starts: tuple[int, int] = (0, 0)
    shift: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    spread: float | None = None
    detectable: float | None = None
    moved: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    cells: tuple[_Cell, ...] = ()


class _Change(msgspec.Struct, frozen=True):
    run: str
    at: str
    shift: float


class _Trend(msgspec.Struct, frozen=True):
    profile: str
    points: int
    changes: tuple[_Change, ...] | None = None


class _Gate(msgspec.Struct, frozen=True):
    verdict: str
    simulated: bool
    base: tuple[str, ...]
    candidate: tuple[str, ...]
    profiles: tuple[_Profile, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trends: tuple[_Trend, ...] = ()


def gate(path: Path) -> Judged:
    """What `kvlab gate --json` printed into a file. Raises KvlabError when it is something else."""
    found = _convert(path, _Gate, "kvlab gate --json printed")
    judgements = [_overall(found), *(_of_profile(profile, found.simulated) for profile in found.profiles)]
    return Judged(
        judgements=tuple(judgements),
        changes=tuple(
            ChangePoint(trend.profile, change.run, change.at, change.shift)
            for trend in found.trends
            for change in trend.changes or ()
        ),
        trends=tuple(_trend(trend) for trend in found.trends),
    )


def findings(path: Path) -> list[Finding]:
    """Findings of checks recorded in a file: a JSON list, or an object whose `findings` is one.

    Raises KvlabError when it is something else.
    """
    content = _decode(path)
    listed = content.get("findings") if isinstance(content, dict) else content
    try:
        return msgspec.convert(listed, list[Finding])
    except msgspec.ValidationError as error:
        raise KvlabError(f"{path} holds no findings of kvlab's checks ({error}); name their JSON.") from None


def _overall(found: _Gate) -> Judgement:
    compared = f"{', '.join(found.candidate)} compared with {', '.join(_few(found.base))}"
    return Judgement("gate", found.verdict, (compared, *found.notes), found.missing, found.simulated)


def _of_profile(profile: _Profile, simulated: bool) -> Judgement:
    base, candidate = profile.starts
    evidence = [f"starts: {base} of the base, {candidate} of the candidate"]
    if profile.shift is not None:
        interval = (
            f", 95 % interval {profile.low:+.1%} to {profile.high:+.1%}"
            if profile.low is not None and profile.high is not None
            else ""
        )
        chance = f", p = {profile.p:.2g}" if profile.p is not None else ""
        evidence.append(f"TTFT moved by {profile.shift:+.1%}{interval}{chance}")
    if profile.spread is not None:
        evidence.append(f"spread from start to start: {profile.spread:.1%}")
    if profile.detectable is not None:
        evidence.append(f"smallest slowdown that is found nine times in ten: {profile.detectable:.1%}")
    if profile.moved:
        evidence.append(f"stages that moved: {', '.join(profile.moved)}")
    worse = [cell for cell in profile.cells if cell.verdict == "regress"]
    if worse:
        evidence.append("slower at " + ", ".join(_cell(cell) for cell in worse))
    return Judgement(f"gate, {profile.profile}", profile.verdict, tuple(evidence), profile.missing, simulated)


def _cell(cell: _Cell) -> str:
    at_once = f", {cell.concurrency} at once" if cell.concurrency > 1 else ""
    by = f" ({cell.shift:+.1%})" if cell.shift is not None else ""
    return f"{cell.context:,} tokens{at_once}{by}"


def _trend(trend: _Trend) -> str:
    if trend.changes is None:
        return f"{trend.profile}: {trend.points} starts are too few for a trend"
    if not trend.changes:
        return f"{trend.profile}: one level over {trend.points} starts"
    moves = ", ".join(f"{change.shift:+.1%} from {change.run} on" for change in trend.changes)
    return f"{trend.profile}: {moves} ({trend.points} starts)"


def _few(names: Sequence[str], most: int = 5) -> list[str]:
    return [*names[:most], f"{len(names) - most} more"] if len(names) > most else list(names)


def _decode(path: Path) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes())
    except OSError as error:
        raise KvlabError(f"{path} cannot be read ({error.strerror}); correct the path.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise KvlabError(f"{path} is not JSON ({error}); write it anew.") from None


def _convert(path: Path, kind: type[_Gate], what: str) -> _Gate:
    try:
        return msgspec.convert(_decode(path), kind)
    except msgspec.ValidationError as error:
        raise KvlabError(f"{path} is not what {what} ({error}); write it anew.") from None
