"""The storage part of a local lab in a folder of its own: emulated array under supervisor, configured by the roles."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvlab.objectscale import s3
from kvlab.serving.supervisor import Supervisor

ROOT = Path(__file__).parents[3]
PORTS = ("s3", "management", "vllm", "lmcache", "lmcache_http")


def _free_ports() -> dict[str, int]:
    with ExitStack() as held:
        probes = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in PORTS]
        return dict(zip(PORTS, (probe.getsockname()[1] for probe in probes), strict=True))


@dataclass
class Run:
    """What a playbook printed, and its result."""

    returncode: int
    output: str
    tokens: set[str] = field(default_factory=set)
    """Tokens of the management API that were seen in the session file meanwhile."""
    arguments: set[str] = field(default_factory=set)
    """Command lines of all processes that were seen meanwhile."""

    @property
    def changed(self) -> int:
        found = re.search(r"changed=(\d+)", self.output)
        assert found, self.output
        return int(found[1])


@dataclass
class StorageLab:
    """`play(...)` runs playbooks/storage.yml, or other plays, on the lab in `folder`."""

    folder: Path
    ports: dict[str, int] = field(default_factory=_free_ports)
    first: Run | None = None
    """The run that brought it up."""

    @property
    def state(self) -> Path:
        return self.folder / "lab"

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.ports['s3']}"

    @property
    def key(self) -> str:
        """The secret key of the lab's user."""
        return (self.state / "secrets/objectscale_secret_key").read_text().strip()

    @property
    def password(self) -> str:
        return (self.state / "secrets/objectscale_management_password").read_text().strip()

    @property
    def management_log(self) -> Path:
        return self.state / "log/objectscale-management.jsonl"

    def client(self, credentials: str = "objectscale.json") -> Any:
        """S3 as the user whose credentials lie in that file of the lab's secrets."""
        user = json.loads((self.state / "secrets" / credentials).read_text())
        return s3.client(self.endpoint, user["access_key"], user["secret_key"])

    def requests(self) -> list[dict[str, Any]]:
        """Everything that the management API was asked."""
        return [json.loads(line) for line in self.management_log.read_text().splitlines()]

    def play(
        self,
        *arguments: str,
        plays: list[dict[str, Any]] | None = None,
        watched: bool = False,
        **variables: Any,
    ) -> Run:
        """Run it. `watched`: as verbose as can be, with diffs, a log, a fact cache and an eye on all processes."""
        playbook = ROOT / "playbooks/storage.yml"
        if plays is not None:
            playbook = self.folder / "plays.yml"
            playbook.write_text(json.dumps(plays))
        given = {"kvlab_state_dir": str(self.state), "kvlab_ports": self.ports, **variables}
        command = [Path(sys.executable).with_name("ansible-playbook"), playbook, *arguments]
        settings = {
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_LOCAL_TEMP": str(self.folder / "home/tmp"),
        }
        if not watched:
            return self._run([*command, "-e", json.dumps(given)], settings)
        settings |= {
            "ANSIBLE_LOG_PATH": str(self.folder / "ansible.log"),
            "ANSIBLE_CACHE_PLUGIN": "jsonfile",
            "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(self.folder / "facts"),
        }
        with self._watched() as seen:
            done = self._run([*command, "-vvv", "--diff", "-e", json.dumps(given)], settings)
        seen.returncode, seen.output = done.returncode, done.output
        return seen

    def _run(self, command: list[Any], settings: dict[str, str]) -> Run:
        environment = {**os.environ, **settings}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
        return Run(done.returncode, done.stdout + done.stderr)

    def ok(self, *arguments: str, **more: Any) -> Run:
        """A play that must succeed."""
        run = self.play(*arguments, **more)
        assert run.returncode == 0, run.output[-6000:]
        return run

    def down(self) -> None:
        Supervisor(self.state).shutdown()

    @contextmanager
    def _watched(self) -> Iterator[Run]:
        seen, over = Run(-1, ""), threading.Event()
        watcher = threading.Thread(target=self._watch, args=(seen, over))
        watcher.start()
        try:
            yield seen
        finally:
            over.set()
            watcher.join()

    def _watch(self, seen: Run, over: threading.Event) -> None:
        session = self.state / "secrets/objectscale.json.session"
        while not over.wait(0.05):
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    seen.arguments.add(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
                except OSError:  # it has ended
                    continue
            try:
                seen.tokens.add(json.loads(session.read_text())["token"])
            except (FileNotFoundError, ValueError):  # between two logins, or being written
                continue
