"""Runs are kept in a folder or a bucket, listed, forgotten, and compared by what they were measured with."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import ttft_generator
from click.testing import CliRunner
from click.testing import Result as Done

from kvlab.cli import kvlab
from kvlab.errors import KvlabError
from kvlab.ttft import history, result, selection
from kvlab.ttft.history import Bucket, Folder
from kvlab.ttft.result import Result

NOW = datetime(2026, 2, 1, tzinfo=UTC)


def night(day: int, **given: Any) -> Result:
    fields = {"starts": 3, "hot": 3, "contexts": (64, 1024), "plan": {"model": "m"}, **given}
    return ttft_generator.result(seed=day, created=f"2026-01-{day:02}T00:00:00Z", **fields)


def call(*arguments: object) -> Done:
    return CliRunner().invoke(kvlab, [str(one) for one in arguments], prog_name="kvlab")


@pytest.fixture
def in_bucket(object_store: Any, tmp_path: Path) -> Bucket:
    bucket = object_store.bucket("nights/notes.txt", "nights/deeper/x.json", "other.json", size=5)
    return Bucket(object_store.client, object_store.endpoint, bucket, "nights/", tmp_path / "mirror")


def test_runs_in_a_folder_are_listed_by_time_and_a_copy_is_no_second_run(tmp_path: Path) -> None:
    kept = Folder(tmp_path / "new")
    assert history.entries(kept) == []
    for day in (3, 1, 2, 3):
        kept.add(night(day))
    assert [one.header.id for one in history.entries(kept)] == ["run-1", "run-2", "run-3"]
    kept.remove([history.entries(kept)[0].name])
    assert [one.header.id for one in history.entries(kept)] == ["run-2", "run-3"]


def test_a_bucket_is_mirrored_and_only_what_is_new_is_fetched(
    in_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    for day in (1, 2):
        in_bucket.add(night(day))
    assert [one.header.id for one in history.entries(in_bucket)] == ["run-1", "run-2"]
    in_bucket.add(night(3))
    in_bucket.remove([history.name_of(night(1))])
    fetched: list[str] = []
    fetch = Bucket._fetch
    monkeypatch.setattr(Bucket, "_fetch", lambda self, one: fetched.append(one.key) or fetch(self, one))
    found = history.entries(in_bucket)
    assert [one.header.id for one in found] == ["run-2", "run-3"]
    assert fetched == [f"nights/{history.name_of(night(3))}"]
    assert result.read(found[1].file).passes == night(3).passes


def test_a_bucket_that_is_not_there_is_one_sentence(object_store: Any, tmp_path: Path) -> None:
    gone = Bucket(object_store.client, object_store.endpoint, "no-such-bucket", "", tmp_path / "mirror")
    with pytest.raises(KvlabError, match="has no such bucket"):
        gone.folder()
    with pytest.raises(KvlabError, match="has no such bucket"):
        gone.add(night(1))


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("s3://b", ("b", "")),
        ("s3://b/", ("b", "")),
        ("s3://b/a/c/", ("b", "a/c/")),
        ("folder/s3", None),
    ],
)
def test_a_place_is_a_bucket_with_its_prefix_or_a_folder(where: str, found: tuple[str, str] | None) -> None:
    assert history.place(where) == found


def test_half_an_address_is_one_sentence() -> None:
    with pytest.raises(KvlabError, match="names no bucket"):
        history.place("s3:/b")


def test_the_newest_of_each_environment_stay_and_what_is_too_old_goes(tmp_path: Path) -> None:
    kept = Folder(tmp_path)
    for day in range(1, 6):
        kept.add(night(day))
    kept.add(night(9, environment={"a": 1}))
    found = history.entries(kept)

    def gone(**rule: Any) -> list[str]:
        rule = {"keep": None, "older_than": None, **rule}
        return [one.header.id for one in selection.surplus(found, now=NOW, **rule)]

    assert gone(keep=2) == ["run-1", "run-2", "run-3"]
    assert gone(keep=9) == []
    assert gone(older_than=timedelta(days=28)) == ["run-1", "run-2", "run-3"]
    assert gone(keep=4, older_than=timedelta(days=28)) == ["run-1", "run-2", "run-3"]


def test_a_run_of_no_time_is_one_sentence(tmp_path: Path) -> None:
    kept = Folder(tmp_path)
    kept.add(ttft_generator.result(created="yesterday"))
    with pytest.raises(KvlabError, match="was made at no time"):
        selection.surplus(history.entries(kept), keep=None, older_than=timedelta(1), now=NOW)


def of_stack(day: int, stack: str, vllm: str, **given: Any) -> Result:
    environment = {**ttft_generator.ENVIRONMENT, "lab.stack": stack, "versions.vllm": vllm}
    return night(
        day, stack=stack, commit=f"{day}abcdef0123", environment=environment, starts=5, hot=5, **given
    )


@pytest.fixture
def two_stacks(tmp_path: Path) -> Path:
    kept = Folder(tmp_path / "history")
    kept.add(of_stack(1, "old", "0.19"))
    kept.add(of_stack(2, "new", "0.32", slower={"s3-rdma": 1.3}))
    kept.add(night(3, stack="other", environment={"hardware.cpu": "another"}))
    return kept.path


def test_two_stacks_of_a_history_are_compared(two_stacks: Path) -> None:
    slower = call("gate", "--history", two_stacks, "--by", "stack", "old", "new", "--json")
    assert slower.exit_code == 1, slower.output
    said = json.loads(slower.stdout)
    assert (said["base"], said["candidate"]) == (["run-1"], ["run-2"])
    assert said["verdict"] == "regress"
    assert said["trends"] == []
    faster = call("gate", "--history", two_stacks, "--by", "stack", "new", "old", "--json")
    assert faster.exit_code == 0, faster.output


def test_commits_may_be_short_and_what_else_changed_is_not_overlooked(two_stacks: Path) -> None:
    kept = Folder(two_stacks)
    kept.add(of_stack(4, "old", "0.19"))
    same = call("gate", "--history", two_stacks, "--by", "commit", "1abcdef", "4abcdef")
    assert same.exit_code == 0, same.output
    with pytest.raises(KvlabError, match="another environment .* in more than its commit"):
        selection.sides(history.entries(kept), "commit", "1abcdef", "2abcdef", 30)
    with pytest.raises(KvlabError, match="no run with the stack none; it has old, other, new"):
        selection.sides(history.entries(kept), "stack", "none", "old", 30)


def test_a_candidate_is_judged_against_a_history_with_its_trend(tmp_path: Path) -> None:
    kept = Folder(tmp_path / "history")
    for day in range(1, 5):
        kept.add(night(day))
    result.write(night(9), tmp_path / "tonight.json")
    found = call("gate", "--history", kept.path, tmp_path / "tonight.json")
    assert found.exit_code in (0, 3), found.output
    assert "trend of baseline: 15 of 30 starts" in found.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("a.json",), "BASE and CANDIDATE should be"),
        (("--by", "stack", "a", "b"), "name it with --history"),
        (("--history", "x", "a", "b"), "CANDIDATE alone should be"),
        (("--history", "x", "--by", "stack", "a"), "two values of stack should be"),
    ],
)
def test_what_is_to_be_compared_must_be_said(arguments: tuple[str, ...], words: str) -> None:
    done = call("gate", *arguments)
    assert isinstance(done.exception, KvlabError)
    assert words in str(done.exception)


def test_the_commands_keep_list_and_forget(
    object_store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVLAB_LAB_FILE", str(tmp_path / "none.json"))
    monkeypatch.chdir(tmp_path)
    for day in (1, 2, 3):
        result.write(night(day), tmp_path / "runs" / f"{day}.json")
    place = ["--history", f"s3://{object_store.bucket()}/nights"]
    place += ["--endpoint", object_store.endpoint, "--secrets-file", object_store.secrets_file]
    assert call("ttft", "history", "add", "runs", *place).exit_code == 0
    listed = json.loads(call("ttft", "history", "list", "--json", *place).stdout)
    assert [one["id"] for one in listed] == ["run-1", "run-2", "run-3"]
    assert listed[0]["simulated"]
    assert (
        "1 of 3 runs would be forgotten"
        in call("ttft", "history", "prune", "--keep", 2, "--dry-run", *place).output
    )
    assert "1 of 3 runs are forgotten" in call("ttft", "history", "prune", "--keep", 2, *place).output
    text = call("ttft", "history", "list", *place).output
    assert "run-1 " not in text
    assert "(simulated)" in text
    assert text.endswith("2 runs\n")
    assert call("ttft", "history", "prune", *place).exit_code == 2
    assert call("report", *place, "-o", tmp_path / "page").exit_code == 0
