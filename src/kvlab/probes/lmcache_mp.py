"""Counts of an LMCache MP server: /status and /metrics, by one set of names for all versions.

Job: {"url": "http://127.0.0.1:8080", "settle": {"lookups": N}}; with `settle` it waits until the counts rest.
Counter names changed between LMCache 0.4.5 and 0.5.6 (facts/kv_bench.md 4.9), hence the map. Prometheus turns the
dots of the OpenTelemetry names into underscores and adds unit and `_total`.
"""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from typing import Any

from kvlab.probes import Facts, Job, document, main

# Our name -> the stems under which some LMCache version exports it (without unit and `_total`).
COUNTERS: dict[str, tuple[str, ...]] = {
    "lookup_requested_tokens": ("lmcache_mp_lookup_requested", "lmcache_mp_lookup_requested_tokens"),
    "lookup_hit_tokens": ("lmcache_mp_lookup_hit", "lmcache_mp_lookup_hit_tokens"),
    "lookup_hit_l1_tokens": ("lmcache_mp_lookup_hit_l1",),
    "lookup_hit_l2_tokens": ("lmcache_mp_lookup_hit_l2",),
    "lookups": ("lmcache_mp_lookups",),
    "l2_stored_chunks": ("lmcache_mp_l2_store_completed_objects", "lmcache_mp_l2_store_succeeded_keys"),
    "l2_loaded_chunks": ("lmcache_mp_l2_prefetch_load_completed", "lmcache_mp_l2_prefetch_loaded_keys"),
}
_UNITS = ("", "_tokens", "_keys", "_chunks", "_requests")
_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{.*\})? ([0-9.eE+-]+)$")


def parse(text: str) -> dict[str, float]:
    """Prometheus text to {sample name: sum over its labels}."""
    sums: dict[str, float] = {}
    for line in text.splitlines():
        sample = _SAMPLE.match(line)
        if sample:
            sums[sample[1]] = sums.get(sample[1], 0.0) + float(sample[2])
    return sums


def counters(samples: dict[str, float]) -> dict[str, int | None]:
    """Our counters; None where this version has no such metric or has not counted anything yet."""
    found: dict[str, int | None] = {}
    for name, stems in COUNTERS.items():
        names = [f"{stem}{unit}_total" for stem in stems for unit in _UNITS]
        hit = next((n for n in names if n in samples), None)
        found[name] = None if hit is None else int(samples[hit])
    return found


def collect(url: str) -> Facts:
    """Status and counters of the server at `url`; `available` is false when it is silent."""
    try:
        status = _get_json(f"{url}/status")
        version = _get_json(f"{url}/lmc_version")
        samples = parse(_get(f"{url}/metrics"))
    except (OSError, ValueError) as error:
        return document("lmcache_mp", None, url=url, available=False, error=str(error), counters={}, l2=[])
    storage = status["storage_manager"]
    return document(
        "lmcache_mp",
        None,
        url=url,
        available=True,
        error=None,
        version=version,
        healthy=status["is_healthy"],
        chunk_tokens=status["chunk_size"],
        counters=counters(samples),
        engines=len(status.get("registered_non_cuda_instance_ids", []))
        + len(status.get("registered_gpu_ids", [])),
        l2=storage["l2_adapters"],
        storing=_storing(storage),
    )


def settle(url: str, lookups: int = 0, timeout_s: float = 15.0) -> Facts:
    """`collect` once nothing is being stored any more and the counters rest.

    A request is answered before its chunks are stored, and metrics pass through a queue of their own: so two
    equal readings in a row are asked for, and at least `lookups` counted lookups. When `timeout_s` passes first,
    the last reading is returned: fewer lookups than requests is a fact that the checks judge.
    """
    deadline = time.monotonic() + timeout_s
    last = collect(url)
    while last["available"] and time.monotonic() < deadline:
        time.sleep(0.2)
        now = collect(url)
        counted = (now["counters"].get("lookups") or 0) >= lookups
        if now["available"] and now["storing"] == 0 and counted and now["counters"] == last["counters"]:
            return now
        last = now
    return last


def _storing(storage: dict[str, Any]) -> int:
    stores = storage.get("store_controllers", {}).values()
    return sum(s["pending_keys_count"] + s["in_flight_task_count"] for s in stores)


def _get(url: str) -> str:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            body: str = answer.read().decode()
            return body
    except urllib.error.HTTPError as error:
        raise OSError(f"{url} answered {error.code}") from error


def _get_json(url: str) -> Any:
    import json

    return json.loads(_get(url))


def run(job: Job) -> Facts:
    """The probe's entry: see the module's text for the job."""
    url = job["url"].rstrip("/")
    if (wait := job.get("settle")) is not None:
        return settle(url, lookups=int(wait.get("lookups", 0)))
    return collect(url)


if __name__ == "__main__":
    main(run)
