"""The launcher: environment and secrets reach the program, its arguments hold none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SHOW = '#!/bin/sh\necho "args: $*"\nenv\n'


def test_a_program_gets_the_secret_by_environment_and_never_by_argument(tmp_path: Path) -> None:
    (tmp_path / "profile.json").write_text("{}")
    (tmp_path / "env").write_text("# settings\nPYTHONHASHSEED=0\n\nPAIR=a=b\n")
    (tmp_path / "secret.env").write_text("AWS_SECRET_ACCESS_KEY=hidden-word\n")
    (tmp_path / "vllm.args").write_text(json.dumps(["-m", "server", "--port", "1"]))
    python = tmp_path / "python"
    python.write_text(SHOW)
    python.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "kvlab.serving.launch", str(tmp_path), "vllm", str(python)],
        capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    args, _, env = done.stdout.partition("\n")
    assert args == "args: -m server --port 1"
    assert {"PYTHONHASHSEED=0", "PAIR=a=b", "AWS_SECRET_ACCESS_KEY=hidden-word"} <= set(env.splitlines())


def test_lmcache_is_not_started_on_a_store_that_is_down_and_the_sentence_says_so(tmp_path: Path) -> None:
    profile = {"endpoint": "http://127.0.0.1:9", "bucket": "b", "shm_name": "kvlab-test-none"}
    (tmp_path / "profile.json").write_text(json.dumps(profile))
    (tmp_path / "env").write_text("")
    (tmp_path / "secret.env").write_text("AWS_ACCESS_KEY_ID=k\nAWS_SECRET_ACCESS_KEY=s\n")
    done = subprocess.run(
        [sys.executable, "-m", "kvlab.serving.launch", str(tmp_path), "lmcache", "/bin/true"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "nothing answers at http://127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


FILE_PROFILE = {"mode": "mp", "direct_io": False, "simulated": True, "shm_name": "kvlab-test-none"}


def launch_on_folder(tmp_path: Path, program: str, **changes: object) -> subprocess.CompletedProcess[str]:
    """Start `/bin/echo` as a program of a file profile whose folder holds a file of an earlier server."""
    kv = tmp_path / "kv"
    kv.mkdir()
    (kv / ".kvlab-kv").write_text("")
    (kv / "obj_0_1f3a.bin").write_text("old KV")
    (tmp_path / "profile.json").write_text(json.dumps(FILE_PROFILE | {"file_path": str(kv)} | changes))
    (tmp_path / "env").write_text("")
    (tmp_path / f"{program}.args").write_text('["started"]')
    return subprocess.run(
        [sys.executable, "-m", "kvlab.serving.launch", str(tmp_path), program, "/bin/echo"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(("program", "mode"), [("lmcache", "mp"), ("vllm", "in-process")])
def test_whoever_keeps_the_index_of_the_files_starts_with_none(
    tmp_path: Path, program: str, mode: str
) -> None:
    done = launch_on_folder(tmp_path, program, mode=mode)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "started"), done.stderr
    assert not (tmp_path / "kv" / "obj_0_1f3a.bin").exists()


def test_vllm_beside_an_lmcache_server_leaves_that_servers_files_alone(tmp_path: Path) -> None:
    assert launch_on_folder(tmp_path, "vllm").stdout == "started\n"
    assert (tmp_path / "kv" / "obj_0_1f3a.bin").exists()


def test_lmcache_is_not_started_on_a_folder_whose_parent_is_not_there(tmp_path: Path) -> None:
    done = launch_on_folder(tmp_path, "lmcache", file_path="/kvlab-test-none/kv")
    assert (done.returncode, "started" in done.stdout) == (1, False)
    assert "kvlab: the folder /kvlab-test-none/kv of profile file cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_program_runs_by_the_folder_of_its_environment_and_not_by_the_link_to_it(tmp_path: Path) -> None:
    """After an upgrade the link names another version, whose modules a running process must not import."""
    program = tmp_path / "venvs/tiny-1/bin/python"
    program.parent.mkdir(parents=True)
    program.write_text('#!/bin/sh\necho "$0"\n')
    program.chmod(0o755)
    (tmp_path / "venv").symlink_to(tmp_path / "venvs/tiny-1")
    for name, content in (("profile.json", "{}"), ("env", ""), ("vllm.args", "[]")):
        (tmp_path / name).write_text(content)
    done = subprocess.run(
        [sys.executable, "-m", "kvlab.serving.launch", str(tmp_path), "vllm", str(tmp_path / "venv/bin/python")],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == str(program)
