"""The stack files and their locks say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvlab import stacks
from kvlab.errors import KvlabError

FOLDER = Path(__file__).parents[2] / "stacks"


def pins(lock: Path) -> dict[str, str]:
    """Name to version of every requirement of a lock file."""
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+) ", lock.read_text(), flags=re.MULTILINE))


@pytest.mark.parametrize("name", stacks.known(FOLDER))
def test_a_lock_pins_what_the_stack_names_by_hash_and_nothing_that_it_leaves_out(name: str) -> None:
    stack = stacks.load(FOLDER, name)
    for python in stack.python:
        lock = stack.lock(python)
        found = pins(lock)
        for package in stack.packages.values():
            assert found[package.distribution] == package.version
        assert not set(found) & set(stack.left_out)
        assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", lock.read_text())) >= len(found)


def test_an_unknown_stack_is_refused_with_the_names_of_those_there_are() -> None:
    with pytest.raises(KvlabError, match="no stack named 'nope'.*current-cpu"):
        stacks.load(FOLDER, "nope")


def test_a_stack_file_that_lacks_a_field_is_refused_by_the_name_of_the_field(tmp_path: Path) -> None:
    (tmp_path / "half.yml").write_text("name: half\nsummary: x\n")
    with pytest.raises(KvlabError, match="lacks proven"):
        stacks.load(tmp_path, "half")
