"""Holds the Jenkinsfile to calls of the scripts in ci/: ci/check_jenkinsfile.py. Exit 1 with a line for each complaint.

Jenkins checks a Jenkinsfile on a server only. What is in ours is so little that its steps can be read here: each must
call a script that exists and may be executed, and braces must be in pairs.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
STEP = re.compile(r"^\s*sh '([^']*)'$", re.MULTILINE)


def complaints(text: str) -> list[str]:
    """What is wrong with the text of a Jenkinsfile."""
    found = []
    code = re.sub(r"//[^\n]*|'[^'\n]*'", "", text)
    for opening, closing in ("{}", "()"):
        if code.count(opening) != code.count(closing):
            found.append(f"{code.count(opening)} {opening} and {code.count(closing)} {closing}")
    calls = STEP.findall(text)
    if len(calls) != len(re.findall(r"\bsh\b", code)):
        found.append("a step is not of the form sh '...' on a line of its own")
    for call in calls:
        program = call.split()[0] if call.split() else ""
        if not (program.startswith("ci/") and os.access(ROOT / program, os.X_OK)):
            found.append(f"sh '{call}' calls no script of ci/")
    if not calls:
        found.append("there is no step")
    return found


if __name__ == "__main__":
    found = complaints((ROOT / "Jenkinsfile").read_text("utf-8"))
    print(
        "\n".join(f"Jenkinsfile: {complaint}" for complaint in found)
        or "The Jenkinsfile calls scripts of ci/ alone"
    )
    sys.exit(bool(found))
