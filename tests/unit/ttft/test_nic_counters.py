"""Where a store keeps no log, a pass is proven by vLLM's count of hits and by what the NICs moved."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from test_proof import CHUNK_BYTES, IDS, Stored, lab, passes

from kvlab.serving import tier
from kvlab.serving.lab import Lab
from kvlab.ttft import counters, nics, plan, proof
from kvlab.ttft.evidence import Reading, Witness
from kvlab.ttft.proof import Group
from kvlab.ttft.site import LabServing

PAYLOAD = 2 * CHUNK_BYTES
GONE = {"available": False, "inside": True, "error": "inside", "counters": {}, "engines": 0}


def counted(group: Group, rdma: int, tcp: int, hits: float, **vllm: float) -> Group:
    """The pass in a lab with an array: moved in its own direction, and a little in the other."""
    way, back = ("in", "out") if group.series == "hot" else ("out", "in")
    moved = {f"rdma_{way}": rdma, f"tcp_{way}": tcp, f"rdma_{back}": 9, f"tcp_{back}": 9}
    facts = group.facts | {"access_log": [], "lmcache_after": GONE, "nics": moved}
    return replace(group, facts=facts, chunk_bytes=CHUNK_BYTES, vllm={counters.HITS: hits} | vllm)


@pytest.fixture
def array(monkeypatch: pytest.MonkeyPatch) -> LabServing:
    monkeypatch.setattr(tier, "of", lambda *_: Stored())
    made = lab("s3-rdma", "rdma")
    profile = made.profiles["s3-rdma"] | {"mode": "in-process"}  # type: ignore[operator]
    data = made.data | {"simulated": False, "access_log": None, "profiles": {"s3-rdma": profile}}  # type: ignore[operator]
    values = {"name": "p", "model": "m", "contexts": [512], "profiles": ["s3-rdma"]}
    there = Lab(Path("lab.json"), data)
    return LabServing(there, plan.from_mapping(values, "p"), Witness(there, "s3-rdma", None))


@pytest.mark.parametrize("hits", [512, 511])
def test_hits_and_bytes_prove_a_pass(array: LabServing, hits: int) -> None:
    cold, hot = passes()
    cold, hot = counted(cold, PAYLOAD + 90, 50, 0), counted(hot, PAYLOAD + 90, 50, hits)
    assert array.doubts(cold, None) == []
    assert array.doubts(hot, cold) == []
    (found,) = proof.record(hot, 0, 0, 0.0, [])
    assert (found.rdma_bytes, found.http_bytes) == (PAYLOAD + 90, 50)
    assert (found.path, found.tier) == ("rdma", "store")
    assert proof.ended(hot) == ""


@pytest.mark.parametrize(
    ("rdma", "tcp", "hits", "words"),
    [
        (90, PAYLOAD + 50, 512, "PATH010 fail"),
        (PAYLOAD - 1, 50, 512, "PATH010 fail"),
        (PAYLOAD, PAYLOAD // 10, 512, "PATH010 fail"),
        (PAYLOAD, 50, 0, "vLLM counts 0 tokens from the cache outside, and 512 were expected"),
        (PAYLOAD, 50, 513, "vLLM counts 513 tokens"),
    ],
)
def test_a_hot_pass_that_the_counters_contradict_is_named(
    array: LabServing, rdma: int, tcp: int, hits: int, words: str
) -> None:
    cold, hot = passes()
    reasons = array.doubts(counted(hot, rdma, tcp, hits), counted(cold, PAYLOAD, 0, 0))
    assert [words in reason for reason in reasons] == [True]


def test_vllms_own_prefix_cache_and_a_cold_pass_that_hits_are_named(array: LabServing) -> None:
    cold, hot = passes()
    own = counted(hot, PAYLOAD, 50, 512, **{proof.PREFIX_HITS[0]: 16.0})
    assert "own prefix cache answered 16" in array.doubts(own, cold)[0]
    assert "256 tokens" in array.doubts(counted(cold, PAYLOAD, 50, 256), None)[0]
    less = counted(cold, PAYLOAD, 50, 0)
    few = replace(less, facts=less.facts | {"new_objects": less.facts["new_objects"][:1]})
    assert "KV003 fail" in array.doubts(few, None)[0]


def test_another_output_is_named(array: LabServing) -> None:
    cold, hot = (counted(one, PAYLOAD, 50, 512.0 * (one.series == "hot")) for one in passes())
    other = replace(hot, answers=[hot.answers[0] | {"output_ids": [1, 1]}])
    assert any("KV005 fail" in reason for reason in array.doubts(other, cold))


def test_http_is_proven_by_tcp_and_nothing_without_counters() -> None:
    _, hot = passes("s3-http")
    assert counters.doubts(counted(hot, 10, PAYLOAD + 400, 512), "http") == []
    assert "were expected by http" in counters.doubts(counted(hot, PAYLOAD, 10, 512), "http")[0]
    assert proof.record(counted(hot, 10, PAYLOAD + 400, 512), 0, 0, 0.0, [])[0].path == "http"
    blind = replace(hot, facts=hot.facts | {"nics": None}, vllm={})
    assert ["not count" in r or "not read" in r for r in counters.doubts(blind, "http")] == [True, True]


def port(sysfs: Path, device: str, state: str, rate: str, words: tuple[int, int]) -> None:
    folder = sysfs / "class/infiniband" / device / "ports/1"
    (folder / "counters").mkdir(parents=True)
    (folder / "state").write_text(f"{state}\n")
    (folder / "rate").write_text(f"{rate}\n")
    for name, value in zip(("port_rcv_data", "port_xmit_data"), words, strict=True):
        (folder / "counters" / name).write_text(f"{value}\n")


def netdev(sysfs: Path, name: str, *, hardware: bool) -> None:
    (sysfs / "class/net" / name / "statistics").mkdir(parents=True)
    if hardware:
        (sysfs / "class/net" / name / "device").mkdir()
    for counter, value in (("rx_bytes", 70), ("tx_bytes", 7)):
        (sysfs / "class/net" / name / "statistics" / counter).write_text(f"{value}\n")


def test_what_the_nics_carry_and_moved_is_read_from_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "class").mkdir()
    assert (nics.rate(tmp_path), nics.moved(tmp_path)) == (None, None)
    port(tmp_path, "mlx5_0", "4: ACTIVE", "400 Gb/sec (4X NDR)", (10, 1))
    port(tmp_path, "mlx5_1", "4: ACTIVE", "200 Gb/sec (2X NDR)", (20, 2))
    port(tmp_path, "mlx5_2", "1: DOWN", "100 Gb/sec (4X EDR)", (0, 0))
    netdev(tmp_path, "kvlab-nic0", hardware=True)
    netdev(tmp_path, "kvlab-lo", hardware=False)
    assert nics.rate(tmp_path) == 75.0
    assert nics.moved(tmp_path) == {"rdma_in": 120, "rdma_out": 12, "tcp_in": 70, "tcp_out": 7}


def test_counts_that_began_anew_or_were_not_read_say_nothing() -> None:
    before, after = {"rdma_in": 5, "tcp_in": 5}, {"rdma_in": 8, "tcp_in": 5}
    assert nics.between(before, after) == {"rdma_in": 3, "tcp_in": 0}
    assert nics.between(after, before) is None
    assert nics.between(None, after) is None


def test_a_reading_without_a_log_takes_the_nics(array: LabServing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Witness, "_vllm", lambda _: {})
    counts = iter([{"rdma_in": 1}, {"rdma_in": 4}])
    monkeypatch.setattr(nics, "moved", lambda: next(counts))
    before, after = array.witness.read(), array.witness.read()
    assert isinstance(before, Reading)
    assert (before.mark, after.nics) == (None, {"rdma_in": 4})
    facts = array.witness.one_pass("hot", len(IDS[0]), before, after)
    assert (facts["nics"], facts["access_log"]) == ({"rdma_in": 3}, [])
