"""Fixtures of the replica's suite: the nodes of playbooks/replica.yml. It fails, and never skips, without them.

With --from-bare the nodes are bare when the suite begins and gone when it ends: tests of the way there run first, that
of the end last. Without, the nodes are converged ones that stay, and those tests are skipped.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import testinfra

PROJECT = Path(__file__).resolve().parents[2]
INVENTORY = PROJECT / "inventories/replica"
STATE = PROJECT / ".lab/replica"
BOOT_S = 60
CALLS = "/var/lib/kvlab-standins/calls.log"
VOLATILE = ("run/", "tmp/", "var/tmp/", "var/log/", "root/.ansible", CALLS.lstrip("/"))
"""What a look at a host may leave: logs, and the folder of Ansible's own temporary files."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--from-bare", action="store_true", help="the nodes are bare, and are removed at the end"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The way from bare nodes comes first, their end last."""
    if not config.getoption("--from-bare"):
        skip = pytest.mark.skip(
            reason="begins on bare nodes and removes them at the end: ci/replica, --from-bare"
        )
        for item in items:
            if item.get_closest_marker("from_bare"):
                item.add_marker(skip)

    def place(item: pytest.Item) -> int:
        return 2 if item.get_closest_marker("last") else 0 if item.get_closest_marker("from_bare") else 1

    items.sort(key=place)


@dataclass(frozen=True)
class Play:
    """What a playbook did: its exit status, its output, and the recap by host ({"ok": 3, "changed": 0, ...})."""

    rc: int
    stdout: str
    stats: dict[str, dict[str, int]]


def recap(output: str) -> dict[str, dict[str, int]]:
    """The counts of PLAY RECAP by host."""
    tail = output.rpartition("PLAY RECAP")[2]
    lines = re.findall(r"^(\S+)\s+: (ok=.*)$", tail, re.MULTILINE)
    return {host: {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", counts)} for host, counts in lines}


@dataclass(frozen=True)
class Running:
    """A playbook that runs while the test does something else."""

    process: subprocess.Popen[str]

    def end(self) -> Play:
        """Wait for its end."""
        output = self.process.communicate()[0]
        return Play(self.process.returncode, output, recap(output))


@dataclass(frozen=True)
class Replica:
    """The nodes, and what is done with them from outside."""

    described: dict[str, Any]
    state: Path = STATE

    @property
    def nodes(self) -> list[str]:
        """Names of the GPU hosts."""
        return [node["name"] for node in self.described["nodes"] if node["group"] == "gpu_hosts"]

    @property
    def all_nodes(self) -> list[str]:
        """Names of all nodes, the one with the object store too."""
        return [node["name"] for node in self.described["nodes"]]

    def host(self, name: str) -> Any:
        """A node over ssh, as testinfra gives it."""
        return testinfra.get_host(f"ansible://{name}?ansible_inventory={INVENTORY}")

    def begin(self, *words: str, playbook: str = "site.yml", inventory: Path | None = INVENTORY) -> Running:
        """Start a playbook on the replica."""
        command = [str(Path(sys.executable).with_name("ansible-playbook")), playbook]
        command += ["-i", str(inventory)] if inventory else []
        return Running(
            subprocess.Popen(
                [*command, *words], cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )

    def play(self, *words: str, playbook: str = "site.yml", inventory: Path | None = INVENTORY) -> Play:
        """Run a playbook on the replica."""
        return self.begin(*words, playbook=playbook, inventory=inventory).end()

    def boot(self) -> None:
        """Start the nodes that are not running, as their switch would."""
        play = self.play(
            "-e", f"replica_nodes={len(self.nodes)}", playbook="playbooks/replica.yml", inventory=None
        )
        assert play.rc == 0, play.stdout

    def cut_power(self, name: str) -> None:
        """End a node as a power cut does: nothing in it learns of it."""
        os.kill(int((self.state / "nodes" / name / "launcher.pid").read_text()), signal.SIGKILL)

    def processes(self) -> list[int]:
        """Process ids of the nodes' launchers and of what boots them."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes()
            except OSError:  # it ended while this looked
                continue
            if f"{self.state}/nodes/".encode() in words:
                found.append(int(path.parent.name))
        return found

    def files(self, name: str) -> dict[str, tuple[int, int, int]]:
        """What a node has written since it was made: path to mode, size, time of change in ns (folders: mode)."""
        upper = self.state / "nodes" / name / "upper"
        seen = {}
        for path in upper.rglob("*"):
            told = str(path.relative_to(upper))
            if not told.startswith(VOLATILE):
                status = path.lstat()
                plain = not stat.S_ISDIR(status.st_mode)
                seen[told] = (status.st_mode, status.st_size * plain, status.st_mtime_ns * plain)
        return seen

    def wait_for_call(self, name: str, begin: str, while_running: Running) -> None:
        """Wait until a stand-in command of a node was called with words that begin so."""
        log = self.state / "nodes" / name / "upper" / CALLS.lstrip("/")
        while while_running.process.poll() is None:
            if log.exists() and re.search(f"^{re.escape(begin)}", log.read_text(), re.MULTILINE):
                return
            time.sleep(0.1)
        pytest.fail(f"{name} never called {begin}:\n{while_running.end().stdout}", pytrace=False)

    def boot_id(self, name: str) -> str:
        """Identity of the node's present boot; empty while it does not answer."""
        done = self.host(name).run("cat /proc/sys/kernel/random/boot_id")
        return str(done.stdout).strip() if done.rc == 0 else ""

    def reboot(self, name: str) -> None:
        """Reboot a node and wait until it answers with another boot id."""
        before = self.boot_id(name)
        self.host(name).run("systemctl reboot")
        end = time.monotonic() + BOOT_S
        while time.monotonic() < end:
            time.sleep(1)
            try:
                now = self.boot_id(name)
            except RuntimeError:  # testinfra's word for a host that ssh does not reach
                continue
            if now and now != before:
                return
        pytest.fail(f"{name} did not come back within {BOOT_S} s of its reboot", pytrace=False)

    def root(self, name: str) -> Path:
        """The node's root, seen from this machine."""
        folder = STATE / "nodes" / name
        return Path(
            "/proc", (folder / "launcher.pid").read_text().strip(), "root", str(folder / "root").lstrip("/")
        )


@pytest.fixture(scope="session")
def replica(request: pytest.FixtureRequest) -> Replica:
    """The replica that is there."""
    try:
        return Replica(json.loads((STATE / "replica.json").read_text()))
    except FileNotFoundError:
        sentence = "there is no replica; make it with: ansible-playbook playbooks/replica.yml"
        request.session.shouldfail = sentence
        pytest.fail(sentence, pytrace=False)
