"""Every fault, by its effect on boto3; the fault interface; the rules of striking."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

import pytest
from botocore.exceptions import HTTPClientError, ResponseStreamingError
from emulator_helpers import Emulator, free_port, refused
from emulator_rdma_client import Registered, one_sided

from kvlab.emulator.faults import KINDS, Fault, FaultBook

DATA = os.urandom(300_000)


class Drill:
    """An emulator with its fault interface, a client and a bucket."""

    def __init__(self, emulator: Emulator, admin: int, metrics: int) -> None:
        self.emulator = emulator
        self.admin = admin
        self.metrics = metrics
        self.s3 = emulator.client()

    def ask(self, method: str, path: str, body: object = None) -> Any:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.admin}{path}", data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=10) as reply:
            return json.loads(reply.read())

    def arm(self, kind: str, **fields: Any) -> None:
        self.ask("POST", "/faults", {"kind": kind, **fields})

    def get(self, key: str = "k", **more: Any) -> bytes:
        data: bytes = self.s3.get_object(Bucket="b", Key=key, **more)["Body"].read()
        return data

    def put(self, data: bytes, key: str = "k") -> Any:
        return self.s3.put_object(Bucket="b", Key=key, Body=data)

    @property
    def last(self) -> dict[str, Any]:
        return self.emulator.log()[-1]


@pytest.fixture(scope="module")
def _running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    admin, metrics = free_port(), free_port()
    ports = ["--admin-port", str(admin), "--metrics-port", str(metrics)]
    emulator = Emulator(tmp_path_factory.mktemp("faults"), ports).start()
    yield Drill(emulator, admin, metrics)
    emulator.stop()


@pytest.fixture
def drill(_running: Drill) -> Iterator[Drill]:
    _running.s3.create_bucket(Bucket="b")
    _running.put(DATA)
    yield _running
    _running.ask("DELETE", "/faults")
    for found in _running.s3.list_objects_v2(Bucket="b").get("Contents", []):
        _running.s3.delete_object(Bucket="b", Key=found["Key"])
    _running.s3.close()


def flipped_bits(a: bytes, b: bytes) -> int:
    return (int.from_bytes(a, "big") ^ int.from_bytes(b, "big")).bit_count()


def test_latency_delays_what_it_names_and_nothing_else(drill: Drill) -> None:
    drill.arm("latency", seconds=0.5, op="GetObject")
    start = time.monotonic()
    drill.get()
    assert time.monotonic() - start >= 0.5
    assert drill.last["fault"] == "latency"
    assert drill.last["duration_ms"] >= 500
    drill.s3.head_object(Bucket="b", Key="k")
    assert drill.last["fault"] is None


def test_slow_listing_delays_listings_only(drill: Drill) -> None:
    drill.arm("slow-list", seconds=0.5)
    drill.s3.list_objects_v2(Bucket="b")
    assert (drill.last["fault"], drill.last["duration_ms"] >= 500) == ("slow-list", True)
    drill.get()
    assert drill.last["fault"] is None


def test_bandwidth_holds_both_directions_back(drill: Drill) -> None:
    drill.arm("bandwidth", bytes_per_second=600_000)
    assert drill.get() == DATA
    assert drill.last["duration_ms"] >= 400
    drill.put(DATA)
    assert drill.last["duration_ms"] >= 400


def test_slow_down_is_503(drill: Drill) -> None:
    drill.arm("slow-down", count=1)
    assert refused(drill.get) == ("SlowDown", 503)
    assert drill.get() == DATA


def test_a_reset_before_does_nothing(drill: Drill) -> None:
    drill.arm("reset-before", count=1)
    with pytest.raises(HTTPClientError):
        drill.put(b"new")
    assert (drill.last["status"], drill.last["fault"]) == (0, "reset-before")
    assert drill.get() == DATA


def test_a_reset_inside_a_put_stores_nothing(drill: Drill) -> None:
    drill.arm("reset-inside", op="PutObject")
    with pytest.raises(HTTPClientError):
        drill.put(os.urandom(300_000))
    assert 0 < drill.last["body_in"] < 300_000
    assert drill.get() == DATA


def test_a_reset_inside_a_get_gives_less_than_announced(drill: Drill) -> None:
    drill.arm("reset-inside", op="GetObject")
    with pytest.raises((HTTPClientError, ResponseStreamingError)):
        drill.get()
    assert 0 < drill.last["body_out"] < 300_000


def test_a_reset_after_a_put_has_stored_the_object(drill: Drill) -> None:
    drill.arm("reset-after", count=1)
    with pytest.raises(HTTPClientError):
        drill.put(b"new")
    assert drill.get() == b"new"


def test_a_reset_after_a_get_withholds_the_end(drill: Drill) -> None:
    drill.arm("reset-after", count=1)
    with pytest.raises((HTTPClientError, ResponseStreamingError)):
        drill.get()
    assert drill.last["body_out"] == len(DATA) - 1


def test_a_short_body_is_one_byte_less_and_looks_right(drill: Drill) -> None:
    drill.arm("short-body")
    assert drill.get() == DATA[:-1]


def test_a_flip_on_read_changes_one_bit_once_and_not_the_object(drill: Drill) -> None:
    drill.arm("flip-read", count=1)
    assert flipped_bits(drill.get(), DATA) == 1
    assert drill.get() == DATA


def test_the_flipped_bit_can_be_chosen_or_repeated_by_seed(drill: Drill) -> None:
    drill.arm("flip-read", bit=8 * 1000 + 3)
    changed = bytearray(DATA)
    changed[1000] ^= 1 << 3
    assert drill.get() == bytes(changed)
    seen = []
    for _ in range(2):
        drill.ask("DELETE", "/faults")
        drill.arm("flip-read", seed=5)
        seen.append([drill.get() for _ in range(2)])
    assert seen[0] == seen[1]
    assert seen[0][0] != seen[0][1]


def test_a_flip_on_write_is_stored_under_the_right_etag(drill: Drill) -> None:
    drill.arm("flip-write", count=1)
    put = drill.put(DATA)
    assert put["ETag"] == f'"{hashlib.md5(DATA).hexdigest()}"'
    first = drill.get()
    assert flipped_bits(first, DATA) == 1
    assert drill.get() == first


def test_a_stale_object_is_the_one_before(drill: Drill) -> None:
    drill.arm("stale-object", key="k")
    drill.put(b"second")
    assert drill.get() == DATA
    assert drill.s3.head_object(Bucket="b", Key="k")["ContentLength"] == len(DATA)
    drill.put(b"third")
    assert drill.get() == b"second"
    drill.ask("DELETE", "/faults/stale-object")
    assert drill.get() == b"third"
    drill.put(b"fourth")
    assert len(drill.emulator.data_files()) == 1, "what was kept for the fault must go"


def test_a_lost_object_is_404_though_it_is_listed(drill: Drill) -> None:
    drill.arm("lost-object", key="k")
    assert refused(drill.get) == ("NoSuchKey", 404)
    assert refused(drill.s3.head_object, Bucket="b", Key="k") == ("404", 404)
    assert [o["Key"] for o in drill.s3.list_objects_v2(Bucket="b")["Contents"]] == ["k"]


def test_a_wrong_object_has_this_keys_etag_and_anothers_bytes(drill: Drill) -> None:
    etag = drill.s3.head_object(Bucket="b", Key="k")["ETag"]
    drill.put(b"other", key="other")
    drill.arm("wrong-object", key="k")
    got = drill.s3.get_object(Bucket="b", Key="k")
    assert (got["Body"].read(), got["ETag"]) == (b"other", etag)


def test_revoked_credentials_are_unknown(drill: Drill) -> None:
    drill.arm("revoked", count=1)
    assert refused(drill.get) == ("InvalidAccessKeyId", 403)


def test_a_full_store_refuses_writes_and_serves_reads(drill: Drill) -> None:
    drill.arm("full")
    assert refused(drill.put, b"new") == ("InsufficientStorage", 507)
    assert drill.get() == DATA


@pytest.mark.parametrize(("seconds", "accepted"), [(600, True), (1000, False), (-1000, False)])
def test_clock_skew_is_refused_from_15_minutes_on(drill: Drill, seconds: int, accepted: bool) -> None:
    drill.arm("clock-skew", seconds=seconds)
    if accepted:
        assert drill.get() == DATA
    else:
        assert refused(drill.get) == ("RequestTimeTooSkewed", 403)


def test_a_clock_that_is_ahead_shows_in_the_replys_date(drill: Drill) -> None:
    drill.arm("clock-skew", seconds=600)
    date = parsedate_to_datetime(headers(drill.s3.head_object(Bucket="b", Key="k"))["date"])
    assert 590 < date.timestamp() - time.time() < 610


SIZE = 10_000


def headers(reply: Any) -> dict[str, str]:
    found: dict[str, str] = reply["ResponseMetadata"]["HTTPHeaders"]
    return found


class OneSided:
    """A drill with registered memory and an object of its size."""

    def __init__(self, drill: Drill, memory: Any) -> None:
        self.drill, self.memory = drill, memory
        self.stored = os.urandom(SIZE)
        drill.put(self.stored)
        memory.data = self.sent = os.urandom(SIZE)

    def put(self) -> Any:
        return one_sided(
            self.drill.s3, "put_object", self.memory.descriptor(), Bucket="b", Key="new", Body=b""
        )

    def get(self) -> Any:
        self.memory.poison()
        return one_sided(
            self.drill.s3,
            "get_object",
            self.memory.descriptor(),
            Bucket="b",
            Key="k",
            Range=f"bytes=0-{SIZE - 1}",
        )


@pytest.fixture
def rdma(drill: Drill) -> Iterator[OneSided]:
    with Registered(SIZE) as memory:
        yield OneSided(drill, memory)


POISON = b"\xa5" * SIZE


def test_rdma_declined_says_501_and_moves_nothing(rdma: OneSided) -> None:
    rdma.drill.arm("rdma-declined")
    assert headers(rdma.put())["x-amz-rdma-reply"] == "501"
    assert refused(rdma.drill.get, "new") == ("NoSuchKey", 404)
    got = rdma.get()
    assert headers(got)["x-amz-rdma-reply"] == "501"
    assert (got["Body"].read(), rdma.memory.data) == (rdma.stored, POISON)


def test_rdma_ignored_leaves_an_empty_object_or_an_untouched_buffer_with_success(rdma: OneSided) -> None:
    rdma.drill.arm("rdma-ignored")
    assert "x-amz-rdma-reply" not in headers(rdma.put())
    assert rdma.drill.get("new") == b""
    got = rdma.get()
    assert "x-amz-rdma-reply" not in headers(got)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert (got["Body"].read(), rdma.memory.data) == (b"", POISON)
    assert rdma.drill.last["path"] == "none"


def test_rdma_fallback_puts_the_bytes_in_the_body_silently(rdma: OneSided) -> None:
    rdma.drill.arm("rdma-fallback")
    got = rdma.get()
    assert "x-amz-rdma-reply" not in headers(got)
    assert (got["Body"].read(), rdma.memory.data) == (rdma.stored, POISON)
    assert (rdma.drill.last["path"], rdma.drill.last["rdma_requested"]) == ("http", True)


def test_rdma_partial_moves_half_and_fails(rdma: OneSided) -> None:
    rdma.drill.arm("rdma-partial")
    assert refused(rdma.put) == ("RDMATransferFailed", 500)
    assert rdma.drill.last["rdma_in"] == SIZE // 2
    assert refused(rdma.drill.get, "new") == ("NoSuchKey", 404)
    assert refused(rdma.get) == ("RDMATransferFailed", 500)
    assert rdma.memory.data == rdma.stored[: SIZE // 2] + POISON[SIZE // 2 :]


def test_rdma_unmoved_reports_success_and_moves_nothing(rdma: OneSided) -> None:
    rdma.drill.arm("rdma-unmoved")
    assert headers(rdma.put())["x-amz-rdma-bytes-transferred"] == str(SIZE)
    assert rdma.drill.get("new") == bytes(SIZE)
    got = rdma.get()
    assert headers(got)["x-amz-rdma-reply"] == "206"
    assert headers(got)["x-amz-rdma-bytes-transferred"] == str(SIZE)
    assert rdma.memory.data == POISON
    assert rdma.drill.last["rdma_out"] == 0


def test_the_faults_of_reading_and_writing_strike_one_sided_transfers_too(rdma: OneSided) -> None:
    rdma.drill.arm("flip-read", count=1)
    rdma.get()
    assert flipped_bits(rdma.memory.data, rdma.stored) == 1
    rdma.drill.arm("flip-write", count=1)
    rdma.memory.data = rdma.sent
    rdma.put()
    assert flipped_bits(rdma.drill.get("new"), rdma.sent) == 1
    rdma.drill.arm("reset-inside", count=1)
    with pytest.raises(HTTPClientError):
        rdma.get()
    assert rdma.memory.data == rdma.stored[: SIZE // 2] + POISON[SIZE // 2 :]


def test_bandwidth_holds_one_sided_transfers_back_too(rdma: OneSided) -> None:
    rdma.drill.arm("bandwidth", bytes_per_second=2 * SIZE)
    rdma.put()
    assert rdma.drill.last["duration_ms"] >= 500
    rdma.get()
    assert rdma.drill.last["duration_ms"] >= 500
    assert rdma.memory.data == rdma.stored


def test_rdma_faults_leave_ordinary_transfers_alone(drill: Drill) -> None:
    for kind in ("rdma-declined", "rdma-ignored", "rdma-unmoved"):
        drill.arm(kind)
    drill.put(b"new")
    assert drill.get() == b"new"


def test_every_kind_has_been_armed_by_a_test() -> None:
    from pathlib import Path

    text = Path(__file__).read_text()
    management = Path(__file__).with_name("test_management_account.py").read_text()
    assert [k for k, kind in KINDS.items() if kind.management and f'("{k}", ' not in management] == []
    kinds = [name for name, kind in KINDS.items() if not kind.management]
    assert [kind for kind in kinds if f'arm("{kind}"' not in text and f'in ("{kind}"' not in text] == []


def test_count_rate_seed_and_patterns_decide_what_is_struck() -> None:
    def strikes(**fields: Any) -> list[int]:
        book = FaultBook()
        book.add(Fault.make({"kind": "slow-down", **fields}))
        hits = [n for n in range(1000) if "slow-down" in book.strike("GetObject", "b", f"kv_{n}", rdma=False)]
        assert book.listed()[0]["hits"] == len(hits)
        return hits

    assert strikes() == list(range(1000))
    assert strikes(count=3) == [0, 1, 2]
    assert strikes(key="kv_*7", count=2) == [7, 17]
    assert strikes(op="Put*") == strikes(bucket="c") == strikes(key="kv") == []
    tenth = strikes(rate=0.1, seed=1)
    assert 60 < len(tenth) < 140
    assert strikes(rate=0.1, seed=1) == tenth
    assert strikes(rate=0.1, seed=2) != tenth


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "there is no fault None"),
        ({"kind": "flip"}, "there is no fault 'flip'; there are: latency"),
        ({"kind": "latency"}, "latency needs seconds"),
        ({"kind": "latency", "seconds": -1}, "must not be negative"),
        ({"kind": "bandwidth"}, "bandwidth needs bytes_per_second"),
        ({"kind": "full", "rate": 0}, "rate must be over 0"),
        ({"kind": "full", "rate": 2}, "rate must be over 0"),
        ({"kind": "full", "count": "3"}, "count must be a number"),
        ({"kind": "full", "count": -1}, "count must not be negative"),
        ({"kind": "full", "when": 1}, "a fault has no when"),
        ({"kind": "flip-read", "op": "PutObject"}, "flip-read can only strike GetObject"),
    ],
)
def test_a_senseless_fault_is_refused_with_a_sentence(drill: Drill, fields: dict[str, Any], why: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        drill.ask("POST", "/faults", fields)
    assert caught.value.code == 400
    assert why in json.loads(caught.value.read())["error"]


def test_faults_are_armed_listed_and_cleared_by_name_from_the_command_line(drill: Drill) -> None:
    base = [*drill.emulator.command()[:4], "fault"]

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*base, *arguments, "--admin-port", str(drill.admin)]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    assert run("add", "slow-down", "--name", "one", "--key", "k", "--count", "2").stdout == "one\n"
    assert refused(drill.get) == ("SlowDown", 503)
    listed = [json.loads(line) for line in run("list").stdout.splitlines()]
    assert [(f["name"], f["kind"], f["count"], f["hits"]) for f in listed] == [("one", "slow-down", 2, 1)]
    again = run("add", "slow-down", "--name", "one")
    assert (again.returncode, "already" in again.stderr) == (2, True)
    assert run("clear", "other").returncode == 2
    assert run("clear", "one").stdout == "1 cleared\n"
    assert drill.get() == DATA


def test_a_port_without_an_emulator_is_said_so(drill: Drill) -> None:
    command = [*drill.emulator.command()[:4], "fault", "list", "--admin-port", str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert "no emulator's fault interface answers" in done.stderr


def test_the_interface_takes_nothing_that_a_web_page_could_send(drill: Drill) -> None:
    request = urllib.request.Request(
        f"http://127.0.0.1:{drill.admin}/faults", b'{"kind": "full"}', {"Content-Type": "text/plain"}
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=10)
    assert caught.value.code == 415
    assert drill.ask("GET", "/faults")["faults"] == []


def test_metrics_count_requests_bytes_and_faults(drill: Drill) -> None:
    def metric(name: str) -> float:
        with urllib.request.urlopen(f"http://127.0.0.1:{drill.metrics}/metrics", timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    out = 'kvlab_emulator_payload_bytes_total{direction="out",path="http"}'
    gets = 'kvlab_emulator_requests_total{op="GetObject",status="200"}'
    struck = 'kvlab_emulator_faults_total{fault="slow-down"}'
    before = [metric(name) for name in (out, gets, struck)]
    drill.get()
    drill.arm("slow-down", count=1)
    refused(drill.get)
    after = [metric(name) for name in (out, gets, struck)]
    assert [b - a for a, b in zip(before, after, strict=True)] == [len(DATA), 1, 1]
    assert metric('kvlab_emulator_info{dialect="objectscale",simulated="true"}') == 1
