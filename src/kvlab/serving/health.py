"""Waiting until a program answers, with progress, and the reason when it does not."""

from __future__ import annotations

import time
from collections.abc import Callable

from kvlab.errors import KvlabError
from kvlab.serving.answers import answers
from kvlab.serving.manager import RUNNING, STARTING, Manager, tail_text

Progress = Callable[[str], None]


def wait(
    manager: Manager,
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
        program = manager.program(name)
        waited = time.monotonic() - begin
        first_pid = first_pid or program.pid
        if program.state == RUNNING and answers(url):
            return waited
        if program.state not in (RUNNING, STARTING) or (program.pid and program.pid != first_pid):
            raise KvlabError(
                f"{name} ended while it was starting ({program.description}){tail_text(manager, name)}"
            )
        if waited > timeout_s:
            raise KvlabError(
                f"{name} runs but {url} does not answer after {waited:.0f} s{tail_text(manager, name)}"
            )
        if progress and time.monotonic() - told >= 5:
            told = time.monotonic()
            last = next(iter(manager.tail(name, 1)), "")
            progress(f"{name}: waited {waited:.0f} s of at most {timeout_s:.0f} s | {last[-90:]}")
        time.sleep(poll_s)
