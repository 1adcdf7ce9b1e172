"""Writes docs/detection.md from docs/detection.json, the outcomes of real drills: ci/detection_page.py [--check]

The outcomes are made in a lab that is up: kvlab drill run --all -o docs/detection.json. Exit status 1 when the page was
not as it should be, or a drill has no outcome; with --check nothing is written.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvlab.drills import record
from kvlab.drills.catalogue import DRILLS
from kvlab.drills.drill import Drill

DOCS = Path(__file__).parents[1] / "docs"
OUTCOMES, PAGE = DOCS / "detection.json", DOCS / "detection.md"
HEAD = """# Detection

<!-- from docs/detection.json by ci/detection_page.py -->
Each drill breaks one thing and passes only if the named check passed before, failed while it was broken, and passed
again afterwards ([how](how-to/drill.md)). Kinds: `lab` breaks the lab that is up, `scratch` runs the real software on
something of its own, `facts` changes facts or a log of the healthy lab, for what this machine cannot have, or only by a
start of vLLM. Seconds are from the fault to its name, on two cores with ten other programs busy: most of them are the
starts of NIXL and LMCache.

"""


def page(found: Mapping[str, Any]) -> str:
    """The page for a document of outcomes; a drill that is not in it stands there as not run."""
    outcomes = {one["name"]: one for one in found["outcomes"]}
    named = sum(one["verdict"] == "named" for one in outcomes.values())
    label = " All results are **simulated**: no GPU, no RDMA NIC, no array." if found["simulated"] else ""
    lines = [
        f"{named} of {len(DRILLS)} faults were named by the right check on {found['taken'][:10]}.{label}",
        "",
    ]
    lines += [
        "| drill | fault | kind | how it is staged | where the fault comes from | noticed by | seconds |"
    ]
    lines += ["|---" * 7 + "|"]
    lines += [_row(drill, outcomes.get(drill.name)) for drill in DRILLS.values()]
    return HEAD + "\n".join(lines) + "\n"


def _row(drill: Drill, outcome: Mapping[str, Any] | None) -> str:
    if outcome is None:
        noticed, seconds = "not run", ""
    elif outcome["verdict"] == "named":
        noticed, seconds = (
            f"{outcome['expects']}{' (simulated)' * outcome['simulated']}",
            f"{outcome['seconds']:.1f}",
        )
    else:
        noticed, seconds = f"{outcome['verdict']}: {outcome['reason']}", ""
    cells = (
        f"`{drill.name}`",
        drill.breaks,
        drill.kind,
        drill.staged,
        f"{drill.origin}: {drill.reference}",
        noticed,
        seconds,
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def without_outcome(found: Mapping[str, Any]) -> list[str]:
    """Drills that were never run, or expect another check than they did then."""
    expected = {one["name"]: one["expects"] for one in found["outcomes"]}
    return [drill.name for drill in DRILLS.values() if expected.get(drill.name) != drill.expects]


def main(check: bool) -> int:
    """Write or compare the page; 1 if it was not as it should be."""
    found = record.read(OUTCOMES)
    missing = without_outcome(found)
    if missing:
        print(
            f"no outcome of {', '.join(missing)}; in a lab that is up run kvlab drill run --all -o {OUTCOMES}"
        )
    new = page(found)
    old = PAGE.read_text("utf-8") if PAGE.exists() else ""
    if check and old != new:
        print(
            "docs/detection.md is not what docs/detection.json says; run .venv/bin/python ci/detection_page.py"
        )
    elif old != new:
        PAGE.write_text(new, "utf-8")
    return int(bool(missing) or old != new)


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
