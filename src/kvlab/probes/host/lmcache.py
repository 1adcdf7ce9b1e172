"""LMCache's MP server; topic `lmcache` (see checks.lmcache). Job: {"lmcache_url": "http://127.0.0.1:8080"}."""

from __future__ import annotations

import urllib.request
from typing import Any

from kvlab.probes import lmcache_mp

KNOWN = ("0.4.5", "0.4.7", "0.5.")
"""Releases whose metric names are in lmcache_mp.COUNTERS."""

FAILURES = ("failed", "error")


def collect(job: Any) -> dict[str, Any]:
    """Status, counters and counted failures."""
    url = job["lmcache_url"]
    facts = lmcache_mp.collect(url)
    failed: dict[str, float] = {}
    if facts["available"]:
        with urllib.request.urlopen(f"{url}/metrics", timeout=5) as answer:
            samples = lmcache_mp.parse(answer.read().decode())
        failed = {
            name: value
            for name, value in samples.items()
            if name.startswith("lmcache")
            and name.endswith("_total")
            and any(word in name for word in FAILURES)
        }
    # "0.5.6-g3e11e108", or a mapping in other releases.
    version = str(facts.get("version", "")).strip("\"'{} ")
    return {
        **facts,
        "known_version": any(known in version for known in KNOWN),
        "version": version,
        "failed": failed,
    }
