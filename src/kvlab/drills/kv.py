"""Faults of stored KV, on LMCache's in-process dynamic backend: one process stores chunks, another loads them.

The slots of MP mode have no names of their own and their index dies with the server, so what depends on names
(swapped keys, another model, another chunk size) cannot be shown there; in the dynamic mode labs share a bucket.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kvlab.checks.kv import dynamic_key
from kvlab.drills.bench import Bench
from kvlab.drills.drill import Drill, Scene, Switch
from kvlab.probes import content, s3_bucket

KV = {"layers": 8, "kv_heads": 2, "head_size": 64, "chunk_tokens": 256}
CHUNKS = 3
_STAGED = "LMCache's in-process dynamic backend (not the lab's MP server): stored, then "

Tamper = Callable[[Bench, list[str]], None]


@dataclass
class Shared:
    """Chunks that one process stores and another loads; `tamper` changes objects, `load` the second process's job."""

    bench: Bench
    tamper: Tamper | None = None
    load: dict[str, Any] | None = None
    switch: Switch = field(default_factory=Switch)

    def look(self) -> dict[str, Any]:
        """Topic `kv_shared`."""
        bench, model = self.bench, f"drill/{secrets.token_hex(4)}"
        seed = secrets.randbits(31)
        chunks = [{"hash": (seed << 8) + n, "seed": seed + n} for n in range(CHUNKS)]
        keys = [dynamic_key(model, int(chunk["hash"])) for chunk in chunks]
        job = bench.job("standard", model=model, chunks=chunks, kv=KV)
        try:
            stored = bench.serving_probe("lmcache_dynamic", {**job, "mode": "store"})
            if self.switch.on and self.tamper:
                self.tamper(bench, keys)
            change = self.load if self.switch.on and self.load else {}
            loaded = bench.serving_probe("lmcache_dynamic", {**job, **change, "mode": "load"})
            mine = model.replace("/", "_")
            objects = [o for o in s3_bucket.objects(bench.s3, bench.bucket) if o["key"].startswith(mine)]
        finally:
            for key in keys:
                bench.s3.delete_object(Bucket=bench.bucket, Key=key)
        return {
            "kv_shared": {
                "simulated": bench.simulated,
                "model": model,
                "store": stored,
                "load": loaded,
                "objects": objects,
            }
        }


def _put(bench: Bench, key: str, body: bytes) -> None:
    bench.s3.put_object(Bucket=bench.bucket, Key=key, Body=body)


def _swap(bench: Bench, keys: list[str]) -> None:
    first, second = (s3_bucket.body(bench.s3, bench.bucket, key) for key in keys[:2])
    _put(bench, keys[0], second)
    _put(bench, keys[1], first)


def _other_model(bench: Bench, keys: list[str]) -> None:
    size = len(s3_bucket.body(bench.s3, bench.bucket, keys[0]))
    _put(bench, keys[0], content.content(secrets.randbits(31), size))


def _flip(bench: Bench, keys: list[str]) -> None:
    body = bytearray(s3_bucket.body(bench.s3, bench.bucket, keys[-1]))
    body[len(body) // 2] ^= 1
    _put(bench, keys[-1], bytes(body))


def _half(bench: Bench, keys: list[str]) -> None:
    body = s3_bucket.body(bench.s3, bench.bucket, keys[0])
    _put(bench, keys[0], body[: len(body) // 2])


def _remove(bench: Bench, keys: list[str]) -> None:
    bench.s3.delete_object(Bucket=bench.bucket, Key=keys[0])


def _drill(name: str, breaks: str, staged: str, origin: Any, reference: str, **how: Any) -> Drill:
    words, ci = how.pop("words", ""), how.pop("ci", False)

    def scene(bench: Bench) -> Scene:
        made = Shared(bench, **how)
        return Scene(made.look, made.switch.thrown, like="stored KV")

    return Drill(
        name, "scratch", breaks, _STAGED + staged, origin, reference, "KV009", scene, words=words, ci=ci
    )


_THOUGHT = "thought up here"

DRILLS = (
    _drill(
        "keys-swapped", "two chunks lie under each other's key", "two objects are exchanged",
        _THOUGHT, "issue 8", words="other bytes than were stored", tamper=_swap, ci=True,
    ),
    _drill(
        "other-model-under-the-key", "another model's KV, of the same size, lies under a key",
        "an object is overwritten with other content of its size",
        _THOUGHT, "issue 8; facts/kv_bench.md 0, fact 7", words="other bytes than were stored", tamper=_other_model,
    ),
    _drill(
        "flipped-bit-in-kv", "one bit of a stored chunk is flipped", "one bit of an object is flipped",
        _THOUGHT, "issue 8", words="other bytes than were stored", tamper=_flip,
    ),
    _drill(
        "half-a-chunk", "an object has half of its bytes, as KV of half the dtype has",
        "an object is overwritten with its first half",
        _THOUGHT, "issue 8", words="bytes, not", tamper=_half,
    ),
    _drill(
        "chunk-lost", "somebody deleted a chunk", "an object is deleted",
        _THOUGHT, "facts/provisioning.md 2.9", words="not found by the second process", tamper=_remove,
    ),
    _drill(
        "chunk-size-differs", "the second instance cuts prompts into chunks of another size",
        "loaded by a process with half the chunk size",
        _THOUGHT, "issue 8; facts/kv_bench.md 4.5", words="bytes, not", load={"kv": {**KV, "chunk_tokens": 128}},
    ),
    _drill(
        "model-name-differs", "the second instance has another name for the same model",
        "loaded by a process that names the model by another path",
        "field report", "facts/kv_bench.md 0, fact 7", words="not found by the second process",
        load={"model": "/models/the-same"},
    ),
)  # fmt: skip
