"""What ends a TTFT run in a lab, and what --resume makes of it: `pytest -m ttft`.

One run of one profile, which is interrupted, meets a store that is full, and loses each of its services. Each time what
was measured is kept and the run goes on, until it is whole.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from harness import Bench
from serving import runner_of

from kvlab.cli import _ttft
from kvlab.drills import bench as drill
from kvlab.drills import programs
from kvlab.errors import KvlabError
from kvlab.serving.supervisor import Supervisor
from kvlab.ttft import result as results
from kvlab.ttft.result import Result

pytestmark = [pytest.mark.ttft, pytest.mark.destructive]

PROFILE = "s3-rdma"
PLAN = {
    "name": "endings",
    "model": "kvlab-test",
    "contexts": [256, 512],
    "profiles": [PROFILE],
    "starts": 1,
    "hot_passes": 2,
    "max_tokens": 4,
}
PASSES = 6


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT interrupts: under nohup, and in a shell's background jobs, this process began with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def go_on(
    session_bench: Bench, tmp_path: Path
) -> Callable[[int, Callable[[], None] | None], tuple[str, Result]]:
    """Goes on with the one run; `then` happens once so many of its passes are done. How it ended, and what it holds."""
    if not session_bench.lab.simulated:
        pytest.skip("ends services, and fills the store: for a lab of stand-ins")
    plan, output = tmp_path / "endings.yml", tmp_path / "run.json"
    plan.write_text(yaml.safe_dump(PLAN))

    def run(after: int = -1, then: Callable[[], None] | None = None) -> tuple[str, Result]:
        waiting = [then] if then else []

        def progress(done: int, _all: int, _left: float | None) -> None:
            if done == after and waiting:
                waiting.pop()()

        try:
            _ttft.run(
                plan, output, resume=output.exists(), starts=None, only=(), tell=session_bench.tell, progress=progress
            )  # fmt: skip
        except KvlabError as error:
            return str(error), results.read(output)
        return "", results.read(output)

    return run


@pytest.mark.usefixtures("interruptible")
def test_a_run_that_is_ended_keeps_what_it_measured_and_goes_on(
    session_bench: Bench, go_on: Callable[..., tuple[str, Result]]
) -> None:
    lab, runner = session_bench.lab, runner_of(session_bench)
    before = runner.running() or lab.configured_profile
    kept: list[results.Pass] = []

    def ended(said: str, found: Result, words: str, passes: int) -> None:
        assert words in said
        assert "go on with --resume" in said.lower()
        assert not found.complete
        assert found.passes[: len(kept)] == kept, "what was measured earlier stays as it was"
        assert len(found.passes) == len(kept) + passes
        kept[:] = found.passes

    try:
        ended(*go_on(2, lambda: os.kill(os.getpid(), signal.SIGINT)), "interrupted", passes=2)
        port = drill.free_port()
        with programs.store_with(lab, ["--admin-port", str(port)]):
            fill = {"kind": "full", "bucket": lab.profiles[PROFILE]["bucket"]}

            def full() -> None:
                httpx.post(f"http://127.0.0.1:{port}/faults", json=fill, trust_env=False).raise_for_status()

            ended(*go_on(0, full), "the store refused 1 of 1 objects (status 507", passes=1)
        kill = lambda: os.kill(programs.pid_of(lab, f"vllm-{PROFILE}"), signal.SIGKILL)  # noqa: E731
        ended(*go_on(1, kill), "vLLM at http", passes=1)
        # Stopped, not killed: a supervisor would start it again before vLLM has given it up.
        stop = Supervisor(lab.state_dir).stop_program
        ended(*go_on(1, lambda: stop(f"lmcache-{PROFILE}")), "LMCache's server is gone", passes=2)
        said, found = go_on()
        assert (said, found.complete, found.stopped) == ("", True, "")
        assert found.passes[: len(kept)] == kept
        last = [one for one in found.passes if one.start == found.starts[-1].number]
        assert len(last) == PASSES
        assert [one.reasons for one in last if not one.proven] == []
    finally:
        runner.use(before, restart=True)
