"""Weights come whole or not at all, go on where they ended, and are those of the list."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from weights_server import Server

from kvlab.errors import KvlabError
from kvlab.modelstore import fetch, listing, sources

WEIGHTS = bytes(range(256)) * 4096  # a mebibyte


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(sources, "CHUNK", 65536)


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    """A model directory with its list."""
    folder = tmp_path / "origin"
    (folder / "extra").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model-00001.safetensors").write_bytes(WEIGHTS)
    (folder / "extra/a file.txt").write_text("text")
    (folder / ".cache").write_text("not of the model")
    (folder / listing.NAME).write_bytes(listing.make(folder, "org/model", "abc123"))
    return folder


@pytest.fixture
def server(origin: Path) -> Iterator[Server]:
    running = Server(origin)
    yield running
    running.stop()


def bring(source: sources.Source, folder: Path) -> fetch.Done:
    """All that a run does."""
    found = listing.read(fetch.listing_of(source), "the source")
    done = fetch.fetch(source, found, folder, fetch.missing(found, folder))
    fetch.remember(found, folder)
    return done


def same(folder: Path, origin: Path) -> bool:
    names = ("config.json", "model-00001.safetensors", "extra/a file.txt")
    there = {path.name for path in folder.rglob("*") if path.is_file()}
    assert there == {"config.json", "model-00001.safetensors", "a file.txt", fetch.MARK}
    return all((folder / name).read_bytes() == (origin / name).read_bytes() for name in names)


def test_the_list_holds_size_and_hash_of_all_but_hidden_files(origin: Path) -> None:
    found = listing.read((origin / listing.NAME).read_bytes(), "x")
    assert (found.model, found.revision) == ("org/model", "abc123")
    assert set(found.files) == {"config.json", "model-00001.safetensors", "extra/a file.txt"}
    assert found.files["model-00001.safetensors"] == listing.File(
        len(WEIGHTS), hashlib.sha256(WEIGHTS).hexdigest()
    )


def test_a_folder_and_a_web_server_give_the_same_and_a_second_run_brings_nothing(
    origin: Path, server: Server, tmp_path: Path
) -> None:
    for number, source in enumerate((sources.named(str(origin)), sources.named(f"{server.url}/"))):
        folder = tmp_path / f"to{number}"
        assert len(bring(source, folder).files) == 3
        assert same(folder, origin)
        assert bring(source, folder) == fetch.Done([], 0)


def test_what_came_before_an_interruption_is_not_asked_for_again(
    server: Server, origin: Path, tmp_path: Path
) -> None:
    server.cut, server.times = 100_000, 2
    done = bring(sources.named(server.url), tmp_path / "to")
    assert same(tmp_path / "to", origin)
    ranges = [wanted for name, wanted in server.asked if name.endswith(".safetensors")]
    assert ranges == ["", "bytes=100000-", "bytes=200000-"]
    assert done.bytes == sum(
        one.bytes for one in listing.read((origin / listing.NAME).read_bytes(), "x").files.values()
    )


def test_another_run_goes_on_with_what_one_that_gave_up_has_left(
    server: Server, origin: Path, tmp_path: Path
) -> None:
    found = listing.read((origin / listing.NAME).read_bytes(), "x")
    name = "model-00001.safetensors"
    server.cut, server.times, server.breaks_after = 300_000, 1, 1
    with pytest.raises(KvlabError, match="answers 503; 5 attempts brought nothing. Run again: what has come"):
        fetch.fetch(sources.named(server.url), found, tmp_path / "to", [name])
    assert not (tmp_path / "to" / name).exists()
    server.broken = 0
    server.asked.clear()
    done = fetch.fetch(sources.named(server.url), found, tmp_path / "to", [name])
    assert done.bytes == len(WEIGHTS) - 300_000
    assert server.asked == [(name, "bytes=300000-")]


def test_a_server_without_ranges_begins_again_and_is_right(
    server: Server, origin: Path, tmp_path: Path
) -> None:
    server.ranges = False
    server.cut, server.times = 100_000, 1
    bring(sources.named(server.url), tmp_path / "to")
    assert same(tmp_path / "to", origin)


def test_a_beginning_of_another_revision_is_thrown_away(server: Server, origin: Path, tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / f"to/.model-00001.safetensors{fetch.PART}").write_bytes(b"x" * 5000)
    bring(sources.named(server.url), tmp_path / "to")
    assert same(tmp_path / "to", origin)


def test_a_damaged_source_is_named_and_nothing_stands_under_its_name(origin: Path, tmp_path: Path) -> None:
    (origin / "model-00001.safetensors").write_bytes(WEIGHTS[:-1] + b"x")
    with pytest.raises(KvlabError, match="model-00001.safetensors has sha256 .* damaged or was changed"):
        bring(sources.named(str(origin)), tmp_path / "to")
    assert not list((tmp_path / "to").rglob("*model-00001*"))


def test_a_source_that_ends_early_each_time_is_given_up_on(origin: Path, tmp_path: Path) -> None:
    (origin / "model-00001.safetensors").write_bytes(WEIGHTS[:1000])
    with pytest.raises(KvlabError, match=f"ends after 1000 of {len(WEIGHTS)} bytes; 5 attempts"):
        bring(sources.named(str(origin)), tmp_path / "to")


def test_a_server_that_comes_back_is_waited_for_and_one_that_does_not_is_named(
    server: Server, tmp_path: Path
) -> None:
    server.broken = 3
    assert fetch.listing_of(sources.named(server.url))
    server.broken = 99
    with pytest.raises(KvlabError, match=r"kvlab-model.json answers 503; 5 attempts"):
        fetch.listing_of(sources.named(server.url))


def test_a_file_that_the_source_lacks_is_named_at_once(server: Server, origin: Path, tmp_path: Path) -> None:
    (origin / "config.json").unlink()
    with pytest.raises(KvlabError, match="config.json answers 404"):
        bring(sources.named(server.url), tmp_path / "to")


def test_a_changed_file_is_found_by_its_time_or_by_hashing(origin: Path, tmp_path: Path) -> None:
    folder = tmp_path / "to"
    bring(sources.named(str(origin)), folder)
    found = listing.read((origin / listing.NAME).read_bytes(), "x")
    file = folder / "model-00001.safetensors"
    before = file.stat()
    file.write_bytes(WEIGHTS[:-1] + b"x")
    assert fetch.missing(found, folder) == ["model-00001.safetensors"]
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert fetch.missing(found, folder) == []
    assert fetch.missing(found, folder, hashed=True) == ["model-00001.safetensors"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda v: v["files"].update({"../x": {"bytes": 1, "sha256": "0" * 64}}), "no plain path"),
        (lambda v: v["files"].update({"/etc/x": {"bytes": 1, "sha256": "0" * 64}}), "no plain path"),
        (lambda v: v["files"].update({".hidden": {"bytes": 1, "sha256": "0" * 64}}), "no plain path"),
        (lambda v: v["files"].update({"x": {"bytes": 1, "sha256": "0"}}), "no size or no sha256"),
        (lambda v: v["files"].update({"x": {"bytes": -1, "sha256": "0" * 64}}), "no size or no sha256"),
        (lambda v: v.update(files={}), "lists no file"),
        (lambda v: v.pop("revision"), "is not what kvlab model list writes"),
        (lambda v: v.update(files=[1]), "is not what kvlab model list writes"),
    ],
)
def test_a_list_that_is_none_is_refused(origin: Path, change: object, says: str) -> None:
    values = json.loads((origin / listing.NAME).read_bytes())
    change(values)  # type: ignore[operator]
    with pytest.raises(KvlabError, match=says):
        listing.read(json.dumps(values).encode(), "the source")


def test_the_list_of_another_revision_is_refused(origin: Path) -> None:
    content = (origin / listing.NAME).read_bytes()
    assert listing.read(content, "x", hashlib.sha256(content).hexdigest()).revision == "abc123"
    with pytest.raises(KvlabError, match="it lists another revision"):
        listing.read(content + b" ", "x", hashlib.sha256(content).hexdigest())


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("https://huggingface.co/Qwen/Qwen3", "public hub"),
        ("https://cdn-lfs.hf.co/x", "public hub"),
        ("s3://bucket/prefix", "needs an endpoint"),
        ("s3:///prefix", "names no source"),
        ("models/here", "names no source"),
        ("ftp://mirror.example.invalid/x", "names no source"),
        ("", "names no source"),
    ],
)
def test_what_is_no_source_is_one_sentence(place: str, says: str) -> None:
    with pytest.raises(KvlabError, match=says):
        sources.named(place)
