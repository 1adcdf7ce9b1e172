"""Reading the access log between marks, across rotation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvlab.errors import KvlabError
from kvlab.probes import access_log


def line(key: str, bucket: str = "b") -> str:
    return json.dumps({"bucket": bucket, "key": key}) + "\n"


def keys(facts: access_log.Facts) -> list[str]:
    return [r["key"] for r in facts["requests"]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "access.jsonl"
    path.write_text(line("before"))
    return path


def append(log: Path, text: str) -> None:
    with log.open("a") as out:
        out.write(text)


def test_only_requests_after_the_mark_and_of_the_bucket_are_read(log: Path) -> None:
    mark = access_log.mark(log)
    append(log, line("a") + line("x", bucket="other") + line("b"))
    assert keys(access_log.read(log, mark, "b")) == ["a", "b"]
    assert keys(access_log.read(log, mark)) == ["a", "x", "b"]
    assert keys(access_log.read(log)) == ["before", "a", "x", "b"]


def test_a_line_that_is_still_being_written_is_left_for_the_next_reading(log: Path) -> None:
    mark = access_log.mark(log)
    append(log, line("a") + line("b")[:-5])
    assert keys(access_log.read(log, mark)) == ["a"]
    append(log, line("b")[-5:])
    assert keys(access_log.read(log, mark)) == ["a", "b"]


def test_a_log_that_was_rotated_after_the_mark_is_read_through(log: Path) -> None:
    mark = access_log.mark(log)
    append(log, line("a"))
    log.rename(log.with_name(log.name + ".1"))
    log.write_text(line("b"))
    assert keys(access_log.read(log, mark)) == ["a", "b"]


def test_a_log_that_was_rotated_twice_is_refused_since_requests_are_lost(log: Path) -> None:
    mark = access_log.mark(log)
    for _ in range(2):
        log.rename(log.with_name(log.name + ".1"))
        log.write_text(line("new"))
    with pytest.raises(KvlabError, match="repeat"):
        access_log.read(log, (mark[0] + 10**6, mark[1]))  # an inode that is neither file's


def test_no_log_says_to_bring_the_lab_up(tmp_path: Path) -> None:
    with pytest.raises(KvlabError, match=r"run \./lab up"):
        access_log.mark(tmp_path / "none")


def test_everything_from_the_emulators_log_is_simulated(log: Path) -> None:
    assert access_log.run({"access_log": str(log)})["simulated"] is True
