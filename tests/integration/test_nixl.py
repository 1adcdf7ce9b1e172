"""NIXL's unmodified OBJ plugin against the lab's object store: both engines, both directions, every size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from harness import ENGINE_PATHS, Bench

from kvlab.objectscale import s3
from kvlab.probes import Facts, content, s3_bucket

pytestmark = pytest.mark.integration

SIZES = {
    "1B": 1,
    "4095B": 4095,
    "4096B": 4096,
    "1MiB": 1 << 20,
    "1MiB+1": (1 << 20) + 1,
    "32MiB": 32 << 20,
}


@dataclass(frozen=True)
class Round:
    """All transfers of one engine, the store's log of them, and boto3's copy of each object."""

    engine: str
    facts: Facts
    requests: list[Facts]
    witness: dict[str, str | None]

    def of(self, *keys: str) -> list[Facts]:
        return [t for t in self.facts["transfers"] if t["key"] in keys]

    def roundtrip(self, *keys: str) -> dict[str, Facts]:
        """Facts for the NIXL and DATA checks."""
        simulated = any(r["simulated"] for r in self.requests) or bool(self.facts["simulated"])
        witness = {"transfers": self.of(*keys), "witness": self.witness, "simulated": simulated}
        return {"roundtrip": self.facts | witness}


def transfers(seed: int) -> list[dict[str, Any]]:
    """Per size: NIXL writes one object and reads it back, and reads another that boto3 wrote."""
    plan = []
    for name, size in SIZES.items():
        written = {"key": f"nixl-{name}", "size": size, "seed": seed + size}
        given = {"key": f"boto3-{name}", "size": size, "seed": seed - size}
        plan += [{"op": "write", **written}, {"op": "read", **written}, {"op": "read", **given}]
    return plan


def run_round(bench: Bench, engine: str, **job: Any) -> Round:
    """boto3 writes, NIXL transfers in the serving venv, boto3 reads."""
    # Other content every time, so that an object of an earlier run cannot pass for this one's.
    plan = transfers(int.from_bytes(os.urandom(4)) + 2 * max(SIZES.values()))
    s3.empty(bench.s3, bench.bucket)
    witness: dict[str, str | None] = {}
    for spec in plan:
        if spec["key"].startswith("boto3-"):
            body = content.content(spec["seed"], spec["size"])
            bench.s3.put_object(Bucket=bench.bucket, Key=spec["key"], Body=body)
            witness[spec["key"]] = content.digest(body)
    mark = bench.mark()
    facts = bench.probe("nixl_roundtrip", bench.job(engine, transfers=plan, **job))
    requests = bench.requests(mark, bench.bucket)
    for key in {spec["key"] for spec in plan} - set(witness):
        witness[key] = s3_bucket.digest(bench.s3, bench.bucket, key)
    return Round(engine, facts, requests, witness)


@pytest.fixture(scope="session", params=list(ENGINE_PATHS))
def rounds(request: pytest.FixtureRequest, session_bench: Bench) -> Iterator[Round]:
    """Each engine's transfers, run once."""
    session_bench.tell(f"NIXL {request.param} engine: {len(SIZES) * 3} transfers")
    yield run_round(session_bench, request.param)
    s3.empty(session_bench.s3, session_bench.bucket)


def test_nixl_loads_its_obj_plugin_and_offers_the_memory_kind_used(rounds: Round, bench: Bench) -> None:
    bench.prove(rounds.roundtrip(*rounds.witness), "NIXL")


@pytest.mark.parametrize("size", list(SIZES))
def test_what_nixl_wrote_boto3_reads_and_nixl_reads_back(rounds: Round, size: str, bench: Bench) -> None:
    bench.prove(rounds.roundtrip(f"nixl-{size}"), "DATA001", "DATA002")


@pytest.mark.parametrize("size", list(SIZES))
def test_what_boto3_wrote_nixl_reads(rounds: Round, size: str, bench: Bench) -> None:
    bench.prove(rounds.roundtrip(f"boto3-{size}"), "DATA001", "DATA002")


@pytest.mark.parametrize("size", list(SIZES))
def test_the_payload_took_the_promised_path(rounds: Round, size: str, bench: Bench) -> None:
    keys = f"nixl-{size}", f"boto3-{size}"
    requests = [r for r in rounds.requests if r["key"] in keys]
    bench.prove(bench.path_facts(ENGINE_PATHS[rounds.engine], rounds.of(*keys), requests), "PATH")


def test_without_the_cuobject_library_the_nixl_test_fails_and_names_it(bench: Bench) -> None:
    if not bench.lab.data["lib_dir"]:
        pytest.skip("the library is a package of the system here, which no environment hides")
    facts = bench.probe("nixl_roundtrip", bench.job("dell", transfers=[]), with_cuobject=False)
    with pytest.raises(pytest.fail.Exception, match=r"NIXL001 fail(.|\n)*libcuobjclient\.so\.1"):
        bench.prove({"roundtrip": facts | {"simulated": True, "witness": {}}}, "NIXL001")


def test_with_accelerated_removed_the_data_is_right_but_the_path_test_fails(bench: Bench) -> None:
    plan = [{"op": op, "key": "nixl-1MiB", "size": 1 << 20, "seed": 5} for op in ("write", "read")]
    mark = bench.mark()
    facts = bench.probe("nixl_roundtrip", bench.job("dell", transfers=plan, drop=["accelerated"]))
    requests = bench.requests(mark, bench.bucket)
    witness = {"nixl-1MiB": s3_bucket.digest(bench.s3, bench.bucket, "nixl-1MiB")}
    bench.prove({"roundtrip": facts | {"witness": witness, "simulated": True}}, "DATA")
    with pytest.raises(pytest.fail.Exception, match="PATH002 fail"):
        bench.prove(bench.path_facts("rdma", facts["transfers"], requests), "PATH")
