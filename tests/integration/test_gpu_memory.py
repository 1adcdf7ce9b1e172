"""GPU memory through NIXL: from every GPU of a host through its own NIC; without a GPU, from a software one.

The software GPU (native/cuda) is a libcuda.so.1 whose memory is the process's own, so that kvlab's and NIXL's code is
the same; its results are simulated. Whether a NIC reads a real GPU's memory is proven by the first test alone.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from harness import Bench
from labhosts import as_json

from kvlab.probes import Facts, s3_bucket

pytestmark = pytest.mark.integration

SIZES = (1, 4096, (1 << 20) + 1, 32 << 20)
RECORD = "/etc/kvlab/gpudirect.json"  # what the role gpudirect found: each GPU's NIC
SOURCE = Path(__file__).parents[2] / "native/cuda/libcuda.cpp"


def plan(name: str) -> list[dict[str, Any]]:
    """Each size written from the GPU's memory and read back into it; other content every time."""
    seed = int.from_bytes(os.urandom(4))
    return [
        {"op": op, "key": f"{name}-{size}", "size": size, "seed": seed + size}
        for size in SIZES
        for op in ("write", "read")
    ]


def prove(bench: Bench, facts: Facts, requests: list[Facts]) -> None:
    """What came back, what lies in the store, and which way it went."""
    witness = {t["key"]: s3_bucket.digest(bench.s3, bench.bucket, t["key"]) for t in facts["transfers"]}
    assert {transfer["mem_type"] for transfer in facts["transfers"]} == {"VRAM"}
    simulated = bool(facts["simulated"]) or any(request["simulated"] for request in requests)
    bench.prove(
        {"roundtrip": {**facts, "witness": witness, "simulated": simulated}}, "NIXL001", "NIXL002", "DATA"
    )
    bench.prove(bench.path_facts("rdma", facts["transfers"], requests), "PATH")


@pytest.mark.gpu
@pytest.mark.rdma
def test_each_gpus_memory_makes_the_round_trip_through_its_own_nic(bench: Bench) -> None:
    gpus = as_json(bench.host.read(RECORD), RECORD)["gpus"]
    assert gpus, f"{RECORD} names no GPU"
    alone = [gpu["gpu"] for gpu in gpus if not gpu["address"]]
    assert not alone, f"no usable NIC: {', '.join(alone)}"
    for number, gpu in enumerate(gpus):
        bench.tell(f"{gpu['gpu']} through {gpu['nic']} ({gpu['distance']})")
        transfers = plan(gpu["gpu"])
        mark = bench.mark()
        job = bench.job("dell", transfers=transfers, gpu=number, addresses=[gpu["address"]])
        facts = bench.probe("nixl_roundtrip", job)
        bench.record(
            f"{gpu['gpu']}.nic", json.dumps({name: gpu[name] for name in ("nic", "distance", "address")})
        )
        prove(bench, facts, bench.requests(mark, bench.bucket))


@pytest.fixture
def software_gpu(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A libcuda.so.1 for the probe, where there is none."""
    if not (bench.lab.simulated and bench.host.local):
        pytest.skip("a software GPU has its place in a lab of stand-ins, on this machine")
    library = tmp_path / "libcuda.so.1"
    subprocess.run(
        ["g++", "-std=c++17", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library, SOURCE],
        check=True,
    )
    own = Bench.serving_env

    def with_it(self: Bench, *, with_cuobject: bool = True) -> dict[str, str]:
        env = own(self, with_cuobject=with_cuobject)
        return env | {"LD_LIBRARY_PATH": f"{tmp_path}:{env.get('LD_LIBRARY_PATH', '')}"}

    monkeypatch.setattr(Bench, "serving_env", with_it)


def test_the_memory_of_a_software_gpu_makes_the_round_trip(software_gpu: None, bench: Bench) -> None:
    address = as_json(bench.host.read(str(bench.lab.data["cufile_json"])), "cufile.json")["properties"]
    mark = bench.mark()
    job = bench.job("dell", transfers=plan("software"), gpu=0, addresses=address["rdma_dev_addr_list"])
    facts = bench.probe("nixl_roundtrip", job)
    assert facts["gpu_memory"]["simulated"]
    prove(bench, facts, bench.requests(mark, bench.bucket))


def test_a_nic_that_is_not_the_hosts_is_found_by_the_path(software_gpu: None, bench: Bench) -> None:
    """The list that the probe gives to cuObject is the one that is used: with another one nothing goes by RDMA."""
    mark = bench.mark()
    facts = bench.probe(
        "nixl_roundtrip", bench.job("dell", transfers=plan("nowhere"), gpu=0, addresses=["192.0.2.99"])
    )
    requests = bench.requests(mark, bench.bucket)
    with pytest.raises(pytest.fail.Exception, match="PATH"):
        bench.prove(bench.path_facts("rdma", facts["transfers"], requests), "PATH")


def test_a_gpu_that_is_not_there_is_named(software_gpu: None, bench: Bench) -> None:
    from kvlab.errors import KvlabError

    with pytest.raises(KvlabError, match="there is no GPU 3: the driver shows 1"):
        bench.probe("nixl_roundtrip", bench.job("dell", transfers=plan("none"), gpu=3))
