"""A stack file says what its locks hold, and why for everything unusual. Needs no network."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvlab import stacks
from kvlab.errors import KvlabError
from kvlab.kvcache import knownkeys

FOLDER = Path(__file__).parents[2] / "stacks"
NAMES = stacks.known(FOLDER)
CASES = [(name, python) for name in NAMES for python in ("3.11", "3.12")]


def raw(name: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((FOLDER / f"{name}.yml").read_text())
    return values


def locked(name: str, python: str) -> dict[str, str]:
    text = stacks.load(FOLDER, name).lock(python).read_text()
    return dict(re.findall(r"^([a-z0-9._-]+)==(\S+)", text, flags=re.MULTILINE))


def test_the_three_stacks_are_there() -> None:
    assert NAMES == ["current-cpu", "dell-2026-05", "dell-fixed"]


@pytest.mark.parametrize(("name", "python"), CASES)
def test_a_lock_holds_the_named_versions_and_nothing_left_out(name: str, python: str) -> None:
    stack, lock = stacks.load(FOLDER, name), locked(name, python)
    assert python in stack.python
    for package in stack.packages.values():
        assert lock[package.distribution] == package.version
    assert not set(stack.left_out) & set(lock)
    for distribution, version in stack.overrides.items():
        assert lock[distribution] == version
    if stack.device == "cuda":
        assert lock["torch"] == stack.torch_version


@pytest.mark.parametrize(("name", "python"), CASES)
def test_every_line_of_a_lock_has_a_hash(name: str, python: str) -> None:
    text = stacks.load(FOLDER, name).lock(python).read_text()
    for entry in re.split(r"\n(?=[a-z0-9])", text.strip()):
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), entry.splitlines()[0]
    assert "://" not in text


@pytest.mark.parametrize("name", NAMES)
def test_every_override_and_everything_left_out_has_a_reason(name: str) -> None:
    values = raw(name)
    assert set(values["overrides"]) == set(values.get("overrides_why", {}))
    assert all(len(reason) > 10 for reason in values["left_out"].values())
    assert values["known_defects"]


@pytest.mark.parametrize("name", NAMES)
def test_no_stack_claims_a_gpu_run_that_nobody_made(name: str) -> None:
    assert stacks.load(FOLDER, name).proven in ("resolved", "imported", "ran-simulated")


@pytest.mark.parametrize("name", NAMES)
def test_the_linter_has_the_keys_of_the_stacks_lmcache(name: str) -> None:
    version = stacks.load(FOLDER, name).packages["lmcache"].version
    assert knownkeys.lmcache(version).version == version


def test_the_fixed_stack_takes_the_cufile_release_of_its_hosts_cuobject() -> None:
    values = raw("dell-fixed")
    assert values["overrides"]["nvidia-cufile"] == values["host"]["libcufile-13-1"] == "1.16.1.26"


def test_an_unknown_stack_is_refused_with_the_names_of_those_there_are() -> None:
    with pytest.raises(KvlabError, match="no stack named 'nope'.*current-cpu"):
        stacks.load(FOLDER, "nope")


def test_a_stack_file_that_lacks_a_field_is_refused_by_the_name_of_the_field(tmp_path: Path) -> None:
    (tmp_path / "half.yml").write_text("name: half\nsummary: x\n")
    with pytest.raises(KvlabError, match="lacks proven"):
        stacks.load(tmp_path, "half")


@pytest.mark.parametrize(
    "firmware",
    [
        [],
        {"fans": {"a": ["1"]}},
        {"bios": []},
        {"nics": {"MT_0000000838": "28.43.1014"}},
        {"gpus": {"H100": [96.0]}},
        {"gpus": {"H100": []}},
    ],
)
def test_an_accepted_list_of_another_shape_is_refused(tmp_path: Path, firmware: object) -> None:
    (tmp_path / "other.yml").write_text(yaml.safe_dump(raw("dell-fixed") | {"firmware": firmware}))
    with pytest.raises(KvlabError, match="firmware"):
        stacks.load(tmp_path, "other")


def test_an_accepted_list_is_kept_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "other.yml").write_text(
        yaml.safe_dump(raw("dell-fixed") | {"firmware": {"bios": {"X": ["1.0", "1.10"]}}})
    )
    assert stacks.load(tmp_path, "other").firmware == {"bios": {"X": ("1.0", "1.10")}}
    assert stacks.load(FOLDER, "dell-fixed").firmware == {}
