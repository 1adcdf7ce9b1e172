"""docs/detection.md is what docs/detection.json says, and no drill is without an outcome in it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kvlab.drills import record
from kvlab.drills.catalogue import DRILLS

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("detection_page", ROOT / "ci" / "detection_page.py")
    assert spec
    assert spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def document(**changes: Any) -> dict[str, Any]:
    """Outcomes in which every drill is named, but for `changes` of the first."""
    outcomes = [
        {"name": one.name, "expects": one.expects, "verdict": "named", "seconds": 1.25, "simulated": True}
        for one in DRILLS.values()
    ]
    outcomes[0] |= changes
    return {"taken": "2026-12-03T07:00:00+00:00", "simulated": True, "outcomes": outcomes}


def test_the_page_is_what_the_outcomes_say(maker: ModuleType) -> None:
    found = record.read(ROOT / "docs" / "detection.json")
    assert maker.without_outcome(found) == []
    page = (ROOT / "docs" / "detection.md").read_text("utf-8")
    assert maker.page(found) == page, "run ci/detection_page.py"


def test_what_is_simulated_is_labelled_in_every_row(maker: ModuleType) -> None:
    rows = [line for line in maker.page(document()).splitlines() if line.startswith("| `")]
    assert len(rows) == len(DRILLS)
    assert all("(simulated)" in row for row in rows)


def test_a_fault_that_was_missed_says_so(maker: ModuleType) -> None:
    page = maker.page(document(verdict="missed", reason="NIXL001 is pass"))
    assert "| missed: NIXL001 is pass |" in page
    assert f"{len(DRILLS) - 1} of {len(DRILLS)} faults" in page


def test_a_drill_that_never_ran_or_expects_another_check_now_is_named(maker: ModuleType) -> None:
    found = document(expects="HOST001")
    never = found["outcomes"].pop()
    assert maker.without_outcome(found) == [found["outcomes"][0]["name"], never["name"]]
    assert "| not run |" in maker.page(found)
