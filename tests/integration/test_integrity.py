"""The bytes where they are easiest to lose: odd sizes, batches, concurrency, ranges, overwrites, hosts, faults."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from harness import ENGINE_PATHS, PROFILE_OF_ENGINE, Bench
from ownstore import OwnStore

from kvlab.checks import judge
from kvlab.objectscale import s3
from kvlab.probes import Facts, content, run_probe, s3_bucket

pytestmark = pytest.mark.integration

PAGE = 4096
MIB = 1 << 20
ENGINES = pytest.mark.parametrize("engine", list(ENGINE_PATHS))
SOAK_OBJECTS, SOAK_REPEATS = 32, 8  # a process moves 512 MiB, so that its start is not most of the time


def seeds(count: int) -> list[int]:
    """Other seeds in every run, so that an object of an earlier run cannot pass for this one's."""
    first = int.from_bytes(os.urandom(4)) << 16
    return list(range(first, first + count))


def spec(op: str, key: str, size: int, seed: int, **more: Any) -> dict[str, Any]:
    return {"op": op, "key": key, "size": size, "seed": seed, **more}


def write_and_read(prefix: str, sizes: list[int]) -> list[dict[str, Any]]:
    """All written, then all read; each object has a content of its own, and every other one's is known by name."""
    objects = list(zip(sizes, seeds(len(sizes)), strict=True))
    plan = [spec("write", f"{prefix}-{i}", size, seed) for i, (size, seed) in enumerate(objects)]
    for i, (size, seed) in enumerate(objects):
        others = {f"object {n}": s for n, (other, s) in enumerate(objects) if n != i and other == size}
        plan.append(spec("read", f"{prefix}-{i}", size, seed, others=others))
    return plan


def witnessed(bench: Bench, facts: Facts, requests: list[Facts], store: Any = None) -> dict[str, Facts]:
    """Facts for the NIXL and DATA checks, with what boto3 reads of each object that was written whole."""
    keys = {t["key"] for t in facts["transfers"] if t["op"] == "write"}
    witness = {key: s3_bucket.digest(store or bench.s3, bench.bucket, key) for key in keys}
    simulated = any(r["simulated"] for r in requests) or bool(facts["simulated"])
    return {"roundtrip": facts | {"witness": witness, "simulated": simulated}}


def prove(bench: Bench, engine: str, facts: Facts, requests: list[Facts]) -> None:
    """Every transfer is right, boto3 says so of each written object, and the engine's path was taken."""
    bench.prove(witnessed(bench, facts, requests), "NIXL", "DATA001", "DATA002")
    keys = {t["key"] for t in facts["transfers"]}
    log = [r for r in requests if r["key"] in keys]
    bench.prove(bench.path_facts(ENGINE_PATHS[engine], facts["transfers"], log), "PATH")


@dataclass(frozen=True)
class Exchange:
    """One engine's transfers by the name of what they try, done by one process, and the store's log of them."""

    engine: str
    runs: dict[str, Facts]
    requests: list[Facts]


def ranges(key: str, size: int, seed: int) -> list[dict[str, Any]]:
    """Reads of parts of one object: its ends, and parts that begin or end beside a page."""
    parts = [(0, PAGE), (1, PAGE), (PAGE - 1, 2), (PAGE, size - 2 * PAGE), (size - 1, 1)]
    return [spec("read", key, length, seed, offset=offset, object_size=size) for offset, length in parts]


def overwrites(key: str) -> list[dict[str, Any]]:
    """Written and read, then written and read with another content."""
    old, new = seeds(2)
    plan = [spec("write", key, MIB, old), spec("read", key, MIB, old)]
    return [
        *plan,
        spec("write", key, MIB, new),
        spec("read", key, MIB, new, others={"the object before": old}),
    ]


@pytest.fixture(scope="session", params=list(ENGINE_PATHS))
def exchange(request: pytest.FixtureRequest, session_bench: Bench) -> Iterator[Exchange]:
    """What several tests judge."""
    bench, engine = session_bench, request.param
    chunk = int(bench.lab.profiles[PROFILE_OF_ENGINE[engine]]["chunk_bytes"])
    edges = [base + more for base in (PAGE, 2 * PAGE, chunk, 2 * chunk) for more in (-1, 0, 1)]
    (seed,), size = seeds(1), MIB + 3
    s3.empty(bench.s3, bench.bucket)
    bench.s3.put_object(Bucket=bench.bucket, Key="whole", Body=content.content(seed, size))
    jobs = {
        "sizes": bench.job(engine, transfers=write_and_read("edge", edges)),
        "batch": bench.job(engine, transfers=write_and_read("batch", [64 * 1024] * 32), batch=16),
        "together": bench.job(
            engine, transfers=write_and_read("together", [MIB, PAGE + 1] * 16), batch=2, at_once=8
        ),
        "ranges": bench.job(engine, transfers=ranges("whole", size, seed)),
        "overwrite": bench.job(engine, transfers=overwrites("twice")),
    }
    bench.tell(f"NIXL {engine} engine: {', '.join(jobs)}")
    mark = bench.mark()
    runs = bench.probe("nixl_roundtrip", {"jobs": list(jobs.values())})["runs"]
    yield Exchange(engine, dict(zip(jobs, runs, strict=True)), bench.requests(mark, bench.bucket))
    s3.empty(bench.s3, bench.bucket)


def test_sizes_around_a_page_and_a_chunk_arrive_whole(exchange: Exchange, bench: Bench) -> None:
    prove(bench, exchange.engine, exchange.runs["sizes"], exchange.requests)


def test_objects_of_one_batch_arrive_each_under_its_own_key(exchange: Exchange, bench: Bench) -> None:
    facts = exchange.runs["batch"]
    prove(bench, exchange.engine, facts, exchange.requests)
    assert {t["batch"] for t in facts["transfers"]} == {16}


def test_transfers_that_are_under_way_together_do_not_mix(exchange: Exchange, bench: Bench) -> None:
    prove(bench, exchange.engine, exchange.runs["together"], exchange.requests)


def test_a_range_of_an_object_is_the_range_that_was_asked_for(exchange: Exchange, bench: Bench) -> None:
    facts = exchange.runs["ranges"]
    bench.prove({"roundtrip": facts | {"simulated": bench.lab.simulated, "witness": {}}}, "DATA001")
    log = [r for r in exchange.requests if r["key"] == "whole" and r["op"] == "GetObject"]
    bench.prove(bench.path_facts(ENGINE_PATHS[exchange.engine], facts["transfers"], log), "PATH")


def test_after_an_overwrite_the_new_content_is_read_and_never_the_old(
    exchange: Exchange, bench: Bench
) -> None:
    facts = exchange.runs["overwrite"]
    bench.prove({"roundtrip": facts | {"simulated": bench.lab.simulated, "witness": {}}}, "DATA001")
    last = facts["transfers"][-1]
    assert s3_bucket.digest(bench.s3, bench.bucket, last["key"]) == last["expected_sha256"]


@ENGINES
def test_of_two_writers_at_once_one_wins_whole(engine: str, bench: Bench) -> None:
    mine, yours = seeds(2)
    s3.empty(bench.s3, bench.bucket)
    plan = [spec("write", f"raced-{n}", 4 * MIB, seed) for n in range(8) for seed in (mine, yours)]
    facts = bench.probe("nixl_roundtrip", bench.job(engine, transfers=plan, at_once=4))
    assert {t["state"] for t in facts["transfers"]} == {"DONE"}
    first, second = content.content(mine, 4 * MIB), content.content(yours, 4 * MIB)
    for n in range(8):
        body = s3_bucket.body(bench.s3, bench.bucket, f"raced-{n}")
        assert content.difference(body, first, {"the other writer": second}) in (
            None,
            "the bytes of the other writer",
        )


@ENGINES
def test_a_reader_beside_a_writer_sees_one_of_both_contents_whole(engine: str, bench: Bench) -> None:
    odd, even = seeds(2)
    bodies = [content.content(odd, 2 * MIB), content.content(even, 2 * MIB)]
    bench.s3.put_object(Bucket=bench.bucket, Key="moving", Body=bodies[0])
    stop, written = threading.Event(), itertools.count(1)

    def write() -> None:
        while not stop.is_set():
            bench.s3.put_object(Bucket=bench.bucket, Key="moving", Body=bodies[next(written) % 2])

    writer = threading.Thread(target=write)
    plan = [spec("read", "moving", 2 * MIB, odd, others={"the other content": even})] * 40
    writer.start()
    try:
        facts = bench.probe("nixl_roundtrip", bench.job(engine, transfers=plan, at_once=4))
    finally:
        stop.set()
        writer.join()
    seen = {t["difference"] for t in facts["transfers"]}
    assert {t["state"] for t in facts["transfers"]} == {"DONE"}
    assert seen <= {None, "the bytes of the other content"}
    assert next(written) > 4, "the writer wrote nothing meanwhile, so nothing was raced"


@pytest.mark.multihost
@ENGINES
def test_what_one_host_wrote_another_reads_by_nixl_and_by_plain_http(engine: str, bench: Bench) -> None:
    reader = next(host for host in bench.gpu_hosts if host.name != bench.host.name)
    plan = write_and_read("shared", [1, PAGE + 1, MIB, 8 * MIB])
    writes, reads = ([t for t in plan if t["op"] == op] for op in ("write", "read"))
    s3.empty(bench.s3, bench.bucket)
    mark = bench.mark()
    stored = bench.probe("nixl_roundtrip", bench.job(engine, transfers=writes))
    loaded = bench.probe("nixl_roundtrip", bench.job(engine, transfers=reads), host=reader)
    requests = bench.requests(mark, bench.bucket)
    transfers = stored["transfers"] + loaded["transfers"]
    bench.prove(witnessed(bench, stored, requests), "NIXL", "DATA")
    bench.prove({"roundtrip": loaded | {"simulated": bench.lab.simulated, "witness": {}}}, "NIXL", "DATA001")
    bench.prove(bench.path_facts(ENGINE_PATHS[engine], transfers, requests), "PATH")
    data = bench.lab.data
    look = {name: data[name] for name in ("endpoint", "region", "secrets_file")}
    seen = bench.tools_probe("s3_bucket", look | {"bucket": bench.bucket, "digests": True}, host=reader)
    expected = {t["key"]: t["expected_sha256"] for t in stored["transfers"]}
    assert {o["key"]: o["sha256"] for o in seen["objects"]} == expected


@pytest.fixture
def own_store(bench: Bench, tmp_path: Path) -> Iterator[OwnStore]:
    """A store of this test's own."""
    store = OwnStore(tmp_path, bench)
    store.start()
    try:
        store.s3.create_bucket(Bucket=bench.bucket)
        yield store
    finally:
        store.kill()


# Fault of the store -> what DATA001 says of the buffer, and which engines it strikes.
LIES = {
    "flip-read": ("1 bit flipped", ("standard", "dell")),
    "stale-object": ("the bytes of the object before", ("standard", "dell")),
    "wrong-object": ("the bytes of its neighbour", ("standard", "dell")),
    "rdma-unmoved": ("all of it untouched", ("dell",)),
    "rdma-ignored": ("all of it untouched", ("dell",)),
}


@pytest.mark.own_store
@ENGINES
def test_a_store_that_lies_is_caught_and_what_it_gave_is_named(
    engine: str, own_store: OwnStore, bench: Bench
) -> None:
    kinds = [kind for kind, (_, engines) in LIES.items() if engine in engines]
    old, new, neighbour = seeds(3)
    body = {seed: content.content(seed, MIB) for seed in (old, new, neighbour)}
    for kind in kinds:
        own_store.s3.put_object(Bucket=bench.bucket, Key=kind, Body=body[old])
        own_store.arm(kind, op="GetObject", key=kind)
        own_store.s3.put_object(Bucket=bench.bucket, Key=kind, Body=body[new])
    own_store.s3.put_object(Bucket=bench.bucket, Key="a-neighbour", Body=body[neighbour])
    others = {"the object before": old, "its neighbour": neighbour}
    plan = [spec("read", kind, MIB, new, others=others) for kind in kinds]
    facts = bench.probe("nixl_roundtrip", own_store.job(engine, transfers=plan))
    for transfer in facts["transfers"]:
        one = facts | {"transfers": [transfer], "simulated": True, "witness": {}}
        (found,) = judge({"roundtrip": one}, ["DATA001"])
        assert transfer["state"] == "DONE", (
            f"{transfer['key']}: noticed by the engine, so nothing was caught here"
        )
        assert found.status == "fail", transfer["key"]
        assert LIES[transfer["key"]][0] in found.evidence[0]


@pytest.mark.own_store
@ENGINES
def test_a_full_store_is_an_error_and_leaves_what_was_there(
    engine: str, own_store: OwnStore, bench: Bench
) -> None:
    old, new, later = seeds(3)
    own_store.s3.put_object(Bucket=bench.bucket, Key="kept", Body=content.content(old, MIB))
    own_store.arm("full", op="PutObject", key="kept")
    own_store.arm("full", name="once", op="PutObject", key="refused", count=1)  # then there is room again
    plan = [spec("write", key, MIB, new) for key in ("kept", "refused")]
    plan += [spec(op, "refused", MIB, later) for op in ("write", "read")]
    runs = [own_store.job(engine, transfers=plan[:2]), own_store.job(engine, transfers=plan[2:])]
    full, again = bench.probe("nixl_roundtrip", {"jobs": runs})["runs"]
    assert [t["state"] == "DONE" for t in full["transfers"]] == [False, False]
    assert s3_bucket.body(own_store.s3, bench.bucket, "kept") == content.content(old, MIB)
    bench.prove(witnessed(bench, again, own_store.requests(), own_store.s3), "DATA")


def client_of(bench: Bench, job: dict[str, Any]) -> subprocess.Popen[bytes]:
    """A NIXL client as a process that a test can kill or watch."""
    env = (
        os.environ
        | bench.serving_env()
        | {"PYTHONPATH": str(Path(run_probe.__globals__["__file__"]).parents[2])}
    )
    command = [str(bench.lab.data["serving_python"]), "-m", "kvlab.probes.nixl_roundtrip"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, env=env, **pipes)  # type: ignore[call-overload]
    process.stdin.write(json.dumps(job).encode())
    process.stdin.close()
    process.stdin = None  # or communicate() would flush it
    return process  # type: ignore[no-any-return]


def wait_for_puts(store: OwnStore, count: int) -> None:
    """Until so many PUTs have ended; the client takes seconds to start, and a busy machine longer."""
    deadline = time.monotonic() + 90
    while sum(r["op"] == "PutObject" for r in store.requests()) < count:
        assert time.monotonic() < deadline, "the client did not begin"
        time.sleep(0.02)


def whole_or_absent(bench: Bench, store: OwnStore, plan: list[dict[str, Any]]) -> int:
    """Every object of the plan's writes that is there has all of its bytes; how many are there."""
    there = dict(s3.keys(store.s3, bench.bucket))
    for one in (t for t in plan if t["op"] == "write" and t["key"] in there):
        body = s3_bucket.body(store.s3, bench.bucket, one["key"])
        assert content.difference(body, content.content(one["seed"], one["size"])) is None, one["key"]
    return len(there)


@pytest.mark.own_store
@ENGINES
def test_a_client_that_is_killed_in_the_middle_leaves_no_partial_object(
    engine: str, own_store: OwnStore, bench: Bench
) -> None:
    plan = [spec("write", f"k-{i}", 8 * MIB, seed) for i, seed in enumerate(seeds(24))]
    own_store.arm("bandwidth", bytes_per_second=32 * MIB)
    process = client_of(bench, own_store.job(engine, transfers=plan, at_once=4))
    wait_for_puts(own_store, 4)
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    process.stdout.close()  # type: ignore[union-attr]
    own_store.disarm()
    time.sleep(1)  # what the store still had in hand
    assert 0 < whole_or_absent(bench, own_store, plan) < len(plan)
    (seed,) = seeds(1)
    after = [spec("write", "k-0", MIB, seed), spec("read", "k-0", MIB, seed)]
    facts = bench.probe("nixl_roundtrip", own_store.job(engine, transfers=after))
    bench.prove(witnessed(bench, facts, own_store.requests(), own_store.s3), "DATA")


@pytest.mark.own_store
@ENGINES
def test_a_store_that_is_killed_in_the_middle_keeps_what_it_acknowledged_and_nothing_half(
    engine: str, own_store: OwnStore, bench: Bench
) -> None:
    plan = [spec("write", f"r-{i}", 4 * MIB, seed) for i, seed in enumerate(seeds(24))]
    own_store.arm("bandwidth", bytes_per_second=32 * MIB)
    process = client_of(bench, own_store.job(engine, transfers=plan, at_once=2, timeout_s=20))
    wait_for_puts(own_store, 4)
    own_store.kill()
    own_store.start()  # without the faults: they lived in its memory
    out, _ = process.communicate(timeout=120)
    facts = json.loads(out)
    whole_or_absent(bench, own_store, plan)
    there = {key for key, _ in s3.keys(own_store.s3, bench.bucket)}
    done = {t["key"] for t in facts["transfers"] if t["state"] == "DONE"}
    assert done <= there, f"acknowledged, and gone after the restart: {sorted(done - there)}"
    assert len(done) >= 4


def test_soak_transfers_without_a_wrong_byte(bench: Bench, request: pytest.FixtureRequest) -> None:
    seconds = request.config.getoption("--soak")
    if not seconds:
        pytest.skip("runs as long as --soak SECONDS says")
    moved, spent = dict.fromkeys(ENGINE_PATHS, 0), dict.fromkeys(ENGINE_PATHS, 0.0)
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for engine in ENGINE_PATHS:
            s3.empty(bench.s3, bench.bucket)
            mark = bench.mark()
            plan = write_and_read(f"soak-{rounds}", [MIB] * SOAK_OBJECTS)
            jobs = [bench.job(engine, transfers=plan, batch=4) for _ in range(SOAK_REPEATS)]
            runs = bench.probe("nixl_roundtrip", {"jobs": jobs}, timeout_s=600)["runs"]
            transfers = [t for run in runs for t in run["transfers"]]
            prove(bench, engine, runs[0] | {"transfers": transfers}, bench.requests(mark, bench.bucket))
            moved[engine] += sum(t["size"] for t in transfers)
            spent[engine] += sum(t["duration_s"] / t["batch"] for t in transfers)
        rounds += 1
        rates = {engine: moved[engine] / MIB / spent[engine] for engine in ENGINE_PATHS}
        line = ", ".join(f"{e} {moved[e] / MIB:.0f} MiB at {rates[e]:.0f} MiB/s" for e in ENGINE_PATHS)
        bench.tell(f"soak, round {rounds}: {line}; no wrong byte")
    for engine in ENGINE_PATHS:
        bench.record(f"soak.{engine}.bytes", moved[engine])
        bench.record(f"soak.{engine}.mib_per_second", round(rates[engine], 1))
    s3.empty(bench.s3, bench.bucket)
