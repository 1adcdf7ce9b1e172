"""A play with the modules: one login, ended also after a failure; progress while emptying; no secret in any output."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from objectscale_array import PASSWORD, Array

from kvlab.objectscale import s3

ROOT = Path(__file__).parents[3]
SECRET = "not-a-secret-1-but-long-enough"
OBJECTS = 30


@pytest.fixture(scope="module")
def array(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Array]:
    running = Array(tmp_path_factory.mktemp("array"))
    try:
        yield running.start()
    finally:
        running.stop()


@pytest.fixture
def play(array: Array, tmp_path: Path) -> Any:
    """`play([tasks])` runs them between login and logout, as verbose as can be."""

    def run(tasks: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
        session = {"kvlab.lab.objectscale_session": {}}
        logout = {"kvlab.lab.objectscale_session": {"state": "absent"}}
        defaults = {**array.access, "session_file": str(tmp_path / "session")}
        defaults["password"] = "{{ lookup('env', 'ARRAY_PASSWORD') }}"
        content = {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "module_defaults": {"group/kvlab.lab.objectscale": defaults},
            "tasks": [{"block": [session, *tasks], "always": [logout]}],
        }
        (tmp_path / "ansible.cfg").touch()
        (tmp_path / "play.yml").write_text(json.dumps([content]))
        settings = {
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".lab/collections"),
            "ANSIBLE_HOME": str(tmp_path / "home"),
            "ANSIBLE_LOG_PATH": str(tmp_path / "log"),
            "ANSIBLE_CONFIG": str(tmp_path / "ansible.cfg"),
            "ANSIBLE_DIFF_ALWAYS": "true",
            "ARRAY_PASSWORD": PASSWORD,
            "ARRAY_SECRET": SECRET,
        }
        command = [Path(sys.executable).with_name("ansible-playbook"), "-vvv", "-i", "localhost,"]
        command += ["-e", f"ansible_python_interpreter={sys.executable}", tmp_path / "play.yml"]
        done = subprocess.run(
            command, env={**os.environ, **settings}, capture_output=True, text=True, check=False
        )
        written = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
        for secret in (PASSWORD, SECRET):
            assert secret not in done.stdout + done.stderr + written
        return done

    return run


def have(bucket: str) -> list[dict[str, Any]]:
    """What a lab needs first: namespace, user, key, bucket."""
    place = {"namespace": "kvlab"}
    key = {"user": "kvlab", "secret_key": "{{ lookup('env', 'ARRAY_SECRET') }}", **place}
    return [
        {"kvlab.lab.objectscale_namespace": {"name": "kvlab"}},
        {"kvlab.lab.objectscale_object_user": {"name": "kvlab", **place}},
        {"kvlab.lab.objectscale_secret_key": key},
        {"kvlab.lab.objectscale_bucket": {"name": bucket, "owner": "kvlab", **place}},
    ]


def logins(array: Array) -> list[str]:
    return [line for line in array.requests() if line in ("GET /login", "GET /logout")]


def test_a_play_logs_in_once_and_shows_no_secret(play: Any, array: Array) -> None:
    before = len(logins(array))
    done = play(have("kv-one"))
    assert done.returncode == 0, done.stdout
    assert logins(array)[before:] == ["GET /login", "GET /logout"]
    s3.client(array.s3, "kvlab", SECRET).head_bucket(Bucket="kv-one")
    assert "changed=0" in play(have("kv-one")).stdout


def test_a_play_that_fails_logs_out_and_says_why_in_one_sentence(play: Any, array: Array) -> None:
    before = len(logins(array))
    done = play([{"kvlab.lab.objectscale_namespace": {"name": "kvlab", "replication_group": "none-such"}}])
    assert done.returncode != 0
    assert "has no replication group none-such (it has: " in done.stdout
    assert logins(array)[before:] == ["GET /login", "GET /logout"]


def test_a_bucket_with_objects_is_emptied_to_the_end_with_progress(play: Any, array: Array) -> None:
    assert play(have("kv-full")).returncode == 0
    client = s3.client(array.s3, "kvlab", SECRET)
    for number in range(OBJECTS):
        client.put_object(Bucket="kv-full", Key=f"k{number}", Body=b"v")
    gone = {"name": "kv-full", "namespace": "kvlab", "state": "absent", "empty": True}
    done = play([{"kvlab.lab.objectscale_bucket": gone}])
    assert done.returncode == 0, done.stdout
    assert not s3.bucket_exists(client, "kv-full")
    assert "objects deleted" in done.stdout
