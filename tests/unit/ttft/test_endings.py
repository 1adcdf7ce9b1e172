"""A store that refuses, and a server that is gone, end a run with one sentence; what was measured is kept.

The store is the emulated one with its fault interface, the server that of known TTFT: both are programs of their own.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from object_store import ObjectStore
from ttft_site import CHUNK_BYTES, FakeServing, FakeSite

from kvlab.errors import KvlabError
from kvlab.probes import access_log
from kvlab.ttft import measure, plan, result
from kvlab.ttft.client import Client
from kvlab.ttft.proof import Group
from kvlab.ttft.result import Result, Series


@dataclass
class StoringServing(FakeServing):
    """Puts the chunks of a cold pass into a real store, and takes its log for evidence."""

    store: ObjectStore | None = None
    bucket: str = ""

    def measure(self, series: Series, context: int, prompts: Sequence[Sequence[int]]) -> Group:
        assert self.store
        log = self.store.folder / "log"
        mark = access_log.mark(log)
        made = super().measure(series, context, prompts)
        if series == "cold":
            for one in made.facts["new_objects"]:
                # What was refused stands in the log, which is the evidence.
                with contextlib.suppress(ClientError):
                    self.store.client.put_object(Bucket=self.bucket, Key=one["key"], Body=bytes(CHUNK_BYTES))
        return replace(
            made, facts=made.facts | {"access_log": access_log.read(log, mark, self.bucket)["requests"]}
        )


@dataclass
class StoringSite(FakeSite):
    store: ObjectStore | None = None
    bucket: str = ""

    def start(self, profile: str) -> FakeServing:
        self.started.append(profile)
        return StoringServing(profile, self, store=self.store, bucket=self.bucket)


@dataclass
class AskingServing(FakeServing):
    """Asks a real server, which a test may end."""

    client: Client | None = None

    def measure(self, series: Series, context: int, prompts: Sequence[Sequence[int]]) -> Group:
        made = super().measure(series, context, prompts)
        assert self.client
        return replace(made, answers=self.client.ask(prompts))


@dataclass
class AskingSite(FakeSite):
    client: Client | None = None

    def start(self, profile: str) -> FakeServing:
        self.started.append(profile)
        return AskingServing(profile, self, client=self.client)


@pytest.fixture
def faulty_store(tmp_path: Path, unused_port: int) -> Iterator[tuple[ObjectStore, str]]:
    """A store of one's own with its fault interface, and the address of that."""
    store = ObjectStore(tmp_path, arguments=("--admin-port", str(unused_port)))
    process = store.start()
    yield store, f"http://127.0.0.1:{unused_port}/faults"
    process.terminate()
    process.wait(30)


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def arm(faults: str, **fault: Any) -> None:
    asked = urllib.request.Request(
        faults, json.dumps(fault).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    urllib.request.urlopen(asked, timeout=10).close()


def run(site: FakeSite) -> tuple[str, Result, list[str]]:
    """How a run of one cached profile ends, what it holds, and what was saved last."""
    values = {"name": "p", "model": "m", "contexts": [256, 512, 1024], "profiles": ["s3-http"], "starts": 1}
    of = plan.from_mapping(values | {"hot_passes": 2}, "p")
    made = Result(id="run-1", created="2026-12-01T00:00:00Z", simulated=True, plan=of.as_mapping())
    saved: list[bytes] = []
    runner = measure.Run(
        of,
        ["s3-http"],
        site,
        made,
        lambda r: saved.append(result.encode(r)),
        lambda _line: None,
        clock=site.clock,
    )
    try:
        runner.go()
    except KvlabError as error:
        said = str(error)
    else:
        said = ""
    kept = result.decode(saved[-1], "saved")
    return said, kept, [f"{p.context} {p.series}" for p in kept.passes]


def test_a_store_that_takes_everything_lets_the_run_end(faulty_store: tuple[ObjectStore, str]) -> None:
    store, _ = faulty_store
    said, kept, passes = run(StoringSite(store=store, bucket=store.bucket()))
    assert (said, kept.complete, len(passes)) == ("", True, 9)


@pytest.mark.parametrize(("key", "refused"), [("512-*", "2 of 2"), ("512-1", "1 of 2")])
def test_a_store_that_becomes_full_ends_the_run_at_that_pass(
    faulty_store: tuple[ObjectStore, str], key: str, refused: str
) -> None:
    store, faults = faulty_store
    bucket = store.bucket()
    arm(faults, kind="full", key=key)
    said, kept, passes = run(StoringSite(store=store, bucket=bucket))
    assert f"s3-http: cold pass of 512 tokens: the store refused {refused} objects (status 507" in said
    assert said.endswith("Make room there. 4 passes are kept; go on with --resume.")
    assert passes == ["256 cold", "256 hot", "256 hot", "512 cold"]
    assert kept.stopped in said
    assert not kept.complete


def test_a_refusal_that_passes_is_no_ending(faulty_store: tuple[ObjectStore, str]) -> None:
    store, faults = faulty_store
    bucket = store.bucket()
    arm(faults, kind="slow-down", key="512-1", count=1)  # boto3 tries again, and so does NIXL's client
    said, kept, _ = run(StoringSite(store=store, bucket=bucket))
    assert (said, kept.complete) == ("", True)


@pytest.fixture
def server() -> Iterator[subprocess.Popen[str]]:
    """A server of known TTFT."""
    process = subprocess.Popen(
        [sys.executable, "-m", "kvlab.ttft.fake_vllm", "0.01"], stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.wait(10)
    assert process.stdout
    process.stdout.close()


def test_a_server_that_is_gone_ends_the_run_and_names_its_address(server: subprocess.Popen[str]) -> None:
    assert server.stdout
    url = f"http://127.0.0.1:{server.stdout.readline().strip()}"

    def end_it(number: int) -> None:
        if number == 6:  # the warm-up was the first
            server.kill()
            server.wait(10)

    said, kept, passes = run(AskingSite(before=end_it, client=Client(url, 4, 5.0)))
    assert f"vLLM at {url} does not answer" in said
    assert said.endswith("4 passes are kept; go on with --resume.")
    assert passes == ["256 cold", "256 hot", "256 hot", "512 cold"]
    assert kept.stopped in said
