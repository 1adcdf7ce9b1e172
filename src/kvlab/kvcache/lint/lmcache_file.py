"""Rules for lmcache.yaml, the file of LMCache's in-process mode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvlab.kvcache import knownkeys
from kvlab.kvcache.geometry import GIB
from kvlab.kvcache.lint import nixl_params
from kvlab.kvcache.lint.document import Document, whole_number
from kvlab.kvcache.lint.types import Context, Finding, did_you_mean, nearest
from kvlab.kvcache.versions import release

CUOBJECT_LIMIT = 4 * GIB - 64 * 1024
"""Largest single registration that the cuObject documentation allows."""
ENGINE_STEP_TOKENS = 8192
"""Tokens of one prefill step: vLLM's usual max_num_batched_tokens for a server."""
VLLM_BLOCK_TOKENS = 16

EXTRA = "extra_config"


def check(doc: Document, context: Context) -> Iterator[Finding]:
    """Every finding about an lmcache.yaml."""
    for key, line in doc.twice:
        yield Finding(
            "LMC001",
            "error",
            key,
            line,
            f"{key} is given twice; the last one counts.",
            "Remove one of the two.",
        )
    yield from _top_keys(doc, context)
    extra = doc.get(EXTRA)
    if extra is not None and not isinstance(extra, dict):
        yield doc.finding(
            "LMC002",
            "error",
            (EXTRA,),
            "extra_config is not a mapping.",
            "Indent its keys under extra_config.",
        )
        return
    if not isinstance(extra, dict):
        extra = {}
    yield from _extra_keys(doc, extra, context)
    if not extra.get("enable_nixl_storage"):
        if any(key.startswith("nixl_") for key in extra) or context.profile is not None:
            yield doc.finding(
                "LMC003",
                "error",
                (EXTRA, "enable_nixl_storage"),
                "enable_nixl_storage is not on: every other NIXL setting is without effect.",
                "Write enable_nixl_storage: true under extra_config.",
            )
        return
    yield from _storage(doc, extra, context)


def _top_keys(doc: Document, context: Context) -> Iterator[Finding]:
    keys = context.lmcache
    for key, value in doc.values.items():
        path = (key,)
        if key in keys.renamed:
            new = keys.renamed[key]
            yield doc.finding(
                "LMC004",
                "warning",
                path,
                f"{key} is an old name in LMCache {keys.version}.",
                f"Write {new}." if new else "See the release notes for what replaces it.",
            )
        elif key not in keys.top:
            hint = did_you_mean(key, keys.top)
            if key in keys.extra:
                hint = " It belongs under extra_config."
            yield doc.finding(
                "LMC005",
                "error",
                path,
                f"LMCache {keys.version} has no key {key}; it warns in its log and goes on without.{hint}",
                "Correct or remove the key.",
            )
        else:
            yield from _type(doc, key, value, keys.top[key].type)


def _type(doc: Document, key: str, value: Any, kind: str) -> Iterator[Finding]:
    """What LMCache's own conversion makes of a value that has the wrong type: often nothing at all."""
    if value is None:
        return
    if (
        kind == "bool"
        and not isinstance(value, bool)
        and str(value).strip().lower() not in ("true", "false", "1", "0")
    ):
        yield doc.finding(
            "LMC006",
            "error",
            (key,),
            f"{key} is {value!r}, which LMCache reads as false.",
            "Write true or false.",
        )
    elif kind == "int" and whole_number(value) is None:
        yield doc.finding(
            "LMC006",
            "error",
            (key,),
            f"{key} is {value!r}, not a whole number; LMCache drops it.",
            "Write a number.",
        )
    elif kind == "float":
        try:
            float(value)
        except (TypeError, ValueError):
            yield doc.finding(
                "LMC006",
                "error",
                (key,),
                f"{key} is {value!r}, not a number; LMCache drops it.",
                "Write a number.",
            )


def _extra_keys(doc: Document, extra: dict[str, Any], context: Context) -> Iterator[Finding]:
    known = context.lmcache.extra
    for key in extra:
        path = (EXTRA, key)
        if key in known or "." in key or key.startswith(("storage_plugin", "remote_storage_plugin")):
            continue
        if key in context.lmcache.top:
            yield doc.finding(
                "LMC007",
                "error",
                path,
                f"{key} is not read under extra_config.",
                "Move it to the top level of the file.",
            )
            continue
        near = nearest(key, known)
        sure = near is not None or "nixl" in key
        yield doc.finding(
            "LMC008",
            "error" if sure else "warning",
            path,
            f"LMCache {context.lmcache.version} reads no {key} in extra_config and says nothing about it."
            + (f" Did you mean {near}?" if near else ""),
            "Correct or remove the key.",
        )


def _storage(doc: Document, extra: dict[str, Any], context: Context) -> Iterator[Finding]:
    backend = _backend_name(extra)
    yield from _backend(doc, backend, context)
    yield from _pool(doc, extra, context)
    yield from _device_and_buffer(doc, extra, context)
    yield from _tiers(doc, context)
    yield from _options(doc, extra, context)
    yield from _endpoint_list(doc, extra, context)
    if backend == "OBJ":
        where = (EXTRA, "nixl_backend_params")
        if extra.get("nixl_backend_params") is None:
            yield doc.finding(
                "LMC009",
                "error",
                where,
                "nixl_backend_params is missing: no bucket, no endpoint.",
                "Add bucket, endpoint_override, scheme and the checksum settings.",
            )
        else:
            yield from nixl_params.check(doc, where, context, extra.get("nixl_endpoint_list"))
    yield from _profile(doc, extra, context)


def _backend(doc: Document, backend: str | None, context: Context) -> Iterator[Finding]:
    path = (EXTRA, "nixl_backend")
    known = knownkeys.data("nixl-obj")["backends"]
    if backend is None:
        yield doc.finding(
            "LMC010",
            "error",
            path,
            "nixl_backend is missing; vLLM does not start (an assertion without a message).",
            "Write nixl_backend: OBJ.",
        )
    elif backend not in known or (backend == "DOCA_MEMOS" and context.lmcache_release < (0, 4, 7)):
        yield doc.finding(
            "LMC011",
            "error",
            path,
            f"{backend!r} is no NIXL back end that LMCache {context.lmcache.version} takes."
            + did_you_mean(backend.upper(), known),
            f"One of {', '.join(known)}.",
        )
    elif known[backend]["file"]:
        if not doc.get(EXTRA, "nixl_path"):
            yield doc.finding(
                "LMC012",
                "error",
                (EXTRA, "nixl_path"),
                f"{backend} needs a folder.",
                "Add nixl_path: /mounted/folder.",
            )
        if backend == "GDS_MT" and doc.get("use_layerwise"):
            yield doc.finding(
                "LMC013",
                "error",
                ("use_layerwise",),
                "layerwise loading does not work with GDS_MT.",
                "Switch it off.",
            )


def _pool(doc: Document, extra: dict[str, Any], context: Context) -> Iterator[Finding]:
    path = (EXTRA, "nixl_pool_size")
    size = extra.get("nixl_pool_size")
    if size is None:
        yield doc.finding(
            "LMC014",
            "error",
            path,
            "nixl_pool_size is missing: vLLM does not start, with an AssertionError that has no message.",
            "Write nixl_pool_size: 0 for keys that all instances share.",
        )
        return
    if isinstance(size, bool) or not isinstance(size, int):
        yield doc.finding(
            "LMC015",
            "error",
            path,
            f"nixl_pool_size is {size!r}, not a whole number: it is taken for a static pool and fails later.",
            "Write nixl_pool_size: 0, without quotes.",
        )
        return
    if size < 0:
        yield doc.finding(
            "LMC016",
            "error",
            path,
            f"nixl_pool_size is {size}: it is taken for a static pool and fails later.",
            "Write nixl_pool_size: 0.",
        )
    elif size > 0:
        file_backend = _backend_name(extra) != "OBJ"
        yield doc.finding(
            "LMC017",
            "warning" if file_backend else context.strict(),
            path,
            f"a static pool of {size} objects has random names and an index in memory: nothing is shared between "
            "instances, and nothing is found after a restart.",
            "Write nixl_pool_size: 0.",
        )
    elif context.lmcache_release < (0, 4, 6) and _backend_name(extra) not in ("OBJ", "AZURE_BLOB", None):
        yield doc.finding(
            "LMC018",
            "error",
            path,
            f"LMCache {context.lmcache.version} has a dynamic pool for object back ends only.",
            "Give the number of files, or use OBJ.",
        )
    if size == 0 and doc.get("save_unfull_chunk"):
        yield doc.finding(
            "LMC019",
            "error",
            ("save_unfull_chunk",),
            "save_unfull_chunk does not go with a dynamic pool; LMCache falls back to serving without a cache.",
            "Write save_unfull_chunk: false.",
        )


def _device_and_buffer(doc: Document, extra: dict[str, Any], context: Context) -> Iterator[Finding]:
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
    if on_gpu and _backend_name(extra) == "OBJ" and not accelerated:
        yield doc.finding(
            "LMC023",
            "error",
            at_device,
            "NIXL's plain S3 engine takes host memory only; registration fails and vLLM serves without a cache.",
            'Write nixl_buffer_device: cpu, or switch the engine on with accelerated: "true" and type: "dell".',
        )
    devices = knownkeys.data("nixl-obj")["backends"].get(_backend_name(extra) or "", {}).get("devices", [])
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
    if local is None or _truthy(local):
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


def _options(doc: Document, extra: dict[str, Any], context: Context) -> Iterator[Finding]:
    if _truthy(extra.get("nixl_async_put")):
        yield doc.finding(
            "LMC037",
            "warning",
            (EXTRA, "nixl_async_put"),
            "asynchronous PUTs keep buffer pages busy while the next step stores, and failed ones are not cleaned up "
            "before LMCache 0.5.5.",
            "Write nixl_async_put: false.",
        )
    if _truthy(extra.get("nixl_presence_cache_only")) and not _truthy(extra.get("nixl_presence_cache")):
        yield doc.finding(
            "LMC038",
            "error",
            (EXTRA, "nixl_presence_cache_only"),
            "nixl_presence_cache_only needs nixl_presence_cache; vLLM does not start.",
            "Remove it: with it instances share nothing.",
        )
    elif _truthy(extra.get("nixl_presence_cache")):
        yield doc.finding(
            "LMC039",
            "warning",
            (EXTRA, "nixl_presence_cache"),
            "the presence cache answers without asking the store and is wrong once the bucket is emptied.",
            "Write nixl_presence_cache: false.",
        )
    direct = extra.get("use_direct_io")
    if direct is not None and not isinstance(direct, bool):
        yield doc.finding(
            "LMC040",
            "error",
            (EXTRA, "use_direct_io"),
            f"use_direct_io is {direct!r}.",
            "Write true or false.",
        )
    if "nixl_use_hugepages" in extra and context.lmcache_release >= (0, 5):
        yield doc.finding(
            "LMC041",
            "warning",
            (EXTRA, "nixl_use_hugepages"),
            "nixl_use_hugepages is deprecated.",
            "Write local_cpu_use_hugepages at the top level.",
        )
    if doc.has("nixl_backends"):
        yield doc.finding(
            "LMC042",
            "warning",
            ("nixl_backends",),
            "nixl_backends is for prefill/decode transfer and has no effect on storage.",
            "Use extra_config.nixl_backend.",
        )
    for key in ("use_layerwise", "use_gpu_connector_v3"):
        for path in ((key,), (EXTRA, key)):
            if _truthy(doc.get(*path)):
                yield doc.finding(
                    "LMC043",
                    "error",
                    path,
                    f"{key} does not go with the NIXL storage back end as tested.",
                    "Switch it off.",
                )
    timeout = whole_number(doc.get("lookup_timeout_ms"))
    if timeout is not None and timeout < 3000:
        yield doc.finding(
            "LMC044",
            "warning",
            ("lookup_timeout_ms",),
            f"after {timeout} ms a lookup counts as a miss and everything is recomputed without an error; one lookup "
            "is a HEAD request per chunk.",
            "Leave it at 3000 or more.",
        )
    if _truthy(doc.get("internal_api_server_enabled")) and str(
        doc.get("internal_api_server_host") or "0.0.0.0"
    ) not in (
        "127.0.0.1",
        "localhost",
        "::1",
    ):
        yield doc.finding(
            "LMC045",
            "warning",
            ("internal_api_server_enabled",),
            "the internal API can run code (POST /run_script) and listens on all addresses.",
            "Write internal_api_server_host: 127.0.0.1.",
        )

    if extra.get("nixl_sync_mode") is not None and release(context.nixl) < (1, 2):
        yield doc.finding(
            "LMC046",
            "error",
            (EXTRA, "nixl_sync_mode"),
            f"NIXL {context.nixl} has no sync mode, and LMCache refuses the key there.",
            "Remove it, or use NIXL 1.2 or newer.",
        )


def _endpoint_list(doc: Document, extra: dict[str, Any], context: Context) -> Iterator[Finding]:
    endpoints = extra.get("nixl_endpoint_list")
    path = (EXTRA, "nixl_endpoint_list")
    if endpoints is None:
        if doc.has(*path):
            yield doc.finding("LMC047", "error", path, "nixl_endpoint_list is empty.", "Fill or remove it.")
        return
    if not isinstance(endpoints, list) or not endpoints:
        yield doc.finding(
            "LMC047",
            "error",
            path,
            "nixl_endpoint_list must be a list with at least one endpoint; LMCache refuses it.",
            "List the data nodes, or remove the key.",
        )
        return
    params = extra.get("nixl_backend_params")
    params = params if isinstance(params, dict) else {}
    for number, endpoint in enumerate(endpoints):
        here = (*path, str(number))
        if isinstance(endpoint, str):
            yield from nixl_params.check_url(doc, here, endpoint, params.get("scheme"))
        else:
            yield doc.finding(
                "NIX015", "error", here, f"{endpoint!r} is no endpoint.", "Write http(s)://host:port."
            )
    if len({str(endpoint) for endpoint in endpoints}) < len(endpoints):
        yield doc.finding(
            "LMC048", "warning", path, "an endpoint is listed twice.", "List each data node once."
        )
    if _backend_name(extra) not in ("OBJ", None):
        yield doc.finding("LMC049", "warning", path, "endpoints are used by OBJ only.", "Remove the list.")
    if "endpoint_override" in params:
        yield doc.finding(
            "LMC050",
            "note",
            (EXTRA, "nixl_backend_params", "endpoint_override"),
            "nixl_endpoint_list overrides this endpoint.",
            "Remove one of the two.",
        )
    if context.geometry is not None and len(endpoints) > context.tp:
        yield doc.finding(
            "LMC051",
            "note",
            path,
            f"{len(endpoints)} endpoints for {context.tp} ranks: rank n takes endpoint n, the rest is not used.",
            "Give every host its own order of the list.",
        )


def _profile(doc: Document, extra: dict[str, Any], context: Context) -> Iterator[Finding]:
    params = extra.get("nixl_backend_params")
    accelerated = isinstance(params, dict) and nixl_params.is_accelerated(params)
    backend = _backend_name(extra)
    wrong = {
        "baseline": "a baseline has no external cache",
        "s3-http": "this file asks for the accelerated engine" if accelerated else None,
        "s3-rdma": None if accelerated else "this file does not ask for the accelerated engine",
        "file": "this file uses the object back end" if backend == "OBJ" else None,
    }.get(context.profile or "")
    if wrong is None and context.profile in ("s3-http", "s3-rdma") and backend != "OBJ":
        wrong = f"this file uses {backend}"
    if wrong:
        yield doc.finding(
            "LMC052",
            "error",
            (EXTRA, "nixl_backend_params", "accelerated"),
            f"the profile is {context.profile}, but {wrong}.",
            "Correct the file or name the right profile.",
        )


def _backend_name(extra: dict[str, Any]) -> str | None:
    """The back end as text, whatever YAML made of it; None where none is given."""
    value = extra.get("nixl_backend")
    return None if value is None else str(value)


def _truthy(value: Any) -> bool:
    return value is True or (isinstance(value, (str, int)) and str(value).strip().lower() in ("true", "1"))


def _number(value: Any, default: Any) -> float | None:
    try:
        number = float(default if value is None else value)
    except (TypeError, ValueError):
        return None
    return number if abs(number) < 1e12 else None
