"""The launcher: environment and secrets reach the program, its arguments hold none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

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
