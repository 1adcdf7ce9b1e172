"""Tier proof: the hot passes came from the object store or the folder, whole, and changed nothing in the output.

Topic `kv`: {"simulated": bool, "profile", "chunk_tokens", "chunk_bytes", "ranks",
             "passes": [{"kind": "cold"|"hot", "prompt_tokens", "completion": probes.completion,
                         "lmcache_before", "lmcache_after": probes.lmcache_mp,
                         "access_log": [request, ...] between them, "file": of profile file, as in checks.file_tier,
                         "new_objects": [{"key", "size"}, ...]}, ...],
             "baseline_ids": {str(prompt_tokens): [token id, ...]}}
Topic `kv_zeroed`: {"simulated", "before_ids", "after_ids", "objects": number}: the same prompt before and
after all stored objects were overwritten with zeros.
Topic `kv_content`: {"simulated", "chunk_bytes", "objects": [{"key", "after_store", "after_loads"}, ...]}: what a reader
without LMCache and NIXL gets after the cold pass and after the hot ones, {"size", "sha256", "values": how many of the
256 byte values occur}.
Topic `kv_shared`: {"simulated", "model", "store", "load": probes.lmcache_dynamic,
                    "objects": [{"key", "size"}, ...]}
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import Any

from kvlab.checks import file_tier
from kvlab.checks.path import by_body, by_rdma, is_payload, reads
from kvlab.checks.registry import Tally, TopicFacts, Verdict, check, verdict

HOT_LIMIT = 1 / 3  # of cold TTFT; issue 2 measured hot at a tenth of cold from 2,048 tokens on
HOT_JUDGED_FROM_TOKENS = 4096  # below, one scheduler hiccup of 100 ms moves the ratio

LEAST_VALUES = 128
"""Of 256: a megabyte of KV in bf16 or fp8 has nearly all; zeros and repeated patterns have few."""


def chunks(facts: TopicFacts, one: Any) -> int:
    """Whole chunks of a pass's prompt; the tail is never stored (save_unfull_chunk is false)."""
    return int(one["prompt_tokens"]) // int(facts["chunk_tokens"])


def hot(facts: TopicFacts) -> list[Any]:
    """The hot passes."""
    return [p for p in facts["passes"] if p["kind"] == "hot"]


def cold(facts: TopicFacts) -> list[Any]:
    """The cold passes."""
    return [p for p in facts["passes"] if p["kind"] == "cold"]


def _name(one: Any) -> str:
    return f"{one['kind']} pass of {one['prompt_tokens']} tokens"


def moved(one: Any, counter: str) -> int | None:
    """How far a counter of LMCache moved in a pass; a counter that appears only afterwards began at 0."""
    after = one["lmcache_after"]
    if (
        not (after["available"] and one["lmcache_before"]["available"])
        or after["counters"].get(counter) is None
    ):
        return None
    return int(after["counters"][counter]) - int(one["lmcache_before"]["counters"].get(counter) or 0)


@check(
    "KV001",
    "LMCache counts every hot token as a hit in its second tier",
    stage="serving",
    severity="critical",
    topic="kv",
    remedy="See LMCache's log. Common: PYTHONHASHSEED differs, the transfer mode has no handler, the DRAM "
    "tier holds the chunks (--l2-store-policy skip_l1), the pool of slots ran out.",
    source="facts/kv_bench.md 4.3, 4.9",
)
def _lmcache_hits(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for one in hot(facts):
        l2, l1 = moved(one, "lookup_hit_l2_tokens"), moved(one, "lookup_hit_l1_tokens")
        expected = chunks(facts, one) * facts["chunk_tokens"]
        if l2 is None or l1 is None:
            reason = one["lmcache_after"]["error"] or "it counts no lookups"
            tally.unknown(f"{_name(one)}: LMCache has no counts ({reason})")
            continue
        line = f"{_name(one)}: {l2} tokens from the second tier, {l1} from DRAM, {expected} expected"
        tally.add(l2 == expected and l1 == 0, line)
    return tally.verdict()


@check(
    "KV002",
    "The object store, or the disk under the folder, served every chunk of the hot passes",
    stage="serving",
    severity="critical",
    topic="kv",
    remedy="The hot pass was not served by the profile's tier: vLLM recomputed, or another tier answered.",
    source="facts/kv_bench.md 0, facts 3, 4 and 5",
)
def _store_reads(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for one in hot(facts):
        expected = chunks(facts, one) * facts["ranks"]
        if facts["profile"] == "file":
            file_tier.count(tally, one["file"], "read", expected * facts["chunk_bytes"], _name(one))
            continue
        found = [r for r in one["access_log"] if is_payload(r) and reads(r) and 200 <= int(r["status"]) < 300]
        moved = sum(by_rdma(r) + by_body(r) for r in found)
        keys = len({r["key"] for r in found})
        line = f"{_name(one)}: {keys} objects and {moved} bytes read, {expected} objects expected"
        whole = keys == expected and moved >= expected * facts["chunk_bytes"]
        tally.add(whole and expected, line)
    return tally.verdict()


@check(
    "KV003",
    "A cold pass leaves floor(tokens / chunk) objects for each rank",
    stage="serving",
    severity="critical",
    topic="kv",
    remedy="See LMCache's log for 'Insufficient NIXL storage capacity' and 'storing only'; --l1-align-bytes "
    "must be one chunk's bytes.",
    source="facts/kv_bench.md 0, fact 8",
)
def _object_count(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for one in cold(facts):
        expected = chunks(facts, one) * facts["ranks"]
        line = f"{_name(one)}: {len(one['new_objects'])} new objects, {expected} expected"
        tally.add(len(one["new_objects"]) == expected, line)
    return tally.verdict()


@check(
    "KV004",
    "Each stored object has the size of one chunk",
    stage="serving",
    severity="critical",
    topic="kv",
    remedy="An empty object is a declined PUT; another size is a wrong --l1-align-bytes or another model's.",
    source="facts/kv_bench.md 0, fact 8; facts/local_stack.md",
)
def _object_size(facts: TopicFacts) -> Verdict:
    stored = [o for one in facts["passes"] for o in one["new_objects"]]
    wrong = [
        f"{o['key']}: {o['size']} bytes, not {facts['chunk_bytes']}"
        for o in stored
        if o["size"] != facts["chunk_bytes"]
    ]
    return verdict(wrong, [], [f"{len(stored)} objects of {facts['chunk_bytes']} bytes"] if stored else [])


@check(
    "KV005",
    "The output equals that of the baseline without a cache",
    stage="serving",
    severity="critical",
    topic="kv",
    remedy="The cache changes what the model says: stop using it and compare the stored chunks.",
    source="facts/kv_bench.md 0, fact 13",
)
def _same_output(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for one in facts["passes"]:
        baseline = facts["baseline_ids"].get(str(one["prompt_tokens"]))
        ids = one["completion"]["output_ids"]
        if not baseline:
            tally.unknown(f"{_name(one)}: no baseline output")
        elif ids != baseline:
            tally.fail(f"{_name(one)}: {ids} is not the baseline's {baseline}")
        else:
            tally.ok(f"{_name(one)}: {len(ids)} token ids equal the baseline's")
    return tally.verdict()


@check(
    "KV006",
    "Every request of the passes was answered",
    stage="serving",
    severity="critical",
    topic="kv",
    remedy='See vLLM\'s log; a load that fails makes the request fail when kv_load_failure_policy is "fail".',
    source="facts/kv_bench.md 0, fact 9",
)
def _answered(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for one in facts["passes"]:
        done = one["completion"]
        good = (
            done["http_status"] == 200 and done["output_ids"] and not done["error"] and done["finish_reason"]
        )
        outcome = f"{done['finish_reason']}, {done['error'] or 'no error'}"
        line = f"{_name(one)}: status {done['http_status']}, {outcome}"
        tally.add(good, line)
    return tally.verdict()


@check(
    "KV007",
    "Hot TTFT is under a third of cold",
    stage="serving",
    severity="major",
    topic="kv",
    remedy="Compare the transfer times in the access log with the TTFT; a busy machine slows both.",
    source="issue 2; facts/local_stack.md, TTFT seen",
)
def _faster(facts: TopicFacts) -> Verdict:
    for proof in (_lmcache_hits, _store_reads):
        if proof(facts).status != "pass":
            return verdict(
                [], ["TTFT is not judged: the hot passes are not proved to come from the profile's tier"], []
            )
    times: dict[tuple[int, str], list[float]] = defaultdict(list)
    for one in facts["passes"]:
        if one["completion"]["ttft_ms"] is None:
            return verdict([], [f"{_name(one)}: no token came ({one['completion']['error']})"], [])
        times[one["prompt_tokens"], one["kind"]].append(one["completion"]["ttft_ms"])
    tally = Tally()
    for tokens in sorted({t for t, _ in times if t >= HOT_JUDGED_FROM_TOKENS}):
        if not (times[tokens, "cold"] and times[tokens, "hot"]):
            return verdict([], [f"{tokens} tokens: a cold and a hot pass are needed"], [])
        was, now = statistics.median(times[tokens, "cold"]), statistics.median(times[tokens, "hot"])
        line = f"{tokens} tokens: cold {was:.0f} ms, hot {now:.0f} ms (median of {len(times[tokens, 'hot'])})"
        tally.add(now < was * HOT_LIMIT, line)
    return tally.verdict()


@check(
    "KV008",
    "The output depends on the stored objects",
    stage="serving",
    severity="major",
    topic="kv_zeroed",
    remedy="Choose another prompt or model: with this one, equal output says nothing about the cache.",
    source="facts/local_stack.md: after zeroing all stored objects the ids did change",
)
def _depends(facts: TopicFacts) -> Verdict:
    if not facts["objects"]:
        return verdict([], ["no object was overwritten"], [])
    line = f"{facts['objects']} objects zeroed: {facts['before_ids']} before, {facts['after_ids']} after"
    same = facts["before_ids"] == facts["after_ids"]
    return verdict([line] if same else [], [], [line])


@check(
    "KV010",
    "vLLM is registered with the LMCache server",
    stage="serving",
    severity="critical",
    topic="kv",
    remedy="Start vLLM again: its connector registers when it starts, and after a heartbeat (10 s) that found the "
    "server gone; a server that is back before the next heartbeat, or has no handler for the transfer mode, gets "
    "no registration, and the cache stays off without an error.",
    source="LMCache 0.5.6, vllm_multi_process_adapter.py (heartbeat); seen in the local lab",
)
def _registered(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for one in facts["passes"]:
        after = one["lmcache_after"]
        if not after["available"]:
            tally.unknown(f"{_name(one)}: LMCache does not answer ({after['error']})")
            continue
        tally.add(after["engines"] > 0, f"{_name(one)}: {after['engines']} engine(s) registered")
    return tally.verdict()


@check(
    "KV011",
    "Another reader finds KV in the stored objects, and after the loads the same KV",
    stage="serving",
    severity="critical",
    topic="kv_content",
    remedy="Bytes of one value, or two chunks alike, are a transfer that moved nothing and was answered with success; "
    "bytes that changed are a slot that was written again while it was in use.",
    source="facts/local_stack.md: the engine ignores the reply to an RDMA request; issue 8",
)
def _content(facts: TopicFacts) -> Verdict:
    tally, first = Tally(), dict[str, str]()
    for one in facts["objects"]:
        stored, later = one["after_store"], one["after_loads"]
        twin = first.setdefault(stored["sha256"], one["key"])
        wrong = [
            reason
            for bad, reason in (
                (
                    stored["size"] != facts["chunk_bytes"],
                    f"{stored['size']} bytes, not {facts['chunk_bytes']}",
                ),
                (stored["values"] < LEAST_VALUES, f"only {stored['values']} different byte values"),
                (twin != one["key"], f"the same bytes as {twin}"),
                (later["sha256"] != stored["sha256"], "other bytes after the loads"),
            )
            if bad
        ]
        told = "; ".join(wrong) or f"{stored['values']} byte values, unchanged"
        tally.add(not wrong, f"{one['key']}: {told}")
    return tally.verdict()


def dynamic_key(model: str, chunk_hash: int) -> str:
    """Object name of LMCache's dynamic mode for one rank in bf16 (facts/kv_bench.md 4.5)."""
    return f"{model.replace('/', '_').replace('@', '_')}_1_0_{chunk_hash:x}_bfloat16"


@check(
    "KV009",
    "A second process finds and loads what a first one stored",
    stage="serving",
    severity="critical",
    topic="kv_shared",
    remedy="Both processes need the same model name, world size, dtype and bucket, and nixl_pool_size 0.",
    source="facts/kv_bench.md 4.5; facts/local_stack.md",
)
def _shared(facts: TopicFacts) -> Verdict:
    store, load = facts["store"], facts["load"]
    if store["pid"] == load["pid"]:
        return verdict([], ["store and load ran in one process"], [])
    found = {o["key"]: o["size"] for o in facts["objects"]}
    tally = Tally()
    for chunk in load["chunks"]:
        key = dynamic_key(facts["model"], chunk["hash"])
        wrong = [
            reason
            for bad, reason in (
                (key not in found, "no such object"),
                (found.get(key) != load["chunk_bytes"], f"{found.get(key)} bytes, not {load['chunk_bytes']}"),
                (not chunk["found"], "not found by the second process"),
                (not chunk["equal"], "other bytes than were stored"),
            )
            if bad
        ]
        tally.add(not wrong, f"{key}: {'; '.join(wrong) or 'found, loaded, equal'}")
    strays = sorted(set(found) - {dynamic_key(facts["model"], c["hash"]) for c in load["chunks"]})
    for key in strays:
        tally.fail(f"{key}: nobody stored this")
    return tally.verdict()
