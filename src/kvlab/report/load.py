"""Result files for a report: the newest runs of one environment in full, of all others the header.

Thousands of files are read within seconds, because of most of them only the header is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from kvlab.errors import KvlabError
from kvlab.ttft import result as results
from kvlab.ttft.result import Header, Result
from kvlab.ttft.runs import TREND

NEWEST = 30
"""Runs that the figures show, at most: older ones tell of a lab that is no more, and make dots a cloud."""


DRAWN = 500
"""Starts of a profile in the history, at most: so many dots can be told apart."""


@dataclass(frozen=True)
class Point:
    """One start in the history of a profile: its median over proven hot passes of one context."""

    run: str
    at: str  # ISO 8601, UTC
    profile: str
    context: int
    ttft_s: float


@dataclass(frozen=True)
class Run:
    """A line of the table of runs. `shown`: its passes are in the figures; `same`: of the newest run's environment."""

    id: str
    created: str
    commit: str
    stack: str
    simulated: bool
    state: str
    shown: bool
    same: bool


@dataclass(frozen=True)
class Loaded:
    """`shown` and `past` are in full, oldest first: the runs of the figures, and the newest of their environment.

    `history` has the points of `past`, `runs` a line for each run, newest first.
    """

    shown: Sequence[Result]
    past: Sequence[Result]
    history: Sequence[Point]
    runs: Sequence[Run]

    @property
    def newest(self) -> Result:
        return self.shown[-1]


def load(paths: Sequence[Path]) -> Loaded:
    """Read result files, and all *.json of folders.

    Raises KvlabError: no file, a file that is no result, or two runs with one id.
    """
    files = list(_files(paths))
    runs = sorted(zip(results.headers(files), files, strict=True), key=lambda one: one[0].created)
    seen: dict[str, Path] = {}
    for run, file in runs:
        if run.id in seen:
            raise KvlabError(f"{seen[run.id]} and {file} are the same run ({run.id}); name it once.")
        seen[run.id] = file
    newest = runs[-1][0]
    same = [(run, file) for run, file in runs if _environment(run) == _environment(newest)]
    shown = [(run, file) for run, file in same if _source(run) == _source(newest)][-NEWEST:]
    ids, alike = {run.id for run, _ in shown}, {run.id for run, _ in same}
    past = {run.id: results.read(file) for run, file in same[-TREND:]}
    full = [past.get(run.id) or results.read(file) for run, file in shown]
    longest = max((one.context for result in full for one in result.passes if one.series == "hot"), default=0)
    return Loaded(
        shown=full,
        past=list(past.values()),
        history=_newest(p for result in past.values() for p in _points(result, longest)),
        runs=[
            Run(
                run.id,
                run.created,
                run.commit,
                run.stack,
                run.simulated,
                "complete" if run.complete else f"stopped: {run.stopped or 'reason unknown'}",
                run.id in ids,
                run.id in alike,
            )
            for run, _ in reversed(runs)
        ],
    )


def _environment(run: Header) -> tuple[bool, str, str]:
    return run.simulated, run.fingerprint, run.model


def _source(run: Header) -> tuple[str, str]:
    return run.commit, run.stack


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = results.files_in(path)
        if not found:
            raise KvlabError(f"{path} holds no *.json; name a folder of TTFT results.")
        yield from found


def _newest(points: Iterable[Point]) -> list[Point]:
    """The newest DRAWN points of each profile, oldest first."""
    of_profile: dict[str, deque[Point]] = {}
    for point in sorted(points, key=lambda one: one.at):
        of_profile.setdefault(point.profile, deque(maxlen=DRAWN)).append(point)
    return sorted((point for kept in of_profile.values() for point in kept), key=lambda one: one.at)


def _points(run: Result, context: int) -> Iterator[Point]:
    """Of the starts of a run, at its least concurrency."""
    concurrency = min((one.concurrency for one in run.passes), default=1)
    at = {start.number: start.at for start in run.starts}
    passes: dict[tuple[int, str], list[float]] = {}
    for one in run.passes:
        if (
            (one.series, one.context, one.concurrency) == ("hot", context, concurrency)
            and one.proven
            and one.ttft_first_token_s is not None
        ):
            passes.setdefault((one.start, one.profile), []).append(one.ttft_first_token_s)
    for (start, profile), values in passes.items():
        yield Point(run.id, at.get(start, run.created), profile, context, median(values))
