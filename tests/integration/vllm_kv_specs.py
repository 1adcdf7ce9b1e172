"""Runs in the serving venv: what vLLM itself makes of some config.json files. JSON in, JSON out.

Input: a list of {"dir": folder of config.json, "tp": n, "kv_dtype": --kv-cache-dtype}. Output, per
item: bytes per token of one attention layer on one rank, by vLLM's KV cache spec classes, and how many attention
layers vLLM counts. With {"allocate": true} vLLM loads the model with dummy weights and its cache is measured.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

os.environ |= {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
BLOCK = 16


def spec_of(item: dict[str, Any]) -> dict[str, Any]:
    """Bytes that vLLM's own spec classes give one layer, and its count of attention layers."""
    from vllm.config import ModelConfig, ParallelConfig
    from vllm.utils.torch_utils import STR_DTYPE_TO_TORCH_DTYPE
    from vllm.v1.kv_cache_interface import FullAttentionSpec, MLAAttentionSpec

    model = ModelConfig(model=item["dir"], skip_tokenizer_init=True)
    parallel = ParallelConfig(
        tensor_parallel_size=item["tp"], distributed_executor_backend="external_launcher"
    )
    kv_dtype = item.get("kv_dtype", "auto")
    dtype = model.dtype if kv_dtype == "auto" else STR_DTYPE_TO_TORCH_DTYPE[kv_dtype]
    heads, size = model.get_num_kv_heads(parallel), model.get_head_size()
    kind = MLAAttentionSpec if model.use_mla else FullAttentionSpec
    page = kind(block_size=BLOCK, num_kv_heads=heads, head_size=size, dtype=dtype).page_size_bytes
    return {
        "mla": model.use_mla,
        "layer_bytes_per_token": page / BLOCK,
        "attention_layers": model.get_num_layers_by_block_type(parallel, "attention"),
    }


def allocated(item: dict[str, Any]) -> dict[str, Any]:
    """Bytes per token of the KV cache that vLLM allocates for the model with dummy weights."""
    from vllm import LLM

    llm = LLM(
        model=item["dir"],
        load_format="dummy",
        skip_tokenizer_init=True,
        enforce_eager=True,
        max_model_len=256,
        kv_cache_memory_bytes=64 << 20,
    )
    core = llm.llm_engine.engine_core.engine_core
    cache = llm.llm_engine.vllm_config.cache_config
    caches = core.model_executor.driver_worker.worker.model_runner.kv_caches
    return {
        "bytes_per_token": sum(c.nbytes for c in caches) / (cache.num_gpu_blocks * cache.block_size),
        "tensors": len(caches),
    }


def main() -> None:
    out = sys.stdout
    sys.stdout = sys.stderr
    items = json.load(sys.stdin)
    json.dump([allocated(i) if i.get("allocate") else spec_of(i) for i in items], out)


if __name__ == "__main__":
    main()
