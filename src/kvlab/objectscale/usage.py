"""What a bucket holds, told from its listing alone, and how that compares with what a model should have stored."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kvlab.kvcache import keys
from kvlab.kvcache.geometry import Geometry
from kvlab.objectscale.s3 import EPOCH_KEY, StoredObject

EXAMPLES = 3
"""Foreign keys that are named; enough to see what they are."""


@dataclass
class Count:
    """Objects and their bytes."""

    objects: int = 0
    bytes: int = 0

    def add(self, size: int) -> None:
        self.objects += 1
        self.bytes += size

    def as_json(self) -> dict[str, int]:
        return {"objects": self.objects, "bytes": self.bytes}


@dataclass(frozen=True, order=True)
class Layout:
    """What objects of the in-process layout have in common; `world_size` is TP x PP."""

    model: str
    world_size: int
    dtype: str


@dataclass
class Usage:
    """A bucket's content. `kv` counts each layout by rank; `slots` have no names (MP mode, or a pool in process)."""

    total: Count = field(default_factory=Count)
    kv: dict[Layout, dict[int, Count]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Count))
    )
    slots: Count = field(default_factory=Count)
    foreign: Count = field(default_factory=Count)
    foreign_keys: list[str] = field(default_factory=list)
    has_epoch: bool = False

    def of(self, layout: Layout) -> Count:
        """All ranks of a layout."""
        ranks = self.kv[layout].values()
        return Count(sum(r.objects for r in ranks), sum(r.bytes for r in ranks))

    def as_json(self) -> dict[str, Any]:
        return {
            **self.total.as_json(),
            "kv": [
                {
                    "model": layout.model,
                    "world_size": layout.world_size,
                    "dtype": layout.dtype,
                    **self.of(layout).as_json(),
                    "ranks": [{"rank": rank, **count.as_json()} for rank, count in sorted(ranks.items())],
                }
                for layout, ranks in sorted(self.kv.items())
            ],
            "slots": self.slots.as_json(),
            "foreign": {**self.foreign.as_json(), "examples": self.foreign_keys},
            "epoch_record": self.has_epoch,
        }


def measure(found: Iterable[StoredObject]) -> Usage:
    """Count the objects of a listing. The record of the cache epoch is named, not counted."""
    usage = Usage()
    for one in found:
        if one.key == EPOCH_KEY:
            usage.has_epoch = True
            continue
        usage.total.add(one.size)
        key = keys.parse(one.key)
        if key is not None:
            usage.kv[Layout(key.model, key.world_size, key.dtype)][key.worker].add(one.size)
        elif keys.is_slot(one.key):
            usage.slots.add(one.size)
        else:
            usage.foreign.add(one.size)
            if len(usage.foreign_keys) < EXAMPLES:
                usage.foreign_keys.append(one.key)
    return usage


@dataclass(frozen=True)
class Comparison:
    """What a request of so many tokens stores, and what of that kind the bucket holds."""

    expected: Count
    found: Count

    @property
    def equal(self) -> bool:
        return self.expected == self.found

    def as_json(self) -> dict[str, Any]:
        return {"expected": self.expected.as_json(), "found": self.found.as_json(), "equal": self.equal}


def compare(usage: Usage, geometry: Geometry, tokens: int) -> Comparison:
    """Compare with the geometry that `kvlab size` computes: by name where there are names, else by number of slots.

    Of a model whose ranks share one latent (MLA) one rank stores, under a world size that depends on LMCache's release.
    """
    objects, size = geometry.objects(tokens), geometry.total_bytes(tokens)
    if not usage.kv and usage.slots.objects:
        slots = objects * geometry.mp_slots_per_chunk
        return Comparison(Count(slots, slots * geometry.mp_slot_bytes), usage.slots)
    worlds = {geometry.tp * geometry.pp, geometry.saving_ranks_per_stage * geometry.pp}
    dtypes = keys.KV_DTYPES[geometry.kv_dtype]
    found = Count()
    for layout in usage.kv:
        if layout.world_size in worlds and layout.dtype in dtypes:
            count = usage.of(layout)
            found = Count(found.objects + count.objects, found.bytes + count.bytes)
    return Comparison(Count(objects, size), found)
