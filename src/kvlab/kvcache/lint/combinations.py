"""Rules for versions that do not go together, which no single setting shows."""

from __future__ import annotations

from collections.abc import Iterator

from kvlab.kvcache.lint.types import Context, Finding, absent
from kvlab.kvcache.versions import release


def in_process(context: Context) -> Iterator[Finding]:
    """What is known against LMCache's in-process connector with these versions."""
    if context.vllm is not None and release(context.vllm) >= (0, 26):
        yield absent(
            "STK001",
            "error",
            "vllm",
            f"vLLM {context.vllm} packs K and V into one tensor, which the in-process connector of LMCache "
            f"{context.lmcache.version} stores wrongly: the cache is corrupt and no error says so.",
            "Use vLLM 0.25.1 or older in process, or MP mode.",
        )
    if (0, 20) <= release(context.vllm or "0") < (0, 26) and context.lmcache_release >= (0, 5, 4):
        yield absent(
            "STK002",
            "error",
            "lmcache",
            f"the wheel of LMCache {context.lmcache.version} is built against torch 2.13 and vLLM {context.vllm} has "
            "2.11: its CUDA code does not load, and slow Python code takes over.",
            "Use LMCache 0.5.3 with the fixes of stack dell-fixed, or build LMCache against this torch.",
        )
    if (
        context.vllm is not None
        and release(context.vllm) < (0, 19, 1)
        and context.lmcache_release >= (0, 4, 5)
    ):
        yield absent(
            "STK004",
            "error",
            "vllm",
            f"vLLM {context.vllm} wants transformers below 5, LMCache {context.lmcache.version} 5.4 or newer: they "
            "cannot be installed together.",
            "Use vLLM 0.19.1, the nearest that can.",
        )
    if context.vllm is not None and (0, 19) <= release(context.vllm) < (0, 20):
        yield absent(
            "STK005",
            "warning",
            "vllm",
            f"the wheel of vLLM {context.vllm} brings torch for CUDA 12 and LMCache's CUDA code is for 13: it does not "
            "load, and slow Python code takes over.",
            "Build both from source, or use stack dell-fixed.",
        )
    if context.lmcache_release < (0, 5, 4):
        yield absent(
            "STK003",
            "warning",
            "lmcache",
            f"LMCache {context.lmcache.version} stores data under the wrong key when the first chunks of a prompt "
            "exist already (fixed in 0.5.4).",
            "Use stack dell-fixed, which takes the corrected file, and discard buckets written without it.",
        )
