"""Takes the package's requirements from requirements.txt, so that no range stands in two places."""

from __future__ import annotations

import re
from pathlib import Path

from setuptools import setup

HEADING = re.compile(r"# \[(\w+)\]")


def parts(text: str) -> dict[str, list[str]]:
    """The requirements by the heading they stand under."""
    found: dict[str, list[str]] = {}
    part = ""
    for line in text.splitlines():
        if heading := HEADING.fullmatch(line):
            part = heading[1]
        requirement = line.partition("#")[0].strip()
        if part and requirement and not requirement.startswith("-"):
            found.setdefault(part, []).append(requirement)
    return found


extras = parts((Path(__file__).parent / "requirements.txt").read_text("utf-8"))
core = extras.pop("core")
del extras["test"]
setup(install_requires=core, extras_require=extras)
