"""The integration suite without a lab: red, at once, in one sentence; never skipped."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_suite_fails_and_says_to_bring_the_lab_up(tmp_path: Path) -> None:
    report = tmp_path / "junit.xml"
    suite = ["-m", "integration", "-p", "no:cacheprovider", "tests/integration/test_nixl.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--junitxml", str(report), *suite],
        cwd=ROOT,
        env=os.environ | {"KVLAB_LAB_FILE": str(tmp_path / "lab.json")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "run ./lab up" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr
    (result,) = ET.parse(report).getroot().iter("testsuite")
    assert (result.get("errors"), result.get("skipped")) == ("1", "0")
