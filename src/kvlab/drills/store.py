"""Faults of the object store, of its management API and of what lies in the bucket."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from kvlab.drills import programs
from kvlab.drills.bench import Bench
from kvlab.drills.drill import Drill, Kind, Origin, Scene, Switch

Look = Callable[[Bench], Mapping[str, Any]]
Break = Callable[[Bench], AbstractContextManager[None]]
OWN_STORE = ("the lab's own emulated store",)
KV_NAME = "obj_2079_d1d1"
"""A name such as LMCache's MP server gives its slots."""

NO_BUCKET = "kv-nobody-made-this"


def _fault(kind: str, **fields: Any) -> Break:
    return lambda bench: bench.fault(kind, **fields)


def _planted(key: str, size: Callable[[Bench], int]) -> Break:
    """An object of zeros in the running profile's bucket."""

    @contextmanager
    def planted(bench: Bench) -> Iterator[None]:
        bucket = str(bench.about["bucket"])
        bench.s3.put_object(Bucket=bucket, Key=key, Body=bytes(size(bench)))
        try:
            yield
        finally:
            bench.s3.delete_object(Bucket=bucket, Key=key)

    return planted


def _down(bench: Bench) -> AbstractContextManager[None]:
    bench.without_fault_port()
    return programs.stopped(bench.lab, programs.STORE, str(bench.data["endpoint"]))


def _without_rdma(bench: Bench) -> AbstractContextManager[None]:
    bench.without_fault_port()
    return programs.store_with(bench.lab, ["--no-rdma"])


def _wrong_bucket(bench: Bench) -> Scene:
    switch = Switch()

    def look() -> Mapping[str, Any]:
        return bench.look_at_store(**({"bucket": NO_BUCKET} if switch.on else {}))

    return Scene(look, switch.thrown)


def _drill(
    name: str,
    breaks: str,
    staged: str,
    expects: str,
    how: Break,
    *,
    look: Look = Bench.look_at_store,
    kind: Kind = "lab",
    origin: Origin = "thought up here",
    reference: str,
    words: str = "",
    ci: bool = False,
) -> Drill:
    def scene(bench: Bench) -> Scene:
        return Scene(lambda: look(bench), lambda: how(bench))

    return Drill(
        name, kind, breaks, staged, origin, reference, expects, scene, words=words, ci=ci, needs=OWN_STORE
    )


DRILLS = (
    _drill(
        "revoked-key", "the access key of the lab's user was deleted on the array",
        "the lab's emulated store: fault revoked", "S3002", _fault("revoked", op="List*"),
        reference="issue 8; facts/objectscale.md 4", words="does not know the access key", ci=True,
    ),
    _drill(
        "clock-skew", "the store's clock is ten minutes ahead",
        "the lab's emulated store: fault clock-skew of 600 s, seen in the Date of its replies", "S3003",
        _fault("clock-skew", seconds=600.0), reference="issue 8; facts/objectscale.md 4", words="+600 s",
    ),
    _drill(
        "store-full", "the store takes no more bytes (507 InsufficientStorage)",
        "the lab's emulated store: fault full", "S3007", _fault("full", op="PutObject"),
        reference="issue 8; facts/kv_bench.md 0, fact 12", words="InsufficientStorage",
    ),
    _drill(
        "store-busy", "the store answers 503 SlowDown to every write",
        "the lab's emulated store: fault slow-down", "S3004", _fault("slow-down", op="PutObject"),
        reference="facts/objectscale.md 4", words="SlowDown",
    ),
    _drill(
        "store-down", "the object store does not run", "the lab's emulated store is stopped", "S3002", _down,
        origin="field report", reference="facts/provisioning.md 2.8b: closed port", words="nothing answers",
    ),
    Drill(
        "wrong-bucket", "scratch", "the profile names a bucket that nobody made",
        "the store is asked about another bucket than the profile's", "thought up here", "issue 8", "S3002",
        _wrong_bucket, words="no such bucket",
    ),
    _drill(
        "strangers-in-the-bucket", "somebody else's objects lie in the bucket for KV",
        "an object of another name is put into the running profile's bucket", "S3009",
        _planted("reports/2026.csv", lambda _: 4096), origin="field report",
        reference="facts/provisioning.md 2.9 (orphaned objects)",
    ),
    _drill(
        "empty-object", "an object of the bucket is empty: a PUT that was declined",
        "an empty object of a KV name is put into the running profile's bucket", "S3008",
        _planted(KV_NAME, lambda _: 0), origin="field report", reference="facts/kv_bench.md 0, fact 8",
        words="objects of 0 bytes",
    ),
    _drill(
        "wrong-kv-dtype", "an instance with fp8 KV shares the bucket: its objects have half a chunk's bytes",
        "an object of half a chunk's bytes is put into the running profile's bucket", "S3008",
        _planted(KV_NAME, lambda bench: int(bench.about["chunk_bytes"]) // 2),
        reference="issue 8; facts/kv_bench.md 0, fact 7",
    ),
    _drill(
        "rdma-off-on-the-array", "S3 over RDMA is not enabled on the array",
        "the lab's emulated store is restarted with --no-rdma", "OSC004", _without_rdma,
        look=Bench.look_at_management, origin="field report", reference="facts/objectscale.md 2",
    ),
    _drill(
        "management-failing", "the management API answers every request with an internal error",
        "the lab's emulated store: fault failing", "OSC001", _fault("failing"), look=Bench.look_at_management,
        reference="facts/objectscale.md 3",
    ),
)  # fmt: skip
