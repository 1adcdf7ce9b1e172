"""Waiting until a program answers, with progress, and the reason when it does not."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable

from kvlab.errors import KvlabError
from kvlab.serving.supervisor import RUNNING, STARTING, Supervisor

Progress = Callable[[str], None]


def answers(url: str, timeout_s: float = 3.0) -> bool:
    """Whether an HTTP server answers at `url` with a status below 500 (the object store says 403 to a stranger)."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as reply:
            return bool(reply.status < 500)
    except urllib.error.HTTPError as error:
        return error.code < 500
    except (OSError, ValueError):
        return False


def wait(
    supervisor: Supervisor,
    name: str,
    url: str,
    timeout_s: float,
    progress: Progress | None = None,
    poll_s: float = 0.5,
) -> float:
    """Wait until program `name` runs and `url` answers; returns the seconds it took.

    `progress` gets a line every few seconds. Raises KvlabError with the last lines of the program's log when it
    ends, keeps restarting, or does not answer within `timeout_s`.
    """
    begin = time.monotonic()
    told = begin
    first_pid = 0
    while True:
        program = supervisor.program(name)
        waited = time.monotonic() - begin
        first_pid = first_pid or program.pid
        if program.state == RUNNING and answers(url):
            return waited
        if program.state not in (RUNNING, STARTING) or (program.pid and program.pid != first_pid):
            raise KvlabError(
                f"{name} ended while it was starting ({program.description}){supervisor.tail_text(name)}"
            )
        if waited > timeout_s:
            raise KvlabError(
                f"{name} runs but {url} does not answer after {waited:.0f} s{supervisor.tail_text(name)}"
            )
        if progress and time.monotonic() - told >= 5:
            told = time.monotonic()
            last = next(iter(supervisor.tail(name, 1)), "")
            progress(f"{name}: waited {waited:.0f} s of at most {timeout_s:.0f} s | {last[-90:]}")
        time.sleep(poll_s)
