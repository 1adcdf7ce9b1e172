"""Faults of the programs that serve, and of the lab's files."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from kvlab.drills import programs
from kvlab.drills.bench import Bench
from kvlab.drills.drill import Drill, Scene
from kvlab.errors import KvlabError
from kvlab.probes import completion

RESTART_S = 240.0
"""vLLM takes 40 s to start on an idle machine of two cores."""


def _scene(
    topics: tuple[str, ...], breaks: Callable[[Bench], AbstractContextManager[object]]
) -> Callable[[Bench], Scene]:
    def scene(bench: Bench) -> Scene:
        return Scene(lambda: bench.look(*topics), lambda: breaks(bench))

    return scene


@contextmanager
def _readable_secret(bench: Bench) -> Iterator[None]:
    file = Path(str(bench.data["secrets_file"]))
    mode = file.stat().st_mode & 0o777
    file.chmod(0o644)
    try:
        yield
    finally:
        file.chmod(mode)


@contextmanager
def _hung_engine(bench: Bench) -> Iterator[None]:
    """vLLM's engine stands still with a request on its way; the request ends once it may go on."""
    url = f"http://{bench.data['address']}:{bench.data['ports']['vllm']}"
    job = {"url": url, "prompt_ids": [65] * 64, "max_tokens": 4, "timeout_s": 120}

    def ask() -> None:
        with suppress(KvlabError):  # whether it is answered is no matter here
            completion.run(job)

    asking = threading.Thread(target=ask, daemon=True)
    try:
        with programs.paused(programs.engine_of(bench.lab, bench.profile)):
            asking.start()
            time.sleep(1.0)
            yield
    finally:
        if asking.ident is not None:
            asking.join(120)


@contextmanager
def _killed_engine(bench: Bench) -> Iterator[None]:
    os.kill(programs.engine_of(bench.lab, bench.profile), signal.SIGKILL)
    try:
        yield
    finally:
        bench.tell("the engine was killed: vLLM starts again (about 40 s)")
        programs.serve_again(bench.lab, bench.profile, RESTART_S)


@contextmanager
def _lmcache_stopped(bench: Bench) -> Iterator[None]:
    with programs.program_stopped(bench.lab, f"lmcache-{bench.profile}"):
        try:
            yield
        finally:
            bench.tell("LMCache was stopped: it starts again, and vLLM with it (about 40 s)")
    programs.serve_again(bench.lab, bench.profile, RESTART_S)


@contextmanager
def _lmcache_paused(bench: Bench) -> Iterator[None]:
    with programs.paused(programs.pid_of(bench.lab, f"lmcache-{bench.profile}")):
        yield


_LAB: Any = "lab"
CACHE = ("a running profile with LMCache",)

DRILLS = (
    Drill(
        "secret-world-readable", _LAB, "a file with a secret key may be read by everybody",
        "mode 0644 for a file of the lab's secrets", "thought up here", "issue 8; design.md, Decisions", "HOST067",
        _scene(("files",), _readable_secret), ci=True,
    ),
    Drill(
        "engine-hung", _LAB, "vLLM answers, and its engine does nothing",
        "the engine's process is paused (SIGSTOP) with a request on its way", "field report",
        "issue 8; facts/provisioning.md 3", "VLLM011",
        _scene(("vllm",), _hung_engine), ci=True, patience_s=15, recovery_s=60,
    ),
    Drill(
        "engine-killed", _LAB, "vLLM's engine was killed, as by the kernel when memory runs out",
        "the engine's process is killed (SIGKILL)", "field report", "issue 8", "VLLM010",
        _scene(("vllm",), _killed_engine), patience_s=30, recovery_s=RESTART_S,
    ),
    Drill(
        "lmcache-hung", _LAB, "the LMCache server stands still",
        "its process is paused (SIGSTOP)", "thought up here", "facts/kv_bench.md 0, fact 3", "LMC120",
        _scene(("lmcache",), _lmcache_paused), needs=CACHE, recovery_s=60,
    ),
    Drill(
        "lmcache-stopped", _LAB, "the LMCache server does not run, and vLLM serves without a cache",
        "its program is stopped", "field report", "facts/kv_bench.md 0, fact 3; facts/local_stack.md", "VLLM020",
        _scene(("processes", "lmcache"), _lmcache_stopped), needs=CACHE, patience_s=15, recovery_s=RESTART_S,
    ),
)  # fmt: skip
