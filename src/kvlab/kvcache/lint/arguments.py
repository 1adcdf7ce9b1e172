"""Rules for the argument lists of a profile: lmcache.args (the MP server) and vllm.args."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from kvlab.kvcache.geometry import GIB
from kvlab.kvcache.lint import nixl_params
from kvlab.kvcache.lint.document import Document, whole_number
from kvlab.kvcache.lint.types import Context, Finding, did_you_mean
from kvlab.kvcache.versions import release

_SECRETS = ("access_key", "secret_key", "session_token", "aws_access_key_id", "aws_secret_access_key")
_CONNECTORS = ("LMCacheConnectorV1", "LMCacheMPConnector")


def check_server(args: Sequence[str], context: Context) -> Iterator[Finding]:
    """Every finding about the MP server's arguments."""
    flags = _flags(args)
    known = context.lmcache.server_flags
    for flag in flags:
        if flag not in known:
            yield _finding(
                "MPS001",
                "error",
                flag,
                f"LMCache {context.lmcache.version}'s server has no {flag}.{did_you_mean(flag, known)}",
                "Correct or remove it.",
            )
    mode = flags.get("--supported-transfer-mode")
    if mode != "auto":
        yield _finding(
            "MPS002",
            "error",
            "--supported-transfer-mode",
            "on a CPU the engine drives the transfer, and a server not set to auto answers no handler registered: the "
            "cache is silently off.",
            "Write --supported-transfer-mode auto.",
        )
    if flags.get("--l2-store-policy") != "skip_l1":
        yield _finding(
            "MPS003",
            context.strict(),
            "--l2-store-policy",
            "objects stay in LMCache's DRAM tier, so hot passes do not read the store.",
            "Write --l2-store-policy skip_l1.",
        )
    yield from _sizes(flags, context)
    adapter = flags.get("--l2-adapter")
    if adapter is None:
        yield _finding(
            "MPS004",
            "error",
            "--l2-adapter",
            "no second tier is named: nothing leaves DRAM.",
            "Add --l2-adapter.",
        )
        return
    yield from _adapter(adapter, context)


def _sizes(flags: dict[str, str | None], context: Context) -> Iterator[Finding]:
    if context.geometry is None:
        return
    align = whole_number(flags.get("--l1-align-bytes"))
    want = context.geometry.mp_slot_bytes
    if align is not None and align.bit_count() != 1:
        yield _finding(
            "MPS011",
            "error",
            "--l1-align-bytes",
            f"--l1-align-bytes is {align}; the server starts with powers of two only.",
            f"Write --l1-align-bytes {want}.",
        )
    elif align != want:
        yield _finding(
            "MPS005",
            "error",
            "--l1-align-bytes",
            f"--l1-align-bytes is {align or 'not given'}, a chunk is {context.geometry.object_bytes} bytes: it becomes "
            "too many objects, and the pool runs out while requests still succeed.",
            f"Write --l1-align-bytes {want}.",
        )
    need = context.needed_buffer
    size = flags.get("--l1-size-gb")
    if need is not None and size is not None:
        try:
            have = float(size) * GIB
        except ValueError:
            yield _finding("MPS006", "error", "--l1-size-gb", f"{size!r} is no number.", "Give GiB.")
            return
        if not have >= need:
            yield _finding(
                "MPS006",
                "error",
                "--l1-size-gb",
                f"a request of {context.max_tokens} tokens needs {need} bytes and the DRAM tier has {have:.0f}.",
                f"Give at least {need / GIB:.2f}.",
            )


def _adapter(text: str, context: Context) -> Iterator[Finding]:
    try:
        adapter: Any = json.loads(text)
    except ValueError:
        adapter = None
    if not isinstance(adapter, dict):
        yield _finding("MPS007", "error", "--l2-adapter", "the adapter is not a JSON object.", "Correct it.")
        return
    params = adapter.get("backend_params")
    params = params if isinstance(params, dict) else {}
    named = [key for key in _SECRETS if params.get(key) or adapter.get(key)]
    if named:
        yield _finding(
            "MPS008",
            "error",
            "--l2-adapter",
            f"{named[0]} stands on the command line, where every user of the host can read it.",
            "Leave it out; give AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY by a 0600 environment file.",
        )
    if adapter.get("type") != "nixl_store":
        return
    pool = adapter.get("pool_size")
    if isinstance(pool, bool) or not isinstance(pool, int) or pool <= 0:
        yield _finding(
            "MPS009",
            "error",
            "--l2-adapter pool_size",
            f"pool_size is {pool!r}; MP mode has a static pool only and refuses to start.",
            "Give the number of objects that the bucket may hold.",
        )
    elif context.geometry is not None and context.max_tokens is not None:
        need = context.geometry.objects(context.max_tokens) * context.geometry.mp_slots_per_chunk
        have = pool * _slots_per_file(params, context.geometry.mp_slot_bytes)
        if have < need:
            yield _finding(
                "MPS010",
                "error",
                "--l2-adapter pool_size",
                f"one request of {context.max_tokens} tokens makes {need} objects, the pool has {have}.",
                f"Give several times {need}.",
            )
    if adapter.get("backend") == "OBJ":
        # The parameters are judged as if they stood in a file; their place is the argument.
        doc = Document({"backend_params": params}, {}, ())
        yield from nixl_params.check(doc, ("backend_params",), context)


def _slots_per_file(params: dict[str, Any], slot: int) -> int:
    """Objects in one file of a file back end; 1 for object back ends."""
    size = whole_number(params.get("file_size"))
    return max(1, size // slot) if size else 1


def check_vllm(args: Sequence[str], context: Context) -> Iterator[Finding]:
    """Every finding about vLLM's arguments."""
    flags = _flags(args)
    if "--no-enable-prefix-caching" not in flags:
        yield _finding(
            "VLM001",
            context.strict(),
            "--no-enable-prefix-caching",
            "vLLM's own prefix cache is on by default and answers hot passes before the tier under test is asked.",
            "Add --no-enable-prefix-caching.",
        )
    text = flags.get("--kv-transfer-config")
    if text is None:
        if context.profile not in (None, "baseline"):
            yield _finding(
                "VLM002",
                "error",
                "--kv-transfer-config",
                "no connector is named: vLLM serves without an external cache.",
                "Add --kv-transfer-config.",
            )
        return
    if context.profile == "baseline":
        yield _finding(
            "VLM003",
            "error",
            "--kv-transfer-config",
            "a baseline has no external cache.",
            "Remove the connector.",
        )
    try:
        config: Any = json.loads(text)
    except ValueError:
        config = None
    if not isinstance(config, dict):
        yield _finding("VLM004", "error", "--kv-transfer-config", "it is not a JSON object.", "Correct it.")
        return
    connector = config.get("kv_connector")
    if connector not in _CONNECTORS:
        yield _finding(
            "VLM005",
            "error",
            "--kv-transfer-config kv_connector",
            f"{connector!r} is no connector of LMCache.{did_you_mean(str(connector), _CONNECTORS)}",
            "LMCacheMPConnector, or LMCacheConnectorV1 in process.",
        )
    if config.get("kv_role") != "kv_both":
        yield _finding(
            "VLM006",
            "error",
            "--kv-transfer-config kv_role",
            f"kv_role is {config.get('kv_role')!r}: this instance does not both store and load.",
            'Write "kv_role": "kv_both".',
        )
    if connector == "LMCacheConnectorV1":
        yield from in_process(context)
    if config.get("kv_load_failure_policy") == "recompute":
        yield _finding(
            "VLM007",
            "warning",
            "--kv-transfer-config kv_load_failure_policy",
            "recompute hides failed loads, and gives wrong output with vLLM's second model runner.",
            "Leave the default, fail.",
        )


def in_process(context: Context) -> Iterator[Finding]:
    """What is known against LMCache's in-process connector with these versions."""
    if context.vllm is not None and release(context.vllm) >= (0, 26):
        yield _finding(
            "STK001",
            "error",
            "vllm",
            f"vLLM {context.vllm} packs K and V into one tensor, which the in-process connector of LMCache "
            f"{context.lmcache.version} stores wrongly: the cache is corrupt and no error says so.",
            "Use vLLM 0.25.1 or older in process, or MP mode.",
        )
    if (0, 20) <= release(context.vllm or "0") < (0, 26) and context.lmcache_release >= (0, 5, 4):
        yield _finding(
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
        yield _finding(
            "STK004",
            "error",
            "vllm",
            f"vLLM {context.vllm} wants transformers below 5, LMCache {context.lmcache.version} 5.4 or newer: they "
            "cannot be installed together.",
            "Use vLLM 0.19.1, the nearest that can.",
        )
    if context.vllm is not None and (0, 19) <= release(context.vllm) < (0, 20):
        yield _finding(
            "STK005",
            "warning",
            "vllm",
            f"the wheel of vLLM {context.vllm} brings torch for CUDA 12 and LMCache's CUDA code is for 13: it does not "
            "load, and slow Python code takes over.",
            "Build both from source, or use stack dell-fixed.",
        )
    if context.lmcache_release < (0, 5, 4):
        yield _finding(
            "STK003",
            "warning",
            "lmcache",
            f"LMCache {context.lmcache.version} stores data under the wrong key when the first chunks of a prompt "
            "exist already (fixed in 0.5.4).",
            "Use stack dell-fixed, which takes the corrected file, and discard buckets written without it.",
        )


def _flags(args: Sequence[str]) -> dict[str, str | None]:
    """Flags and the value after each, `--a=b` taken apart; a flag without a value maps to None."""
    out: dict[str, str | None] = {}
    for number, argument in enumerate(args):
        if not argument.startswith("--"):
            continue
        name, sign, value = argument.partition("=")
        following = args[number + 1] if number + 1 < len(args) else None
        out[name] = value if sign else (following if following and not following.startswith("--") else None)
    return out


def _finding(code: str, severity: Any, key: str, reason: str, remedy: str) -> Finding:
    return Finding(code, severity, key, 0, reason, remedy)
