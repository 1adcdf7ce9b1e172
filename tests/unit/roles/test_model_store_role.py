"""The role model_store brings weights once, leaves them alone afterwards, and refuses what does not fit."""

from __future__ import annotations

import hashlib
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import role_play

from kvlab.modelstore import listing

ROOT = Path(__file__).parents[3]


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    folder = tmp_path / "origin"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(bytes(1000))
    (folder / listing.NAME).write_bytes(listing.make(folder, "m", "r1"))
    return folder


def play(
    folder: Path, variables: dict[str, Any], hosts: str = "one,two", *more: str
) -> subprocess.CompletedProcess[str]:
    """Run the role for two hosts that are this machine."""
    return role_play.run("model_store", folder, variables, hosts, *more)


def changed(output: str) -> dict[str, int]:
    return {
        host: int(number) for host, number in re.findall(r"^(\w+) +: .*changed=(\d+)", output, re.MULTILINE)
    }


def test_one_host_fills_a_shared_folder_and_a_second_run_changes_nothing(
    origin: Path, tmp_path: Path
) -> None:
    variables = {
        "model_store_dir": str(tmp_path / "model"),
        "model_store_source": str(origin),
        "model_store_sha256": hashlib.sha256((origin / listing.NAME).read_bytes()).hexdigest(),
        "model_store_shared": True,
    }
    before = play(tmp_path, variables, "one,two", "--check")
    assert before.returncode == 0, before.stdout
    assert not (tmp_path / "model").exists()
    first = play(tmp_path, variables)
    assert first.returncode == 0, first.stdout
    assert changed(first.stdout) == {"one": 1, "two": 0}
    assert (tmp_path / "model/model.safetensors").read_bytes() == bytes(1000)
    assert changed(play(tmp_path, variables).stdout) == {"one": 0, "two": 0}


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"model_store_source": "/nowhere", "model_store_make": True}, "set model_store_make to false"),
        ({"model_store_source": "https://huggingface.co/x/y"}, "public hub"),
        ({"model_store_make": False, "model_store_sha256": "0" * 64}, "make it by kvlab model list"),
    ],
)
def test_what_does_not_fit_is_a_sentence(tmp_path: Path, variables: dict[str, Any], says: str) -> None:
    done = play(tmp_path, {"model_store_dir": str(tmp_path / "model"), **variables}, "one")
    assert done.returncode != 0
    assert says in " ".join(done.stdout.split())
    assert "Traceback" not in done.stdout
    assert not (tmp_path / "model").exists()
