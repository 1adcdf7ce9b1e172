"""Whether a measurement may be believed, before its numbers are looked at.

Topic `bench`: {"server_starts", "passes": count of hot passes, "prefix_cache_off": bool, "cold_series": bool (cold
TTFT told apart), "bucket_empty_before": bool or null, "content_verified": bool, "tool", "output_equal": bool or null,
"hits_proven": bool, "path_proven": bool, "tokens", "claimed_bytes": or null, "computed_bytes", "cleaned_by":
"s3"|other|null, "loaded_tokens": count or null, "expected_tokens"}
"""

from __future__ import annotations

import functools

from kvlab.checks.registry import Tally, TopicFacts, Verdict, check

bench = functools.partial(check, stage="path", topic="bench", severity="major")

STARTS = 3
SIZE_TOLERANCE = 0.02


@bench(
    "KV020",
    "Samples are independent: the server was started several times",
    remedy="Repeat over at least three server starts: passes of one start share its luck (19 to 29 % "
    "false alarms).",
    source="facts/kv_bench.md 0, fact 14",
)
def _independent(facts: TopicFacts) -> Verdict:
    tally = Tally()
    tally.add(
        facts["server_starts"] >= STARTS, f"{facts['passes']} passes over {facts['server_starts']} start(s)"
    )
    return tally.verdict()


@bench(
    "KV021",
    "Cold TTFT, which contains the PUTs, is a series of its own",
    remedy="Report cold (store) and hot (load) apart, and the baseline without a cache beside them.",
    source="facts/kv_bench.md 0, fact 10",
)
def _cold_apart(facts: TopicFacts) -> Verdict:
    tally = Tally()
    tally.add(
        facts["cold_series"],
        "cold passes are " + ("apart" if facts["cold_series"] else "mixed with hot ones"),
    )
    return tally.verdict()


@bench(
    "KV022",
    "The cold pass began with an empty bucket",
    remedy="Empty the bucket by S3 before a cold pass (kvlab bucket clean): no endpoint of LMCache "
    "deletes NIXL's objects.",
    source="facts/kv_bench.md 0, fact 12",
)
def _empty(facts: TopicFacts) -> Verdict:
    tally, empty = Tally(), facts["bucket_empty_before"]
    if empty is None:
        tally.unknown("nobody looked into the bucket before")
    else:
        tally.add(empty, f"the bucket was {'' if empty else 'not '}empty, cleaned by {facts['cleaned_by']}")
    return tally.verdict()


@bench(
    "KV023",
    "The rate is of bytes that were checked",
    severity="critical",
    remedy="Compare the content: nixlbench's OBJ read ignores the offset, so its rates are inflated.",
    source="facts/provisioning.md 3, row 40 (ai-dynamo/nixl#1377)",
)
def _content(facts: TopicFacts) -> Verdict:
    tally = Tally()
    checked = facts["content_verified"]
    tally.add(checked, f"{facts['tool']}: the content was {'' if checked else 'not '}compared")
    return tally.verdict()


@bench(
    "KV024",
    "TTFT is judged only where hit and path are proven for the same passes",
    severity="critical",
    remedy="Take LMCache's counts and the store's log of the same passes (kvlab ttft does), then judge.",
    source="facts/kv_bench.md 0, fact 3; design.md, Proof of path",
)
def _proven(facts: TopicFacts) -> Verdict:
    tally = Tally()
    for what in ("hits", "path"):
        proven = facts[f"{what}_proven"]
        tally.add(proven, f"{what} {'proven' if proven else 'not proven'}")
    return tally.verdict()


@bench(
    "KV025",
    "The cache that is measured did not change the output",
    severity="critical",
    remedy="Do not use this cache: versions before LMCache 0.5.4, or vLLM 0.26 in process, store KV under "
    "wrong keys.",
    source="facts/kv_bench.md 0, fact 13",
)
def _output(facts: TopicFacts) -> Verdict:
    tally = Tally()
    if facts["output_equal"] is None:
        tally.unknown("the output was not compared with the baseline's")
    else:
        tally.add(facts["output_equal"], "the output is " + ("equal" if facts["output_equal"] else "another"))
    return tally.verdict()


@bench(
    "KV026",
    "A size that is claimed is the size that follows from the model",
    remedy="Compute it (kvlab size): the source document's 43 GB is twice the formula for its model.",
    source="facts/kv_bench.md 0, fact 15",
)
def _size(facts: TopicFacts) -> Verdict:
    tally, claimed, computed = Tally(), facts["claimed_bytes"], facts["computed_bytes"]
    if claimed is None:
        tally.ok(f"no size is claimed; {facts['tokens']} tokens are {computed:,} bytes")
    else:
        good = abs(claimed - computed) <= computed * SIZE_TOLERANCE
        tally.add(good, f"{facts['tokens']} tokens: claimed {claimed:,} bytes, the model gives {computed:,}")
    return tally.verdict()


@bench(
    "KV027",
    "The hot passes loaded the tokens they should, past vLLM's own cache",
    severity="critical",
    remedy="Switch vLLM's prefix cache off, use prompts of many chunks, and compare 'need to load' with "
    "the prompt.",
    source="facts/provisioning.md 3, row 38 (LMCache#1109); facts/kv_bench.md 0, fact 5",
)
def _loaded(facts: TopicFacts) -> Verdict:
    tally, loaded = Tally(), facts["loaded_tokens"]
    if loaded is None:
        tally.unknown("how many tokens were loaded is not known")
    else:
        tally.add(
            loaded >= facts["expected_tokens"], f"{loaded} tokens loaded, {facts['expected_tokens']} expected"
        )
    off = facts["prefix_cache_off"]
    tally.add(off, f"vLLM's prefix cache was {'off' if off else 'on'}")
    return tally.verdict()
