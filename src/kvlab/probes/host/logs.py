"""Sentences in LMCache's log that mean the cache is off or cut; topic `lmcache_log`.

Job: {"log": path}, or {"log_unit": a systemd unit, whose journal is the log}.

Lines count from the server's last start on, which its banner marks: what an earlier one said is history.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

PATTERNS = {
    "storing_only": re.compile(r"choosing to store only|storing only \d+ chunks", re.IGNORECASE),
    "storage_full": re.compile(r"Insufficient NIXL storage capacity", re.IGNORECASE),
    "no_handler": re.compile(r"No handler registered", re.IGNORECASE),
    "degraded": re.compile(r"degraded mode", re.IGNORECASE),
    "cuobject_not_connected": re.compile(r"CUObjClient failed to connect", re.IGNORECASE),
    "nixl_error": re.compile(r"NIXL_ERR_(?!IN_PROG)\w+|nixlBackendError"),
}
_BANNER = re.compile(rb"LMCache v\d")
_NONE_HASH = re.compile(r"NONE_HASH\D{0,20}([0-9a-fA-F-]{4,})")
MAX_BYTES = 64 << 20
MAX_LINES = 200_000
JOURNAL_S = 8.0
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def collect(job: Any) -> dict[str, Any]:
    """Counts and the last line of each pattern."""
    name, data = _journal(job["log_unit"]) if job.get("log_unit") else _file(Path(job["log"]))
    starts = [match.start() for match in _BANNER.finditer(data)]
    return {"file": name, **search(data[starts[-1] if starts else 0 :].decode(errors="replace"))}


def _file(path: Path) -> tuple[str, bytes]:
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - MAX_BYTES))
        return path.name, stream.read()


def _journal(unit: str) -> tuple[str, bytes]:
    """The unit's lines of this boot, the newest of them where there are very many.

    Raises:
        OSError: the journal cannot be read, or has nothing of the unit: an empty log would look like a healthy one.
    """
    command = [
        "journalctl",
        "--unit",
        unit,
        "--boot",
        "--output",
        "cat",
        "--no-pager",
        "--lines",
        str(MAX_LINES),
    ]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=JOURNAL_S)
    except subprocess.TimeoutExpired as error:
        raise OSError(f"the journal of {unit} could not be read within {JOURNAL_S:g} s") from error
    if done.returncode != 0 or _BANNER.search(done.stdout) is None:
        reason = done.stderr.decode(errors="replace").strip() or "it shows no start of LMCache in this boot"
        raise OSError(f"the journal of {unit} says nothing: {reason}")
    return unit, done.stdout[-MAX_BYTES:]


def search(log: str) -> dict[str, Any]:
    """The patterns in a log's text."""
    counts = dict.fromkeys(PATTERNS, 0)
    last = dict.fromkeys(PATTERNS, "")
    none_hash = None
    for line in log.splitlines():
        for name, pattern in PATTERNS.items():
            if pattern.search(line):
                counts[name] += 1
                last[name] = _COLOUR.sub("", line).strip()[:200]
        match = _NONE_HASH.search(line)
        none_hash = match[1] if match else none_hash
    seen = {name: {"count": counts[name], "last": last[name]} for name in PATTERNS}
    return {"seen": seen, "none_hash": none_hash}
