"""A thin client of supervisord: start it, load changed programs, start and stop one, read its log."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvlab.errors import KvlabError
from kvlab.serving import manager, processes
from kvlab.serving.manager import BACKOFF, RUNNING, STARTING, Program


class Supervisor:
    """The supervisord of the lab under `state_dir` (its configuration is `<state>/etc/supervisord.conf`)."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.config = state_dir / "etc" / "supervisord.conf"
        self.socket = state_dir / "run" / "supervisor.sock"
        self.log_dir = state_dir / "log"

    @contextlib.contextmanager
    def _rpc(self) -> Iterator[Any]:
        from supervisor.xmlrpc import SupervisorTransport

        transport = SupervisorTransport(None, None, f"unix://{self.socket}")
        # The URL is never used: the transport connects to the socket.
        proxy = xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport)
        try:
            yield proxy.supervisor
        finally:
            transport.close()

    def alive(self) -> bool:
        """Whether supervisord answers on its socket."""
        try:
            with self._rpc() as rpc:
                return bool(rpc.getState()["statename"] == "RUNNING")
        except (OSError, xmlrpc.client.Error):
            return False

    def start(self, timeout_s: float = 15.0) -> bool:
        """Start supervisord unless it answers; processes that a killed one left behind are ended first.

        Returns True when it was started. Raises KvlabError when it does not come up.
        """
        if self.alive():
            return False
        processes.end(processes.of_lab(self.state_dir))
        self.socket.unlink(missing_ok=True)
        done = subprocess.run(
            [sys.executable, "-m", "supervisor.supervisord", "-c", str(self.config)],
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore::UserWarning"},
        )  # fmt: skip
        if done.returncode:
            raise KvlabError(f"supervisord did not start: {(done.stderr or done.stdout).strip()}")
        deadline = time.monotonic() + timeout_s
        while not self.alive():
            if time.monotonic() > deadline:
                raise KvlabError(
                    f"supervisord does not answer on {self.socket}; see {self.log_dir}/supervisord.log"
                )
            time.sleep(0.1)
        with self._rpc() as rpc:
            processes.record(self.state_dir, int(rpc.getPID()))
        return True

    def pending_changes(self) -> tuple[list[str], list[str], list[str]]:
        """Names of programs that were added, changed and removed on disk since they were loaded."""
        with self._rpc() as rpc:
            try:
                added, changed, removed = rpc.reloadConfig()[0]
            except xmlrpc.client.Fault as fault:
                raise KvlabError(f"supervisord refuses its configuration: {fault.faultString}") from fault
        return list(added), list(changed), list(removed)

    def load(self) -> list[str]:
        """Load programs whose files are new, changed or gone; a changed one is stopped. Returns their names."""
        added, changed, removed = self.pending_changes()
        with self._rpc() as rpc:
            for name in [*removed, *changed]:
                rpc.stopProcessGroup(name)
                rpc.removeProcessGroup(name)
            for name in [*added, *changed]:
                rpc.addProcessGroup(name)
        return sorted({*added, *changed, *removed})

    def programs(self) -> list[Program]:
        """Every loaded program."""
        with self._rpc() as rpc:
            return [
                Program(p["name"], p["statename"], p["pid"], p["start"], p["description"])
                for p in rpc.getAllProcessInfo()
            ]

    def program(self, name: str) -> Program:
        """One program. Raises KvlabError when supervisord does not know it."""
        for program in self.programs():
            if program.name == name:
                return program
        raise KvlabError(f"there is no program {name!r} under supervisor; run ./lab up")

    def start_program(self, name: str) -> bool:
        """Start a program unless it runs or is starting. Returns True when it was started."""
        if self.program(name).state in (RUNNING, STARTING):
            return False
        with self._rpc() as rpc:
            try:
                rpc.startProcess(name, False)
            except xmlrpc.client.Fault as fault:
                if "ALREADY_STARTED" not in fault.faultString:
                    raise KvlabError(
                        f"{name} cannot be started: {fault.faultString}{self.tail_text(name)}"
                    ) from fault
        return True

    def stop_program(self, name: str) -> bool:
        """Stop a program and wait until its whole process group has ended. Returns True when it was running."""
        if self.program(name).state not in (RUNNING, STARTING, BACKOFF):
            return False
        with self._rpc() as rpc:
            try:
                rpc.stopProcess(name, True)
            except xmlrpc.client.Fault as fault:
                if "NOT_RUNNING" not in fault.faultString:
                    raise KvlabError(f"{name} cannot be stopped: {fault.faultString}") from fault
        return True

    def tail(self, name: str, lines: int = 15) -> list[str]:
        """The last lines of a program's log."""
        path = self.log_dir / f"{name}.log"
        try:
            with path.open("rb") as log:
                log.seek(max(0, path.stat().st_size - 65536))
                return log.read().decode(errors="replace").splitlines()[-lines:]
        except FileNotFoundError:
            return []

    def tail_text(self, name: str, lines: int = 15) -> str:
        """The last lines of a program's log, indented, behind a newline; empty when there is no log."""
        return manager.tail_text(self, name, lines)

    def shutdown(self) -> bool:
        """End supervisord, its programs and whatever they left behind. Returns True when anything ran."""
        ran = False
        if self.alive():
            ran = True
            with self._rpc() as rpc, contextlib.suppress(xmlrpc.client.Fault):
                rpc.stopAllProcesses(True)
            with self._rpc() as rpc:
                rpc.shutdown()
            deadline = time.monotonic() + 10
            while self.alive() and time.monotonic() < deadline:
                time.sleep(0.1)
        left = processes.of_lab(self.state_dir)
        processes.end(left)
        processes.remove_tables_of_the_dead()
        self.socket.unlink(missing_ok=True)
        return ran or bool(left)
