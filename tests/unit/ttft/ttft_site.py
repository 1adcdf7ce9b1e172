"""A lab that exists in memory: profiles that answer as told, with the counts that a real one would have left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvlab.errors import KvlabError
from kvlab.probes import Facts
from kvlab.ttft import proof
from kvlab.ttft.proof import Group
from kvlab.ttft.result import Scalar, Series

CHUNK = 256
CHUNK_BYTES = 1024


def answer(ids: Sequence[int], **changed: Any) -> Facts:
    """What probes.completion says of a request that went well; the output depends on the prompt."""
    return {
        "http_status": 200,
        "error": None,
        "output_ids": [sum(ids) % 97, len(ids) % 89],
        "finish_reason": "length",
        "ttft_first_chunk_ms": 9.0,
        "ttft_ms": 10.0,
        "total_ms": 20.0,
        "usage": {"prompt_tokens": len(ids)},
        **changed,
    }


def counted(**counters: int) -> Facts:
    """A reading of LMCache's server."""
    return {"available": True, "error": None, "engines": 1, "counters": counters}


def request(op: str, key: str, path: str = "rdma") -> Facts:
    """A line of the store's log that carried one chunk."""
    moved = {"rdma_in": 0, "rdma_out": 0, "body_in": 0, "body_out": 0}
    way = {("PutObject", "rdma"): "rdma_in", ("GetObject", "rdma"): "rdma_out"}
    way |= {("PutObject", "http"): "body_in", ("GetObject", "http"): "body_out"}
    moved[way[op, path]] = CHUNK_BYTES
    line = {"op": op, "bucket": "kv", "key": key, "status": 206 if op == "GetObject" else 200, **moved}
    line |= {"time": "2026-12-01T00:00:00.000Z", "duration_ms": 4.0, "simulated": True}
    return line | {"rdma_requested": path == "rdma", "path": path, "error": None, "fault": None}


@dataclass
class FakeServing:
    """One profile, started. `spoil(group)` may change what a pass looks like."""

    profile: str
    site: FakeSite
    hits: int = 0
    lookups: int = 0

    def about(self) -> dict[str, Scalar]:
        return {"vllm": "0", "processes": 1}

    def ask(self, ids: Sequence[int]) -> Facts:
        self.site.asked.append(("warmup", self.profile, tuple(ids)))
        return answer(ids)

    def measure(self, series: Series, context: int, prompts: Sequence[Sequence[int]]) -> Group:
        self.site.asked += [(series, self.profile, tuple(ids)) for ids in prompts]
        self.site.before(len(self.site.asked))
        chunks = context // CHUNK * len(prompts) if self.profile != "baseline" else 0
        found = chunks * CHUNK if series == "hot" else 0
        before = counted(lookup_hit_l1_tokens=0, lookup_hit_l2_tokens=self.hits, lookups=self.lookups)
        self.hits, self.lookups = self.hits + found, self.lookups + len(prompts)
        after = counted(lookup_hit_l1_tokens=0, lookup_hit_l2_tokens=self.hits, lookups=self.lookups)
        keys = [f"{context}-{n}" for n in range(chunks)]
        op = "PutObject" if series == "cold" else "GetObject"
        facts = {
            "kind": series,
            "prompt_tokens": context,
            "lmcache_before": before,
            "lmcache_after": after,
            "new_objects": [{"key": k, "size": CHUNK_BYTES} for k in keys] if series == "cold" else [],
            "access_log": [request(op, key) for key in keys],
            "file": None,
        }
        group = Group(self.profile, series, context, [answer(p) for p in prompts], facts, 0.5, CHUNK)
        self.site.clock.now += 1.0
        return self.site.spoil(group)

    def doubts(self, group: Group, cold: Group | None) -> list[str]:
        return proof.uncached(group, cold) if group.chunks == 0 else proof.unanswered(group)


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class FakeSite:
    """`before(n)` runs before the n-th request is answered and may raise; `started` are the starts in order."""

    before: Callable[[int], None] = lambda _n: None
    spoil: Callable[[Group], Group] = lambda group: group
    started: list[str] = field(default_factory=list)
    asked: list[tuple[str, str, tuple[int, ...]]] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)
    refuses: str = ""

    def start(self, profile: str) -> FakeServing:
        if profile == self.refuses:
            raise KvlabError(f"{profile} does not come up.")
        self.started.append(profile)
        return FakeServing(profile, self)
