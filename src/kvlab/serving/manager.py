"""What runs a lab's programs, behind one interface: supervisor in the local lab, systemd on GPU hosts.

A program is named `vllm-<profile>` or `lmcache-<profile>` with either.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

from kvlab.serving.lab import Lab

RUNNING, STARTING, BACKOFF = "RUNNING", "STARTING", "BACKOFF"


@dataclasses.dataclass(frozen=True)
class Program:
    """One program as its manager sees it: state in supervisor's words, `started` in seconds since the epoch."""

    name: str
    state: str
    pid: int
    started: int
    description: str


class Manager(Protocol):
    """What both managers can be asked."""

    def alive(self) -> bool:
        """Whether it can be asked at all."""

    def programs(self) -> list[Program]:
        """Every program of the lab."""

    def program(self, name: str) -> Program:
        """One program. Raises KvlabError when there is none of that name."""

    def start_program(self, name: str) -> bool:
        """Start a program unless it runs or is starting. Returns True when it was started."""

    def stop_program(self, name: str) -> bool:
        """Stop a program and wait until all its processes have ended. Returns True when it was running."""

    def tail(self, name: str, lines: int = 15) -> list[str]:
        """The last lines of what a program wrote."""


def tail_text(manager: Manager, name: str, lines: int = 15) -> str:
    """The last lines of a program's log, indented, behind a newline; empty when it wrote nothing."""
    found = manager.tail(name, lines)
    return "".join(f"\n    {line}" for line in ["last lines of its log:", *found]) if found else ""


def of(lab: Lab) -> Manager:
    """The manager that lab.json names (`service_manager`; labs from before that key use supervisor)."""
    from kvlab.serving.supervisor import Supervisor
    from kvlab.serving.systemd import Systemd

    if lab.data.get("service_manager", "supervisor") == "systemd":
        return Systemd(p["name"] for profile in lab.profiles.values() for p in profile["programs"])
    return Supervisor(lab.state_dir)
