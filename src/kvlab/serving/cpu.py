"""CPU time of a profile's own processes: vLLM, its workers and the LMCache server."""

from __future__ import annotations

import time
from collections.abc import Iterable

import psutil

from kvlab.serving import manager, profiles
from kvlab.serving.lab import Lab


def process_ids(lab: Lab, profile: str) -> list[int]:
    """The processes of a profile's programs, with all that they started."""
    programs = manager.of(lab)
    found: list[int] = []
    for name, _, _ in profiles.programs_of(lab, profile):
        pid = programs.program(name).pid
        try:
            found += [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
        except psutil.NoSuchProcess:
            continue
    return found


def seconds(pids: Iterable[int]) -> float | None:
    """CPU seconds, user and system, that the processes have used; None when one of them has ended.

    Read from each process's CPU clock, which counts nanoseconds: psutil's figures move in steps of 10 ms, and a hot
    pass of a few chunks takes no more.
    """
    try:
        return sum(time.clock_gettime(_clock(pid)) for pid in pids)
    except OSError:
        return None


def _clock(pid: int) -> int:
    """The id of a process's CPU clock, as clock_getcpuclockid(3) makes it: the scheduler's, of a whole process."""
    return (~pid << 3) | 2
