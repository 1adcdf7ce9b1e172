"""The tier proof, on facts recorded from a real profile and on those facts with one thing changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvlab.checks import judge
from kvlab.checks.kv import dynamic_key

RECORDED = Path(__file__).parents[2] / "fixtures" / "path"
Facts = dict[str, Any]


def recorded(name: str) -> Facts:
    """The recording; the store's log lines stand once in it, in the passes, and twice in the facts."""
    facts: Facts = json.loads((RECORDED / f"{name}.json").read_text())
    facts["path"]["access_log"] = [r for one in facts["kv"]["passes"] for r in one["access_log"]]
    return facts


def changed(change: Callable[[Facts], object], name: str = "kv-rdma", topic: str = "kv") -> Facts:
    facts = copy.deepcopy(recorded(name))
    change(facts[topic])
    return facts


def statuses(facts: Facts, *ids: str) -> dict[str, str]:
    return {finding.id: finding.status for finding in judge(facts, ids)}


def of_kind(facts: Facts, kind: str) -> list[Facts]:
    return [p for p in facts["passes"] if p["kind"] == kind]


ALL = ("KV001", "KV002", "KV003", "KV004", "KV005", "KV006", "KV007", "KV010")


@pytest.mark.parametrize("name", ["kv-http", "kv-rdma"])
def test_passes_of_a_working_profile_pass_every_check(name: str) -> None:
    found = statuses(recorded(name), *ALL, "PATH")
    assert set(found.values()) == {"pass"}, found


@pytest.mark.parametrize("name", ["kv-server-stopped", "kv-wrong-mode"])
def test_without_a_working_lmcache_server_vllm_answers_and_the_tier_proof_fails(name: str) -> None:
    found = statuses(recorded(name), *ALL)
    assert found["KV006"] == "pass"
    assert found["KV005"] == "pass"
    assert found["KV002"] == "fail"
    assert found["KV001"] != "pass"
    assert found["KV003"] == "fail"


def test_hits_in_lmcaches_dram_tier_are_no_proof() -> None:
    def from_dram(facts: Facts) -> None:
        counters = of_kind(facts, "hot")[0]["lmcache_after"]["counters"]
        counters["lookup_hit_l1_tokens"] += 256
        counters["lookup_hit_l2_tokens"] -= 256

    assert statuses(changed(from_dram), "KV001") == {"KV001": "fail"}


def test_one_chunk_less_than_the_prompt_has_is_a_failure() -> None:
    def one_less(facts: Facts) -> None:
        of_kind(facts, "hot")[0]["lmcache_after"]["counters"]["lookup_hit_l2_tokens"] -= 256

    assert statuses(changed(one_less), "KV001") == {"KV001": "fail"}


def test_counts_that_lmcache_does_not_give_are_inconclusive() -> None:
    def silent(facts: Facts) -> None:
        for one in facts["passes"]:
            one["lmcache_after"]["counters"]["lookup_hit_l2_tokens"] = None

    assert statuses(changed(silent), "KV001") == {"KV001": "inconclusive"}


def test_a_hot_pass_without_reads_at_the_store_fails() -> None:
    def no_reads(facts: Facts) -> None:
        of_kind(facts, "hot")[-1]["access_log"] = []

    assert statuses(changed(no_reads), "KV002") == {"KV002": "fail"}


def test_a_read_that_the_store_refused_does_not_count() -> None:
    def refused(facts: Facts) -> None:
        next(r for r in of_kind(facts, "hot")[0]["access_log"] if r["op"] == "GetObject")["status"] = 403

    assert statuses(changed(refused), "KV002") == {"KV002": "fail"}


def test_one_object_read_again_and_again_is_not_the_whole_prompt() -> None:
    def same(facts: Facts) -> None:
        for request in of_kind(facts, "hot")[0]["access_log"]:
            request["key"] = "obj_0"

    assert statuses(changed(same), "KV002") == {"KV002": "fail"}


def test_a_short_read_fails() -> None:
    def short(facts: Facts) -> None:
        next(r for r in of_kind(facts, "hot")[0]["access_log"] if r["op"] == "GetObject")["rdma_out"] -= 1

    assert statuses(changed(short), "KV002") == {"KV002": "fail"}


def test_a_missing_object_and_a_surplus_one_fail() -> None:
    less = changed(lambda f: of_kind(f, "cold")[0]["new_objects"].pop())
    more = changed(lambda f: of_kind(f, "cold")[0]["new_objects"].append({"key": "x", "size": 1048576}))
    assert statuses(less, "KV003") == {"KV003": "fail"}
    assert statuses(more, "KV003") == {"KV003": "fail"}


def test_two_ranks_store_twice_as_many_objects() -> None:
    assert statuses(changed(lambda f: f.update(ranks=2)), "KV003") == {"KV003": "fail"}


def test_an_empty_object_fails() -> None:
    facts = changed(lambda f: of_kind(f, "cold")[0]["new_objects"][0].update(size=0))
    (finding,) = judge(facts, ["KV004"])
    assert (finding.status, "0 bytes, not 1048576" in finding.evidence[0]) == ("fail", True)


def test_no_objects_at_all_is_not_green() -> None:
    def none(facts: Facts) -> None:
        for one in facts["passes"]:
            one["new_objects"] = []

    assert statuses(changed(none), "KV004") == {"KV004": "inconclusive"}


def test_one_other_token_fails_and_no_baseline_is_inconclusive() -> None:
    def other(facts: Facts) -> None:
        of_kind(facts, "hot")[-1]["completion"]["output_ids"][-1] ^= 1

    assert statuses(changed(other), "KV005") == {"KV005": "fail"}
    assert statuses(changed(lambda f: f.update(baseline_ids={})), "KV005") == {"KV005": "inconclusive"}


@pytest.mark.parametrize(
    "wrong", [{"http_status": 500}, {"output_ids": []}, {"error": "boom"}, {"finish_reason": None}]
)
def test_a_request_that_was_not_answered_properly_fails(wrong: Facts) -> None:
    facts = changed(lambda f: f["passes"][0]["completion"].update(wrong))
    assert statuses(facts, "KV006") == {"KV006": "fail"}


def slow(facts: Facts) -> None:
    for one in of_kind(facts, "hot"):
        one["completion"]["ttft_ms"] = of_kind(facts, "cold")[-1]["completion"]["ttft_ms"] / 2


def test_half_of_cold_is_not_fast_enough() -> None:
    assert statuses(changed(slow), "KV007") == {"KV007": "fail"}


def test_one_slow_hot_pass_does_not_decide() -> None:
    def one_slow(facts: Facts) -> None:
        of_kind(facts, "hot")[-1]["completion"]["ttft_ms"] = 10**6

    assert statuses(changed(one_slow), "KV007") == {"KV007": "pass"}


def test_a_pass_without_a_token_has_no_ttft_to_judge() -> None:
    facts = changed(lambda f: f["passes"][0]["completion"].update(ttft_ms=None, error="silent"))
    assert statuses(facts, "KV007") == {"KV007": "inconclusive"}


def test_ttft_is_not_judged_where_the_tier_is_not_proved() -> None:
    def unproved(facts: Facts) -> None:
        of_kind(facts, "hot")[0]["access_log"] = []

    assert statuses(changed(unproved), "KV007") == {"KV007": "inconclusive"}


def test_short_prompts_alone_do_not_prove_the_ratio() -> None:
    def short_only(facts: Facts) -> None:
        facts["passes"] = [p for p in facts["passes"] if p["prompt_tokens"] < 4096]

    assert statuses(changed(short_only), "KV007") == {"KV007": "inconclusive"}


def test_an_engine_that_never_registered_is_named_and_a_silent_server_is_inconclusive() -> None:
    def forgotten(facts: Facts) -> None:
        facts["passes"][0]["lmcache_after"]["engines"] = 0

    assert statuses(changed(forgotten), "KV010") == {"KV010": "fail"}
    assert statuses(recorded("kv-wrong-mode"), "KV010") == {"KV010": "fail"}
    assert statuses(recorded("kv-server-stopped"), "KV010") == {"KV010": "inconclusive"}


def zeroed(before: list[int], after: list[int], objects: int) -> Facts:
    return {"kv_zeroed": {"simulated": True, "before_ids": before, "after_ids": after, "objects": objects}}


def test_output_that_zeroed_objects_do_not_change_fails() -> None:
    assert statuses(zeroed([1, 2], [1, 3], 24), "KV008") == {"KV008": "pass"}
    assert statuses(zeroed([1, 2], [1, 2], 24), "KV008") == {"KV008": "fail"}
    assert statuses(zeroed([1, 2], [1, 3], 0), "KV008") == {"KV008": "inconclusive"}


def test_the_dynamic_modes_keys_are_those_of_the_facts() -> None:
    assert dynamic_key("lab/model", 1000) == "lab_model_1_0_3e8_bfloat16"
    assert dynamic_key("a/b@c", -255) == "a_b_c_1_0_-ff_bfloat16"


def shared(**change: Any) -> Facts:
    chunk = {"hash": 1000, "seed": 1, "found": True, "loaded": True, "equal": True}
    load = {"pid": 2, "chunk_bytes": 1048576, "chunks": [chunk | change.pop("chunk", {})]}
    facts = {
        "simulated": True,
        "model": "lab/model",
        "store": {"pid": 1},
        "load": load,
        "objects": [{"key": "lab_model_1_0_3e8_bfloat16", "size": 1048576}],
    }
    return {"kv_shared": facts | change}


def test_chunks_that_a_second_process_loads_pass() -> None:
    assert statuses(shared(), "KV009") == {"KV009": "pass"}


@pytest.mark.parametrize(
    "change",
    [
        {"chunk": {"found": False}},
        {"chunk": {"equal": False}},
        {"objects": []},
        {"objects": [{"key": "lab_model_1_0_3e8_bfloat16", "size": 0}]},
        {
            "objects": [
                {"key": "lab_model_1_0_3e8_bfloat16", "size": 1048576},
                {"key": "obj_0_abcd", "size": 1048576},
            ]
        },
    ],
)
def test_a_chunk_that_is_lost_wrong_short_or_a_stranger_fails(change: Facts) -> None:
    assert statuses(shared(**change), "KV009") == {"KV009": "fail"}


def test_one_process_alone_proves_no_sharing() -> None:
    assert statuses(shared(store={"pid": 2}), "KV009") == {"KV009": "inconclusive"}


def content(**changed: Any) -> Facts:
    """Facts about two sampled chunks, with the second one's look changed: after_store, after_loads."""
    good = [{"size": 1048576, "sha256": mark, "values": 256} for mark in ("a", "b")]
    objects = [{"key": f"obj_{n}", "after_store": look, "after_loads": look} for n, look in enumerate(good)]
    objects[1] |= {when: good[1] | look for when, look in changed.items()}
    return {"kv_content": {"simulated": True, "chunk_bytes": 1048576, "objects": objects}}


def test_sampled_chunks_that_differ_and_stay_are_kv() -> None:
    assert statuses(content(), "KV011") == {"KV011": "pass"}
    assert statuses({"kv_content": content()["kv_content"] | {"objects": []}}, "KV011") == {
        "KV011": "inconclusive"
    }


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"after_store": {"values": 1}}, "only 1 different byte values"),
        ({"after_store": {"size": 0}}, "0 bytes, not 1048576"),
        ({"after_store": {"sha256": "a"}}, "the same bytes as obj_0"),
        ({"after_loads": {"sha256": "c"}}, "other bytes after the loads"),
    ],
)
def test_a_chunk_without_kv_another_ones_or_one_that_changed_is_named(changed: Facts, words: str) -> None:
    (finding,) = judge(content(**changed), ["KV011"])
    assert finding.status == "fail"
    assert any(line.startswith("obj_1: ") and words in line for line in finding.evidence)
