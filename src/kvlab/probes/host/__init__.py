"""Probes of a host: standard library only, Python 3.9 syntax, read-only; they are sent to the host as they are.

Job: {"topics": [name, ...], "sysfs": "/sys", "proc": "/proc", and what single topics take: see their modules}.
The facts are {topic: {...}}; a topic whose probe fails has {"error": sentence} alone, so that the others are judged.
"""

from __future__ import annotations

import importlib
import time
from typing import Any

from kvlab.probes import SCHEMA

TOPICS = {
    "kernel": "kernel",
    "pcie": "pcie",
    "network": "network",
    "driver": "driver",
    "gpu_topology": "topology",
    "rdma": "rdma",
    "firmware": "firmware",
    "gds": "gds",
    "processes": "processes",
    "files": "files",
    "lmcache_log": "logs",
    "lmcache": "lmcache",
    "vllm": "vllm",
    "venv": "venv",
    "profile": "profile",
    "packages": "packages",
}
"""Topic and the module that collects it."""


def run(job: Any) -> dict[str, Any]:
    """Facts of every topic in the job."""
    facts: dict[str, Any] = {}
    for topic in job["topics"]:
        began = time.monotonic()
        try:
            collect = importlib.import_module(f"kvlab.probes.host.{TOPICS[topic]}").collect
            facts[topic] = {"schema": SCHEMA, **collect(job)}
        except Exception as error:  # noqa: BLE001  one probe's failure is a fact, the others go on
            facts[topic] = {"error": f"the probe failed: {type(error).__name__}: {error}"}
        facts[topic]["seconds_taken"] = round(time.monotonic() - began, 3)
    return {"facts": facts, "now": time.time()}
