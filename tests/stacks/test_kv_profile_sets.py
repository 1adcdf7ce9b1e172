"""The role kv_profiles writes sets that are not changed again; a new key reaches the former ones, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 512,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "max_position_embeddings": 16384,
    "vocab_size": 512,
    "torch_dtype": "bfloat16",
}


class Sets:
    """A folder with a model's configuration, and the role run on it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sets = folder, folder / "profile-sets"
        (folder / "ansible.cfg").touch()
        (folder / "model").mkdir()
        (folder / "model/config.json").write_text(json.dumps(LLAMA))
        link = folder / "collections/ansible_collections/kvlab/lab"
        link.parent.mkdir(parents=True)
        link.symlink_to(ROOT)

    @property
    def offered(self) -> Path:
        """The set that the services would take."""
        return (self.folder / "profiles.next").resolve()

    def run(self, *options: str, **variables: Any) -> tuple[int, str]:
        """Exit status and output of the role."""
        play = {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "vars": {
                "ansible_python_interpreter": sys.executable,
                "kv_profiles_dir": str(self.folder / "profiles"),
                "kv_profiles_sets_dir": str(self.sets),
                "kv_profiles_state_dir": str(self.folder / "state"),
                "kv_profiles_model_dir": str(self.folder / "model"),
                "kv_profiles_ports": {"vllm": 8000, "lmcache": 5555, "lmcache_http": 8080},
                "kv_profiles_endpoint": "http://127.0.0.1:9020",
                "kv_profiles_access_key": "kvlab",
                "kv_profiles_simulated": True,
                "kv_profiles_rdma_addresses": ["127.0.0.1"],
                **variables,
            },
            "tasks": [{"ansible.builtin.import_role": {"name": "kvlab.lab.kv_profiles"}}],
        }
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]))
        own = {
            "ANSIBLE_CONFIG": str(self.folder / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(self.folder / "collections"),
            "ANSIBLE_HOME": str(self.folder / "home"),
            "ANSIBLE_REMOTE_TMP": str(self.folder / "tmp"),
        }
        command = [Path(sys.executable).with_name("ansible-playbook"), "--inventory", "localhost,", "--diff", *options,
                   self.folder / "play.yml"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, env=os.environ | own, check=False)
        return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.fixture
def sets(tmp_path: Path) -> Sets:
    return Sets(tmp_path)


def public(folder: Path) -> dict[str, bytes]:
    """The files of a set that hold no secret and nothing made of one."""
    files = (
        file for file in folder.rglob("*") if file.is_file() and file.name not in ("secret.env", "digest")
    )
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_another_setting_makes_another_set_and_another_key_makes_none(sets: Sets) -> None:
    first_key, second_key = "first-key-of-this-test", "second-key-of-this-test"
    status, output = sets.run("--check", kv_profiles_secret_key=first_key)
    assert status == 0, output
    assert not sets.sets.exists()
    status, output = sets.run(kv_profiles_secret_key=first_key)
    assert status == 0, output
    assert not (sets.folder / "profiles").exists(), "the link is the role serving's to switch"
    first, before = sets.offered, public(sets.offered)
    assert str(sets.folder / "profiles/s3-rdma") in before["s3-rdma/env"].decode(), (
        "files name each other by the link"
    )
    status, output = sets.run(kv_profiles_secret_key=first_key)
    assert status == 0, output
    assert "changed=0" in output

    status, output = sets.run(kv_profiles_secret_key=second_key, kv_profiles_max_model_len=8192)
    assert status == 0, output
    assert sets.offered != first
    assert public(first) == before
    # The former set is what a way back leads to, and the first key may have ended by then.
    secrets = sorted(sets.sets.rglob("secret.env"))
    assert {file.parent.parent for file in secrets} == {first, sets.offered}
    assert all(second_key in file.read_text() and first_key not in file.read_text() for file in secrets)
    assert {file.stat().st_mode & 0o777 for file in secrets} == {0o600}
    assert first_key not in output
    assert second_key not in output

    status, output = sets.run(kv_profiles_secret_key=first_key, kv_profiles_max_model_len=8192)
    assert status == 0, output
    assert len(list(sets.sets.iterdir())) == 2


def test_a_set_that_cannot_be_rendered_is_not_offered(sets: Sets) -> None:
    status, output = sets.run(kv_profiles_secret_key="key-of-this-test")
    assert status == 0, output
    first = sets.offered
    status, output = sets.run(kv_profiles_secret_key="key-of-this-test", kv_profiles_max_model_len=-1)
    assert status == 2, output
    assert sets.offered == first
