"""Rules for the memory of an lmcache.yaml: transfer buffer, DRAM tier and staging pool, chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvlab.kvcache import knownkeys
from kvlab.kvcache.geometry import GIB
from kvlab.kvcache.lint import nixl_params
from kvlab.kvcache.lint.document import Document, backend_name, truthy, whole_number
from kvlab.kvcache.lint.types import Context, Finding

CUOBJECT_LIMIT = 4 * GIB - 64 * 1024
"""Largest single registration that the cuObject documentation allows."""
ENGINE_STEP_TOKENS = 8192
"""Tokens of one prefill step: vLLM's usual max_num_batched_tokens for a server."""
VLLM_BLOCK_TOKENS = 16
PINNED_LIMIT_GIB = 512
"""From this size on the driver refuses to pin host memory in one piece (cudaHostRegister)."""


def check(doc: Document, extra: dict[str, Any], context: Context) -> Iterator[Finding]:
    device, size = doc.get("nixl_buffer_device"), doc.get("nixl_buffer_size")
    at_device, at_size = ("nixl_buffer_device",), ("nixl_buffer_size",)
    shared_cpu_pool = device == "cpu" and context.lmcache_release >= (0, 4, 7)
    if device is None:
        yield doc.finding(
            "LMC020",
            "error",
            at_device,
            "nixl_buffer_device is missing; vLLM does not start (an assertion without a message).",
            "Write nixl_buffer_device: cuda for RDMA, cpu for HTTP.",
        )
    elif not isinstance(device, str) or device.split(":")[0] not in ("cpu", "cuda"):
        yield doc.finding(
            "LMC021",
            "error",
            at_device,
            f"{device!r} is no buffer device.",
            "Write cuda for RDMA, cpu for HTTP.",
        )
    elif ":" in device and context.lmcache_release < (0, 4, 6):
        yield doc.finding(
            "LMC022",
            "error",
            at_device,
            f"LMCache {context.lmcache.version} refuses {device!r}; each rank takes its own device.",
            "Write nixl_buffer_device: cuda.",
        )
    params = extra.get("nixl_backend_params")
    accelerated = isinstance(params, dict) and nixl_params.is_accelerated(params)
    on_gpu = isinstance(device, str) and device.startswith("cuda")
    if on_gpu and backend_name(extra) == "OBJ" and not accelerated:
        yield doc.finding(
            "LMC023",
            "error",
            at_device,
            "NIXL's plain S3 engine takes host memory only; registration fails and vLLM serves without a cache.",
            'Write nixl_buffer_device: cpu, or switch the engine on with accelerated: "true" and type: "dell".',
        )
    devices = knownkeys.data("nixl-obj")["backends"].get(backend_name(extra) or "", {}).get("devices", [])
    if on_gpu and devices and "cuda" not in devices:
        yield doc.finding(
            "LMC024",
            "error",
            at_device,
            f"{extra.get('nixl_backend')} takes host memory only.",
            "Write nixl_buffer_device: cpu.",
        )
    if accelerated and device == "cpu":
        yield doc.finding(
            "LMC025",
            "warning",
            at_device,
            "the engine is accelerated but the buffer is in host memory: RDMA, but not into the GPU.",
            "Write nixl_buffer_device: cuda for GPU-direct.",
        )
    if shared_cpu_pool and size is not None:
        yield doc.finding(
            "LMC026",
            "error",
            at_size,
            f"LMCache {context.lmcache.version} refuses nixl_buffer_size with a cpu buffer: max_local_cpu_size is it.",
            "Remove nixl_buffer_size.",
        )
    elif not shared_cpu_pool and size is None:
        yield doc.finding(
            "LMC027",
            "error",
            at_size,
            "nixl_buffer_size is missing; vLLM does not start (an assertion without a message).",
            "Give the bytes of one rank's buffer; kvlab size computes them.",
        )
    yield from _buffer_is_enough(doc, context, shared_cpu_pool, on_gpu and accelerated)
    yield from _tiers(doc, context)


def _buffer_is_enough(doc: Document, context: Context, cpu_pool: bool, registered: bool) -> Iterator[Finding]:
    size = whole_number(doc.get("nixl_buffer_size"))
    path = ("nixl_buffer_size",)
    if cpu_pool:
        pool = _number(doc.get("max_local_cpu_size"), context.lmcache.top["max_local_cpu_size"].default)
        size, path = (None if pool is None else int(pool * GIB)), ("max_local_cpu_size",)
    if size is None:
        return
    if size <= 0:
        yield doc.finding("LMC028", "error", path, "the buffer has no size.", "kvlab size computes one.")
        return
    need = context.needed_buffer
    if need is not None and size < need:
        yield doc.finding(
            "LMC029",
            "error",
            path,
            f"a request of {context.max_tokens} tokens needs {need} bytes on each rank and the buffer has {size}: "
            "reads are all or nothing, so the whole request fails to load.",
            f"Give at least {need if not cpu_pool else f'{need / GIB:.1f} GiB'}, or lower --max-model-len.",
        )
    if context.geometry is not None and not cpu_pool and size % context.geometry.object_bytes:
        yield doc.finding(
            "LMC030",
            "note",
            path,
            f"{size} is no multiple of one object ({context.geometry.object_bytes} bytes); LMCache rounds it up.",
            f"Write {-(-size // context.geometry.object_bytes) * context.geometry.object_bytes}.",
        )
    if registered and size > CUOBJECT_LIMIT:
        yield doc.finding(
            "LMC031",
            "warning",
            path,
            f"the buffer is registered as one piece of {size} bytes; cuObject documents {CUOBJECT_LIMIT} at most.",
            "Prove the registration with a round trip, or use a smaller buffer if the longest request allows it.",
        )


def _tiers(doc: Document, context: Context) -> Iterator[Finding]:
    local = doc.get("local_cpu")
    if local is None or truthy(local):
        yield doc.finding(
            "LMC032",
            context.strict(),
            ("local_cpu",),
            "local_cpu is on"
            + (" by default" if local is None else "")
            + ": the second pass reads DRAM, not the "
            "object store, and with a cuda buffer its pages stay pinned.",
            "Write local_cpu: false.",
        )
    pool = _number(doc.get("max_local_cpu_size"), context.lmcache.top["max_local_cpu_size"].default)
    path = ("max_local_cpu_size",)
    if pool is not None and pool <= 0:
        yield doc.finding(
            "LMC033",
            "error",
            path,
            f"max_local_cpu_size is {pool}: every store passes through this pool, even with local_cpu: false.",
            "Give a few GiB.",
        )
    elif pool is not None and pool >= PINNED_LIMIT_GIB:
        yield doc.finding(
            "LMC058",
            "warning",
            path,
            f"max_local_cpu_size is {pool:g} GiB; host memory of {PINNED_LIMIT_GIB} GiB and more cannot be "
            "pinned in one piece.",
            f"Give less than {PINNED_LIMIT_GIB}.",
        )
    elif pool is not None and context.geometry is not None:
        step = ENGINE_STEP_TOKENS * context.geometry.bytes_per_token_per_rank
        if pool * GIB < step:
            yield doc.finding(
                "LMC034",
                "error",
                path,
                f"one engine step of {ENGINE_STEP_TOKENS} tokens stages {step} bytes, the pool has {int(pool * GIB)}: "
                "the rest is not stored.",
                f"Give at least {step / GIB:.2f}.",
            )
    chunk = whole_number(doc.get("chunk_size"))
    if chunk is not None and (chunk <= 0 or chunk % VLLM_BLOCK_TOKENS):
        yield doc.finding(
            "LMC035",
            "error",
            ("chunk_size",),
            f"chunk_size {chunk} is no positive multiple of vLLM's block of {VLLM_BLOCK_TOKENS} tokens.",
            "Write chunk_size: 256.",
        )


def _number(value: Any, default: Any) -> float | None:
    try:
        number = float(default if value is None else value)
    except (TypeError, ValueError):
        return None
    return number if abs(number) < 1e12 else None
