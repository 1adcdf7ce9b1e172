"""Making the model directory: the same bytes, whole or not at all, nobody else's files touched."""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvlab.cli import kvlab
from kvlab.errors import KvlabError
from kvlab.testmodel import make as maker
from kvlab.testmodel.make import MARKER, contents, make

# A change here is another model: recorded outputs and stored KV of the old one no longer fit.
PINNED = {
    "config.json": "760c061460172b52998c5e289be883a40eb4db8a9c15ebe2108064234c9b404e",
    "generation_config.json": "85e3bfe1a3290a562f8ea1159d9575d98849d4ae26f8223437ec2bbb7996a605",
    "kvlab-model.json": "8170664e76065add4613c521ec9d5e3a24748cd2b9b789b4bd980e3e42d28aa3",
    "model.safetensors": "0ced9109f26877d5ded3b4c7ee8e2b9d8566d9f5a381e6e4830ed5aabd022c98",
    "tokenizer.json": "9664b1c293a2f5f375d54cdda365c6716f5036db991f7514a03ce497a15fd086",
    "tokenizer_config.json": "30226c4eb87f4f31cf6b7dab80911c1764bcf300f757f4e25268049134b5a927",
}


def digests(directory: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in directory.iterdir()}


def test_seed_0_gives_the_pinned_bytes_each_time(tmp_path: Path) -> None:
    assert make(tmp_path / "a")
    assert make(tmp_path / "b" / "deeper")
    assert digests(tmp_path / "a") == digests(tmp_path / "b" / "deeper") == PINNED


def test_another_seed_gives_other_weights_for_the_same_tokenizer(files: dict[str, bytes]) -> None:
    other = contents(1)
    assert {name for name in files if files[name] != other[name]} == {"model.safetensors", MARKER}


def test_a_model_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    make(tmp_path / "m")
    before = {file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in (tmp_path / "m").iterdir()}
    assert not make(tmp_path / "m")
    assert before == {
        file: (file.stat().st_ino, file.stat().st_mtime_ns) for file in (tmp_path / "m").iterdir()
    }


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_a_damaged_or_missing_file_is_mended(tmp_path: Path, name: str) -> None:
    make(tmp_path / "m")
    (tmp_path / "m" / name).write_bytes(b"cut short")
    assert make(tmp_path / "m")
    (tmp_path / "m" / name).unlink()
    assert make(tmp_path / "m")
    assert digests(tmp_path / "m") == PINNED


def test_another_seed_replaces_a_model_of_ours_and_an_empty_directory_is_filled(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    assert make(tmp_path / "m", 1)
    assert make(tmp_path / "m", 0)
    assert digests(tmp_path / "m") == PINNED
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_directory_or_file_of_someone_else_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "config.json").write_text("{}")
    with pytest.raises(
        KvlabError, match=r"holds files that kvlab did not make.*name a new or empty directory"
    ):
        make(tmp_path / "theirs")
    assert {p.name: p.read_text() for p in (tmp_path / "theirs").iterdir()} == {"config.json": "{}"}
    with pytest.raises(KvlabError, match="is not a directory"):
        make(tmp_path / "theirs" / "config.json")


@pytest.mark.parametrize("step", range(8))
def test_an_interrupted_run_leaves_the_old_model_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Steps 0-5 are the six files, 6 and 7 the two renames."""
    make(tmp_path / "m", 1)
    old = digests(tmp_path / "m")
    steps = iter(range(10))

    def interrupted(real):  # type: ignore[no-untyped-def]
        def call(*arguments):  # type: ignore[no-untyped-def]
            if next(steps) == step:
                raise KeyboardInterrupt
            return real(*arguments)

        return call

    with monkeypatch.context() as patch:
        patch.setattr(maker.os, "fsync", interrupted(maker.os.fsync))
        patch.setattr(Path, "rename", interrupted(Path.rename))
        with pytest.raises(KeyboardInterrupt):
            make(tmp_path / "m", 0)
    assert digests(tmp_path / "m") == old
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_what_a_killed_run_left_is_cleared_away_by_the_next(tmp_path: Path) -> None:
    make(tmp_path / "m", 1)
    (tmp_path / "m").rename(tmp_path / ".m.kvlab-old")
    (tmp_path / ".m.kvlab-new").mkdir()
    (tmp_path / ".m.kvlab-new" / "config.json").write_text("half")
    assert make(tmp_path / "m")
    assert digests(tmp_path / "m") == PINNED
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_full_disk_is_one_sentence_and_leaves_nothing_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(maker.os, "fsync", full)
    with pytest.raises(KvlabError, match=r"No space left on device.*free space"):
        make(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    run = CliRunner().invoke
    where = str(tmp_path / "m")
    assert run(kvlab, ["model", "make", where]).output == f"model made in {where}\n"
    assert run(kvlab, ["model", "make", where]).output == "model up to date\n"
    shown = run(kvlab, ["model", "show", where, "--json"]).output
    assert '"kv_bytes_per_token": 4096' in shown
    assert "max_position_embeddings  32768" in run(kvlab, ["model", "show", where]).output
