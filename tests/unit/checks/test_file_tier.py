"""The tier and path proof of files, on facts recorded from profile `file` and on those with one thing changed."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kvlab.checks import judge

RECORDED = Path(__file__).parents[2] / "fixtures" / "path" / "kv-file.json"
Facts = dict[str, Any]
KV = ("KV001", "KV002", "KV003", "KV004", "KV005", "KV006", "KV007", "KV010")
A_GET = {"op": "GetObject", "key": "obj_0_ab12", "bucket": "kv-s3-http", "simulated": True, "status": 200}


def recorded() -> Facts:
    facts: Facts = json.loads(RECORDED.read_text())
    return facts


def changed(topic: str, change: Callable[[Facts], object]) -> Facts:
    facts = copy.deepcopy(recorded())
    change(facts[topic])
    return facts


def statuses(facts: Facts, *ids: str) -> dict[str, str]:
    return {finding.id: finding.status for finding in judge(facts, ids)}


def a_hot_pass(facts: Facts) -> Facts:
    hot: Facts = next(p for p in facts["passes"] if p["kind"] == "hot")
    return hot


def test_passes_over_files_pass_every_check_and_are_labelled_simulated() -> None:
    found = judge(recorded(), [*KV, "PATH"])
    assert {f.status for f in found} == {"pass"}, found
    assert {f.simulated for f in found} == {True}


def test_hits_in_lmcaches_dram_tier_are_no_proof_whatever_its_counter_says() -> None:
    facts = changed("kv", lambda f: a_hot_pass(f)["file"].update(read=0))
    (finding,) = judge(facts, ["KV002"])
    assert finding.status == "fail"
    assert "the kernel counted 0 bytes read" in finding.evidence[0]
    assert statuses(facts, "KV007") == {"KV007": "inconclusive"}


def test_one_byte_less_than_the_prompts_chunks_fails() -> None:
    def short(facts: Facts) -> None:
        one = a_hot_pass(facts)
        chunks = one["prompt_tokens"] // facts["chunk_tokens"]
        one["file"]["read"] = chunks * facts["chunk_bytes"] - 1

    assert statuses(changed("kv", short), "KV002") == {"KV002": "fail"}


def test_reads_that_the_page_cache_may_have_answered_are_inconclusive() -> None:
    facts = changed("kv", lambda f: a_hot_pass(f)["file"].update(read=0, direct_io=False))
    (finding,) = judge(facts, ["KV002"])
    assert finding.status == "inconclusive"
    assert "page cache" in finding.evidence[0]


def test_buffered_reads_that_did_reach_the_disk_are_a_proof() -> None:
    facts = changed("kv", lambda f: [p["file"].update(direct_io=False) for p in f["passes"]])
    assert statuses(facts, "KV002") == {"KV002": "pass"}


def test_a_pass_that_nobody_counted_is_inconclusive_even_if_objects_were_read_meanwhile() -> None:
    def uncounted(facts: Facts) -> None:
        a_hot_pass(facts).update(file=None, access_log=[A_GET | {"rdma_out": 0, "body_out": 10**9}])

    assert statuses(changed("kv", uncounted), "KV002") == {"KV002": "inconclusive"}
    lost = changed("kv", lambda f: a_hot_pass(f).pop("file"))
    assert statuses(lost, "KV002") == {"KV002": "inconclusive"}


def test_a_prompt_without_a_whole_chunk_proves_nothing() -> None:
    facts = changed("kv", lambda f: a_hot_pass(f).update(prompt_tokens=255))
    assert statuses(facts, "KV002") == {"KV002": "fail"}


def test_an_empty_folder_fails_count_and_path() -> None:
    facts = changed("path", lambda f: f.update(slots=[]))
    for one in facts["kv"]["passes"]:
        one["new_objects"] = []
    assert statuses(facts, "KV003", "KV004", "PATH001") == {
        "KV003": "fail",
        "KV004": "inconclusive",
        "PATH001": "fail",
    }


def test_no_transfer_at_all_is_not_green() -> None:
    facts = changed("path", lambda f: f.update(transfers=[]))
    assert statuses(facts, "PATH001", "PATH002") == dict.fromkeys(("PATH001", "PATH002"), "inconclusive")


def test_a_slot_that_is_not_whole_fails() -> None:
    facts = changed("path", lambda f: f["slots"][0].update(size=f["slots"][0]["size"] - 1))
    assert statuses(facts, "PATH001") == {"PATH001": "fail"}


@pytest.mark.parametrize("way", ["read", "written"])
def test_fewer_bytes_than_the_transfers_of_a_direction_have_fail(way: str) -> None:
    op = {"read": "read", "written": "write"}[way]

    def short(facts: Facts) -> None:
        facts["file"][way] = sum(t["size"] for t in facts["transfers"] if t["op"] == op) - 1

    (finding,) = judge(changed("path", short), ["PATH002"])
    assert finding.status == "fail"
    assert f"bytes {way} by LMCache's server" in finding.evidence[0]


def test_transfers_that_nobody_counted_are_inconclusive() -> None:
    assert statuses(changed("path", lambda f: f.update(file=None)), "PATH002") == {"PATH002": "inconclusive"}


def test_an_object_that_was_read_meanwhile_fails_for_the_profile_promises_files() -> None:
    (finding,) = judge(changed("path", lambda f: f["access_log"].append(A_GET)), ["PATH003"])
    assert finding.status == "fail"
    assert finding.evidence == ("GetObject kv-s3-http/obj_0_ab12 although the profile uses files",)


def test_objects_that_were_only_listed_do_not_count() -> None:
    listed = {"op": "ListObjectsV2", "key": None, "bucket": "kv-s3-http", "simulated": True, "status": 200}
    assert statuses(changed("path", lambda f: f["access_log"].append(listed)), "PATH003") == {
        "PATH003": "pass"
    }
