"""TLS between host and array with both NIXL engines, and no byte to a store that nobody vouches for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import ENGINE_PATHS, Bench
from ownstore import OwnStore

from kvlab.probes import s3_bucket

pytestmark = [pytest.mark.integration, pytest.mark.own_store]

SIZE = (1 << 20) + 1


@pytest.fixture
def tls_store(bench: Bench, tmp_path: Path) -> Iterator[OwnStore]:
    """A store of this test's own that speaks TLS as well."""
    store = OwnStore(tmp_path, bench)
    store.start(tls=True)
    try:
        store.s3.create_bucket(Bucket=bench.bucket)
        yield store
    finally:
        store.kill()


@pytest.mark.parametrize("engine", list(ENGINE_PATHS))
def test_over_tls_bytes_come_back_the_same_and_an_unknown_certificate_is_refused(
    engine: str, tls_store: OwnStore, bench: Bench
) -> None:
    seed = int.from_bytes(os.urandom(4))
    plan = [{"op": op, "key": "over-tls", "size": SIZE, "seed": seed} for op in ("write", "read")]
    trusting = bench.probe("nixl_roundtrip", tls_store.job(engine, tls=True, transfers=plan))
    read = s3_bucket.digest(tls_store.s3, bench.bucket, "over-tls")
    facts = {"roundtrip": trusting | {"witness": {"over-tls": read}, "simulated": True}}
    bench.prove(facts, "DATA")

    before = len(tls_store.requests())
    write = [{"op": "write", "key": "to-a-stranger", "size": SIZE, "seed": seed}]
    wary = bench.probe("nixl_roundtrip", tls_store.job(engine, tls=True, trusted=False, transfers=write))
    assert [transfer["state"] == "DONE" for transfer in wary["transfers"]] == [False]
    assert len(tls_store.requests()) == before, (
        "a request reached a store whose certificate nobody vouches for"
    )
