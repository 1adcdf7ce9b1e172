"""What hardware alone can prove. Without it these are skips with a reason; with --require-hardware they are failures.

So no lab of stand-ins is green with that option, however many hosts it has.
"""

from __future__ import annotations

import os
import time
from typing import Any

import labhosts
import pytest
from harness import Bench, Tell

from kvlab.checks import REGISTRY
from kvlab.doctor import collect, hosts
from kvlab.doctor.labfacts import LAB, LabFacts
from kvlab.doctor.sampling import Sampling, transfer

pytestmark = pytest.mark.integration

SIZE = 32 << 20
OBJECTS = 16
SAMPLES_HZ = 5


@pytest.fixture(scope="session")
def looked(inventory: labhosts.Inventory, tell: Tell) -> LabFacts:
    """What the doctor's probes find in the whole lab, once for all hosts."""
    return collect.lab(inventory.path, tell)


def prove_topics(bench: Bench, looked: LabFacts, host: str, *topics: str) -> None:
    """Every check of the topics passes on the host."""
    problems = [problem.reason for problem in looked.problems if problem.host == host]
    assert not problems, f"{host}: {'; '.join(problems)}"
    seen = looked.hosts[host]
    missing = [topic for topic in topics if topic not in seen]
    assert not missing, f"{host}: the probes left out {', '.join(missing)}"
    ids = [one.id for one in REGISTRY.values() if one.topic in topics]
    bench.prove({topic: seen[topic] for topic in topics}, *ids)


@pytest.mark.hardware
def test_the_lab_has_no_stand_ins(bench: Bench) -> None:
    assert bench.lab.data["simulated"] is False


@pytest.mark.gpu
def test_the_driver_is_the_wanted_one_and_shows_every_gpu(bench: Bench, looked: LabFacts) -> None:
    prove_topics(bench, looked, bench.host.name, "driver", "gpu_topology")


@pytest.mark.rdma
def test_rdma_ports_are_active_and_the_fabric_is_lossless(bench: Bench, looked: LabFacts) -> None:
    prove_topics(bench, looked, bench.host.name, "rdma", "network")


@pytest.mark.objectscale
def test_the_array_does_what_the_engine_needs(bench: Bench, looked: LabFacts) -> None:
    prove_topics(bench, looked, LAB, "s3")


@pytest.mark.rdma
@pytest.mark.objectscale
def test_the_nics_own_counters_move_by_the_payload_and_not_over_http(bench: Bench) -> None:
    """A witness that is neither NIXL nor the store: what the ports counted while objects were read, both ways."""
    seed = int.from_bytes(os.urandom(4))
    objects: list[dict[str, Any]] = [
        {"key": f"counters-{number}", "size": SIZE, "seed": seed + number} for number in range(OBJECTS)
    ]
    began = time.time()
    bench.probe("nixl_roundtrip", bench.job("dell", transfers=[{"op": "write", **one} for one in objects]))
    took = time.time() - began
    host = next(one for one in hosts.of_inventory(bench.host.inventory) if one.name == bench.host.name)
    spans = {}
    with Sampling([host], {"hz": SAMPLES_HZ, "netdevs": ["*"]}) as sampling:
        time.sleep(2 / SAMPLES_HZ)
        spans["quiet"] = time.time(), time.time() + took
        time.sleep(took)
        for engine in ("dell", "standard"):
            began = time.time()
            facts = bench.probe(
                "nixl_roundtrip", bench.job(engine, transfers=[{"op": "read", **one} for one in objects])
            )
            spans[engine] = began, time.time()
            assert {one["state"] for one in facts["transfers"]} == {"DONE"}
            assert all(one["equal"] for one in facts["transfers"])
        time.sleep(2 / SAMPLES_HZ)
    found = {name: sampling.between(bench.host.name, *span) for name, span in spans.items()}
    counted = transfer(
        found["quiet"], found["dell"], found["standard"],
        payload=OBJECTS * SIZE, direction="in", lab_simulated=bench.lab.simulated,
    )  # fmt: skip
    errors = {**found["dell"], "simulated": bench.lab.simulated}
    bench.prove(
        {"transfer_counters": counted, "rdma_counters": errors},
        *("PATH010", "PATH012", "PATH013", "RDMA021", "RDMA022"),
    )
