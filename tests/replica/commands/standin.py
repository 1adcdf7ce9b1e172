"""What all stand-ins share: where their state lies, and the log of calls."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path


def folder() -> Path:
    """The folder with the state of all stand-ins."""
    return Path(os.environ.get("KVLAB_STANDINS", "/var/lib/kvlab-standins"))


def log_call() -> list[str]:
    """Note this call in the log; returns its arguments."""
    with (folder() / "calls.log").open("a") as log:
        log.write(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]) + "\n")
    return sys.argv[1:]


def end(status: int, complaint: str) -> None:
    """Leave as a command does that cannot do its work."""
    sys.stderr.write(complaint + "\n")
    sys.exit(status)


def carried_by(package: str) -> str:
    """What the installed stand-in package says its commands are, such as 590.48.01; empty when it is not installed."""
    note = Path(os.environ.get("KVLAB_STANDINS_ROOT", "/")) / "usr/lib/kvlab-standins" / package
    return note.read_text().strip() if note.exists() else ""
