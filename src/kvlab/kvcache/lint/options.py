"""Rules for what an lmcache.yaml switches on or off beside its storage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kvlab.kvcache.lint.document import EXTRA, Document, truthy, whole_number
from kvlab.kvcache.lint.types import Context, Finding
from kvlab.kvcache.versions import release

_HASHES = frozenset(("builtin", "sha256", "sha256_cbor", "sha256_cbor_64bit", "xxhash", "xxhash_cbor"))
"""Python's hash(), and the names that vLLM's get_hash_fn_by_name has had."""


def check(doc: Document, extra: dict[str, Any], context: Context) -> Iterator[Finding]:
    if truthy(extra.get("nixl_async_put")):
        yield doc.finding(
            "LMC037",
            "warning",
            (EXTRA, "nixl_async_put"),
            "asynchronous PUTs keep buffer pages busy while the next step stores, and failed ones are not cleaned up "
            "before LMCache 0.5.5.",
            "Write nixl_async_put: false.",
        )
    if truthy(extra.get("nixl_presence_cache_only")) and not truthy(extra.get("nixl_presence_cache")):
        yield doc.finding(
            "LMC038",
            "error",
            (EXTRA, "nixl_presence_cache_only"),
            "nixl_presence_cache_only needs nixl_presence_cache; vLLM does not start.",
            "Remove it: with it instances share nothing.",
        )
    elif truthy(extra.get("nixl_presence_cache")):
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
    elif direct is False:
        yield doc.finding(
            "LMC040",
            "warning",
            (EXTRA, "use_direct_io"),
            "use_direct_io is false: reads of files may come from the page cache and prove nothing of the storage.",
            "Write use_direct_io: true, where the file system has direct I/O.",
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
            if truthy(doc.get(*path)):
                yield doc.finding(
                    "LMC043",
                    "error",
                    path,
                    f"{key} does not go with the NIXL storage back end as tested.",
                    "Switch it off.",
                )
    if truthy(doc.get("enable_async_loading")) and extra.get("nixl_pool_size") == 0:
        yield doc.finding(
            "LMC054",
            "warning",
            ("enable_async_loading",),
            "enable_async_loading does not make the reads of a dynamic pool asynchronous; it only changes the lookup.",
            "Write enable_async_loading: false.",
        )
    algorithm = doc.get("pre_caching_hash_algorithm")
    if algorithm is not None and (not isinstance(algorithm, str) or algorithm not in _HASHES):
        yield doc.finding(
            "LMC057",
            "warning",
            ("pre_caching_hash_algorithm",),
            f"vLLM has no hash {algorithm!r}; LMCache takes Python's hash() instead, with a line in its log.",
            f"One of {', '.join(sorted(_HASHES))}.",
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
    if truthy(doc.get("internal_api_server_enabled")) and str(
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
