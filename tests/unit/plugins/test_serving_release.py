"""serving_release: links follow what is offered, all or none, and there is a way back to what served before."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., dict[str, Any]]
HASHES = {letter: letter * 12 for letter in "abcdef"}


class Place:
    """A host's two links, and the folders that they name."""

    def __init__(self, run: Run, root: Path) -> None:
        self.run, self.root = run, root
        self.links = {"venv": root / "opt/venv", "profiles": root / "etc/profiles"}
        self.record = root / "state/release.json"
        for link in self.links.values():
            link.parent.mkdir(parents=True)

    def folder(self, name: str, release: str) -> Path:
        """Where a release's folder of that name lies."""
        return self.links[name].parent / f"{name}s" / f"current-cpu-{HASHES[release]}"

    def offer(self, release: str, *names: str) -> None:
        """Build a release, and offer it."""
        for name in names or self.links:
            folder = self.folder(name, release)
            folder.mkdir(parents=True, exist_ok=True)
            age = 1_000_000 + ord(release)
            os.utime(folder, (age, age))
            link = self.links[name].with_name(self.links[name].name + ".next")
            link.unlink(missing_ok=True)
            link.symlink_to(folder)

    def __call__(self, state: str, **more: Any) -> dict[str, Any]:
        links = {name: str(link) for name, link in self.links.items()}
        return self.run("serving_release", state=state, links=links, record=str(self.record), **more)

    def release(self, letter: str) -> dict[str, Any]:
        """Offer a release, switch to it, and let it serve."""
        self.offer(letter)
        self("switched")
        return self("served")

    @property
    def now(self) -> str:
        """The letter of the release that both links name."""
        named = {str(link.readlink())[-1] for link in self.links.values()}
        assert len(named) == 1, named
        return named.pop()


@pytest.fixture
def place(run: Run, tmp_path: Path) -> Place:
    return Place(run, tmp_path)


def test_the_links_follow_what_is_offered_and_a_second_run_changes_nothing(place: Place) -> None:
    place.offer("a")
    first = place("switched")
    assert first["changed"]
    assert first["before"] == {"venv": None, "profiles": None}
    assert place.now == "a"
    assert not place("switched")["changed"]
    assert place("served")["changed"]
    assert not place("served")["changed"]


def test_what_served_before_is_gone_back_to_and_forward_again(place: Place) -> None:
    place.release("a")
    place.release("b")
    assert place("back")["changed"]
    assert place.now == "a"
    place("served")
    assert not place("switched")["changed"], "what is offered went back, too"
    place("back")
    assert place.now == "b"


def test_from_a_release_that_never_served_the_way_back_leads_to_the_last_that_did(place: Place) -> None:
    place.release("a")
    place.release("b")
    place.offer("c")
    place("switched")
    assert place.now == "c"
    place("back")
    assert place.now == "b"
    removed = place("served")["removed"]
    assert removed == [str(place.folder(name, "c")) for name in place.links], "two are kept: a and b"
    place("back")
    assert place.now == "a"


def test_without_a_former_release_the_way_back_is_refused_and_nothing_is_switched(place: Place) -> None:
    assert "no other release has served" in place("back")["msg"]
    place.release("a")
    assert "nothing to go back to" in place("back")["msg"]
    assert place.now == "a"


def test_where_a_folder_to_go_back_to_is_gone_no_link_is_switched(place: Place) -> None:
    place.release("a")
    place.release("b")
    place.folder("profiles", "a").rmdir()
    refused = place("back")
    assert refused["failed"]
    assert f"{place.folder('profiles', 'a')} is gone" in refused["msg"]
    assert place.now == "b"


def test_a_folder_in_a_links_place_is_refused_by_name(place: Place) -> None:
    place.offer("a")
    place.links["profiles"].mkdir()
    refused = place("switched")
    assert f"{place.links['profiles']} is a folder" in refused["msg"]
    assert not place.links["venv"].exists(), "none of the links was switched"


def test_a_lab_that_builds_in_place_is_left_alone(place: Place) -> None:
    for link in place.links.values():
        link.mkdir()
    assert not place("switched")["changed"]
    assert not place("served")["changed"]
    assert not place.record.exists()


def test_nothing_to_serve_with_is_told(place: Place) -> None:
    place.offer("a", "venv")
    refused = place("switched")
    assert f"There is no {place.links['profiles']} yet" in refused["msg"]


def test_old_folders_go_and_those_that_are_needed_stay(place: Place) -> None:
    for letter in "abc":
        place.release(letter)
    kept = {letter: place.folder("venv", letter).exists() for letter in "abc"}
    assert kept == {"a": False, "b": True, "c": True}
    stranger = place.folder("venv", "c").parent / "by-hand"
    stranger.mkdir()
    for letter in "de":
        place.offer(letter)
        place("switched")
    # d never served, so what served before e is c.
    place("served", keep=1)
    assert {letter for letter in "abcdef" if place.folder("profiles", letter).exists()} == {"c", "e"}
    assert stranger.exists(), "what has no hash in its name was not made by kvlab"


def test_more_are_kept_where_that_is_asked_for(place: Place) -> None:
    for letter in "abcd":
        place.offer(letter)
        place("switched")
        place("served", keep=3)
    assert {letter for letter in "abcd" if place.folder("venv", letter).exists()} == {"b", "c", "d"}


def test_check_mode_says_what_it_would_do_and_does_nothing(place: Place) -> None:
    place.release("a")
    place.offer("b")
    assert place("switched", check=True)["changed"]
    assert place.now == "a"
    place("switched")
    before = place.record.read_text()
    assert place("served", check=True)["changed"]
    assert place.record.read_text() == before
    assert place("back", check=True)["changed"]
    assert place.now == "b"
    assert "failed" not in place.run(
        "serving_release", check=True, links={"venv": str(place.root / "none")}, record=str(place.record)
    )


def test_a_damaged_record_is_told_and_not_overwritten(place: Place) -> None:
    place.release("a")
    place.record.write_text("[]")
    assert "is damaged" in place("served")["msg"]
    assert "is damaged" in place("back")["msg"]
    assert place.record.read_text() == "[]"


def test_the_record_names_folders_and_since_when(place: Place) -> None:
    place.release("a")
    place.release("b")
    record = json.loads(place.record.read_text())
    assert record["current"]["folders"]["venv"] == str(place.folder("venv", "b"))
    assert record["previous"]["folders"]["profiles"] == str(place.folder("profiles", "a"))
    assert record["current"]["since"].endswith("Z")
