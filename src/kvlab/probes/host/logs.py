"""Sentences in LMCache's log that mean the cache is off or cut; topic `lmcache_log`. Job: {"log": path}.

Lines count from the server's last start on, which its banner marks: what an earlier one said is history.
"""

from __future__ import annotations

import re
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
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def collect(job: Any) -> dict[str, Any]:
    """Counts and the last line of each pattern."""
    path = Path(job["log"])
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - MAX_BYTES))
        data = stream.read()
    starts = [match.start() for match in _BANNER.finditer(data)]
    return {"file": path.name, **search(data[starts[-1] if starts else 0 :].decode(errors="replace"))}


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
