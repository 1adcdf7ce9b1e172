"""Which processes belong to a lab, also when their supervisor was killed and left them behind.

A lab's programs are children of one supervisord that leads a session of its own, so every process of the lab,
however it renames itself (vLLM's engine overwrites its title and environment), has that session id.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

_CLOCK_SLACK_S = 2.0
"""psutil derives a start time from the boot time, which NTP may move; a reused id is minutes apart."""


@dataclasses.dataclass(frozen=True)
class Session:
    """The session of a lab's supervisord."""

    sid: int
    started: float
    boot_id: str


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _file(state_dir: Path) -> Path:
    return state_dir / "run" / "session.json"


def record(state_dir: Path, pid: int) -> None:
    """Remember the supervisord `pid` as the leader of the lab's session."""
    session = Session(pid, psutil.Process(pid).create_time(), _boot_id())
    aside = _file(state_dir).with_suffix(".tmp")
    aside.write_text(json.dumps(dataclasses.asdict(session)))
    aside.replace(_file(state_dir))


def _recorded(state_dir: Path) -> Session | None:
    try:
        session = Session(**json.loads(_file(state_dir).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return session if session.boot_id == _boot_id() else None


def _sid(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except (ProcessLookupError, PermissionError):
        return None


def of_lab(state_dir: Path) -> list[psutil.Process]:
    """Every living process of the lab under `state_dir`; empty when none was recorded."""
    session = _recorded(state_dir)
    if session is None:
        return []
    found = list(_members(session))
    leader = next((p for p in found if p.pid == session.sid), None)
    if leader is not None and abs(leader.create_time() - session.started) > _CLOCK_SLACK_S:
        return []  # the number was given to somebody else's session
    return found


def _members(session: Session) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        if _sid(process.pid) != session.sid:
            continue
        try:
            alive = process.status() != psutil.STATUS_ZOMBIE
            if alive and process.create_time() >= session.started - _CLOCK_SLACK_S:
                yield process
        except psutil.NoSuchProcess:
            continue


def end(processes: Iterable[psutil.Process], grace_s: float = 10.0) -> None:
    """Ask each process to end, then kill what is left after `grace_s` seconds."""
    waiting = list(processes)
    for process in waiting:
        try:
            process.terminate()
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(waiting, timeout=grace_s)
    for process in alive:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(alive, timeout=5)


def remove_tables_of_the_dead(folder: Path = Path("/dev/shm")) -> None:
    """Remove registration tables of the software cuObject whose process was killed (PROTOCOL.md: one a pid)."""
    for table in folder.glob("kvlab-cuobj-*"):
        pid = table.name.removeprefix("kvlab-cuobj-")
        if pid.isdigit() and not psutil.pid_exists(int(pid)):
            table.unlink(missing_ok=True)
