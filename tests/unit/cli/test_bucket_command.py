"""kvlab bucket says what a bucket holds, and cleans it without harm; against the emulator."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvlab.cli import kvlab
from kvlab.errors import KvlabError
from kvlab.objectscale import clean, s3
from kvlab.serving import profiles

MODEL = "Qwen_Qwen3-Coder"
KV = [f"{MODEL}_2_{rank}_{chunk:x}_bfloat16" for rank in (0, 1) for chunk in (10, 11, 12)]
CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "hidden_size": 32,
    "dtype": "bfloat16",
}
OBJECT_BYTES = 2 * 2 * 1 * 8 * 2 * 256
"""K and V, layers, KV heads of one of two ranks, head size, bf16, tokens of a chunk."""


@pytest.fixture
def call(object_store: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """`kvlab bucket ...` towards the store, with no lab around."""
    monkeypatch.setenv("KVLAB_LAB_FILE", str(tmp_path / "none.json"))

    def run(*arguments: str, answer: str | None = None, place: bool = True) -> Result:
        there = ["--endpoint", object_store.endpoint, "--secrets-file", str(object_store.secrets_file)]
        return CliRunner().invoke(
            kvlab, ["bucket", *arguments, *(there if place else [])], input=answer, prog_name="kvlab"
        )

    return run


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    return str(file)


def test_usage_counts_by_model_ranks_and_type(call: Any, object_store: Any) -> None:
    keys = [*KV, "other_1_0_ab_half", "obj_0_ab12", "obj_1_0000", "notes.txt", s3.EPOCH_KEY]
    said = json.loads(call("usage", object_store.bucket(*keys, size=5), "--json").stdout)
    assert (said["objects"], said["bytes"]) == (10, 50)
    qwen, other = said["kv"]
    assert qwen["model"] == MODEL
    assert (qwen["world_size"], qwen["dtype"], qwen["objects"], qwen["bytes"]) == (2, "bfloat16", 6, 30)
    assert qwen["ranks"] == [{"rank": rank, "objects": 3, "bytes": 15} for rank in (0, 1)]
    assert (other["model"], other["world_size"], other["dtype"], other["objects"]) == ("other", 1, "half", 1)
    assert said["slots"] == {"objects": 2, "bytes": 10}
    assert said["foreign"] == {"objects": 1, "bytes": 5, "examples": ["notes.txt"]}
    assert said["epoch_record"] is True
    assert said["simulated"] is False


def test_usage_in_words_names_every_kind(call: Any, object_store: Any) -> None:
    text = call("usage", object_store.bucket(*KV, "obj_0_ab12", "notes.txt")).stdout
    for words in (
        f"{MODEL}, TPxPP 2, bfloat16",
        "rank 1",
        "slots without names",
        "notes.txt",
        "none recorded",
    ):
        assert words in text
    assert object_store.secret_key not in text


@pytest.mark.parametrize(("missing", "end"), [(0, 0), (1, 1)])
def test_usage_is_compared_with_kvlab_size(
    call: Any, object_store: Any, config: str, missing: int, end: int
) -> None:
    bucket = object_store.bucket(*KV[missing:], size=OBJECT_BYTES)
    result = call("usage", bucket, "--expect", "800", "--config", config, "--tp", "2", "--json")
    assert result.exit_code == end
    assert json.loads(result.stdout)["expectation"] == {
        "expected": {"objects": 6, "bytes": 6 * OBJECT_BYTES},
        "found": {"objects": 6 - missing, "bytes": (6 - missing) * OBJECT_BYTES},
        "equal": not missing,
    }


def test_objects_of_the_right_number_and_the_wrong_size_differ(
    call: Any, object_store: Any, config: str
) -> None:
    bucket = object_store.bucket(*KV, size=OBJECT_BYTES // 2)
    result = call("usage", bucket, "--expect", "800", "--config", config, "--tp", "2")
    assert result.exit_code == 1
    assert "differs" in result.stdout


def test_of_slots_only_the_number_is_compared(call: Any, object_store: Any, config: str) -> None:
    bucket = object_store.bucket("obj_0_0000", "obj_1_0000", size=2 * OBJECT_BYTES)
    result = call("usage", bucket, "--expect", "512", "--config", config)
    assert result.exit_code == 0, result.stdout


def test_kv_of_other_ranks_or_type_is_not_what_was_expected(
    call: Any, object_store: Any, config: str
) -> None:
    bucket = object_store.bucket("m_4_0_ab_bfloat16", "m_2_0_ab_half", size=OBJECT_BYTES)
    result = call("usage", bucket, "--expect", "256", "--config", config, "--tp", "2", "--json")
    assert json.loads(result.stdout)["expectation"]["found"]["objects"] == 0


def test_clean_asks_and_a_no_deletes_nothing(call: Any, object_store: Any) -> None:
    bucket = object_store.bucket(*KV)
    result = call("clean", bucket, answer="n\n")
    assert result.exit_code == 1
    assert "Delete 6 objects" in result.stdout
    assert object_store.keys(bucket) == KV


def test_clean_deletes_all_and_the_epoch_record_last(call: Any, object_store: Any) -> None:
    bucket = object_store.bucket(s3.EPOCH_KEY, *KV, "notes.txt")
    result = call("clean", bucket, "--yes")
    assert result.exit_code == 0, result.output
    assert "(1 of them not LMCache's)" in result.stdout
    assert object_store.keys(bucket) == []
    deleted = [r["key"] for r in object_store.requests if r["bucket"] == bucket and r["op"] == "DeleteObject"]
    assert len(deleted) == 8
    assert deleted[-1] == s3.EPOCH_KEY


def test_clean_by_prefix_leaves_the_rest_and_the_epoch_record(call: Any, object_store: Any) -> None:
    bucket = object_store.bucket(s3.EPOCH_KEY, *KV, "other_1_0_ab_half")
    assert call("clean", bucket, "--prefix", f"{MODEL}_2_1_", "--yes").exit_code == 0
    assert object_store.keys(bucket) == [s3.EPOCH_KEY, *KV[:3], "other_1_0_ab_half"]
    call("clean", bucket, "--prefix", ".kvlab", "--yes")
    assert s3.EPOCH_KEY in object_store.keys(bucket)


def test_clean_by_age_deletes_what_is_older(call: Any, object_store: Any) -> None:
    bucket = object_store.bucket(*KV)
    assert "nothing to delete" in call("clean", bucket, "--older-than", "1h", "--yes").stdout
    now = datetime.now(UTC)
    chosen = clean.chosen(object_store.client, bucket, clean.Choice(before=now + timedelta(hours=1)))
    assert [found.key for found in chosen] == KV
    assert not list(clean.chosen(object_store.client, bucket, clean.Choice(before=now - timedelta(hours=1))))


def test_an_interrupted_clean_goes_on_when_it_is_run_again(call: Any, object_store: Any) -> None:
    keys = [f"m_1_0_{number:x}_half" for number in range(40)]
    bucket = object_store.bucket(s3.EPOCH_KEY, *keys)
    left = iter(range(10))

    def interrupt() -> None:
        if next(left, None) is None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        clean.delete(object_store.client, bucket, clean.Choice(), interrupt)
    assert s3.EPOCH_KEY in object_store.keys(bucket)
    assert call("clean", bucket, "--yes").exit_code == 0
    assert object_store.keys(bucket) == []


def test_a_bucket_in_use_is_refused(
    call: Any, object_store: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bucket = object_store.bucket(*KV)
    lab = {
        "state_dir": str(tmp_path),
        "simulated": True,
        "endpoint": object_store.endpoint,
        "secrets_file": str(object_store.secrets_file),
        "profiles": {"s3-http": {"bucket": bucket}, "s3-rdma": {"bucket": "kv-another"}},
    }
    (tmp_path / "none.json").write_text(json.dumps(lab))
    monkeypatch.setattr(profiles, "running", lambda _: "s3-http")
    result = call("clean", bucket, "--yes", place=False)
    assert isinstance(result.exception, KvlabError)
    assert "profile s3-http is running and uses bucket" in str(result.exception)
    assert object_store.keys(bucket) == KV
    monkeypatch.setattr(profiles, "running", lambda _: "s3-rdma")
    assert json.loads(call("usage", bucket, "--json", place=False).stdout)["simulated"] is True
    assert call("clean", bucket, "--yes", place=False).exit_code == 0
    assert object_store.keys(bucket) == []


def test_while_in_use_cleans_all_the_same(
    call: Any, object_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = object_store.bucket(*KV)
    monkeypatch.setattr("kvlab.cli.bucket._refuse_in_use", lambda _: pytest.fail("was asked"))
    assert call("clean", bucket, "--yes", "--while-in-use").exit_code == 0
    assert object_store.keys(bucket) == []


def test_the_environment_names_a_store_where_there_is_no_lab(
    call: Any, object_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = object_store.bucket("notes.txt")
    result = call("usage", bucket, place=False)
    assert "which store?" in str(result.exception)
    monkeypatch.setenv("AWS_ENDPOINT_URL", object_store.endpoint)
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    assert "access key and secret key are missing" in str(call("usage", bucket, place=False).exception)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", object_store.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", object_store.secret_key)
    assert call("usage", bucket, place=False).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("usage", "not-there"), "no such bucket"),
        (("clean", "not-there", "--yes"), "no such bucket"),
        (("usage", "any", "--expect", "5"), "--expect needs --config"),
    ],
)
def test_mistakes_are_sentences(call: Any, arguments: tuple[str, ...], says: str) -> None:
    result = call(*arguments)
    assert isinstance(result.exception, KvlabError)
    assert says in str(result.exception)


def test_an_age_that_is_none_is_refused(call: Any) -> None:
    result = call("clean", "any", "--older-than", "soon")
    assert result.exit_code == 2
    assert "no age such as" in result.output
