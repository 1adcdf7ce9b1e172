"""Judges: pure functions from facts to findings. They touch no host, so recorded facts can be judged again.

`judge(facts)` runs every registered check whose id starts with one of `ids`. A finding is pass, fail or
inconclusive; facts that are missing make it inconclusive, never pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kvlab.checks import data, gpu, host, kv, path
from kvlab.checks.finding import Finding, Severity, Status
from kvlab.checks.registry import REGISTRY, Check

__all__ = ["REGISTRY", "Check", "Finding", "Severity", "Status", "judge", "not_passed"]

_AREAS = (data, gpu, host, kv, path)  # importing an area registers its checks


def judge(facts: Mapping[str, Any], ids: Iterable[str] = ("",)) -> list[Finding]:
    """Findings by id. `ids` are ids or prefixes of ids ("PATH", "KV001"); the default takes all.

    `facts` maps a topic to what the probes collected for it; each check names the topic it needs. An id that
    selects nothing is a ValueError, since a mistyped id would otherwise judge nothing and look green.
    """
    prefixes = tuple(ids)
    for prefix in prefixes:
        if not any(check_id.startswith(prefix) for check_id in REGISTRY):
            raise ValueError(f"no check has an id that starts with {prefix!r}")
    return [check.run(facts) for check_id, check in sorted(REGISTRY.items()) if check_id.startswith(prefixes)]


def not_passed(findings: Iterable[Finding]) -> list[Finding]:
    """Everything that is not green: failures and inconclusive findings alike."""
    return [f for f in findings if f.status != "pass"]
