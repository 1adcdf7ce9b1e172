"""A lab of many healthy hosts, made of the good facts in tests/fixtures/facts."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import yaml

from kvlab.doctor.labfacts import LAB, LabFacts

FIXTURES = Path(__file__).parents[2] / "fixtures" / "facts"
OF_A_HOST = (
    *(
        "kernel",
        "pcie",
        "network",
        "clock",
        "files",
        "driver",
        "gpu_topology",
        "rdma",
        "firmware",
        "gds",
        "processes",
        "venv",
    ),
    *("config", "lmcache", "lmcache_log", "vllm"),
)
OF_THE_LAB = ("s3", "objectscale")


@functools.cache
def recorded(topic: str) -> Any:
    return yaml.safe_load((FIXTURES / f"{topic}.yml").read_text())["good"]


def good(topic: str) -> Any:
    return copy.deepcopy(recorded(topic))


def healthy(count: int = 2) -> LabFacts:
    """`count` hosts node1, node2, …; all that the doctor collects, and all of it good."""
    topics = {topic: good(topic) for topic in OF_A_HOST}
    hosts = {f"node{number}": copy.deepcopy(topics) for number in range(1, count + 1)}
    hosts[LAB] = {topic: good(topic) for topic in OF_THE_LAB}
    applies = {host: OF_THE_LAB if host == LAB else OF_A_HOST for host in hosts}
    return LabFacts("xe9680", False, "2026-12-02T20:00:00+00:00", hosts, applies)


def document(count: int = 2) -> dict[str, Any]:
    """The same as it stands in a file, free to be changed."""
    copied: dict[str, Any] = copy.deepcopy(healthy(count).as_json())
    return copied
