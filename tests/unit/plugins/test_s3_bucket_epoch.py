"""The epoch is recorded in a bucket without KV, and a bucket with other KV is refused; against the emulator."""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvlab.objectscale import s3

KEY, SECRET = "kvlab", "not-a-secret"
KV = "model_1_0_1234abcd_bfloat16"


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("emulator")
    users = folder / "users.json"
    users.write_text(
        json.dumps({"users": [{"access_key": KEY, "secret_keys": [SECRET], "namespace": "kvlab"}]})
    )
    users.chmod(0o600)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [Path(sys.executable).with_name("kvlab"), "emulator", "--state", folder / "state"]
    command += ["--s3-port", str(port), "--users", users, "--access-log", folder / "log"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture
def bucket(endpoint: str, request: pytest.FixtureRequest) -> str:
    name = f"kv-{hashlib.sha256(request.node.name.encode()).hexdigest()[:12]}"
    s3.client(endpoint, KEY, SECRET).create_bucket(Bucket=name)
    return name


@pytest.fixture
def record(run: Any, endpoint: str) -> Any:
    def call(bucket: str, epoch: str, **more: Any) -> dict[str, Any]:
        access = {"endpoint": endpoint, "access_key": KEY, "secret_key": SECRET}
        result: dict[str, Any] = run("s3_bucket_epoch", bucket=bucket, epoch=epoch, **access | more)
        return result

    return call


def put(endpoint: str, bucket: str, key: str) -> None:
    s3.client(endpoint, KEY, SECRET).put_object(Bucket=bucket, Key=key, Body=b"kv")


def test_an_empty_bucket_gets_the_epoch_once(record: Any, bucket: str, endpoint: str) -> None:
    first = record(bucket, "aaa")
    assert (first["changed"], first["found"]) == (True, None)
    put(endpoint, bucket, KV)
    second = record(bucket, "aaa")
    assert (second["changed"], second["found"]) == (False, "aaa")


def test_the_record_is_not_counted_as_kv(record: Any, bucket: str, endpoint: str) -> None:
    record(bucket, "aaa")
    put(endpoint, bucket, KV)
    client = s3.client(endpoint, KEY, SECRET)
    assert s3.kv_keys(client, bucket) == [(KV, 2)]
    assert {key for key, _ in s3.keys(client, bucket)} == {KV, s3.EPOCH_KEY}


def test_kv_of_another_epoch_is_refused_and_says_how_to_go_on(
    record: Any, bucket: str, endpoint: str
) -> None:
    record(bucket, "aaa")
    put(endpoint, bucket, KV)
    result = record(bucket, "bbb")
    assert result["failed"]
    assert "aaa" in result["msg"]
    assert "bucket of the new epoch" in result["msg"]
    assert record(bucket, "aaa")["changed"] is False


def test_kv_of_an_unknown_epoch_is_refused(record: Any, bucket: str, endpoint: str) -> None:
    put(endpoint, bucket, KV)
    result = record(bucket, "aaa")
    assert result["failed"]
    assert "no epoch is recorded" in result["msg"]
    assert s3.epoch_of(s3.client(endpoint, KEY, SECRET), bucket) == (None, True)


def test_an_emptied_bucket_takes_the_new_epoch(record: Any, bucket: str) -> None:
    record(bucket, "aaa")
    result = record(bucket, "bbb")
    assert (result["changed"], result["found"]) == (True, "aaa")


def test_check_mode_writes_nothing(record: Any, bucket: str, endpoint: str) -> None:
    assert record(bucket, "aaa", check=True)["changed"] is True
    assert s3.keys(s3.client(endpoint, KEY, SECRET), bucket) == []
    assert record("kv-not-there", "aaa", check=True)["changed"] is True


def test_a_bucket_that_is_not_there_is_a_sentence(record: Any) -> None:
    assert "no such bucket" in record("kv-not-there", "aaa")["msg"]


def test_a_spoilt_record_is_a_sentence(record: Any, bucket: str, endpoint: str) -> None:
    put(endpoint, bucket, s3.EPOCH_KEY)
    assert "not a record of an epoch" in record(bucket, "aaa")["msg"]


def test_nothing_at_the_address_is_a_sentence(record: Any) -> None:
    assert "nothing answers" in record("kv", "aaa", endpoint="http://127.0.0.1:9")["msg"]
