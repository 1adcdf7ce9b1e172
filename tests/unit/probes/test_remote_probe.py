"""A probe on another machine, tried through a shell of this one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kvlab.errors import KvlabError
from kvlab.probes import Facts, remote


@pytest.fixture
def place(tmp_path: Path) -> str:
    file = tmp_path / "probes.zip"
    file.write_bytes(remote.archive())
    return str(file)


def run(name: str, job: Facts, place: str, timeout_s: float = 60) -> Facts:
    """As a host would: by a plain shell, in a folder without kvlab."""
    line = remote.command(name, job, sys.executable, place, timeout_s=timeout_s)
    done = subprocess.run(
        ["/bin/sh", "-c", line],
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return remote.facts(name, done.returncode, done.stdout, done.stderr, host="node1", timeout_s=timeout_s)


def test_the_facts_of_a_probe_come_back(place: str, tmp_path: Path) -> None:
    log = tmp_path / "it's a log"  # with what a shell would take for its own
    log.write_text('{"bucket": "b", "key": "k"}\n')
    found = run("access_log", {"access_log": str(log), "bucket": "b"}, place)
    assert [r["key"] for r in found["requests"]] == ["k"]
    assert found["mark"] == [log.stat().st_ino, log.stat().st_size]


def test_a_mark_reads_nothing_and_the_next_look_begins_there(place: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text('{"bucket": "b", "key": "old"}\n')
    mark = run("access_log", {"access_log": str(log), "only": "mark"}, place)["mark"]
    with log.open("a") as out:
        out.write('{"bucket": "b", "key": "new"}\n')
    found = run("access_log", {"access_log": str(log), "mark": mark}, place)
    assert [r["key"] for r in found["requests"]] == ["new"]


def test_a_mistake_names_the_host_in_one_sentence_without_a_traceback(place: str) -> None:
    with pytest.raises(KvlabError, match="access_log on node1 ended with status 2") as caught:
        run("access_log", {"access_log": "/none/log"}, place)
    assert "Traceback" not in str(caught.value)


def test_a_job_that_does_not_fit_into_a_command_is_refused() -> None:
    with pytest.raises(KvlabError, match="give it in several jobs"):
        remote.command("access_log", {"access_log": "x" * 100_000}, "python3", "/p.zip")


def test_the_same_sources_make_the_same_zip() -> None:
    assert remote.archive() == remote.archive()
