"""vLLM's server: health, model, requests; topic `vllm` (see checks.lmcache).

Job: {"vllm_url": "http://127.0.0.1:8000", "connector": bool, "patience_s": seconds, default 6}, and "vllm_metrics_url"
where that is not /metrics. An engine that hangs while nothing is asked of it looks like an idle one, so one token is
asked for, and the metrics are read before and after it.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from typing import Any

from kvlab.probes import lmcache_mp

PATIENCE_S = 6.0
"""A step of an engine takes a second or two on a CPU; a probe has ten."""


def collect(job: Any) -> dict[str, Any]:
    """Facts about the server; `available` is false when it is silent."""
    url = job["vllm_url"]
    metrics = job.get("vllm_metrics_url") or f"{url}/metrics"
    facts: dict[str, Any] = {"connector": bool(job.get("connector"))}
    try:
        facts["status"] = status(f"{url}/health")
        models = json.loads(get(f"{url}/v1/models"))["data"]
        now = counts(lmcache_mp.parse(get(metrics)))
    except (OSError, ValueError, KeyError) as error:
        return {**facts, "available": False, "error": str(error), "status": None, "model": None}
    model = models[0] if models else {}
    began = time.monotonic()
    request = ask(url, model.get("id"), float(job.get("patience_s") or PATIENCE_S))
    seconds = round(time.monotonic() - began, 3)
    try:
        later: dict[str, Any] | None = counts(lmcache_mp.parse(get(metrics)))
    except (OSError, ValueError):
        later = None
    return {
        **facts,
        "available": True,
        "error": None,
        "model": model.get("id"),
        "max_model_len": model.get("max_model_len"),
        **now,
        "request": request,
        "seconds": seconds,
        "later": later,
    }


def ask(url: str, model: str | None, patience_s: float) -> dict[str, Any]:
    """Ask for one token; {"status": HTTP status, or null when no answer came in time, "error": sentence or null}."""
    body = json.dumps({"model": model, "prompt": "a", "max_tokens": 1, "temperature": 0}).encode()
    request = urllib.request.Request(f"{url}/v1/completions", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=patience_s) as answer:
            answer.read()
            return {"status": answer.status, "error": None}
    except urllib.error.HTTPError as error:
        return {"status": error.code, "error": str(error)}
    except OSError as error:
        return {"status": None, "error": str(error)}


def counts(samples: dict[str, float]) -> dict[str, Any]:
    """Our numbers out of vLLM's samples, whose names end with _total in some releases."""

    def value(*names: str) -> float | None:
        return next((samples[name] for name in names if name in samples), None)

    return {
        "running": value("vllm:num_requests_running") or 0.0,
        "waiting": value("vllm:num_requests_waiting") or 0.0,
        "finished": value("vllm:request_success_total", "vllm:request_success") or 0.0,
        "generated": value("vllm:generation_tokens_total", "vllm:generation_tokens") or 0.0,
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
