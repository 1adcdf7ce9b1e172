"""file_tree: what it makes, what it leaves alone, and that check mode writes nothing."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = Callable[..., dict[str, Any]]

FILES = {"env": {"content": "A=1\n", "mode": "0644"}, "secret.env": {"content": "S=x\n", "mode": "0600"}}


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def test_folders_and_files_are_made_with_their_modes_and_a_second_run_changes_nothing(
    run: Run, tmp_path: Path
) -> None:
    root = tmp_path / "profile"
    arguments = {"path": str(root), "directories": {"run": "0700", "a/b": "0755"}, "files": FILES}
    first = run("file_tree", **arguments)
    assert first["changed"]
    assert (root / "env").read_text() == "A=1\n"
    assert (mode(root / "secret.env"), mode(root / "run"), mode(root / "a/b")) == ("0o600", "0o700", "0o755")
    assert sorted(p.name for p in root.iterdir()) == ["a", "env", "run", "secret.env"]
    assert not run("file_tree", **arguments)["changed"]


def test_only_what_differs_is_written_and_shown(run: Run, tmp_path: Path) -> None:
    run("file_tree", path=str(tmp_path), files=FILES)
    kept = (tmp_path / "secret.env").stat().st_ino
    files = FILES | {"env": {"content": "A=2\n", "mode": "0644"}}
    second = run("file_tree", path=str(tmp_path), files=files)
    assert second["changed_paths"] == ["env"]
    assert [(d["before"], d["after"]) for d in second["diff"]] == [("A=1\n", "A=2\n")]
    assert (tmp_path / "secret.env").stat().st_ino == kept


def test_a_mode_that_was_opened_is_closed_again(run: Run, tmp_path: Path) -> None:
    run("file_tree", path=str(tmp_path), files=FILES)
    (tmp_path / "secret.env").chmod(0o644)
    assert run("file_tree", path=str(tmp_path), files=FILES)["changed_paths"] == ["secret.env"]
    assert mode(tmp_path / "secret.env") == "0o600"


def test_check_mode_says_what_would_change_and_writes_nothing(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "profile"
    result = run("file_tree", check=True, path=str(root), directories={"run": "0700"}, files=FILES)
    assert result["changed_paths"] == [".", "run", "env", "secret.env"]
    assert not root.exists()


def test_a_folder_that_cannot_be_written_is_one_sentence(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run("file_tree", path=str(tmp_path / "file" / "below"), files=FILES)
    assert result["failed"]
    assert "cannot be written" in result["msg"]
