"""LMCache's in-process NIXL backend in dynamic mode, without vLLM: what one process stored, another finds."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pytest
from harness import ENGINE_PATHS, Bench

from kvlab.checks import kv
from kvlab.objectscale import s3
from kvlab.probes import Facts

pytestmark = pytest.mark.integration

MODEL = "lab/model"
KV = {"layers": 8, "kv_heads": 2, "head_size": 64, "chunk_tokens": 256}  # the test model's: 1 MiB a chunk
CHUNKS = 4


@dataclass(frozen=True)
class Shared:
    """Two processes over one bucket: what each reports, the bucket between them, the store's log."""

    engine: str
    store: Facts
    load: Facts
    objects: list[dict[str, Any]]
    requests: list[Facts]

    def facts(self) -> dict[str, Facts]:
        simulated = any(r["simulated"] for r in self.requests)
        facts = {"model": MODEL, "store": self.store, "load": self.load, "objects": self.objects}
        return {"kv_shared": {"simulated": simulated, **facts}}

    def transfers(self) -> list[Facts]:
        """Each object was written once and read once."""
        return [
            {"op": op, "key": o["key"], "size": self.load["chunk_bytes"], "state": "DONE"}
            for op in ("write", "read")
            for o in self.objects
        ]


@pytest.fixture(scope="module")
def both(session_bench: Bench) -> dict[str, Shared]:
    """Each engine's chunks: stored in one process, loaded in another after the first has ended."""
    bench = session_bench
    bench.tell("LMCache dynamic backend, both engines: process A stores, process B loads")
    s3.empty(bench.s3, bench.bucket)
    jobs = {}
    for engine in ENGINE_PATHS:
        seed = int.from_bytes(os.urandom(4))
        chunks = [{"hash": (seed << 8) + i, "seed": seed + i} for i in range(CHUNKS)]
        jobs[engine] = bench.job(engine, model=MODEL, chunks=chunks, kv=KV)
    mark = bench.mark()
    stored, loaded = (
        bench.probe("lmcache_dynamic", {"jobs": [{**job, "mode": mode} for job in jobs.values()]})["runs"]
        for mode in ("store", "load")
    )
    requests, objects = bench.requests(mark, bench.bucket), bench.objects(bench.bucket)
    shared = {}
    for number, engine in enumerate(jobs):
        # The bucket holds both engines' objects; what neither stored must show up as a stray in each.
        others = {key for name, other in jobs.items() if name != engine for key in keys(other)}
        mine = [o for o in objects if o["key"] not in others]
        log = [r for r in requests if r["key"] not in others]
        shared[engine] = Shared(engine, stored[number], loaded[number], mine, log)
    return shared


def keys(job: dict[str, Any]) -> set[str]:
    """Names that the dynamic mode gives to a job's chunks."""
    return {kv.dynamic_key(MODEL, chunk["hash"]) for chunk in job["chunks"]}


@pytest.fixture(params=list(ENGINE_PATHS))
def shared(request: pytest.FixtureRequest, both: dict[str, Shared]) -> Shared:
    """One engine's."""
    return both[request.param]


def test_a_second_process_finds_and_loads_what_the_first_stored(shared: Shared, bench: Bench) -> None:
    bench.prove(shared.facts(), "KV009")


def test_the_chunks_took_the_promised_path(shared: Shared, bench: Bench) -> None:
    bench.prove(bench.path_facts(ENGINE_PATHS[shared.engine], shared.transfers(), shared.requests), "PATH")
