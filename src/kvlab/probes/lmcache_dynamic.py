"""LMCache's in-process NIXL storage backend in dynamic mode, without vLLM, on CPU (LMCache 0.5.6).

Job: {"mode": "store"|"load", "engine": "standard"|"dell", "endpoint", "region", "bucket", "secrets_file",
      "model", "chunks": [{"hash": int, "seed": int}, ...],
      "kv": {"layers", "kv_heads", "head_size", "chunk_tokens"}}
or {"jobs": [job, ...]}, done by one process in turn, since the imports take seconds: {"runs": [facts, ...]}.

`nixl_pool_size: 0` names objects by content hash, so that another process finds them: the mode in which real
labs share a bucket (facts/local_stack.md). `store` and `load` are separate processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
import threading
import time
from typing import Any

from kvlab.errors import KvlabError
from kvlab.probes import Facts, Job, content, cuobject_library, document, main, use_key_pair
from kvlab.probes.nixl_roundtrip import backend_params

BF16_BYTES = 2


def chunk_bytes(kv: Job) -> int:
    """Bytes of one chunk on one rank: K and V, all layers, bf16."""
    return int(2 * kv["layers"] * kv["chunk_tokens"] * kv["kv_heads"] * kv["head_size"] * BF16_BYTES)


def config_text(job: Job) -> str:
    """The lmcache.yaml of this run, as JSON (which is YAML)."""
    return json.dumps(
        {
            "chunk_size": job["kv"]["chunk_tokens"],
            "local_cpu": False,
            "max_local_cpu_size": 0.25,
            "save_unfull_chunk": False,
            "nixl_buffer_device": "cpu",
            "extra_config": {
                "enable_nixl_storage": True,
                "nixl_backend": "OBJ",
                "nixl_pool_size": 0,
                "nixl_backend_params": backend_params(job),
            },
        }
    )


def run(job: Job) -> Facts:
    """Store or load the job's chunks; per chunk: was it there, was it equal."""
    if "jobs" in job:
        runs = [run(one) for one in job["jobs"]]
        return document("lmcache_dynamic", any(r["simulated"] for r in runs), runs=runs)
    if job["mode"] not in ("store", "load"):
        raise KvlabError(f"Mode {job['mode']!r} is unknown; use store or load.")
    use_key_pair(job["secrets_file"])
    os.environ.setdefault("LMCACHE_TRACK_USAGE", "false")
    library = cuobject_library.collect("libcuobjclient.so.1")
    chunks, seconds = _with_backend(job)
    return document(
        "lmcache_dynamic",
        library["simulated"] if job["engine"] == "dell" else None,
        mode=job["mode"],
        engine=job["engine"],
        pid=os.getpid(),
        cuobject=library,
        chunk_bytes=chunk_bytes(job["kv"]),
        duration_s=seconds,
        chunks=chunks,
    )


def _with_backend(job: Job) -> tuple[list[Facts], float]:
    """Do the job with a backend of its own, whose event loop runs in a thread; facts and seconds."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    backend, local = _backend(job, loop)
    began = time.perf_counter()
    chunks = _store(job, backend, local) if job["mode"] == "store" else _load(job, backend)
    seconds = time.perf_counter() - began
    backend.close()
    loop.call_soon_threadsafe(loop.stop)
    thread.join(timeout=10)
    return chunks, seconds


def _backend(job: Job, loop: asyncio.AbstractEventLoop) -> tuple[Any, Any]:
    import torch
    from lmcache.v1.config import LMCacheEngineConfig
    from lmcache.v1.metadata import LMCacheMetadata
    from lmcache.v1.storage_backend.local_cpu_backend import LocalCPUBackend
    from lmcache.v1.storage_backend.nixl_storage_backend import NixlStorageBackend

    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(config_text(job))
        file.flush()
        config = LMCacheEngineConfig.from_file(file.name)
    config.validate()
    kv = job["kv"]
    metadata = LMCacheMetadata(
        model_name=job["model"],
        world_size=1,
        local_world_size=1,
        worker_id=0,
        local_worker_id=0,
        kv_dtype=torch.bfloat16,
        kv_shape=(kv["layers"], 2, kv["chunk_tokens"], kv["kv_heads"], kv["head_size"]),
        role="worker",
    )
    local = LocalCPUBackend(config, metadata, "cpu")
    return NixlStorageBackend.CreateNixlStorageBackend(config, loop, metadata, local), local


def _key(job: Job, chunk: Job) -> Any:
    import torch
    from lmcache.utils import CacheEngineKey

    return CacheEngineKey(job["model"], 1, 0, chunk["hash"], torch.bfloat16)


def _bytes_of(memory: Any) -> memoryview:
    import torch

    return memoryview(memory.tensor.contiguous().view(torch.uint8).numpy().reshape(-1))


def _store(job: Job, backend: Any, local: Any) -> list[Facts]:
    import torch
    from lmcache.v1.memory_management import MemoryFormat

    kv = job["kv"]
    shape = torch.Size((2, kv["layers"], kv["chunk_tokens"], kv["kv_heads"] * kv["head_size"]))
    keys, objects = [], []
    for chunk in job["chunks"]:
        memory = local.allocate(shape, torch.bfloat16, MemoryFormat.KV_2LTD)
        _bytes_of(memory)[:] = content.content(chunk["seed"], chunk_bytes(kv))
        keys.append(_key(job, chunk))
        objects.append(memory)
    backend.batched_submit_put_task(keys, objects)
    return [{**c, "found": backend.contains(k)} for c, k in zip(job["chunks"], keys, strict=True)]


def _load(job: Job, backend: Any) -> list[Facts]:
    facts = []
    for chunk in job["chunks"]:
        key = _key(job, chunk)
        found = backend.contains(key)
        memory = backend.get_blocking(key) if found else None
        expected = content.content(chunk["seed"], chunk_bytes(job["kv"]))
        data = _bytes_of(memory) if memory is not None else None
        facts.append(
            {
                **chunk,
                "found": found,
                "loaded": memory is not None,
                "equal": data is not None and bytes(data) == expected,
            }
        )
    return facts


if __name__ == "__main__":
    main(run)
