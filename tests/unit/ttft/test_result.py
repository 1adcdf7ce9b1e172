"""A result file is whole or refused with one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ttft_generator

from kvlab.errors import KvlabError
from kvlab.ttft import result as results


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "new" / "run.json"
    results.write(ttft_generator.result(starts=2, hot=2, contexts=(64, 128)), found)
    return found


def test_what_was_written_is_read_back(path: Path) -> None:
    assert results.read(path) == ttft_generator.result(starts=2, hot=2, contexts=(64, 128))
    assert path.stat().st_mode & 0o777 == 0o644
    assert [entry.name for entry in path.parent.iterdir()] == ["run.json"]


def test_a_failed_write_leaves_the_old_file_and_no_other(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(KvlabError, match=r"run.json cannot be written \(No space left on device\)"):
        results.write(ttft_generator.result(starts=1), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["run.json"]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.999])
def test_a_file_cut_short_is_called_so(path: Path, share: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(KvlabError, match=r"run.json is cut short"):
        results.read(path)


def _set(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data.__setitem__(key, value)


def _set_pass(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda data: data["passes"][0].__setitem__(key, value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (_set("schema", 2), r"has schema 2, and this kvlab reads up to 1; update kvlab"),
        (_set("schema", "x"), r"no TTFT result as kvlab writes it: Expected `int`"),
        (_set("kind", "other"), r"is no TTFT result; give a file"),
        (_set("passes", {}), r"no TTFT result as kvlab writes it"),
        (_set("colour", 1), r"unknown field `colour`"),
        (_set("environment", {"hardware.cpu": "faster"}), r"fingerprint is not that of its environment"),
        (_set_pass("ttft_first_token_s", -1.0), r"no TTFT result as kvlab writes it.*> 0"),
        (_set_pass("start", 99), r"names start 99, which is none of that profile"),
        (_set_pass("profile", "file"), r"a pass of file names start 0"),
        (_set_pass("context", 128), r"cold pass 0 of 128 tokens in start 0 is there twice"),
        (lambda data: data["starts"][1].__setitem__("number", 0), r"two starts have the same number"),
    ],
)
def test_a_file_that_is_wrong_says_what_is_wrong(
    path: Path, change: Callable[[dict[str, Any]], None], sentence: str
) -> None:
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(KvlabError, match=sentence):
        results.read(path)


@pytest.mark.parametrize("content", [b"[1, 2]", b'"text"', b"\xff\xfe{}", b"{nonsense}", b'{"kind": NaN}'])
def test_what_is_no_result_at_all_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(KvlabError, match=r"x.json is (no TTFT result|not JSON)"):
        results.read(path)


def test_a_file_that_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(KvlabError, match=r"cannot be read: No such file"):
        results.read(tmp_path / "absent.json")
    with pytest.raises(KvlabError, match=r"cannot be read: Is a directory"):
        results.read(tmp_path)


def test_the_fingerprint_ignores_what_only_describes_and_what_was_changed_on_purpose() -> None:
    base = ttft_generator.ENVIRONMENT
    newer = base | {"versions.vllm": "0.33.0", "about.host": "another"}
    assert results.fingerprint(base) == results.fingerprint(base | {"about.host": "another"})
    assert results.fingerprint(base) != results.fingerprint(newer)
    assert results.fingerprint(base, ["versions"]) == results.fingerprint(newer, ["versions"])
    assert results.fingerprint(base, ["versions.vllm"]) == results.fingerprint(newer, ["versions.vllm"])
    assert results.fingerprint(base, ["version"]) != results.fingerprint(newer, ["version"])
