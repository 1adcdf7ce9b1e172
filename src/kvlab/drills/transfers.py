"""Faults of a transfer through NIXL: written, read back and compared, while library, parameters or the store lie."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from kvlab.drills.bench import Bench
from kvlab.drills.drill import Drill, Kind, Origin, Scene, Switch
from kvlab.probes import s3_bucket

SIZE = 1 << 16
NEEDS = ("profile s3-rdma in the lab",)


@dataclass
class Transfers:
    """Objects written and read back by the accelerated engine, and what a fault changes of that.

    `job` and `env` replace parts while it is broken; `fault` is one of the store's, on the keys that `struck` names.
    """

    bench: Bench
    objects: int = 2
    overwrite: bool = False
    fault: dict[str, Any] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str | None] = field(default_factory=dict)
    struck: str = "*"
    switch: Switch = field(default_factory=Switch)

    def look(self) -> dict[str, Any]:
        """Topics `roundtrip` and `path`."""
        bench = self.bench
        with bench.keys() as prefix:
            plan, keys = self.plan(prefix)
            changes, env = (self.job, self.env) if self.switch.on else ({}, {})
            with bench.log(bench.bucket) as requests:
                job = bench.job("dell", transfers=plan, **{"timeout_s": 15, "batch": 1, **changes})
                facts = bench.serving_probe("nixl_roundtrip", job, **env)
            witness = {key: s3_bucket.digest(bench.s3, bench.bucket, key) for key in keys}
        own = [request for request in requests if str(request["key"]).startswith(prefix)]
        path = {
            "simulated": bench.simulated,
            "lab_simulated": bench.simulated,
            "expected_path": "rdma",
            "transfers": facts["transfers"],
            "access_log": own,
        }
        return {"roundtrip": {**facts, "simulated": bench.simulated, "witness": witness}, "path": path}

    def plan(self, prefix: str) -> tuple[list[dict[str, Any]], list[str]]:
        """The transfers and their keys; each object has content of its own."""
        seed = secrets.randbits(31)
        keys = [f"{prefix}{number}" for number in range(self.objects)]
        specs = [{"key": key, "size": SIZE, "seed": seed + n} for n, key in enumerate(keys)]
        plan: list[dict[str, Any]] = []
        old = {"the object before": seed - 1}
        if self.overwrite:
            plan += [{"op": "write", **spec, "seed": seed - 1} for spec in specs]
        plan += [{"op": "write", **spec} for spec in specs]
        neighbour = {"its neighbour": seed + self.objects - 1}
        plan += [{"op": "read", **spec, "others": {**old, **neighbour}} for spec in specs]
        return plan, keys

    @contextmanager
    def broken(self) -> Iterator[None]:
        """The fault is there meanwhile."""
        fault: AbstractContextManager[None] = nullcontext()
        if self.fault:
            where = {"bucket": self.bench.bucket, "key": f"*drill-*/{self.struck}"}
            fault = self.bench.fault(**where, **self.fault)
        with fault, self.switch.thrown():
            yield


def _drill(
    name: str,
    breaks: str,
    expects: str,
    *,
    origin: Origin,
    reference: str,
    words: str = "",
    ci: bool = False,
    **how: Any,
) -> Drill:
    """A drill of a transfer: by the fault interface of the lab's store (`lab`), or by another client (`scratch`)."""
    fault = how.get("fault")
    kind: Kind = "lab" if fault else "scratch"
    staged = (
        f"the lab's emulated store: fault {fault['kind']}, for the drill's own keys"
        if fault
        else "a round trip through NIXL as a process of its own, with its environment or parameters changed"
    )

    def scene(bench: Bench) -> Scene:
        made = Transfers(bench, **how)
        return Scene(
            made.look, made.broken, like=f"transfers of {made.objects}, overwritten: {made.overwrite}"
        )

    return Drill(
        name, kind, breaks, staged, origin, reference, expects, scene, words=words, ci=ci, needs=NEEDS
    )


DRILLS = (
    _drill(
        "library-missing",
        "libcuobjclient.so.1 is not on the loader's path",
        "NIXL001",
        origin="field report",
        reference="facts/provisioning.md 2.8 and 3, row 47",
        words="libcuobjclient.so.1",
        env={"LD_LIBRARY_PATH": None},
        ci=True,
    ),
    _drill(
        "accelerated-dropped",
        "the parameter accelerated is lost, so plain HTTP carries everything and the data is right",
        "PATH002",
        origin="field report",
        reference="facts/provisioning.md 2.8b",
        job={"drop": ["accelerated"]},
        ci=True,
    ),
    _drill(
        "rdma-declined",
        "the store declines RDMA: a GET's bytes come in the body, a PUT stores nothing",
        "PATH003",
        origin="field report",
        reference="facts/objectscale.md 2",
        fault={"kind": "rdma-declined"},
        ci=True,
    ),
    _drill(
        "rdma-success-without-bytes",
        "the store reports success for a GET by RDMA and moves nothing",
        "DATA001",
        origin="thought up here",
        reference="facts/local_stack.md: the engine takes HTTP success for transfer success",
        words="untouched",
        fault={"kind": "rdma-unmoved", "op": "GetObject"},
        ci=True,
    ),
    _drill(
        "rdma-put-left-empty",
        "the store ignores a PUT's descriptor and keeps an empty object, with success",
        "DATA002",
        origin="field report",
        reference="facts/local_stack.md: a declined PUT can leave an empty object",
        fault={"kind": "rdma-ignored", "op": "PutObject"},
    ),
    _drill(
        "silent-body-fallback",
        "a GET's bytes come in the HTTP body although RDMA was asked for, and nobody says so",
        "PATH003",
        origin="field report",
        reference="LMCache/LMCache issue 605; facts/provisioning.md 3.1",
        fault={"kind": "rdma-fallback"},
    ),
    _drill(
        "rdma-half-moved",
        "half of the bytes move by RDMA, then the store answers with an error",
        "DATA001",
        origin="thought up here",
        reference="facts/objectscale.md 2",
        fault={"kind": "rdma-partial"},
    ),
    _drill(
        "flipped-bit",
        "one bit in one of 100 objects comes back flipped",
        "DATA001",
        origin="thought up here",
        reference="issue 8: named by comparing bytes, not output",
        words="1 bit flipped",
        objects=100,
        struck="57",
        fault={"kind": "flip-read", "op": "GetObject"},
        job={"batch": 8},
        ci=True,
    ),
    _drill(
        "flipped-bit-stored",
        "one bit of an object is stored flipped, under the right ETag",
        "DATA002",
        origin="thought up here",
        reference="issue 8, data integrity",
        fault={"kind": "flip-write", "op": "PutObject"},
    ),
    _drill(
        "stale-object",
        "a GET brings the object as it was before it was overwritten",
        "DATA001",
        origin="thought up here",
        reference="issue 8, data integrity",
        words="the object before",
        overwrite=True,
        fault={"kind": "stale-object", "op": "GetObject"},
    ),
    _drill(
        "wrong-object",
        "a GET brings another object of the bucket",
        "DATA001",
        origin="thought up here",
        reference="issue 8, data integrity",
        struck="0",
        fault={"kind": "wrong-object", "op": "GetObject"},
    ),
    _drill(
        "lost-object",
        "an object that was stored with success is not found",
        "DATA002",
        origin="thought up here",
        reference="issue 8, data integrity",
        fault={"kind": "lost-object"},
    ),
)
