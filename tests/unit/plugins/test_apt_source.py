"""apt_source: one repository with its own key, tried before it stays; on signed repositories of one package."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kvlab.lab.plugins.module_utils import apt_sources

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nnothing\n-----END PGP PUBLIC KEY BLOCK-----\n"


@pytest.fixture
def arguments(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "apt/sources.list.d").mkdir(parents=True)
    (tmp_path / "key.asc").write_text(KEY)
    return {
        "name": "kvlab-cuda",
        "uri": f"file:{tmp_path}/nowhere/",
        "key_url": f"file://{tmp_path}/key.asc",
        "apt_folder": str(tmp_path / "apt"),
        "keyring_folder": str(tmp_path / "keyrings"),
    }


def test_check_mode_writes_nothing(run: Any, arguments: dict[str, Any], tmp_path: Path) -> None:
    result = run("apt_source", check=True, **arguments)
    assert result["changed"]
    assert not list((tmp_path / "apt/sources.list.d").iterdir())


def test_a_key_with_another_sum_is_refused(run: Any, arguments: dict[str, Any]) -> None:
    result = run("apt_source", key_sha256="0" * 64, **arguments)
    assert result["failed"]
    assert "ask the vendor which is right" in result["msg"]


def test_what_is_no_key_is_refused(run: Any, arguments: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "key.asc").write_text("<html>Please log in</html>")
    assert "no armored key" in run("apt_source", **arguments)["msg"]


def test_a_second_entry_for_the_repository_is_refused(
    run: Any, arguments: dict[str, Any], tmp_path: Path
) -> None:
    rival = tmp_path / "apt/sources.list.d/cuda.list"
    rival.write_text(f"deb [signed-by=/x.gpg] {arguments['uri'].rstrip('/')} /\n")
    result = run("apt_source", **arguments)
    assert str(rival) in result["msg"]
    result = run("apt_source", check=True, replaces=[f"{rival.parent}/cuda*.list"], **arguments)
    assert result["removed"] == [str(rival)]


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt")
def test_a_repository_that_apt_does_not_take_goes_again(
    run: Any, arguments: dict[str, Any], tmp_path: Path
) -> None:
    result = run("apt_source", **arguments)
    assert result["failed"]
    assert "there is no repository at that address" in result["msg"]
    assert not list((tmp_path / "apt/sources.list.d").iterdir())
    assert not list((tmp_path / "keyrings").iterdir())


def test_addresses_are_read_from_both_formats() -> None:
    assert apt_sources.uris(
        "a.list", "deb [arch=amd64] https://x.invalid/r/ /\n# deb https://y.invalid /\n"
    ) == {"https://x.invalid/r"}
    assert apt_sources.uris(
        "a.sources", "Types: deb\nURIs: https://x.invalid/r/\n\nEnabled: no\nURIs: https://y\n"
    ) == {"https://x.invalid/r"}


@pytest.mark.parametrize(
    ("complaint", "words"),
    [
        (
            "E: Conflicting values set for option Signed-By regarding source https://x/ /",
            "another source file",
        ),
        ("Err:1 https://x InRelease\n  NO_PUBKEY A024F6F0E0E6D6A281", "not of the key given"),
        ("E: Something new", "apt does not take it"),
    ],
)
def test_apts_complaint_is_put_into_words(complaint: str, words: str) -> None:
    assert words in apt_sources.meaning(complaint)
