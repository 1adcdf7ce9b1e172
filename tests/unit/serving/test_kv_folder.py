"""The folder of profile file: nothing of an earlier server survives in it, and nothing else is ever removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab.errors import KvlabError
from kvlab.serving import kv_folder

OLD = "obj_0_1f3a.bin"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that kvlab made, with a file of an earlier server."""
    path = tmp_path / "kv-host"
    kv_folder.fresh(path, direct_io=False, mounted=False)
    (path / OLD).write_bytes(b"old KV, perhaps of other weights")
    return path


def test_what_an_earlier_server_stored_is_gone_before_the_next_one_starts(folder: Path) -> None:
    (folder / "obj_63_00ff.bin").write_bytes(b"x")
    assert kv_folder.fresh(folder, direct_io=False, mounted=False) == 2
    assert [p.name for p in folder.iterdir()] == [kv_folder.MARK]


def test_other_files_in_the_marked_folder_are_left_alone(folder: Path) -> None:
    for name in ("notes.txt", "obj_1.bin", "obj_1_xyz0.bin"):
        (folder / name).write_text("mine")
    assert kv_folder.fresh(folder, direct_io=False, mounted=False) == 1
    assert {p.name for p in folder.iterdir()} == {kv_folder.MARK, "notes.txt", "obj_1.bin", "obj_1_xyz0.bin"}


def test_a_folder_without_the_mark_loses_nothing_even_if_its_files_look_like_lmcaches(tmp_path: Path) -> None:
    (tmp_path / OLD).write_text("mine")
    with pytest.raises(KvlabError, match="nothing was removed"):
        kv_folder.fresh(tmp_path, direct_io=False, mounted=False)
    assert (tmp_path / OLD).read_text() == "mine"


def test_a_mount_that_is_missing_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kv_folder, "ROOT", tmp_path)
    path = tmp_path / "kv-host"
    with pytest.raises(KvlabError, match="mount the storage first"):
        kv_folder.fresh(path, direct_io=False, mounted=True)
    assert not path.exists()


def test_a_parent_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(KvlabError, match=r"No such file.*parent must exist"):
        kv_folder.fresh(tmp_path / "no" / "kv", direct_io=False, mounted=False)


def test_a_file_system_without_direct_io_is_refused_with_the_way_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_direct_io(*_: object) -> int:
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(kv_folder.os, "open", no_direct_io)
    with pytest.raises(KvlabError, match="no direct I/O; use another folder, or direct_io: false"):
        kv_folder.fresh(folder, direct_io=True, mounted=False)
    assert (folder / OLD).exists()
