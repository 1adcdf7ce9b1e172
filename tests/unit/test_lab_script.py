"""The shell script `lab`: what cannot be seen when it falls back in silence."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_installer_is_asked_for_by_one_requirement_and_not_by_another_of_like_name() -> None:
    line = re.search(r"sed -n '(.*?)' requirements.txt", (ROOT / "lab").read_text())
    assert line is not None
    done = subprocess.run(
        ["sed", "-n", line[1], "requirements.txt"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"uv>=[0-9.]+,<[0-9]+\n", done.stdout)


def test_the_script_stays_short() -> None:
    assert len((ROOT / "lab").read_text().splitlines()) < 60


def test_help_names_the_two_words_that_matter() -> None:
    done = subprocess.run([ROOT / "lab", "help"], capture_output=True, text=True, check=True)
    assert "lab up" in done.stdout
    assert "lab test" in done.stdout
    assert "profile" in done.stdout
