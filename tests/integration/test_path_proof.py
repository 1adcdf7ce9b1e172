"""Which path the payload took, with a control: a quiet interval first, then the promised path, then the other one.

Payload, by the store's log, must match to the byte; and a transfer over HTTP must look different, or the evidence
could not have told the two apart.
"""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from harness import ENGINE_PATHS, Bench

from kvlab.checks import judge
from kvlab.checks.path import by_body, by_rdma, is_payload
from kvlab.objectscale import s3
from kvlab.probes import Facts

pytestmark = pytest.mark.integration

QUIET_S = 2.0
QUIET_TRIES = 5
OBJECTS, SIZE = 8, 1 << 20


def moved(requests: list[Facts]) -> dict[str, int]:
    """Payload bytes in both directions, by path."""
    payload = [r for r in requests if is_payload(r)]
    return {"rdma": sum(map(by_rdma, payload)), "http": sum(map(by_body, payload))}


def wait_for_quiet(bench: Bench) -> None:
    """Until nothing has moved in the bucket for a while; a bucket that others use proves nothing."""
    for _ in range(QUIET_TRIES):
        mark = bench.mark()
        time.sleep(QUIET_S)
        if not any(moved(bench.requests(mark, bench.bucket)).values()):
            return
    pytest.fail(
        f"inconclusive: somebody else uses bucket {bench.bucket}; no interval of {QUIET_S} s was quiet",
        pytrace=False,
    )


@pytest.fixture(scope="session")
def by_engine(session_bench: Bench) -> dict[str, tuple[list[Facts], list[Facts]]]:
    """The transfers of each engine and the store's log of them, each after a quiet interval."""
    found = {}
    for engine in ENGINE_PATHS:
        s3.empty(session_bench.s3, session_bench.bucket)
        wait_for_quiet(session_bench)
        seed = int.from_bytes(os.urandom(4)) << 8
        plan: list[dict[str, Any]] = [
            {"op": op, "key": f"path-{i}", "size": SIZE, "seed": seed + i}
            for op in ("write", "read")
            for i in range(OBJECTS)
        ]
        mark = session_bench.mark()
        facts = session_bench.probe("nixl_roundtrip", session_bench.job(engine, transfers=plan))
        found[engine] = facts["transfers"], session_bench.requests(mark, session_bench.bucket)
    return found


@pytest.mark.parametrize("engine", list(ENGINE_PATHS))
def test_the_promised_path_carried_the_payload_to_the_byte_and_the_other_nothing(
    engine: str, by_engine: dict[str, tuple[list[Facts], list[Facts]]], bench: Bench
) -> None:
    transfers, requests = by_engine[engine]
    path = ENGINE_PATHS[engine]
    bench.prove(bench.path_facts(path, transfers, requests), "PATH001", "PATH002", "PATH003", "PATH004")
    found = moved(requests)
    bench.record("path.bytes", found)
    other = next(name for name in found if name != path)
    assert found == {path: 2 * OBJECTS * SIZE, other: 0}


def test_a_control_transfer_over_http_does_not_pass_for_one_by_rdma(
    by_engine: dict[str, tuple[list[Facts], list[Facts]]], bench: Bench
) -> None:
    transfers, requests = by_engine["standard"]
    findings = judge(bench.path_facts("rdma", transfers, requests), ["PATH002", "PATH003"])
    assert {f.id: f.status for f in findings} == {"PATH002": "fail", "PATH003": "fail"}
