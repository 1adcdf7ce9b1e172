"""The lab's programs in a drill's hands: looked up, paused, stopped for a while, run with other arguments.

The only module of the drills that knows what runs the lab's programs.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kvlab.errors import KvlabError
from kvlab.serving import health, processes, profiles
from kvlab.serving.answers import answers
from kvlab.serving.lab import Lab
from kvlab.serving.supervisor import Supervisor

STORE = "objectscale"
START_S = 30.0
_PR_SET_PDEATHSIG = 1


def require_up(lab: Lab) -> str:
    """The profile that runs. Raises KvlabError when the lab is down or serves nothing."""
    name = profiles.running(lab)
    if name is None:
        raise KvlabError("the lab is down, and a drill breaks one that is up; run ./lab up first.")
    return name


def pid_of(lab: Lab, program: str) -> int:
    """The process of one program."""
    return Supervisor(lab.state_dir).program(program).pid


def engine_of(lab: Lab, profile: str) -> int:
    """The process of vLLM's engine, the child that computes."""
    server = pid_of(lab, f"vllm-{profile}")
    for process in processes.of_lab(lab.state_dir):
        if process.ppid() == server and "EngineCore" in " ".join([process.name(), *process.cmdline()]):
            return int(process.pid)
    raise KvlabError(f"vLLM (process {server}) has no engine process of its own; nothing can be paused.")


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """The process stands still meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def stopped(lab: Lab, program: str, url: str, start_s: float = START_S) -> Iterator[None]:
    """The program does not run meanwhile; afterwards it does, and answers."""
    supervisor = Supervisor(lab.state_dir)
    supervisor.stop_program(program)
    try:
        yield
    finally:
        supervisor.start_program(program)
        health.wait(supervisor, program, url, start_s)


@contextmanager
def memlock_lowered(pid: int, limit: int) -> Iterator[None]:
    """The process may lock no more than `limit` bytes of memory meanwhile."""
    before = resource.prlimit(pid, resource.RLIMIT_MEMLOCK)
    resource.prlimit(pid, resource.RLIMIT_MEMLOCK, (limit, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_MEMLOCK, before)


def stop(lab: Lab, program: str) -> None:
    """Stop a program; `serve_afresh` starts it."""
    Supervisor(lab.state_dir).stop_program(program)


def serve_afresh(lab: Lab, profile: str) -> None:
    """Start all of the profile anew, so that vLLM registers with LMCache, and wait until it serves."""
    profiles.use(lab, profile)


@contextmanager
def store_with(lab: Lab, extra: Sequence[str]) -> Iterator[None]:
    """The lab's object store with more arguments than its own, on the same ports and files; then as it was."""
    pid = pid_of(lab, STORE)
    if not pid:
        raise KvlabError("this lab does not run its own object store, so none can be made to misbehave.")
    command = Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode().split("\0")
    folder = Path(f"/proc/{pid}/cwd").readlink()
    log = lab.state_dir / "log" / "drill-objectscale.log"
    with stopped(lab, STORE, str(lab.data["endpoint"])), log.open("ab") as output:
        # Should this process be killed, the store goes with it: ./lab up then starts the lab's own again.
        child = subprocess.Popen(
            [*command, *extra], cwd=folder, stdout=output, stderr=output, preexec_fn=die_with_parent
        )
        try:
            _wait_for(child, str(lab.data["endpoint"]), log)
            yield
        finally:
            child.terminate()
            child.wait(30)


def die_with_parent() -> None:
    """For a child that is just made: should this process be killed, it ends, too."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _wait_for(child: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while not answers(url):
        if child.poll() is not None or time.monotonic() > deadline:
            raise KvlabError(f"the object store did not start for the drill; see {log}.")
        time.sleep(0.1)
