"""vLLM with LMCache over the object store: is the cache really used, by the promised path, and harmless."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import Bench
from serving import LENGTHS, REUSES, Server, prompt, runner_of

from kvlab.checks import judge
from kvlab.checks.kv import moved
from kvlab.kvcache.geometry import Geometry
from kvlab.probes import Facts, lmcache_mp
from kvlab.serving.supervisor import Supervisor

pytestmark = pytest.mark.integration

CACHED = [
    "s3-http",
    "file",
    "s3-rdma",
]  # the one that most labs keep running comes last: restoring it costs nothing
Starter = Callable[[str], Server]
NOTICED = (
    b"LMCache server is unhealthy"  # vLLM's log, at the first heartbeat (10 s, 10 s timeout) that failed
)
RESUMED = b"LMCache server is healthy again \xe2\x80\x94 resuming normal operation"
NOTICE_S = 60
EVICTION_S = 30
# What LMCache 0.5.6 logs when vLLM, after its next heartbeat (10 s), asks for a transfer it has no handler for.
REFUSAL = "No handler registered for operation register_kv_cache"


@pytest.fixture(scope="session")
def baseline_ids(start_profile: Starter) -> dict[str, list[int]]:
    """Token ids without any cache, by prompt length."""
    server = start_profile("baseline")
    prompts = [*map(prompt, LENGTHS), *(one.ids for one in REUSES.values())]
    return {str(len(ids)): server.ask(ids)["output_ids"] for ids in prompts}


@dataclass(frozen=True)
class Served:
    """A profile that runs, its passes, and the token ids that the baseline gave."""

    server: Server
    passes: list[Facts]
    baseline_ids: dict[str, list[int]]


@pytest.fixture(scope="session", params=CACHED)
def served(
    request: pytest.FixtureRequest, baseline_ids: dict[str, list[int]], start_profile: Starter
) -> Served:
    """Each cached profile: started once, its passes run once, judged by many tests."""
    server = start_profile(request.param)
    return Served(server, server.passes(), baseline_ids)


@pytest.fixture
def kv(served: Served) -> dict[str, Facts]:
    """Facts for the KV checks of the profile."""
    return served.server.kv(served.passes, served.baseline_ids)


def test_every_request_is_answered(kv: dict[str, Facts], bench: Bench) -> None:
    bench.prove(kv, "KV006")


def test_hot_passes_come_from_the_tier_of_the_profile(kv: dict[str, Facts], bench: Bench) -> None:
    bench.prove(kv, "KV001", "KV002", "KV010")


def test_cold_passes_leave_one_object_of_a_chunks_size_per_chunk_and_rank(
    kv: dict[str, Facts], bench: Bench
) -> None:
    bench.prove(kv, "KV003", "KV004")


def test_another_reader_finds_the_kv_that_was_stored_unchanged_after_the_loads(
    served: Served, bench: Bench
) -> None:
    bench.prove(served.server.content(served.passes), "KV011")


def test_chunks_took_the_promised_path(served: Served, bench: Bench) -> None:
    bench.prove(served.server.path(served.passes), "PATH")


def test_the_output_is_that_of_the_baseline(kv: dict[str, Facts], bench: Bench) -> None:
    bench.prove(kv, "KV005")


def test_hot_ttft_is_under_a_third_of_cold(kv: dict[str, Facts], bench: Bench) -> None:
    bench.prove(kv, "KV007")


def test_zeroing_the_stored_objects_changes_the_output(served: Served, bench: Bench) -> None:
    server, tokens = served.server, LENGTHS[-1]
    before = next(p for p in served.passes if p["prompt_tokens"] == tokens and p["kind"] == "hot")
    stored = {o["key"]: server.tier.body(o["key"]) for o in server.tier.objects()}
    try:
        for key, body in stored.items():
            server.tier.overwrite(key, bytes(len(body)))
        zeroed = server.ask(prompt(tokens))
    finally:
        for key, body in stored.items():
            server.tier.overwrite(key, body)
    facts = {
        "simulated": server.kv([before], {})["kv"]["simulated"],
        "objects": len(stored),
        "before_ids": before["completion"]["output_ids"],
        "after_ids": zeroed["output_ids"],
    }
    bench.prove({"kv_zeroed": facts}, "KV008")
    assert server.ask(prompt(tokens))["output_ids"] == facts["before_ids"], "put back, yet the output differs"


@pytest.mark.parametrize("served", CACHED[-1:], indirect=True)
@pytest.mark.parametrize("way", REUSES)
def test_a_prompt_that_shares_a_prefix_loads_its_whole_chunks_and_stores_the_rest(
    served: Served, way: str, bench: Bench
) -> None:
    server, reuse = served.server, REUSES[way]
    facts = server.facts
    size = Geometry.from_config(facts["model_config"], tp=facts["tp"], chunk_size=facts["chunk_size"])
    one = server.one_pass("cold", reuse.ids)
    hit = reuse.shared // facts["chunk_size"] * facts["chunk_size"]
    assert moved(one, "lookup_hit_l2_tokens") == hit
    assert moved(one, "lookup_hit_l1_tokens") == 0
    assert len(one["new_objects"]) == size.objects(len(reuse.ids)) - size.objects(hit)
    bench.prove(server.kv([one], served.baseline_ids), "KV004" if one["new_objects"] else "KV006", "KV005")


@pytest.mark.parametrize("served", CACHED[-1:], indirect=True)
def test_another_vllm_finds_what_the_first_one_stored(served: Served, bench: Bench) -> None:
    server, ids = served.server, prompt(LENGTHS[-1])
    if not bench.host.local:
        pytest.skip("vLLM is stopped and its LMCache server left alone only on the GPU host itself")
    bench.tell("vLLM stopped, its LMCache server left as it is: another vLLM starts (about 40 s)")
    assert Supervisor(bench.lab.state_dir).stop_program(f"vllm-{server.profile}")
    runner_of(bench).use(server.profile, restart=False)
    server.ask(prompt(64))
    stored = next(p for p in served.passes if p["prompt_tokens"] == len(ids) and p["kind"] == "cold")
    found = server.one_pass("hot", ids)
    bench.prove(server.kv([stored, found], served.baseline_ids), "KV001", "KV002", "KV005", "KV010")
    bench.prove(server.path([stored, found]), "PATH")


@pytest.mark.parametrize("served", CACHED[-1:], indirect=True)
def test_after_a_restart_a_prompt_is_stored_again_and_says_the_same(
    served: Served, start_profile: Starter, bench: Bench
) -> None:
    server, ids = start_profile(served.server.profile), prompt(LENGTHS[0])
    passes = [server.one_pass("cold", ids), server.one_pass("hot", ids)]
    assert moved(passes[0], "lookup_hit_l2_tokens") == 0
    bench.prove(server.kv(passes, served.baseline_ids), "KV001", "KV002", "KV003", "KV005")


def tier_proof_fails_although_vllm_answers(server: Server, bench: Bench) -> None:
    """Two equal requests: vLLM answers both with 200, and the tier proof of the second fails."""
    ids = prompt(LENGTHS[0], seed=int(time.time()))
    passes = [server.one_pass("cold", ids), server.one_pass("hot", ids)]
    facts = server.kv(passes, {str(len(ids)): passes[0]["completion"]["output_ids"]})
    bench.prove(facts, "KV005", "KV006")
    assert {f.id: f.status for f in judge(facts, ["KV002"])} == {"KV002": "fail"}
    with pytest.raises(pytest.fail.Exception, match="KV002 fail"):
        bench.prove(facts, "KV001", "KV002")


def stop_lmcache(server: Server) -> None:
    """Stop the profile's LMCache server and wait until vLLM's heartbeats have noticed.

    Before that a request hangs: the worker waits for the dead server up to lmcache.mp.mq_timeout, 300 s.
    """
    if not server.bench.host.local:
        pytest.skip("under systemd vLLM is bound to its LMCache server and stops with it")
    supervisor = Supervisor(server.bench.lab.state_dir)
    start = vllm_log(server).stat().st_size
    if supervisor.stop_program(f"lmcache-{server.profile}"):
        wait_until_noticed(server, start)


def vllm_log(server: Server) -> Path:
    """What the profile's vLLM says."""
    return Supervisor(server.bench.lab.state_dir).log_dir / f"vllm-{server.profile}.log"


def wait_until_noticed(server: Server, start: int) -> None:
    """Wait until vLLM says, in its log after byte `start`, that its LMCache server is gone."""
    server.bench.tell("LMCache server stopped: waiting for vLLM's heartbeats to notice")
    connectors = 1 + server.facts["tp"]  # the scheduler's, and one in each worker
    deadline = time.monotonic() + NOTICE_S
    while vllm_log(server).read_bytes()[start:].count(NOTICED) < connectors:
        if time.monotonic() > deadline:
            pytest.fail(f"vLLM did not notice within {NOTICE_S} s that its LMCache server is gone")
        time.sleep(0.5)


@pytest.mark.parametrize("served", CACHED[:1], indirect=True)
def test_with_the_lmcache_server_stopped_the_tier_proof_fails_although_vllm_answers(
    served: Served, bench: Bench
) -> None:
    stop_lmcache(served.server)
    tier_proof_fails_although_vllm_answers(served.server, bench)


@contextmanager
def other_lmcache(
    server: Server,
    folder: Path,
    change: Callable[[list[str]], list[str]],
    said: str,
    ready: Callable[[str], bool],
) -> Iterator[None]:
    """The profile's LMCache server with other arguments, until `ready`, given its log, says so."""
    stop_lmcache(server)
    for file in Path(server.facts["dir"]).iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
        (folder / file.name).chmod(0o600)
    args = folder / "lmcache.args"
    args.write_text(json.dumps(change(json.loads(args.read_text()))))
    command = [sys.executable, "-m", "kvlab.serving.launch", str(folder), "lmcache"]
    output = folder / "lmcache.log"
    with (
        output.open("w") as log,
        subprocess.Popen(
            [*command, server.bench.lab.data["serving_python"]], stdout=log, stderr=log
        ) as process,
    ):
        try:
            server.bench.tell(said)
            deadline = time.monotonic() + server.facts["programs"][0]["timeout"]
            while not ready(output.read_text()):
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"it did not come so far: {said}: {output.read_text()[-800:]}")
                time.sleep(0.5)
            yield
        finally:
            process.terminate()


@pytest.fixture
def lmcache_that_evicts(served: Served, tmp_path: Path) -> Iterator[Server]:
    """The profile's LMCache server with slots for the longest prompt and no more, and told to make room in time."""
    server = served.server
    facts = server.facts
    size = Geometry.from_config(facts["model_config"], tp=facts["tp"], chunk_size=facts["chunk_size"])

    def with_few_slots(args: list[str]) -> list[str]:
        adapter = json.loads(args[args.index("--l2-adapter") + 1])
        adapter["pool_size"] = size.objects(LENGTHS[-1]) + 1
        adapter["eviction"] = {"eviction_policy": "LRU", "trigger_watermark": 0.4, "eviction_ratio": 1.0}
        args[args.index("--l2-adapter") + 1] = json.dumps(adapter)
        return args

    resumed_before = vllm_log(server).read_bytes().count(RESUMED)

    def taken_up(_: str) -> bool:
        """Whether scheduler and workers use it: before that a request is answered without any cache."""
        return vllm_log(server).read_bytes().count(RESUMED) == resumed_before + 1 + facts["tp"]

    said = "LMCache with few slots: waiting for vLLM to find it"
    with other_lmcache(server, tmp_path, with_few_slots, said, taken_up):
        yield server
        start = vllm_log(server).stat().st_size
    wait_until_noticed(server, start)


def wait_until_evicted(server: Server) -> None:
    """LMCache looks once a second whether it must make room."""
    deadline = time.monotonic() + EVICTION_S
    while sum(one["stored_object_count"] for one in server.settle()["l2"]):
        if time.monotonic() > deadline:
            pytest.fail(f"LMCache evicted nothing within {EVICTION_S} s")
        time.sleep(0.5)


@pytest.mark.parametrize("served", CACHED[:1], indirect=True)
def test_after_eviction_a_prompt_is_stored_again_and_says_the_same(
    lmcache_that_evicts: Server, baseline_ids: dict[str, list[int]], bench: Bench
) -> None:
    """Slots that held one prompt's chunks hold another's next: none may be given out for the other's."""
    server, (short, long) = lmcache_that_evicts, LENGTHS
    facts = server.facts
    size = Geometry.from_config(facts["model_config"], tp=facts["tp"], chunk_size=facts["chunk_size"])
    passes, slots = [], []
    for tokens in (short, long, short, long):
        passes.append(server.one_pass("cold", prompt(tokens)))
        slots.append({one["key"] for one in passes[-1]["access_log"] if one["op"] == "PutObject"})
        assert len(slots[-1]) == size.objects(tokens), "it was not stored"
        hit = moved(passes[-1], "lookup_hit_l2_tokens")  # None until this server has had a first hit
        assert hit in (0, None), f"{hit} tokens of what was evicted were found"
        wait_until_evicted(server)
    assert slots[0] & slots[1], "no slot was used for both prompts"
    bench.prove(server.kv(passes, baseline_ids), "KV005", "KV006")


@pytest.fixture
def lmcache_in_a_wrong_mode(served: Served, tmp_path: Path) -> Iterator[Server]:
    """The profile's LMCache server, started in the transfer mode that is LMCache's default.

    It comes last: a vLLM that was refused waits for an answer for 300 s, and uses no other server meanwhile.
    """

    def without_the_mode(args: list[str]) -> list[str]:
        at = args.index("--supported-transfer-mode")
        return args[:at] + args[at + 2 :]

    said = "LMCache in its default transfer mode: waiting for vLLM to ask it and be refused"
    with other_lmcache(served.server, tmp_path, without_the_mode, said, lambda log: REFUSAL in log):
        yield served.server


@pytest.mark.parametrize("served", CACHED[:1], indirect=True)
def test_with_lmcache_in_a_wrong_transfer_mode_the_tier_proof_fails_although_vllm_answers(
    lmcache_in_a_wrong_mode: Server, bench: Bench
) -> None:
    assert lmcache_mp.collect(lmcache_in_a_wrong_mode.lmcache_url)["available"]
    tier_proof_fails_although_vllm_answers(lmcache_in_a_wrong_mode, bench)
