"""The environment of kvlab_tools holds what the package asks for: pip refuses a wheel whose needs are missing."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def ranges(text: str) -> dict[str, str]:
    """Version range by name."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    found = (re.fullmatch(r"([\w.-]+)(.*)", line) for line in lines if line and not line.startswith("-"))
    return {match[1]: match[2] for match in found if match}


def test_the_tools_have_the_packages_core_and_its_emulator() -> None:
    text = (ROOT / "requirements.txt").read_text("utf-8")
    parts = dict(zip(*[iter(re.split(r"^# \[(\w+)\]$", text, flags=re.MULTILINE)[1:])] * 2, strict=True))
    wanted = ranges(parts["core"]) | ranges(parts["emulator"])
    tools = ranges((ROOT / "roles/kvlab_tools/files/requirements.txt").read_text("utf-8"))
    assert len(wanted) > 8
    assert wanted.items() <= tools.items()
    # What else is in it has the controller's range.
    assert tools.items() <= ranges(text).items()
