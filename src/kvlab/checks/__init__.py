"""Judges: pure functions from facts to findings. They touch no host, so recorded facts can be judged again.

`judge(facts)` runs every registered check whose id starts with one of `ids`. A finding is pass, fail or
inconclusive; facts that are missing make it inconclusive, never pass.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from typing import Any

from kvlab.checks.finding import Finding, Severity, Status
from kvlab.checks.registry import REGISTRY, Check

__all__ = ["REGISTRY", "Check", "Finding", "Severity", "Status", "judge", "not_passed"]

for _area in pkgutil.iter_modules(__path__):
    # Importing an area registers its checks; one that is only a file here can not be forgotten.
    importlib.import_module(f"{__name__}.{_area.name}")


def judge(facts: Mapping[str, Any], ids: Iterable[str] = ("",)) -> list[Finding]:
    """Findings by id. `ids` are ids or prefixes of ids ("PATH", "KV001"); the default takes all.

    `facts` maps a topic to what the probes collected for it; each check names the topic it needs. A prefix asks its
    checks about the topics that are in `facts`, and all of them where none is; an id is asked in any case. An id that
    selects nothing is a ValueError, since a mistyped id would otherwise judge nothing and look green.
    """
    chosen: dict[str, Check] = {}
    for prefix in ids:
        under = {check_id: check for check_id, check in REGISTRY.items() if check_id.startswith(prefix)}
        if not under:
            raise ValueError(f"no check has an id that starts with {prefix!r}")
        told = {check_id: check for check_id, check in under.items() if check.topic in facts}
        chosen |= told or under
    return [check.run(facts) for _, check in sorted(chosen.items())]


def not_passed(findings: Iterable[Finding]) -> list[Finding]:
    """Everything that is not green: failures and inconclusive findings alike."""
    return [f for f in findings if f.status != "pass"]
