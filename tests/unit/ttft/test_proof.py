"""A pass is proven only when it is what it claims to be; each way of being something else is named."""

from __future__ import annotations

import xmlrpc.client
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError
from ttft_site import CHUNK, CHUNK_BYTES, FakeServing, FakeSite, answer, counted, request

from kvlab.errors import KvlabError
from kvlab.serving import cpu, tier
from kvlab.serving.lab import Lab
from kvlab.ttft import plan, proof
from kvlab.ttft.client import Client
from kvlab.ttft.evidence import Reading, Witness
from kvlab.ttft.proof import Group
from kvlab.ttft.site import LabServing

IDS = [list(range(512))]


class Stored:
    """A tier that holds what the cold pass wrote."""

    def objects(self) -> list[dict[str, Any]]:
        return [{"key": f"512-{n}", "size": CHUNK_BYTES} for n in range(2)]


def lab(profile: str, path: str) -> Lab:
    facts = {
        "mode": "none" if profile == "baseline" else "mp",
        "chunk_size": CHUNK,
        "chunk_bytes": CHUNK_BYTES,
    }
    facts |= {"tp": 1, "expected_path": path, "file_path": None, "bucket": "kv", "name": profile}
    data = {
        "simulated": True,
        "address": "127.0.0.1",
        "ports": {"vllm": 9, "lmcache_http": 9},
        "endpoint": "http://store:1",
    }
    return Lab(Path("lab.json"), data | {"profiles": {profile: facts}, "state_dir": ".", "access_log": "log"})


@pytest.fixture
def serving(monkeypatch: pytest.MonkeyPatch) -> LabServing:
    monkeypatch.setattr(tier, "of", lambda *_: Stored())
    values = {"name": "p", "model": "m", "contexts": [512], "profiles": ["s3-rdma"]}
    return LabServing(
        lab("s3-rdma", "rdma"),
        plan.from_mapping(values, "p"),
        Witness(lab("s3-rdma", "rdma"), "s3-rdma", None),
    )


def passes(profile: str = "s3-rdma", context: int = 512) -> tuple[Group, Group]:
    made, ids = FakeServing(profile, FakeSite()), [one[:context] for one in IDS]
    return made.measure("cold", context, ids), made.measure("hot", context, ids)


def test_counts_are_read_once_between_two_passes_of_a_cached_profile(
    serving: LabServing, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def reading(self: Witness, *_: object) -> Reading:
        read.append(self.profile)
        return Reading(counted(), {"n": float(len(read))})

    monkeypatch.setattr(Witness, "read", reading)
    monkeypatch.setattr(Witness, "one_pass", lambda *_: {})
    monkeypatch.setattr(Client, "ask", lambda _, prompts: [answer(ids) for ids in prompts])
    monkeypatch.setattr(cpu, "process_ids", lambda *_: [])
    moved = [serving.measure(series, 512, IDS).vllm for series in ("cold", "hot", "hot")]
    assert len(read) == 4
    assert moved == [{"n": 1.0}] * 3
    serving.ask(IDS[0])  # what it moved belongs to no pass
    serving.measure("hot", 512, IDS)
    assert len(read) == 6
    monkeypatch.setattr(Witness, "tier", None)
    for _ in range(2):
        serving.measure("hot", 512, IDS)
    assert len(read) == 6 + 1 + 2, "the baseline's are read anew: nothing waits until they rest"


def with_facts(group: Group, **changed: Any) -> Group:
    return replace(group, facts=group.facts | changed)


def test_passes_that_are_what_they_claim_are_proven(serving: LabServing) -> None:
    cold, hot = passes()
    assert serving.doubts(cold, None) == []
    assert serving.doubts(hot, cold) == []


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"access_log": []}, "KV002"),
        ({"access_log": [request("GetObject", "512-0")]}, "KV002"),
        ({"access_log": [request("GetObject", f"512-{n}", "http") for n in range(2)]}, "PATH"),
        ({"lmcache_after": counted(lookup_hit_l1_tokens=512, lookup_hit_l2_tokens=0)}, "KV001"),
        ({"lmcache_after": {"available": False, "error": "gone", "engines": 0, "counters": {}}}, "KV001"),
        (
            {"lmcache_after": counted(lookup_hit_l1_tokens=0, lookup_hit_l2_tokens=512) | {"engines": 0}},
            "KV010",
        ),
    ],
)
def test_a_hot_pass_that_is_something_else_is_named(
    serving: LabServing, change: dict[str, Any], check: str
) -> None:
    cold, hot = passes()
    assert any(reason.startswith(check) for reason in serving.doubts(with_facts(hot, **change), cold))


def test_another_output_than_the_cold_pass_gave_is_named(serving: LabServing) -> None:
    cold, hot = passes()
    wrong = replace(hot, answers=[answer(IDS[0], output_ids=[1, 2])])
    assert any(reason.startswith("KV005 fail") for reason in serving.doubts(wrong, cold))


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"new_objects": []}, "KV003"),
        ({"new_objects": [{"key": "512-0", "size": 0}, {"key": "512-1", "size": CHUNK_BYTES}]}, "KV004"),
    ],
)
def test_a_cold_pass_that_stored_something_else_is_named(
    serving: LabServing, change: dict[str, Any], check: str
) -> None:
    cold, _ = passes()
    assert any(reason.startswith(check) for reason in serving.doubts(with_facts(cold, **change), None))


@pytest.mark.parametrize(
    "changed",
    [{"http_status": 500}, {"error": "silent"}, {"output_ids": []}, {"finish_reason": None}],
)
def test_a_request_without_its_end_is_named(changed: dict[str, Any]) -> None:
    cold, _ = passes("baseline")
    assert proof.unanswered(replace(cold, answers=[answer(IDS[0], **changed)]))


def test_nothing_may_answer_for_the_baseline_or_under_one_chunk() -> None:
    cold, hot = passes("baseline")
    assert proof.uncached(hot, cold) == []
    assert "prefix cache" in proof.uncached(replace(hot, vllm={proof.PREFIX_HITS[0]: 16.0}), cold)[0]
    other = replace(hot, answers=[answer(IDS[0], output_ids=[1])])
    assert "not that of the cold pass" in proof.uncached(other, cold)[0]
    small_cold, small = passes("s3-rdma", 64)
    assert small.chunks == 0
    assert proof.uncached(small, small_cold) == []
    moved = with_facts(small, access_log=[request("GetObject", "x")])
    assert "where none can be" in proof.uncached(moved, small_cold)[0]
    hits = with_facts(small, lmcache_after=counted(lookup_hit_l2_tokens=256))
    assert "256 tokens as hits" in proof.uncached(hits, small_cold)[0]


def test_a_prompt_that_vllm_counts_otherwise_is_not_the_one_that_was_sent(serving: LabServing) -> None:
    cold, hot = passes()
    assert proof.miscounted(hot) == []
    for usage, words in (
        ({"prompt_tokens": 511}, "counts 511 prompt tokens where 512"),
        (None, "counts no prompt"),
    ):
        other = replace(hot, answers=[answer(IDS[0], usage=usage)])
        assert words in proof.miscounted(other)[0]
        assert any(words in reason for reason in serving.doubts(other, cold))
    baseline = replace(passes("baseline")[0], answers=[answer(IDS[0][:5])])
    assert "counts 5 prompt tokens" in proof.uncached(baseline, None)[0]


def test_the_stages_are_what_vllm_and_the_stores_log_count() -> None:
    counted_by_vllm = {
        "vllm:lmcache_mp_lookup_duration_seconds_sum": 0.010,
        "vllm:lmcache_mp_lookup_duration_seconds_count": 1.0,
        "vllm:request_queue_time_seconds_sum": 0.012,
        "vllm:request_queue_time_seconds_count": 1.0,
        "vllm:request_prefill_time_seconds_sum": 0.03,
        "vllm:request_prefill_time_seconds_count": 1.0,
    }
    cold, hot = (replace(one, vllm=counted_by_vllm) for one in passes())
    (found,) = (one.stages for one in proof.record(hot, 0, 0, 0.0, []))
    assert (found.retrieve, found.prefill, found.store) == (pytest.approx(0.004, abs=1e-6), 0.03, None)
    assert found.lookup == pytest.approx(0.006, abs=1e-6)  # the wait for LMCache, less the reads of the store
    assert found.copy == pytest.approx(0.002, abs=1e-6)  # the rest of the queue
    (found,) = (one.stages for one in proof.record(cold, 0, 0, 0.0, []))
    assert (found.lookup, found.retrieve, found.store) == (0.010, None, pytest.approx(0.004, abs=1e-6))
    assert found.copy is None
    nothing_found = with_facts(hot, lmcache_after=hot.facts["lmcache_before"])
    assert proof.record(nothing_found, 0, 0, 0.0, [])[0].stages.copy is None
    twice = {name: 2 * value for name, value in counted_by_vllm.items()}
    together = replace(hot, vllm=twice, answers=[*hot.answers, *hot.answers])
    assert [one.stages.copy for one in proof.record(together, 0, 0, 0.0, [])] == [None, None]
    late = replace(hot, vllm=counted_by_vllm | {"vllm:request_prefill_time_seconds_count": 0.0})
    assert proof.record(late, 0, 0, 0.0, [])[0].stages.prefill is None


def test_a_refused_object_that_was_written_after_all_is_no_trouble() -> None:
    cold, hot = passes()
    refused = request("PutObject", "512-0") | {"status": 503}
    assert proof.ended(with_facts(cold, access_log=[refused, *cold.facts["access_log"]])) == ""
    assert "refused 1 of 2 objects" in proof.ended(
        with_facts(cold, access_log=[refused, *cold.facts["access_log"][1:]])
    )
    # A read that failed is for the proof of the pass to judge: the next may succeed.
    assert proof.ended(with_facts(hot, access_log=[request("GetObject", "512-0") | {"status": 404}])) == ""


def test_the_baseline_has_no_server_that_could_be_gone() -> None:
    gone = {"available": False, "error": "none", "counters": {}}
    assert proof.ended(with_facts(passes("baseline")[0], lmcache_after=gone)) == ""
    assert "is gone (none)" in proof.ended(with_facts(passes()[0], lmcache_after=gone))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (EndpointConnectionError(endpoint_url="http://store:1"), "nothing answers at http://store:1"),
        (ConnectionRefusedError(111, "Connection refused"), "the lab went away during a pass .*refused"),
        (xmlrpc.client.Fault(1, "SHUTDOWN_STATE"), "the lab went away during a pass .*SHUTDOWN_STATE"),
    ],
)
def test_a_lab_that_goes_away_is_one_sentence(
    serving: LabServing, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    def away(*_: object) -> None:
        raise error

    cold, _ = passes()
    monkeypatch.setattr(Stored, "objects", away)
    with pytest.raises(KvlabError, match=words):
        serving.doubts(cold, None)
    monkeypatch.setattr(Witness, "read", away)
    with pytest.raises(KvlabError, match=words):
        serving.measure("cold", 512, IDS)


def test_the_record_says_what_moved_and_how() -> None:
    cold, hot = passes()
    (stored,), (loaded,) = (proof.record(g, 3, 1, 2.5, []) for g in (cold, hot))
    assert (loaded.path, loaded.tier, loaded.rdma_bytes, loaded.http_bytes) == ("rdma", "store", 2048, 0)
    assert (loaded.hit_tokens, loaded.expected_hit_tokens) == (512, 512)
    assert (loaded.ttft_first_chunk_s, loaded.ttft_first_token_s, loaded.total_s) == (0.009, 0.01, 0.02)
    assert (loaded.client_cpu_s, loaded.start, loaded.index, loaded.at_s) == (0.5, 3, 1, 2.5)
    assert loaded.stages.retrieve == pytest.approx(0.004, abs=1e-6)
    assert (stored.path, stored.rdma_bytes, stored.expected_hit_tokens) == ("rdma", 2048, 0)
    assert stored.stages.retrieve is None
    both = with_facts(hot, access_log=[request("GetObject", "a"), request("GetObject", "b", "http")])
    assert proof.record(both, 0, 0, 0.0, [])[0].path == "unknown"
    files = with_facts(hot, access_log=[], file={"direct_io": True, "read": 2048, "written": 0})
    assert (proof.record(files, 0, 0, 0.0, [])[0].path, proof.record(files, 0, 0, 0.0, [])[0].tier) == (
        "file",
        "folder",
    )
    (bare,) = proof.record(passes("baseline")[1], 0, 0, 0.0, ["why"])
    assert (bare.path, bare.tier, bare.proven, bare.reasons) == ("none", "", False, ["why"])
