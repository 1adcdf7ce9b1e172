"""The epoch is recorded in a bucket without KV, and a bucket with other KV is refused; against the emulator."""

from __future__ import annotations

from typing import Any

import pytest

from kvlab.objectscale import s3

KV = "model_1_0_1234abcd_bfloat16"


@pytest.fixture
def bucket(object_store: Any) -> str:
    name: str = object_store.bucket()
    return name


@pytest.fixture
def record(run: Any, object_store: Any) -> Any:
    def call(bucket: str, epoch: str, **more: Any) -> dict[str, Any]:
        result: dict[str, Any] = run(
            "s3_bucket_epoch", bucket=bucket, epoch=epoch, **object_store.access | more
        )
        return result

    return call


def test_an_empty_bucket_gets_the_epoch_once(record: Any, bucket: str, object_store: Any) -> None:
    first = record(bucket, "aaa")
    assert (first["changed"], first["found"]) == (True, None)
    object_store.client.put_object(Bucket=bucket, Key=KV, Body=b"kv")
    second = record(bucket, "aaa")
    assert (second["changed"], second["found"]) == (False, "aaa")


def test_the_record_is_not_counted_as_kv(record: Any, bucket: str, object_store: Any) -> None:
    record(bucket, "aaa")
    object_store.client.put_object(Bucket=bucket, Key=KV, Body=b"kv")
    client = object_store.client
    assert s3.kv_keys(client, bucket) == [(KV, 2)]
    assert {key for key, _ in s3.keys(client, bucket)} == {KV, s3.EPOCH_KEY}


def test_kv_of_another_epoch_is_refused_and_says_how_to_go_on(
    record: Any, bucket: str, object_store: Any
) -> None:
    record(bucket, "aaa")
    object_store.client.put_object(Bucket=bucket, Key=KV, Body=b"kv")
    result = record(bucket, "bbb")
    assert result["failed"]
    assert "aaa" in result["msg"]
    assert "bucket of the new epoch" in result["msg"]
    assert record(bucket, "aaa")["changed"] is False


def test_kv_of_an_unknown_epoch_is_refused(record: Any, bucket: str, object_store: Any) -> None:
    object_store.client.put_object(Bucket=bucket, Key=KV, Body=b"kv")
    result = record(bucket, "aaa")
    assert result["failed"]
    assert "no epoch is recorded" in result["msg"]
    assert s3.epoch_of(object_store.client, bucket) == (None, True)


def test_an_emptied_bucket_takes_the_new_epoch(record: Any, bucket: str) -> None:
    record(bucket, "aaa")
    result = record(bucket, "bbb")
    assert (result["changed"], result["found"]) == (True, "aaa")


def test_check_mode_writes_nothing(record: Any, bucket: str, object_store: Any) -> None:
    assert record(bucket, "aaa", check=True)["changed"] is True
    assert s3.keys(object_store.client, bucket) == []
    assert record("kv-not-there", "aaa", check=True)["changed"] is True


def test_a_bucket_that_is_not_there_is_a_sentence(record: Any) -> None:
    assert "no such bucket" in record("kv-not-there", "aaa")["msg"]


def test_a_spoilt_record_is_a_sentence(record: Any, bucket: str, object_store: Any) -> None:
    object_store.client.put_object(Bucket=bucket, Key=s3.EPOCH_KEY, Body=b"kv")
    assert "not a record of an epoch" in record(bucket, "aaa")["msg"]


def test_nothing_at_the_address_is_a_sentence(record: Any) -> None:
    assert "nothing answers" in record("kv", "aaa", endpoint="http://127.0.0.1:9")["msg"]
