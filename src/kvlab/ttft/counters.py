"""The proof of a pass where the store keeps no log: vLLM's count of hits, and what the NICs moved. Pure; no I/O.

So in a lab with an array. NICs count headers and whatever else crosses them, so bytes are at least the payload.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvlab.checks import judge
from kvlab.checks.witness import TCP_SHARE
from kvlab.ttft import proof
from kvlab.ttft.proof import Group

HITS = "vllm:external_prefix_cache_hits_total"
CHECKS = ("KV003", "KV004", "KV005", "KV006")
"""Those of topic kv that need neither a log nor LMCache's server."""


def doubts(group: Group, expected_path: str) -> list[str]:
    """Why hits or path of a pass are not shown by the counters; nothing when they are."""
    return [*_hits(group), *_path(group, expected_path)]


def _hits(group: Group) -> list[str]:
    found = group.vllm.get(HITS)
    wanted = group.chunks * group.chunk_tokens if group.series == "hot" else 0
    if found is None:
        return [f"vLLM does not count hits of a cache outside ({HITS})"]
    reasons = []
    # Of a prompt that is cached whole its last token is computed all the same, and not counted.
    if not wanted - group.concurrency <= found <= wanted:
        reasons.append(f"vLLM counts {found:.0f} tokens from the cache outside, and {wanted} were expected")
    local = sum(group.vllm.get(name, 0.0) for name in proof.PREFIX_HITS)
    if local:
        reasons.append(f"vLLM's own prefix cache answered {local:.0f} tokens")
    return reasons


def _path(group: Group, expected: str) -> list[str]:
    moved: Mapping[str, int] | None = group.facts.get("nics")
    if moved is None:
        return ["the NICs' counters were not read, or began anew"]
    rdma, tcp = proof.by_nics(group, moved)
    if expected == "rdma":
        facts = {"payload": group.payload, "client": {"rdma": rdma, "tcp": tcp}}
        return proof.reasons_of(judge({"transfer_counters": facts}, ("PATH010",)))
    if tcp >= group.payload > 0 and rdma <= group.payload * TCP_SHARE:
        return []
    return [f"{tcp} bytes by TCP and {rdma} by RDMA, and {group.payload} were expected by {expected}"]
