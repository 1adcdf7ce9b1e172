"""The lab's programs as systemd units: `vllm-s3-rdma` is kvlab-vllm@s3-rdma.service."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Mapping

from kvlab.errors import KvlabError
from kvlab.serving.manager import BACKOFF, RUNNING, STARTING, Program

_STATES: Mapping[str, str] = {
    "active": RUNNING, "reloading": RUNNING, "activating": STARTING, "deactivating": "STOPPING", "failed": "FATAL",
    "inactive": "STOPPED",
}  # fmt: skip
_PROPERTIES = (
    "Id", "LoadState", "ActiveState", "SubState", "MainPID", "Result", "ConditionResult", "ConditionTimestampMonotonic",
    "ExecMainStartTimestampMonotonic", "NRestarts",
)  # fmt: skip
_CALL_S = 120
"""Stopping is the longest call; the units are killed after TimeoutStopSec, 30 s."""


def unit_of(name: str) -> str:
    """The unit of a program: kind and profile are parted by the first dash."""
    kind, _, profile = name.partition("-")
    return f"kvlab-{kind}@{profile}.service"


def parse(text: str, names: Mapping[str, str]) -> list[Program]:
    """`systemctl show` of several units (blocks of KEY=VALUE, parted by blank lines) as programs.

    `names` gives the program of each unit. A unit that auto-restarts is in BACKOFF; one that was never written
    (LoadState not-found) is left out.
    """
    found = []
    for block in text.strip().split("\n\n"):
        facts = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        name = names.get(facts.get("Id", ""))
        if name is None or facts.get("LoadState") != "loaded":
            continue
        state = (
            BACKOFF if facts["SubState"] == "auto-restart" else _STATES.get(facts["ActiveState"], "UNKNOWN")
        )
        found.append(Program(name, state, int(facts["MainPID"]), _epoch(facts), _description(facts)))
    return found


def _epoch(facts: Mapping[str, str]) -> int:
    since_boot = int(facts.get("ExecMainStartTimestampMonotonic") or 0) / 1e6
    return round(time.time() - time.monotonic() + since_boot) if since_boot else 0


def _description(facts: Mapping[str, str]) -> str:
    # ConditionResult is "no" as well where no start was tried yet.
    if facts.get("ConditionResult") == "no" and facts.get("ConditionTimestampMonotonic", "0") != "0":
        return "skipped: a condition of its unit does not hold, such as a GPU driver that is not loaded"
    return f"{facts['ActiveState']}, {facts['SubState']}, result {facts['Result']}, {facts['NRestarts']} restarts"


class Systemd:
    """The programs named, each of which has a unit. `systemctl` is the command, another one in tests."""

    def __init__(
        self, names: Iterable[str], systemctl: str = "systemctl", journalctl: str = "journalctl"
    ) -> None:
        self._units = {unit_of(name): name for name in names}
        self._systemctl, self._journalctl = systemctl, journalctl

    def _call(self, *arguments: str) -> str:
        try:
            done = subprocess.run(
                [self._systemctl, *arguments], capture_output=True, text=True, check=False, timeout=_CALL_S,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except FileNotFoundError as error:
            raise KvlabError(
                f"{self._systemctl} is not on this host, though its lab says that systemd runs the programs; "
                "run this on the GPU host itself"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise KvlabError(
                f"systemctl {' '.join(arguments)} did not end within {_CALL_S} s; look at `systemctl list-jobs`"
            ) from error
        if done.returncode:
            raise KvlabError(f"systemctl {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout

    def alive(self) -> bool:
        """Whether systemd answers."""
        try:
            self._call("show", "--property=Version")
        except KvlabError:
            return False
        return True

    def programs(self) -> list[Program]:
        """Every program whose unit is installed."""
        text = self._call("show", "--property=" + ",".join(_PROPERTIES), *self._units) if self._units else ""
        return parse(text, self._units)

    def program(self, name: str) -> Program:
        """One program. Raises KvlabError when systemd does not know its unit."""
        for program in self.programs():
            if program.name == name:
                return program
        raise KvlabError(f"there is no unit {unit_of(name)} on this host; run site.yml with --tags serving")

    def start_program(self, name: str) -> bool:
        """Start a unit unless it runs or is starting. Returns True when it was started; waits for nothing."""
        if self.program(name).state in (RUNNING, STARTING):
            return False
        # A unit that hit its start limit is refused until that is forgotten.
        self._call("reset-failed", unit_of(name))
        self._call("start", "--no-block", unit_of(name))
        return True

    def stop_program(self, name: str) -> bool:
        """Stop a unit and wait until its control group is empty. Returns True when it was running."""
        if self.program(name).state not in (RUNNING, STARTING, BACKOFF):
            return False
        self._call("stop", unit_of(name))
        return True

    def tail(self, name: str, lines: int = 15) -> list[str]:
        """The last lines of the unit's journal."""
        try:
            done = subprocess.run(
                [self._journalctl, "--unit", unit_of(name), "--lines", str(lines), "--output", "cat", "--no-pager"],
                capture_output=True, text=True, check=False, timeout=_CALL_S,
            )  # fmt: skip
        except (FileNotFoundError, subprocess.TimeoutExpired):
            return []
        return done.stdout.splitlines()[-lines:]
