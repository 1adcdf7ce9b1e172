"""A good profile to start from; each test spoils one thing."""

from __future__ import annotations

from typing import Any

import pytest

from kvlab.kvcache.profile import ProfileSpec

MODEL = {
    "model_type": "llama",
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "hidden_size": 512,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def values() -> dict[str, Any]:
    """A profile as plain data, as Ansible hands it over."""
    return {
        "name": "s3-rdma",
        "mode": "mp",
        "stack": "current-cpu",
        "vllm": "0.32.0",
        "lmcache": "0.5.6",
        "nixl": "1.5.1",
        "model": "/models/lab",
        "model_config": dict(MODEL),
        "max_model_len": 16_384,
        "directory": "/etc/kvlab/profiles/s3-rdma",
        "simulated": True,
        "endpoints": ["http://127.0.0.1:9020"],
        "bucket": "kv-lab",
        "access_key": "AKIDEXAMPLE",
        "secret_key": "s3cr3t+/=",
        "library_dirs": ["/opt/cuobj"],
        "rdma_dev_addr_list": ["127.0.0.1"],
        "shm_name": "kvlab-1",
    }


@pytest.fixture
def in_process(values: dict[str, Any]) -> dict[str, Any]:
    """The same on a GPU host, in process."""
    return values | {
        "mode": "in-process",
        "device": "cuda",
        "vllm": "0.25.1",
        "lmcache": "0.5.3",
        "simulated": False,
    }


def spec(values: dict[str, Any], **changes: Any) -> ProfileSpec:
    """A spec with some fields changed."""
    return ProfileSpec.from_mapping(values | changes)
