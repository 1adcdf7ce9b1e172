"""The outcomes of drills in words and in a file.

{"kind": "kvlab-drills", "schema": 1, "taken": time, "simulated": bool, "outcomes": [Outcome.as_json(), ...]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvlab.doctor.collect import now
from kvlab.drills.drill import Outcome
from kvlab.errors import KvlabError

KIND, SCHEMA = "kvlab-drills", 1


def document(simulated: bool, outcomes: Sequence[Outcome], folder: Path | None = None) -> dict[str, Any]:
    """The outcomes as they stand in a file; paths under `folder` are given from there."""
    found = [outcome.as_json() for outcome in outcomes]
    if folder:
        for one in found:
            one["evidence"] = [line.replace(f"{folder}/", "") for line in one["evidence"]]
            one["reason"] = one["reason"].replace(f"{folder}/", "")
    return {"kind": KIND, "schema": SCHEMA, "taken": now(), "simulated": simulated, "outcomes": found}


def joined(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """`new`, and the outcomes in `old` of drills that did not run again; simulated if any of them is."""
    again = {one["name"] for one in new["outcomes"]}
    kept = [one for one in old["outcomes"] if one["name"] not in again]
    return {**new, "simulated": old["simulated"] or new["simulated"], "outcomes": [*kept, *new["outcomes"]]}


def line(outcome: Outcome) -> str:
    """One outcome in a line."""
    took = f" in {outcome.seconds:.1f} s" if outcome.seconds is not None else ""
    reason = f": {outcome.reason}" if outcome.reason else ""
    return f"{outcome.name} ({outcome.kind}): {outcome.verdict}, {outcome.expects}{took}{reason}"


def summary(outcomes: Sequence[Outcome], *, simulated: bool) -> str:
    """Every outcome, then the count; what did not pass comes last, where it is seen."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.verdict != "named")
    named = sum(outcome.verdict == "named" for outcome in outcomes)
    label = " (simulated)" if simulated else ""
    return "\n".join(
        [*map(line, ordered), f"{named} of {len(outcomes)} drills named by the right check{label}"]
    )


def write(found: Mapping[str, Any], path: Path) -> None:
    """Write the document. Raises KvlabError when the file cannot be written."""
    try:
        path.write_text(json.dumps(found, indent=1) + "\n")
    except OSError as error:
        raise KvlabError(f"{path} cannot be written: {error.strerror}.") from error


def read(path: Path) -> dict[str, Any]:
    """A document that was written. Raises KvlabError when it is none of this schema."""
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise KvlabError(f"{path} cannot be read ({error}); make it by kvlab drill run --all -o.") from None
    if not isinstance(found, dict) or (found.get("kind"), found.get("schema")) != (KIND, SCHEMA):
        raise KvlabError(
            f"{path} is no result of drills of schema {SCHEMA}; make it by kvlab drill run --all -o."
        )
    return found
