"""ci/junit joins what jobs left, and what failed in one of them fails the whole."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PASSED = '<testcase classname="a" name="passes"/>'
FAILED = '<testcase classname="b" name="fails"><failure message="it is broken"/></testcase>'


def joined(folder: Path, **jobs: str) -> subprocess.CompletedProcess[str]:
    for job, case in jobs.items():
        (folder / job).mkdir()
        (folder / job / f"{job}.xml").write_text(
            f'<testsuites><testsuite name="{job}">{case}</testsuite></testsuites>'
        )
    return subprocess.run([ROOT / "ci/junit", folder], capture_output=True, text=True, check=False)


def test_the_tests_of_all_jobs_stand_in_one_file(tmp_path: Path) -> None:
    done = joined(tmp_path, unit=PASSED, lab=PASSED.replace("passes", "passes too"))
    assert done.returncode == 0, done.stderr
    assert "2 passed, 0 failed" in done.stdout
    whole = (tmp_path / "junit.xml").read_text()
    assert 'name="passes"' in whole
    assert 'name="passes too"' in whole
    again = subprocess.run([ROOT / "ci/junit", tmp_path], capture_output=True, text=True, check=False)
    assert again.stdout == done.stdout, "its own file is none of the jobs'"


def test_one_that_failed_is_named_and_fails_the_whole(tmp_path: Path) -> None:
    done = joined(tmp_path, unit=PASSED, lab=FAILED)
    assert done.returncode == 1
    assert "it is broken" in done.stdout
    assert (tmp_path / "summary.txt").read_text() == done.stdout
    assert (tmp_path / "junit.xml").exists()


@pytest.mark.parametrize("folder", ["", "not-there"])
def test_nothing_to_join_is_no_success(folder: str, tmp_path: Path) -> None:
    done = subprocess.run([ROOT / "ci/junit", tmp_path / folder], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("ci/junit: ")
