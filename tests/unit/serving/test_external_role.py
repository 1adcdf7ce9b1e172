"""The role serving, where somebody else serves: it asks, describes, and starts nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yaml
from serving_answers import serving

ROOT = Path(__file__).parents[3]


def play(folder: Path, *, check: bool = False, **urls: str) -> tuple[int, str]:
    """Exit status and output of the role's entry point `external`."""
    variables = {
        "ansible_python_interpreter": sys.executable,
        "serving_state_dir": str(folder / "state"),
        "serving_lab": {"simulated": True},
        **urls,
    }
    tasks = [
        {"ansible.builtin.import_role": {"name": "kvlab.lab.serving", "tasks_from": "external"}},
    ]
    one = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": variables,
        "tasks": tasks,
    }
    (folder / "play.yml").write_text(yaml.safe_dump([one]))
    link = folder / "collections/ansible_collections/kvlab/lab"
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.symlink_to(ROOT)
    (folder / "ansible.cfg").touch()
    own = {
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": str(folder / "collections"),
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_REMOTE_TMP": str(folder / "tmp"),
    }
    program = Path(sys.executable).with_name("ansible-playbook")
    command = [program, "--inventory", "localhost,", *(["--check"] if check else []), folder / "play.yml"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | own, check=False)
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_addresses_that_are_none_are_named_before_anything_is_written(tmp_path: Path) -> None:
    status, output = play(tmp_path, serving_vllm_url="", serving_lmcache_url="lmcache:8080")
    assert status == 2
    assert "kvlab_serving_mode is external, and serving_vllm_url, serving_lmcache_url is no address" in output
    assert not (tmp_path / "state").exists()


def test_a_vllm_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    status, output = play(tmp_path, serving_vllm_url="http://127.0.0.1:9")
    assert status == 2
    assert "no vLLM answers at http://127.0.0.1:9" in output
    assert "kvlab does not start one" in output
    assert not (tmp_path / "state").exists()


def test_something_else_that_answers_is_no_vllm(tmp_path: Path) -> None:
    with serving() as other:
        status, output = play(tmp_path, serving_vllm_url=f"{other.url}/elsewhere")
    assert status == 2
    assert "and no model is named" in output


def test_the_lab_is_described_with_its_addresses_and_no_profile(tmp_path: Path) -> None:
    with serving() as vllm:
        assert play(tmp_path, check=True, serving_vllm_url=vllm.url)[0] == 0
        assert not (tmp_path / "state").exists()
        status, output = play(tmp_path, serving_vllm_url=vllm.url)
        assert status == 0, output
        status, output = play(tmp_path, serving_vllm_url=vllm.url)
    assert "changed=0" in output
    described = json.loads((tmp_path / "state/etc/lab.json").read_text())
    assert described["serving_mode"] == "external"
    assert described["vllm_url"] == vllm.url
    assert described["profiles"] == {}
    assert described["simulated"] is True
