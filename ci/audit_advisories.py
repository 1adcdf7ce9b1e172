"""Published advisories for the controller's requirements and for each stack's lock: ci/audit_advisories.py

The controller's ranges are resolved as of today. A package that the advisory service does not know is not thereby
safe: an index without the service's data answers "not found" for each, which pip-audit passes over with status 0.
Exit 0: every package was looked up, and none has an advisory. 3: inconclusive. 4: there are advisories.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
INCONCLUSIVE, ADVISORIES = 3, 4
TIMEOUT_S = 10


def judged(name: str, answer: Mapping[str, Any] | None, complaint: str = "") -> tuple[int, list[str]]:
    """Status and lines for one set of pins: `answer` is pip-audit's JSON, None where it gave none."""
    if answer is None:
        return INCONCLUSIVE, [f"{name}: inconclusive: the advisory service did not answer ({complaint})"]
    packages = answer["dependencies"]
    unseen = [one["name"] for one in packages if "skip_reason" in one]
    lines = [
        f"{name}: {one['name']} {one['version']}: {found['id']}"
        + (f", mended in {', '.join(found['fix_versions'])}" if found["fix_versions"] else ", not mended yet")
        for one in packages
        for found in one.get("vulns", ())
    ]
    status = ADVISORIES if lines else 0
    if unseen or not packages:
        status = status or INCONCLUSIVE
        lines.append(
            f"{name}: inconclusive: {len(unseen)} of {len(packages)} packages could not be looked up"
        )
    return status, lines or [f"{name}: no advisory for {len(packages)} packages"]


def pins(scratch: Path) -> Path:
    """The controller's requirements, resolved, without this project itself.

    Raises:
        RuntimeError: they do not resolve.
    """
    ranges, target = scratch / "requirements.in", scratch / "requirements.txt"
    lines = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    ranges.write_text("\n".join(line for line in lines if not line.startswith("-e")) + "\n", "utf-8")
    command = [
        ROOT / ".venv/bin/uv",
        "pip",
        "compile",
        "--quiet",
        "--no-header",
        "--no-annotate",
        ranges,
        "-o",
        target,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return target


def asked(file: Path) -> tuple[dict[str, Any] | None, str]:
    """pip-audit's answer about the pins of a file, or None and its last line."""
    command = ["pip-audit", "--format", "json", "--progress-spinner", "off", "--no-deps", "--disable-pip"]
    command += ["--timeout", str(TIMEOUT_S), "--requirement", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout), ""
    except ValueError:
        return None, (done.stderr.strip().splitlines() or ["it said nothing"])[-1]


def main() -> int:
    """Look everything up and tell; the worst status."""
    worst = 0
    with tempfile.TemporaryDirectory() as scratch:
        sets = {"requirements.txt": pins(Path(scratch))}
        sets |= {f"stacks/{lock.name}": lock for lock in sorted((ROOT / "stacks").glob("*.lock"))}
        for name, file in sets.items():
            status, lines = judged(name, *asked(file))
            print("\n".join(lines), flush=True)
            worst = max(worst, status)
    words = {
        0: "no advisory",
        INCONCLUSIVE: "inconclusive, not a pass: not every package could be looked up",
        ADVISORIES: "there are advisories; raise what is pinned, or say in the stack why it stays",
    }
    print(f"audit: {words[worst]} (status {worst})")
    return worst


if __name__ == "__main__":
    sys.exit(main())
