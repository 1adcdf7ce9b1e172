"""What ci/audit calls inconclusive, and what it never calls a pass."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
judged = runpy.run_path(str(ROOT / "ci/audit_advisories.py"))["judged"]
CLEAN: dict[str, Any] = {"name": "click", "version": "8.1.0", "vulns": []}
UNKNOWN: dict[str, Any] = {"name": "inhouse", "skip_reason": "not found"}
OLD: dict[str, Any] = {
    "name": "jinja2",
    "version": "3.1.0",
    "vulns": [{"id": "CVE-2024-1", "fix_versions": ["3.1.3"]}],
}


@pytest.mark.parametrize(
    ("answer", "status", "word"),
    [
        ({"dependencies": [CLEAN]}, 0, "no advisory for 1 packages"),
        ({"dependencies": [CLEAN, UNKNOWN]}, 3, "1 of 2 packages could not be looked up"),
        ({"dependencies": []}, 3, "0 of 0"),
        (None, 3, "did not answer"),
        ({"dependencies": [OLD, UNKNOWN]}, 4, "jinja2 3.1.0: CVE-2024-1, mended in 3.1.3"),
    ],
)
def test_only_packages_that_were_all_looked_up_and_have_no_advisory_pass(
    answer: dict[str, Any] | None, status: int, word: str
) -> None:
    code, lines = judged("a.lock", answer)
    assert code == status
    assert word in "\n".join(lines)


def test_each_entry_of_the_baseline_was_looked_at_and_is_no_secret() -> None:
    baseline = json.loads((ROOT / ".secrets.baseline").read_text("utf-8"))
    entries = [entry for found in baseline["results"].values() for entry in found]
    assert entries
    assert all(entry.get("is_secret") is False for entry in entries)
