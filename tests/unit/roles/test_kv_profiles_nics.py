"""The role kv_profiles gives cuObject the NICs of the inventory, else those that the role gpudirect has found."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import role_play

MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "hidden_size": 256,
    "head_dim": 64,
    "torch_dtype": "bfloat16",
}


def play(folder: Path, **variables: Any) -> subprocess.CompletedProcess[str]:
    """Run the role on this machine with one profile, s3-rdma."""
    (folder / "model").mkdir(exist_ok=True)
    (folder / "model/config.json").write_text(json.dumps(MODEL))
    given = {
        "kv_profiles_dir": str(folder / "profiles"),
        "kv_profiles_state_dir": str(folder),
        "kv_profiles_model_dir": str(folder / "model"),
        "kv_profiles_ports": {"vllm": 8000, "lmcache": 5555, "lmcache_http": 8080},
        "kv_profiles_endpoint": "http://192.0.2.200:9020",
        "kv_profiles_access_key": "made-up",
        "kv_profiles_secret_key": "x" * 12,
        "kv_profiles_list": [{"name": "s3-rdma", "mode": "mp", "bucket": "kv-s3-rdma"}],
        "kv_profiles_gpudirect_record": str(folder / "gpudirect.json"),
        **variables,
    }
    return role_play.run("kv_profiles", folder, given, "one")


def written(folder: Path) -> list[str]:
    settings = json.loads((folder / "profiles/s3-rdma/cufile.json").read_text())
    addresses: list[str] = settings["properties"]["rdma_dev_addr_list"]
    return addresses


@pytest.mark.parametrize(
    ("given", "expected"), [([], ["192.0.2.11", "192.0.2.12"]), (["192.0.2.7"], ["192.0.2.7"])]
)
def test_the_inventorys_addresses_go_before_those_that_were_found(
    tmp_path: Path, given: list[str], expected: list[str]
) -> None:
    record = {"rdma_dev_addr_list": ["192.0.2.11", "192.0.2.12"], "gpus": []}
    (tmp_path / "gpudirect.json").write_text(json.dumps(record))
    done = play(tmp_path, kv_profiles_rdma_addresses=given)
    assert done.returncode == 0, done.stdout
    assert written(tmp_path) == expected


def test_without_either_the_profile_is_refused_with_a_sentence(tmp_path: Path) -> None:
    done = play(tmp_path)
    assert done.returncode != 0
    assert "rdma_dev_addr_list is empty" in done.stdout
    assert not (tmp_path / "profiles/s3-rdma/cufile.json").exists()
