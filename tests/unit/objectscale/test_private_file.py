"""Keys and tokens are in files that only their owner can read."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from kvlab.errors import KvlabError
from kvlab.objectscale import private_file


def test_a_file_is_private_whatever_the_umask_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        private_file.write(tmp_path / "key", "content")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert private_file.read(tmp_path / "key") == "content"
    assert [p.name for p in tmp_path.iterdir()] == ["key"]


def test_a_missing_file_is_none(tmp_path: Path) -> None:
    assert private_file.read(tmp_path / "key") is None
    assert private_file.read_key(tmp_path / "key") is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o602])
def test_a_file_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "key").write_text("x")
    (tmp_path / "key").chmod(mode)
    with pytest.raises(KvlabError, match="others can reach"):
        private_file.read(tmp_path / "key")


def test_a_key_is_made_once_and_then_kept(tmp_path: Path) -> None:
    made = private_file.ensure_key(tmp_path / "key")
    assert len(made) == 40
    assert made.isalnum()
    assert private_file.ensure_key(tmp_path / "key") == made
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["key"]


def test_two_that_make_a_key_at_once_agree(tmp_path: Path) -> None:
    got: list[str] = []
    barrier = threading.Barrier(8)

    def make() -> None:
        barrier.wait()
        got.append(private_file.ensure_key(tmp_path / "key"))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert len(set(got)) == 1


def test_a_key_may_have_a_line_end_but_not_be_empty(tmp_path: Path) -> None:
    private_file.write(tmp_path / "key", "given\n")
    assert private_file.read_key(tmp_path / "key") == "given"
    private_file.write(tmp_path / "key", "\n")
    with pytest.raises(KvlabError, match="holds no key"):
        private_file.read_key(tmp_path / "key")


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(KvlabError, match="cannot be written .*correct the path"):
        private_file.write(tmp_path / "no" / "key", "x")
