"""The geometry has vLLM's own numbers: its spec classes for each layout, its real cache for the lab's model."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kvlab.kvcache.geometry import Geometry
from kvlab.serving.lab import Lab

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
COMMON: dict[str, Any] = {
    "hidden_size": 512,
    "intermediate_size": 1024,
    "vocab_size": 512,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "torch_dtype": "bfloat16",
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
}
LLAMA = COMMON | {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "head_dim": 64}
MLA = COMMON | {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "num_key_value_heads": 8,
    "moe_intermediate_size": 256,
    "kv_lora_rank": 512,
    "qk_rope_head_dim": 64,
    "qk_nope_head_dim": 128,
    "v_head_dim": 128,
}
MOE = COMMON | {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 256,
}
SLIDING = COMMON | {
    "architectures": ["Gemma3ForCausalLM"],
    "model_type": "gemma3_text",
    "num_hidden_layers": 6,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "sliding_window": 512,
}
HYBRID = COMMON | {
    "architectures": ["Qwen3NextForCausalLM"],
    "model_type": "qwen3_next",
    "num_hidden_layers": 8,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "full_attention_interval": 4,
    "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 2,
}

# layout, config, TP, vLLM's --kv-cache-dtype, kvlab's
CASES = [
    ("multi-head", LLAMA | {"num_key_value_heads": 8}, 1, "auto", "auto"),
    ("grouped", LLAMA | {"num_key_value_heads": 2}, 2, "auto", "auto"),
    ("grouped, more ranks than heads", LLAMA | {"num_key_value_heads": 2}, 8, "auto", "auto"),
    ("multi-query", LLAMA | {"num_key_value_heads": 1}, 4, "auto", "auto"),
    ("fp8", LLAMA | {"num_key_value_heads": 2}, 1, "fp8", "fp8"),
    ("latent", MLA, 1, "auto", "auto"),
    ("latent, many ranks", MLA, 8, "auto", "auto"),
    ("mixture of experts", MOE, 4, "auto", "auto"),
    ("sliding window", SLIDING, 1, "auto", "auto"),
    ("hybrid", HYBRID, 1, "auto", "auto"),
]


@pytest.fixture(scope="module")
def vllm_says(tmp_path_factory: pytest.TempPathFactory, lab: Lab) -> list[dict[str, Any]]:
    """vLLM's answer for every case, and last for the lab's model, which it really loads."""
    python = Path(os.environ.get("KVLAB_SERVING_PYTHON", ROOT / ".lab/venv/bin/python"))
    if not python.exists():
        pytest.fail(f"no serving venv at {python}: run ./lab up, or set KVLAB_SERVING_PYTHON", pytrace=False)
    items = []
    for number, (_, config, tp, kv_dtype, _) in enumerate(CASES):
        folder = tmp_path_factory.mktemp(f"model{number}")
        (folder / "config.json").write_text(json.dumps(config))
        items.append({"dir": str(folder), "tp": tp, "kv_dtype": kv_dtype})
    items.append({"dir": lab.data["model"]["dir"], "allocate": True})
    done = subprocess.run(
        [python, Path(__file__).with_name("vllm_kv_specs.py")],
        input=json.dumps(items),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    answers: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return answers


@pytest.mark.parametrize("number", range(len(CASES)), ids=[case[0] for case in CASES])
def test_bytes_per_token_and_rank_are_those_of_vllms_spec_classes(
    number: int, vllm_says: list[dict[str, Any]]
) -> None:
    _, config, tp, _, kv_dtype = CASES[number]
    geometry = Geometry.from_config(config, tp=tp, kv_dtype=kv_dtype)
    said = vllm_says[number]
    assert geometry.attention_layers == said["attention_layers"]
    assert geometry.bytes_per_token_per_rank == said["layer_bytes_per_token"] * said["attention_layers"]
    assert (geometry.saving_ranks_per_stage == 1) == (said["mla"] or tp == 1)


def test_bytes_per_token_are_those_of_the_cache_that_vllm_allocates(
    vllm_says: list[dict[str, Any]], lab: Lab
) -> None:
    config = json.loads(Path(lab.data["model"]["dir"], "config.json").read_text())
    geometry = Geometry.from_config(config)
    assert vllm_says[-1]["tensors"] == geometry.attention_layers
    assert vllm_says[-1]["bytes_per_token"] == geometry.bytes_per_token
