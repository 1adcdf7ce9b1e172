"""Faults of the programs that serve, of their limits and of the lab's files."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from kvlab.drills import programs
from kvlab.drills.bench import Bench
from kvlab.drills.drill import Drill, Origin, Scene

RECOVERY_S = 60.0
MEMLOCK = 64 << 10
CACHE = ("a running profile with LMCache",)

Break = Callable[[Bench], AbstractContextManager[None]]


@contextmanager
def _readable_secret(bench: Bench) -> Iterator[None]:
    file = Path(str(bench.data["secrets_file"]))
    mode = file.stat().st_mode & 0o777
    file.chmod(0o644)
    try:
        yield
    finally:
        file.chmod(mode)


def _engine_hung(bench: Bench) -> AbstractContextManager[None]:
    return programs.paused(programs.engine_of(bench.lab, bench.profile))


@contextmanager
def _engine_killed(bench: Bench) -> Iterator[None]:
    os.kill(programs.engine_of(bench.lab, bench.profile), signal.SIGKILL)
    try:
        yield
    finally:
        bench.tell("the engine was killed: the profile is started afresh (about 45 s)")
        programs.serve_afresh(bench.lab, bench.profile)


@contextmanager
def _lmcache_stopped(bench: Bench) -> Iterator[None]:
    programs.stop(bench.lab, _lmcache(bench))
    try:
        yield
    finally:
        bench.tell("LMCache was stopped: the profile is started afresh (about 45 s)")
        programs.serve_afresh(bench.lab, bench.profile)


def _lmcache_hung(bench: Bench) -> AbstractContextManager[None]:
    return programs.paused(programs.pid_of(bench.lab, _lmcache(bench)))


def _memlock(bench: Bench) -> AbstractContextManager[None]:
    return programs.memlock_lowered(programs.pid_of(bench.lab, _lmcache(bench)), MEMLOCK)


def _lmcache(bench: Bench) -> str:
    return f"lmcache-{bench.profile}"


def _drill(
    name: str,
    breaks: str,
    staged: str,
    expects: str,
    how: Break,
    *topics: str,
    origin: Origin = "field report",
    reference: str,
    job: dict[str, Any] | None = None,
    **more: Any,
) -> Drill:
    def scene(bench: Bench) -> Scene:
        return Scene(lambda: bench.look(*topics, **(job or {})), lambda: how(bench))

    return Drill(name, "lab", breaks, staged, origin, reference, expects, scene, **more)


DRILLS = (
    _drill(
        "secret-world-readable", "a file with a secret key may be read by everybody",
        "mode 0644 for a file of the lab's secrets", "HOST067", _readable_secret, "files",
        origin="thought up here", reference="issue 8; design.md, Decisions", words="0644", ci=True,
    ),
    _drill(
        "engine-hung", "vLLM's health is good, and its engine does nothing",
        "the engine's process is paused (SIGSTOP)", "VLLM011", _engine_hung, "vllm",
        reference="issue 8", words="the engine hangs", ci=True, recovery_s=RECOVERY_S,
    ),
    _drill(
        "engine-killed", "vLLM's engine was killed, as by the kernel when memory runs out",
        "the engine's process is killed (SIGKILL)", "VLLM010", _engine_killed, "vllm",
        reference="issue 8", patience_s=30, recovery_s=RECOVERY_S,
    ),
    _drill(
        "lmcache-hung", "the LMCache server stands still", "its process is paused (SIGSTOP)", "LMC120",
        _lmcache_hung, "lmcache", origin="thought up here", reference="facts/kv_bench.md 0, fact 3",
        needs=CACHE, recovery_s=RECOVERY_S,
    ),
    _drill(
        "lmcache-stopped", "the LMCache server does not run, and vLLM serves without a cache",
        "its program is stopped", "VLLM020", _lmcache_stopped, "processes", "lmcache",
        reference="facts/kv_bench.md 0, fact 3; facts/local_stack.md", words="lmcache: 0 process",
        needs=CACHE, patience_s=15, recovery_s=RECOVERY_S,
    ),
    _drill(
        "memlock-64k", "a serving process may lock 64 KiB of memory, less than it registers",
        "prlimit on the running LMCache server; that it registers 1 MiB is assumed, for the software client locks "
        "nothing", "VLLM021", _memlock, "processes",
        reference="openucx/ucx issue 8229; facts/provisioning.md 3, row 22",
        job={"registers": 1 << 20}, words="memlock 65,536 bytes", needs=("profile s3-rdma in the lab",),
    ),
)  # fmt: skip
