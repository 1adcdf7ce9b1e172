"""Faults of the object store, of its endpoints and of what lies in the bucket."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kvlab.drills import programs
from kvlab.drills.bench import Bench, free_port
from kvlab.drills.drill import Drill, Scene
from kvlab.errors import KvlabError
from kvlab.objectscale import s3
from kvlab.probes import key_pair
from kvlab.serving import health

Break = Callable[[Bench], AbstractContextManager[object]]
OWN_STORE = ("the lab's own emulated store",)


def _scene(look: Callable[[Bench], dict[str, Any]], breaks: Break) -> Callable[[Bench], Scene]:
    def scene(bench: Bench) -> Scene:
        return Scene(lambda: look(bench), lambda: breaks(bench))

    return scene


def _fault(kind: str, **fields: Any) -> Break:
    return lambda bench: bench.fault(kind, **fields)


@contextmanager
def _planted(bench: Bench, key: str, size: int) -> Iterator[None]:
    """An object of zeros in the running profile's bucket."""
    bucket = str(bench.about["bucket"])
    bench.s3.put_object(Bucket=bucket, Key=key, Body=bytes(size))
    try:
        yield
    finally:
        bench.s3.delete_object(Bucket=bucket, Key=key)


@contextmanager
def _store_down(bench: Bench) -> Iterator[None]:
    bench.without_fault_port()
    with programs.stopped(bench.lab, programs.STORE, str(bench.data["endpoint"])):
        yield


@contextmanager
def _store_without_rdma(bench: Bench) -> Iterator[None]:
    bench.without_fault_port()
    with programs.store_with(bench.lab, ["--no-rdma"]):
        yield


def _wrong_bucket(bench: Bench) -> Scene:
    state = {"bucket": str(bench.about["bucket"])}

    @contextmanager
    def broken() -> Iterator[None]:
        state["bucket"] = "kv-nobody-made-this"
        try:
            yield
        finally:
            state["bucket"] = str(bench.about["bucket"])

    return Scene(lambda: bench.look_at_store(**state), broken)


class _Node:
    """A second endpoint for the lab's user: an emulated store of the drill's own, with a fault interface."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self._bench, self._folder = bench, folder
        self._port, self._admin = free_port(), free_port()
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._folder.mkdir(exist_ok=True)
        access_key, secret_key = key_pair(self._bench.data["secrets_file"])
        users = self._folder / "users.json"
        users.touch(mode=0o600)
        user = {"access_key": access_key, "secret_keys": [secret_key], "namespace": "kvlab"}
        users.write_text(json.dumps({"users": [user]}))
        command = [str(Path(sys.executable).with_name("kvlab")), "emulator", "--users", str(users)]
        command += ["--state", str(self._folder / "state"), "--s3-port", str(self._port)]
        self._process = subprocess.Popen(
            [*command, "--admin-port", str(self._admin)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + programs.START_S
        while not health.answers(self.endpoint):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise KvlabError(f"a second store for the drill did not start at {self.endpoint}.")
            time.sleep(0.1)
        client = s3.client(self.endpoint, access_key, secret_key)
        if not s3.bucket_exists(client, self._bench.bucket):
            client.create_bucket(Bucket=self._bench.bucket)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    @contextmanager
    def down(self) -> Iterator[None]:
        self.stop()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def slow(self, seconds: float) -> Iterator[None]:
        import httpx

        url = f"http://127.0.0.1:{self._admin}/faults"
        httpx.post(
            url, json={"kind": "latency", "seconds": seconds}, trust_env=False, timeout=10
        ).raise_for_status()
        try:
            yield
        finally:
            httpx.delete(url, trust_env=False, timeout=10).raise_for_status()


def _nodes(breaks: Callable[[_Node], AbstractContextManager[object]]) -> Callable[[Bench], Scene]:
    """The lab's endpoint and two more; one of those is broken. They run as long as the session does."""

    def scene(bench: Bench) -> Scene:
        folder = Path(bench.keep(tempfile.TemporaryDirectory(prefix="kvlab-drill-")))
        nodes = [_Node(bench, folder / str(number)) for number in range(2)]
        with ExitStack() as started:
            for node in nodes:
                started.callback(node.stop)
                node.start()
            bench.keep(started.pop_all())
        endpoints = [str(bench.data["endpoint"]), *(node.endpoint for node in nodes)]
        return Scene(lambda: bench.look_at_store(endpoints=endpoints), lambda: breaks(nodes[-1]))

    return scene


_STORE = Bench.look_at_store
_MANAGEMENT = Bench.look_at_management
_FAULT = "the lab's emulated store: fault "

DRILLS = (
    Drill(
        "revoked-key", "lab", "the access key of the lab's user was deleted on the array",
        _FAULT + "revoked", "thought up here", "issue 8; facts/objectscale.md 4", "S3002",
        _scene(_STORE, _fault("revoked", op="List*")), words="does not know the access key", ci=True, needs=OWN_STORE,
    ),
    Drill(
        "clock-skew", "lab", "the store's clock is ten minutes ahead",
        _FAULT + "clock-skew, 600 s", "thought up here", "issue 8; facts/objectscale.md 4", "S3003",
        _scene(_STORE, _fault("clock-skew", seconds=600.0)), ci=True, needs=OWN_STORE,
    ),
    Drill(
        "store-full", "lab", "the store takes no more bytes (507 InsufficientStorage)",
        _FAULT + "full", "thought up here", "issue 8; facts/kv_bench.md 0, fact 12", "S3007",
        _scene(_STORE, _fault("full", op="PutObject")), words="InsufficientStorage", ci=True, needs=OWN_STORE,
    ),
    Drill(
        "store-busy", "lab", "the store answers 503 SlowDown to every write",
        _FAULT + "slow-down", "thought up here", "facts/objectscale.md 4", "S3004",
        _scene(_STORE, _fault("slow-down", op="PutObject")), words="SlowDown", needs=OWN_STORE,
    ),
    Drill(
        "store-down", "lab", "the object store does not run",
        "the lab's emulated store is stopped", "thought up here", "facts/provisioning.md 2.8b: closed port", "S3002",
        _scene(_STORE, _store_down), words="nothing answers", needs=OWN_STORE,
    ),
    Drill(
        "wrong-bucket", "scratch", "the profile names a bucket that nobody made",
        "the store is asked about another bucket than the profile's", "thought up here", "issue 8", "S3002",
        _wrong_bucket, words="no such bucket",
    ),
    Drill(
        "strangers-in-the-bucket", "lab", "somebody else's objects lie in the bucket for KV",
        "an object of another name is put into the running profile's bucket", "field report",
        "facts/provisioning.md 2.9 (orphaned objects)", "S3009",
        _scene(_STORE, lambda bench: _planted(bench, "reports/2026.csv", 4096)), ci=True,
    ),
    Drill(
        "empty-object", "lab", "an object of the bucket is empty: a PUT that was declined",
        "an empty object of a KV name is put into the running profile's bucket", "field report",
        "facts/kv_bench.md 0, fact 8", "S3008",
        _scene(_STORE, lambda bench: _planted(bench, "obj_2079_d1d1", 0)),
    ),
    Drill(
        "wrong-kv-dtype", "lab", "an instance with fp8 KV shares the bucket: its objects have half a chunk's bytes",
        "an object of half a chunk's bytes is put into the running profile's bucket", "thought up here",
        "issue 8; facts/kv_bench.md 0, fact 7", "S3008",
        _scene(_STORE, lambda bench: _planted(bench, "obj_2079_d1d1", int(bench.about["chunk_bytes"]) // 2)),
    ),
    Drill(
        "endpoint-slow", "scratch", "one of three endpoints is slower than the others by far more than 3x",
        "two more emulated stores beside the lab's; latency of 0.1 s at one", "thought up here", "issue 8", "S3006",
        _nodes(lambda node: node.slow(0.1)), needs=OWN_STORE,
    ),
    Drill(
        "endpoint-down", "scratch", "one of three endpoints does not answer",
        "two more emulated stores beside the lab's; one is stopped", "field report",
        "facts/provisioning.md 2.8b: closed port", "S3005",
        _nodes(_Node.down), needs=OWN_STORE,
    ),
    Drill(
        "rdma-off-on-the-array", "lab", "S3 over RDMA is not enabled on the array",
        "the lab's emulated store is restarted with --no-rdma", "field report", "facts/objectscale.md 2", "OSC004",
        _scene(_MANAGEMENT, _store_without_rdma), needs=OWN_STORE,
    ),
    Drill(
        "management-failing", "lab", "the management API answers every request with an internal error",
        _FAULT + "failing", "thought up here", "facts/objectscale.md 3", "OSC001",
        _scene(_MANAGEMENT, _fault("failing")), needs=OWN_STORE,
    ),
)  # fmt: skip
