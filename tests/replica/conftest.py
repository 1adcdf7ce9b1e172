"""Fixtures of the replica's suite: the nodes of playbooks/replica.yml. It fails, and never skips, without them."""

from __future__ import annotations

import json
import re
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
class Replica:
    """The nodes, and what is done with them from outside."""

    described: dict[str, Any]

    @property
    def nodes(self) -> list[str]:
        """Names of the GPU hosts."""
        return [node["name"] for node in self.described["nodes"] if node["group"] == "gpu_hosts"]

    def host(self, name: str) -> Any:
        """A node over ssh, as testinfra gives it."""
        return testinfra.get_host(f"ansible://{name}?ansible_inventory={INVENTORY}")

    def play(self, *words: str, playbook: str = "site.yml") -> Play:
        """Run a playbook on the replica."""
        command = [
            str(Path(sys.executable).with_name("ansible-playbook")),
            playbook,
            "-i",
            str(INVENTORY),
            *words,
        ]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
        return Play(done.returncode, done.stdout + done.stderr, recap(done.stdout))

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
