"""Rules for the NIXL storage of an lmcache.yaml: back end, pool, endpoints, what the profile asks for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvlab.kvcache import knownkeys
from kvlab.kvcache.lint import buffers, nixl_params, options
from kvlab.kvcache.lint.document import EXTRA, Document, backend_name
from kvlab.kvcache.lint.types import Context, Finding, did_you_mean


def check(doc: Document, extra: dict[str, Any], context: Context) -> Iterator[Finding]:
    backend = backend_name(extra)
    yield from _backend(doc, backend, context)
    yield from _pool(doc, extra, context)
    yield from buffers.check(doc, extra, context)
    yield from options.check(doc, extra, context)
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
        yield from _paths(doc, context)
        if backend == "GDS_MT" and doc.get("use_layerwise"):
            yield doc.finding(
                "LMC013",
                "error",
                ("use_layerwise",),
                "layerwise loading does not work with GDS_MT.",
                "Switch it off.",
            )


def _paths(doc: Document, context: Context) -> Iterator[Finding]:
    path, sharding = doc.get(EXTRA, "nixl_path"), doc.get(EXTRA, "nixl_path_sharding")
    takes_lists = "nixl_path_sharding" in context.lmcache.extra
    if isinstance(path, list) and not (takes_lists and doc.get(EXTRA, "nixl_pool_size")):
        yield doc.finding(
            "LMC055",
            "error",
            (EXTRA, "nixl_path"),
            "several folders are for a static pool only."
            if takes_lists
            else f"LMCache {context.lmcache.version} takes one folder only.",
            "Write nixl_path: /mounted/folder.",
        )
    if takes_lists and sharding not in (None, "by_gpu"):
        yield doc.finding(
            "LMC056",
            "error",
            (EXTRA, "nixl_path_sharding"),
            f"nixl_path_sharding {sharding!r} does not exist; the back end does not start, and vLLM serves without a "
            "cache.",
            "Write by_gpu, or remove the key.",
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
        file_backend = backend_name(extra) != "OBJ"
        yield doc.finding(
            "LMC017",
            "warning" if file_backend else context.strict(),
            path,
            f"a static pool of {size} objects has random names and an index in memory: nothing is shared between "
            "instances, and nothing is found after a restart.",
            "Write nixl_pool_size: 0.",
        )
    elif context.lmcache_release < (0, 4, 6) and backend_name(extra) not in ("OBJ", "AZURE_BLOB", None):
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
            yield from nixl_params.plain_http(doc, here, endpoint, nixl_params.has_real_keys(params, context))
        else:
            yield doc.finding(
                "NIX015", "error", here, f"{endpoint!r} is no endpoint.", "Write http(s)://host:port."
            )
    if len({str(endpoint) for endpoint in endpoints}) < len(endpoints):
        yield doc.finding(
            "LMC048", "warning", path, "an endpoint is listed twice.", "List each data node once."
        )
    if backend_name(extra) not in ("OBJ", None):
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
    backend = backend_name(extra)
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
