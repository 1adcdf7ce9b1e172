"""Preflight's judgement: each check passes on a good host and names what is wrong on a bad one."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest

from kvlab import checks

GIB = 1024**3

GOOD: dict[str, Any] = {
    "inventory": {
        "stack": "a",
        "stacks": ["a", "b"],
        "profile": "s3-rdma",
        "profiles": ["baseline", "s3-rdma"],
    },
    "host": {
        "state_dir": "/srv/lab/.lab",
        "system": "Linux",
        "machine": "x86_64",
        "python": {"interpreter": "python3", "version": "3.11.7", "venv": True},
        "memory": {"total": 24 * GIB, "available": 20 * GIB},
        "disk": {"path": "/srv", "free": 50 * GIB, "writable": True},
        "serving_venv_ready": False,
        "compiler": "/usr/bin/g++",
        "make": "/usr/bin/make",
        "root": False,
        "apt": None,
        "sockets": ["/srv/lab/.lab/run/supervisor.sock"],
        "ports": [{"purpose": "s3", "port": 9020, "held": False, "own": False}],
        "model": None,
        "object_store": None,
    },
}

BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "HOST001": ("host", {"machine": "aarch64"}, "aarch64"),
    "HOST002": ("host", {"python": {"interpreter": "python3", "version": "3.13.1", "venv": True}}, "3.13.1"),
    "HOST003": ("host", {"memory": {"total": 4 * GIB, "available": 3 * GIB}}, "4.0 GiB"),
    "HOST004": ("host", {"disk": {"path": "/srv", "free": GIB, "writable": True}}, "/srv has 1.0 GiB"),
    "HOST005": ("host", {"compiler": None}, "not found"),
    "HOST006": (
        "host",
        {
            "ports": [
                {"purpose": "s3", "port": 9020, "held": True, "own": False, "pid": 7, "process": "nginx"}
            ]
        },
        r"port 9020 \(s3\) is held by process 7 \(nginx\)",
    ),
    "HOST007": ("host", {"sockets": ["/" + "x" * 120]}, "121 of 107"),
    "HOST008": (
        "host",
        {"model": {"dir": "/m", "problem": None, "max_position_embeddings": 4096, "max_model_len": 16384}},
        "16384; /m allows 4096",
    ),
    "HOST009": (
        "host",
        {"object_store": {"endpoint": "http://x", "problem": "nothing answers at http://x"}},
        "nothing",
    ),
    "HOST011": ("host", {"state_dir": "/srv/my lab/.lab"}, "' '"),
    "HOST010": ("inventory", {"stack": "c"}, "there is no stack 'c'; there are a, b"),
}


def test_every_preflight_check_passes_on_a_good_host() -> None:
    findings = checks.judge(GOOD, ("HOST",))
    assert {f.id for f in findings} == set(BAD)
    assert checks.not_passed(findings) == []


@pytest.mark.parametrize("check_id", BAD)
def test_a_preflight_check_fails_on_its_bad_host_alone_and_names_the_evidence(check_id: str) -> None:
    topic, change, evidence = BAD[check_id]
    facts = copy.deepcopy(GOOD)
    facts[topic] |= change
    found = checks.not_passed(checks.judge(facts, ("HOST",)))
    assert [f.id for f in found] == [check_id]
    assert found[0].status == "fail"
    assert found[0].remedy
    assert re.search(evidence, "; ".join(found[0].evidence))


def test_the_labs_own_programs_may_hold_its_ports() -> None:
    facts = copy.deepcopy(GOOD)
    facts["host"]["ports"] = [
        {"purpose": "s3", "port": 9020, "held": True, "own": True, "pid": 7, "process": "kvlab"}
    ]
    assert checks.not_passed(checks.judge(facts, ("HOST006",))) == []


def test_a_model_that_cannot_be_read_is_reported_in_its_own_words() -> None:
    facts = copy.deepcopy(GOOD)
    facts["host"]["model"] = {"dir": "/m", "problem": "/m has no config.json"}
    found = checks.judge(facts, ("HOST008",))[0]
    assert (found.status, found.evidence) == ("fail", ("/m has no config.json",))


def test_missing_facts_are_inconclusive_and_never_green() -> None:
    assert {f.status for f in checks.judge({}, ("HOST",))} == {"inconclusive"}
