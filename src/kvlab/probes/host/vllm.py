"""vLLM's server: health, model, requests; topic `vllm` (see checks.lmcache).

Job: {"vllm_url": "http://127.0.0.1:8000", "connector": bool}, and "vllm_metrics_url" where that is not /metrics. The
metrics are read twice, a second apart, when requests are on their way, to tell an engine that works from one that
hangs.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any

from kvlab.probes import lmcache_mp

PAUSE_S = 1.0


def collect(job: Any) -> dict[str, Any]:
    """Facts about the server; `available` is false when it is silent."""
    url = job["vllm_url"]
    metrics = job.get("vllm_metrics_url") or f"{url}/metrics"
    facts: dict[str, Any] = {"connector": bool(job.get("connector")), "seconds": PAUSE_S}
    try:
        facts["status"] = status(f"{url}/health")
        models = json.loads(get(f"{url}/v1/models"))["data"]
        now = counts(lmcache_mp.parse(get(metrics)))
    except (OSError, ValueError, KeyError) as error:
        return {**facts, "available": False, "error": str(error), "status": None, "model": None}
    later = None
    if now["running"] + now["waiting"] > 0:
        time.sleep(PAUSE_S)
        try:
            again = counts(lmcache_mp.parse(get(metrics)))
            later = {name: again[name] for name in ("running", "waiting", "finished")}
        except OSError:
            later = None
    else:
        later = {name: now[name] for name in ("running", "waiting", "finished")}
    model = models[0] if models else {}
    return {
        **facts,
        "available": True,
        "error": None,
        "model": model.get("id"),
        "max_model_len": model.get("max_model_len"),
        **now,
        "later": later,
    }


def counts(samples: dict[str, float]) -> dict[str, Any]:
    """Our numbers out of vLLM's samples, whose names end with _total in some releases."""

    def value(*names: str) -> float | None:
        return next((samples[name] for name in names if name in samples), None)

    return {
        "running": value("vllm:num_requests_running") or 0.0,
        "waiting": value("vllm:num_requests_waiting") or 0.0,
        "finished": value("vllm:request_success_total", "vllm:request_success") or 0.0,
        "external_queries": value(
            "vllm:external_prefix_cache_queries_total", "vllm:external_prefix_cache_queries"
        ),
        "external_hits": value("vllm:external_prefix_cache_hits_total", "vllm:external_prefix_cache_hits"),
    }


def status(url: str) -> int:
    """The HTTP status of a GET."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            code: int = answer.status
            return code
    except urllib.error.HTTPError as error:
        return error.code


def get(url: str) -> str:
    """The body of a GET."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        body: str = answer.read().decode()
        return body
