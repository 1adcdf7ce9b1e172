"""A lab whose vLLM kvlab does not manage (kvlab_serving_mode: external): containers, Kubernetes, Slurm.

What its URLs answer is judged as ever. What only the serving host shows is inconclusive, with the reason; not green.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

MODE = "external"
_HOST_ONLY = {
    "processes": "the limits, libraries and environment of the serving processes",
    "venv": "the serving environment",
    "files": "the files of secrets and configuration",
    "config": "the profile that is served",
    "lmcache_log": "the log of LMCache's server",
}


def job(get: Callable[[str, Any], Any]) -> dict[str, Any]:
    """What to collect by URL; `get` gives a variable of the lab, or a default."""
    lmcache = str(get("serving_lmcache_url", "") or "")
    url = str(get("serving_vllm_url", "") or "").rstrip("/")
    return {
        "topics": ["vllm", *(["lmcache"] if lmcache else [])],
        "vllm_url": url,
        "vllm_metrics_url": str(get("serving_metrics_url", "") or f"{url}/metrics"),
        "lmcache_url": lmcache.rstrip("/"),
        "connector": get("kvlab_active_profile", "") != "baseline",
    }


def unseen(asked: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """A topic for each thing that a job of this module cannot look at: the reason, and no facts."""
    topics = {topic: f"{what} cannot be looked at" for topic, what in _HOST_ONLY.items()}
    if asked["connector"] and not asked["lmcache_url"]:
        topics["lmcache"] = "LMCache's server cannot be asked: serving_lmcache_url is not given"
    if not asked["connector"]:
        del topics["lmcache_log"]
    why = "; vLLM is managed elsewhere (kvlab_serving_mode: external)"
    return {topic: {"error": f"{reason}{why}"} for topic, reason in topics.items()}
