"""Results as the gate is given them: files, and folders that hold a history of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from kvlab.errors import KvlabError
from kvlab.ttft import result as results
from kvlab.ttft.result import Header, Result, comparable

WINDOW = 30
"""Runs of a history that a verdict uses, the newest: older ones tell of a lab that is no more."""

TREND = 400
"""Runs that a trend looks back over; an older change is no news."""


def read(path: Path) -> list[Result]:
    """The result in a file, or all those in a folder. Raises KvlabError as result.read, and for an empty folder."""
    return [results.read(file) for file in _files(path)] if path.is_dir() else [results.read(path)]


def newest(path: Path, wanted: Callable[[Header], bool], most: int = WINDOW) -> list[Result]:
    """The newest results of a folder whose header is wanted, oldest first; a file is taken as it is.

    Of the others only the header is decoded. Where none is wanted the newest is given, so that it can be said how it
    differs. Raises KvlabError when a file is no result.
    """
    if not path.is_dir():
        return [results.read(path)]
    files = _files(path)
    headers = sorted(zip(results.headers(files), files, strict=True), key=lambda one: one[0].created)
    found = [file for header, file in headers if wanted(header)] or [headers[-1][1]]
    return [results.read(file) for file in found[-most:]]


def _files(folder: Path) -> Sequence[Path]:
    found = results.files_in(folder)
    if not found:
        raise KvlabError(f"{folder} holds no *.json; name a folder of TTFT results.")
    return found


def like(run: Result, across: Collection[str] = ()) -> Callable[[Header], bool]:
    """Whether a header is of a run's environment (`across` left out), and of another run."""
    environment = comparable(run.environment, across)
    return lambda header: (
        header.id != run.id
        and header.simulated == run.simulated
        and header.plan.get("model") == run.plan.get("model")
        and comparable(header.environment, across) == environment
    )
