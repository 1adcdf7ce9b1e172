"""The module brings weights from a folder and from a bucket of the emulated store, and the command lists them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kvlab.cli.model import command
from kvlab.modelstore import fetch

WEIGHTS = bytes(range(256)) * 4096


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(WEIGHTS)
    return folder


@pytest.fixture
def sha256(origin: Path) -> str:
    """What `kvlab model list` prints."""
    result = CliRunner().invoke(command, ["list", str(origin), "--model", "m", "--revision", "r1"])
    assert result.exit_code == 0, result.output
    printed = result.output.strip()
    assert printed == hashlib.sha256((origin / "kvlab-model.json").read_bytes()).hexdigest()
    return printed


def test_check_mode_writes_nothing_then_it_comes_once(
    run: Any, origin: Path, sha256: str, tmp_path: Path
) -> None:
    given = {"path": str(tmp_path / "to"), "source": str(origin), "sha256": sha256}
    told = run("model_weights", check=True, **given)
    assert (told["changed"], told["files"]) == (True, ["config.json", "model.safetensors"]), told
    assert not (tmp_path / "to").exists()
    first = run("model_weights", **given)
    assert (first["changed"], first["revision"], first["bytes"]) == (True, "r1", len(WEIGHTS) + 2)
    again = run("model_weights", **given)
    assert (again["changed"], again["files"], again["bytes"]) == (False, [], 0)
    # Without a source it only compares, and says what is not right.
    assert run("model_weights", path=given["path"], sha256=sha256)["changed"] is False
    (tmp_path / "to/model.safetensors").write_bytes(b"other")
    refused = run("model_weights", path=given["path"], sha256=sha256)
    assert refused["failed"]
    assert "is not revision r1: missing or different are model.safetensors" in refused["msg"]


def test_a_bucket_gives_the_rest_of_what_is_there_by_range(
    run: Any, origin: Path, sha256: str, tmp_path: Path, object_store: Any
) -> None:
    bucket = object_store.bucket()
    for file in origin.iterdir():
        object_store.client.put_object(Bucket=bucket, Key=f"models/m/{file.name}", Body=file.read_bytes())
    (tmp_path / "to").mkdir()
    (tmp_path / f"to/.model.safetensors{fetch.PART}").write_bytes(WEIGHTS[:700_000])
    access = {
        **object_store.access,
        "path": str(tmp_path / "to"),
        "source": f"s3://{bucket}/models/m",
        "sha256": sha256,
    }
    result = run("model_weights", **access)
    assert result.get("changed") is True, result
    assert result["bytes"] == len(WEIGHTS) - 700_000 + 2
    assert (tmp_path / "to/model.safetensors").read_bytes() == WEIGHTS
    assert run("model_weights", **access)["changed"] is False


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"secret_key": "wrong"}, "SignatureDoesNotMatch"),
        ({"source": "s3://no-such-bucket/m"}, "NoSuchBucket"),
        ({"endpoint": ""}, "needs an endpoint"),
        ({"sha256": "0" * 64}, "lists another revision"),
    ],
)
def test_a_bucket_that_cannot_be_used_is_one_sentence(
    run: Any, origin: Path, sha256: str, tmp_path: Path, object_store: Any, change: dict[str, str], says: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(fetch.time, "sleep", lambda _seconds: None)
    bucket = object_store.bucket()
    for file in origin.iterdir():
        object_store.client.put_object(Bucket=bucket, Key=file.name, Body=file.read_bytes())
    access = {
        **object_store.access,
        "path": str(tmp_path / "to"),
        "source": f"s3://{bucket}",
        "sha256": sha256,
    }
    result = run("model_weights", **access | change)
    assert result["failed"]
    assert says in result["msg"]
    assert object_store.secret_key not in result["msg"]


def test_a_folder_without_a_list_is_one_sentence(run: Any, tmp_path: Path) -> None:
    result = run("model_weights", path=str(tmp_path))
    assert result["failed"]
    assert "make it by kvlab model list, or name a source" in result["msg"]
