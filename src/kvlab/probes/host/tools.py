"""Small readers that the host probes share: a command's output, a file's text, sorted releases."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

TIMEOUT_S = 5.0
"""A whole probe has ten seconds, so no command may take them all."""

_SYSTEM_PATHS = "/usr/sbin:/sbin:/usr/bin:/bin:/usr/local/bin:/usr/local/sbin"


def said(*command: str, timeout_s: float = TIMEOUT_S) -> str | None:
    """A command's stdout; None when it is not installed, fails or does not end."""
    program = shutil.which(command[0]) or shutil.which(command[0], path=_SYSTEM_PATHS)
    if program is None:
        return None
    try:
        done = subprocess.run(
            [program, *command[1:]], capture_output=True, text=True, timeout=timeout_s, check=False,
            env={"LC_ALL": "C", "PATH": _SYSTEM_PATHS}, stdin=subprocess.DEVNULL, errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def text(path: Path) -> str | None:
    """A file's text without its last newline; None when it is not there or not for us."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None


def natural(name: str) -> list[Any]:
    """Sorting key under which 6.8.0-100 comes after 6.8.0-85."""
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.split(r"(\d+)", name)]


def root(job: Any, name: str) -> Path:
    """The folder that stands for /sys or /proc."""
    return Path(job.get(name) or {"sysfs": "/sys", "proc": "/proc"}[name])


def names(folder: Path) -> list[str]:
    """What a folder holds; nothing when there is no folder."""
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def dpkg(*patterns: str) -> dict[str, str]:
    """Installed packages of these patterns and their versions; empty where there is no dpkg."""
    listed = said("dpkg-query", "-W", "-f", "${db:Status-Status} ${Package} ${Version}\\n", *patterns) or ""
    found = {}
    for line in listed.splitlines():
        status, _, rest = line.partition(" ")
        if status == "installed":
            name, _, version = rest.partition(" ")
            found[name] = version
    return found
