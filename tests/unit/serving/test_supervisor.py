"""A real supervisord in a scratch lab: what `./lab up` relies on when things were killed."""

from __future__ import annotations

import http.server
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from kvlab import ports
from kvlab.errors import KvlabError
from kvlab.serving import health, launch, processes
from kvlab.serving.supervisor import Supervisor

CONFIG = """
[unix_http_server]
file={state}/run/supervisor.sock
[supervisord]
pidfile={state}/run/supervisord.pid
logfile={state}/log/supervisord.log
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
[include]
files={state}/etc/supervisor.d/*.ini
"""


def write_program(state: Path, name: str, command: str, digest: str = "1", extra: str = "") -> None:
    """Put a program's file where the role `serving` puts it."""
    text = (
        f'[program:{name}]\ncommand={command}\nenvironment=DIGEST="{digest}"\nautostart=false\nstartsecs=1\n'
        f"startretries=0\nstopasgroup=true\nkillasgroup=true\nredirect_stderr=true\n"
        f"stdout_logfile={state}/log/{name}.log\n{extra}"
    )
    (state / "etc" / "supervisor.d" / f"{name}.ini").write_text(text)


@pytest.fixture
def supervisor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Supervisor]:
    state = tmp_path_factory.mktemp("lab")
    for folder in ("etc/supervisor.d", "run", "log"):
        (state / folder).mkdir(parents=True)
    (state / "etc" / "supervisord.conf").write_text(CONFIG.format(state=state))
    write_program(state, "sleeper", "sleep 600")
    found = Supervisor(state)
    found.start()
    found.load()
    yield found
    found.shutdown()
    assert processes.of_lab(state) == []


def wait_running(supervisor: Supervisor, name: str) -> int:
    deadline = time.monotonic() + 20
    while supervisor.program(name).state != "RUNNING":
        assert time.monotonic() < deadline, supervisor.program(name)
        time.sleep(0.1)
    return supervisor.program(name).pid


def test_starting_a_running_program_or_supervisord_changes_nothing(supervisor: Supervisor) -> None:
    assert supervisor.start_program("sleeper") is True
    wait_running(supervisor, "sleeper")
    assert supervisor.start_program("sleeper") is False
    assert supervisor.start() is False
    assert supervisor.load() == []


def test_a_changed_file_stops_the_program_and_loads_it_anew(supervisor: Supervisor) -> None:
    supervisor.start_program("sleeper")
    before = wait_running(supervisor, "sleeper")
    write_program(supervisor.state_dir, "sleeper", "sleep 600", digest="2")
    assert supervisor.load() == ["sleeper"]
    assert not psutil.pid_exists(before)
    supervisor.start_program("sleeper")
    assert wait_running(supervisor, "sleeper") != before


def test_what_a_killed_supervisord_left_behind_is_found_and_ended_by_the_next_start(
    supervisor: Supervisor,
) -> None:
    supervisor.start_program("sleeper")
    orphan = psutil.Process(wait_running(supervisor, "sleeper"))
    leader = next(p for p in processes.of_lab(supervisor.state_dir) if p.pid == os.getsid(orphan.pid))
    leader.send_signal(signal.SIGKILL)
    psutil.wait_procs([leader], timeout=5)
    assert orphan.is_running()
    assert [p.pid for p in processes.of_lab(supervisor.state_dir)] == [orphan.pid]
    assert supervisor.start() is True
    assert not orphan.is_running()
    supervisor.load()
    assert supervisor.start_program("sleeper") is True


def test_a_session_number_that_was_given_to_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    mine = psutil.Process()
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    record = f'{{"sid": {os.getsid(mine.pid)}, "started": 1000.0, "boot_id": "{boot}"}}'
    (tmp_path / "run" / "session.json").write_text(record)
    leader = os.getsid(mine.pid)
    if psutil.pid_exists(leader):
        assert processes.of_lab(tmp_path) == []
    (tmp_path / "run" / "session.json").write_text(record.replace(boot, "another-boot"))
    assert processes.of_lab(tmp_path) == []


def test_a_program_that_ends_while_starting_is_reported_with_its_last_words(supervisor: Supervisor) -> None:
    write_program(supervisor.state_dir, "broken", "sh -c 'echo cannot open the frobnicator; exit 3'")
    supervisor.load()
    supervisor.start_program("broken")
    with pytest.raises(
        KvlabError, match="broken ended while it was starting(.|\n)*cannot open the frobnicator"
    ):
        health.wait(supervisor, "broken", "http://127.0.0.1:9/", timeout_s=20)


def test_a_program_that_stays_silent_is_reported_after_the_limit(supervisor: Supervisor) -> None:
    supervisor.start_program("sleeper")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/"
        with pytest.raises(KvlabError, match="sleeper runs but .* does not answer"):
            health.wait(supervisor, "sleeper", url, timeout_s=2)


def test_a_refusal_counts_as_an_answer_and_an_internal_error_does_not() -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(int(self.path[1:]))
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Keep the test's output clean."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{server.server_address[1]}"
        assert health.answers(f"{base}/403")
        assert not health.answers(f"{base}/500")
        server.shutdown()
    assert not health.answers(f"{base}/200")


def test_the_holder_of_a_port_is_named() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        holder = ports.holder("127.0.0.1", port)
        assert holder is not None
        assert holder.pid == os.getpid()
        assert ports.is_taken("127.0.0.1", port)
    assert ports.holder("127.0.0.1", port) is None
    assert not ports.is_taken("127.0.0.1", port)


def test_a_vllm_that_runs_while_its_lmcache_server_starts_is_restarted_with_it(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {}
    for name in ("vllm-one", "vllm-other"):
        write_program(supervisor.state_dir, name, "sleep 600")
    supervisor.load()
    for name in ("vllm-one", "vllm-other"):
        supervisor.start_program(name)
        before[name] = wait_running(supervisor, name)
    monkeypatch.chdir(supervisor.state_dir)
    monkeypatch.delenv("SUPERVISOR_ENABLED", raising=False)
    launch.restart_vllm_of("one")
    assert supervisor.program("vllm-one").pid == before["vllm-one"], (
        "supervisor did not start it: leave vLLM alone"
    )
    monkeypatch.setenv("SUPERVISOR_ENABLED", "1")
    launch.restart_vllm_of("one")
    assert wait_running(supervisor, "vllm-one") != before["vllm-one"]
    assert supervisor.program("vllm-other").pid == before["vllm-other"]
    supervisor.stop_program("vllm-one")
    launch.restart_vllm_of("one")
    assert supervisor.program("vllm-one").state == "STOPPED", "one that does not run is not started"


def test_only_the_tables_of_ended_processes_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    mine = f"kvlab-cuobj-{os.getpid()}"
    for name in (f"kvlab-cuobj-{ended.pid}", mine, "kvlab-cuobj-x", "other"):
        (tmp_path / name).touch()
    processes.remove_tables_of_the_dead(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([mine, "kvlab-cuobj-x", "other"])
