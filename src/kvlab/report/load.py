"""Result files for a report: the newest runs of one environment and commit in full, of all others what history needs.

Thousands of files are read within seconds, because of most of them only a few fields are decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import msgspec

from kvlab.errors import KvlabError
from kvlab.ttft import result as results
from kvlab.ttft.result import Result
from kvlab.ttft.runs import TREND

NEWEST = 30
"""Runs that the figures show, at most: older ones tell of a lab that is no more, and make dots a cloud."""


class _Plan(msgspec.Struct, frozen=True):
    model: str = ""


class _Start(msgspec.Struct, frozen=True):
    number: int
    at: str


class _Pass(msgspec.Struct, frozen=True):
    start: int
    profile: str
    context: int
    series: str
    proven: bool
    concurrency: int = 1
    ttft_first_token_s: float | None = None


class _Run(msgspec.Struct, frozen=True):
    kind: str
    schema: int
    id: str
    created: str
    simulated: bool
    fingerprint: str
    complete: bool
    starts: list[_Start]
    passes: list[_Pass]
    plan: _Plan = _Plan()
    commit: str = ""
    stack: str = ""
    stopped: str = ""


_decoder = msgspec.json.Decoder(_Run)


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

    `history` has the points of all runs of that environment, `runs` a line for each run, newest first.
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
    runs = sorted(((_run(file), file) for file in _files(paths)), key=lambda one: one[0].created)
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
        history=sorted((p for run, _ in same for p in _points(run, longest)), key=lambda point: point.at),
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


def _environment(run: _Run) -> tuple[bool, str, str]:
    return run.simulated, run.fingerprint, run.plan.model


def _source(run: _Run) -> tuple[str, str]:
    return run.commit, run.stack


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        found = sorted(path.glob("*.json"))
        if not found:
            raise KvlabError(f"{path} holds no *.json; name a folder of TTFT results.")
        yield from found


def _run(path: Path) -> _Run:
    try:
        run = _decoder.decode(path.read_bytes())
        if run.kind == results.KIND and run.schema <= results.SCHEMA:
            return run
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        results.read(path)  # says what is wrong with it
        raise
    results.read(path)
    raise KvlabError(f"{path} has schema {run.schema}, which this kvlab does not read; update kvlab.")


def _points(run: _Run, context: int) -> Iterator[Point]:
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
