"""An installed file is replaced only by what was asked for, and only if it is what was expected."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

OLD, NEW = b"answer = 41\n", b"answer = 42\n"
NAME = "toolbox/answer.py"


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(autouse=True)
def _no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")


@pytest.fixture
def wanted(tmp_path: Path) -> dict[str, Any]:
    """Arguments for a package of which 1.0 is installed and 1.1 lies as a wheel in a folder."""
    wheels, place = tmp_path / "wheels", tmp_path / "site" / NAME
    wheels.mkdir()
    place.parent.mkdir(parents=True)
    place.write_bytes(OLD)
    place.chmod(0o640)
    wheel = wheels / "toolbox-1.1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(NAME, NEW)
        archive.writestr(
            "toolbox-1.1.dist-info/METADATA", "Metadata-Version: 2.1\nName: toolbox\nVersion: 1.1\n"
        )
        archive.writestr("toolbox-1.1.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("toolbox-1.1.dist-info/RECORD", "")
    return {
        "path": str(place),
        "file": NAME,
        "distribution": "toolbox",
        "version": "1.1",
        "wheel_sha256": sha256(wheel.read_bytes()),
        "original_sha256": sha256(OLD),
        "sha256": sha256(NEW),
        "python": sys.executable,
        "find_links": str(wheels),
    }


def test_the_original_is_replaced_once_and_keeps_its_permissions(run: Any, wanted: dict[str, Any]) -> None:
    place = Path(wanted["path"])
    first = run("wheel_file", **wanted)
    assert first["changed"], first
    assert first["diff"] == {"before": {"sha256": sha256(OLD)}, "after": {"sha256": sha256(NEW)}}
    assert (place.read_bytes(), place.stat().st_mode & 0o777) == (NEW, 0o640)
    assert [path.name for path in place.parent.iterdir()] == ["answer.py"]
    assert run("wheel_file", **wanted)["changed"] is False


def test_a_file_that_is_already_there_needs_no_wheel(run: Any, wanted: dict[str, Any]) -> None:
    Path(wanted["path"]).write_bytes(NEW)
    result = run("wheel_file", **wanted | {"find_links": "", "python": "/nonexistent"})
    assert result["changed"] is False


@pytest.mark.parametrize("index", [True, False])
def test_no_index_is_asked_where_none_may_be(
    run: Any, wanted: dict[str, Any], tmp_path: Path, index: bool
) -> None:
    pip = tmp_path / "python"
    pip.write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/asked\nexec {sys.executable} "$@"\n')
    pip.chmod(0o755)
    assert run("wheel_file", **wanted | {"python": str(pip), "index": index})["changed"] is True
    assert ("--no-index" in (tmp_path / "asked").read_text().split()) is not index


def test_check_mode_changes_and_downloads_nothing(run: Any, wanted: dict[str, Any]) -> None:
    result = run("wheel_file", check=True, **wanted | {"find_links": "", "python": "/nonexistent"})
    assert result["changed"] is True
    assert Path(wanted["path"]).read_bytes() == OLD


@pytest.mark.parametrize("check", [False, True])
def test_a_file_that_is_neither_is_refused_and_left(run: Any, wanted: dict[str, Any], check: bool) -> None:
    Path(wanted["path"]).write_bytes(b"answer = 0\n")
    result = run("wheel_file", check=check, **wanted)
    assert result["failed"]
    assert "neither the original" in result["msg"]
    assert Path(wanted["path"]).read_bytes() == b"answer = 0\n"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"wheel_sha256": "0" * 64}, "cannot be had"),
        ({"version": "1.2"}, "cannot be had"),
        ({"file": "toolbox/other.py"}, "holds no file toolbox/other.py"),
        ({"sha256": "0" * 64}, "has sha256"),
    ],
)
def test_what_is_not_as_the_stack_says_is_refused_and_nothing_changes(
    run: Any, wanted: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    result = run("wheel_file", **wanted | changes)
    assert result["failed"]
    assert words in result["msg"]
    assert Path(wanted["path"]).read_bytes() == OLD


def test_a_package_that_is_not_installed_is_named(run: Any, wanted: dict[str, Any]) -> None:
    result = run("wheel_file", **wanted | {"path": "/nonexistent/answer.py"})
    assert "install its package first" in result["msg"]
