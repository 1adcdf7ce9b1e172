"""Buckets, expiry and trials over the S3 API alone, in check mode too; against the emulator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from object_store import ObjectStore

from kvlab.objectscale import lifecycle, rdma_readiness, s3, smoke

NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def bucket(object_store: ObjectStore) -> str:
    return object_store.bucket()


@pytest.fixture
def module(run: Any, object_store: ObjectStore) -> Any:
    def call(name: str, /, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = run(name, **object_store.access | arguments)
        assert object_store.secret_key not in str({k: v for k, v in result.items() if k != "invocation"})
        return result

    return call


def test_a_bucket_is_made_once_and_removed_once(module: Any, object_store: ObjectStore) -> None:
    first = module("s3_bucket", name="once", check=True)
    assert (first["changed"], first["diff"]) == (
        True,
        {"before": {"state": "absent"}, "after": {"state": "present"}},
    )
    assert not s3.bucket_exists(object_store.client, "once")
    assert [module("s3_bucket", name="once")["changed"] for _ in range(2)] == [True, False]
    assert s3.bucket_exists(object_store.client, "once")
    assert [module("s3_bucket", name="once", state="absent")["changed"] for _ in range(2)] == [True, False]
    assert not s3.bucket_exists(object_store.client, "once")


def test_a_bucket_with_objects_is_not_removed(module: Any, object_store: ObjectStore) -> None:
    full = object_store.bucket("kv")
    assert "BucketNotEmpty" in module("s3_bucket", name=full, state="absent")["msg"]
    assert object_store.keys(full) == ["kv"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("s3_bucket", {"name": "b"}),
        ("s3_bucket_epoch", {"bucket": "b", "epoch": "e"}),
        ("s3_lifecycle", {"bucket": "b", "days": 3, "prefixes": ["m_"]}),
    ],
)
def test_in_check_mode_a_store_that_is_down_is_one_to_be_filled(
    module: Any, name: str, arguments: dict[str, Any]
) -> None:
    assert "nothing answers" in module(name, endpoint=NOWHERE, **arguments)["msg"]
    checked = module(name, endpoint=NOWHERE, check=True, **arguments)
    assert not checked.get("failed")
    assert "nothing answers" in str(checked["warnings"])
    assert checked["changed"]


def test_expiry_is_set_once_changed_and_removed(module: Any, object_store: ObjectStore, bucket: str) -> None:
    def expire(**more: Any) -> dict[str, Any]:
        result: dict[str, Any] = module("s3_lifecycle", bucket=bucket, **more)
        return result

    wanted = {"days": 3, "prefixes": ["m_", "obj_"]}
    assert expire(check=True, **wanted)["changed"]
    assert lifecycle.rules(object_store.client, bucket) == []
    assert [expire(**wanted)["changed"] for _ in range(2)] == [True, False]
    rules = lifecycle.rules(object_store.client, bucket)
    assert [(rule["Filter"]["Prefix"], rule["Expiration"]["Days"]) for rule in rules] == [
        ("m_", 3),
        ("obj_", 3),
    ]
    assert expire(days=4, prefixes=["m_"])["changed"]
    assert [rule["Expiration"]["Days"] for rule in lifecycle.rules(object_store.client, bucket)] == [4]
    assert [expire(state="absent")["changed"] for _ in range(2)] == [True, False]
    assert lifecycle.rules(object_store.client, bucket) == []


def test_rules_of_others_stay(module: Any, object_store: ObjectStore, bucket: str) -> None:
    other = {"ID": "theirs", "Status": "Enabled", "Filter": {"Prefix": "log/"}, "Expiration": {"Days": 1}}
    lifecycle.replace(object_store.client, bucket, [other])
    module("s3_lifecycle", bucket=bucket, days=3, prefixes=["m_"])
    assert [rule["ID"] for rule in lifecycle.rules(object_store.client, bucket)] == [
        "theirs",
        "kvlab-expire-m_",
    ]
    module("s3_lifecycle", bucket=bucket, state="absent")
    assert [rule["ID"] for rule in lifecycle.rules(object_store.client, bucket)] == ["theirs"]


@pytest.mark.parametrize("prefix", ["", ".", ".kvlab/"])
def test_the_record_of_the_epoch_must_not_expire(module: Any, bucket: str, prefix: str) -> None:
    said = module("s3_lifecycle", bucket=bucket, days=3, prefixes=["m_", prefix])
    assert "record of the cache epoch" in said["msg"]


def test_days_must_be_days(module: Any, bucket: str) -> None:
    assert "give 1 or more" in module("s3_lifecycle", bucket=bucket, days=0, prefixes=["m_"])["msg"]


def test_the_smoke_test_does_every_step_and_leaves_nothing(
    module: Any, object_store: ObjectStore, bucket: str
) -> None:
    result = module("s3_smoke", bucket=bucket, rdma=True)
    assert result["changed"] is False
    assert [(one["checksums"], one["works"]) for one in result["checksums"]] == [
        ("when_required", True),
        ("when_supported", True),
    ]
    assert result["rdma"] == "ready"
    assert [one["header"] for one in result["rdma_headers"]] == list(rdma_readiness.HEADERS)
    assert "InvalidRDMAToken" in result["rdma_headers"][0]["saw"]
    assert object_store.keys(bucket) == []
    done = [request["op"] for request in object_store.requests if request["bucket"] == bucket]
    assert {"PutObject", "HeadObject", "GetObject", "ListObjectsV2", "DeleteObject"} <= set(done)


def test_the_smoke_test_tries_nothing_in_check_mode(module: Any) -> None:
    assert "checksums" not in module("s3_smoke", bucket="not-there", endpoint=NOWHERE, check=True)


def test_a_bucket_that_is_not_there_fails_the_smoke_test(module: Any) -> None:
    assert "no such bucket" in module("s3_smoke", bucket="not-there")["msg"]


class Broken:
    """A client whose store gives back another content."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get_object(self, **asked: Any) -> Any:
        reply = self._client.get_object(**asked)
        reply["Body"].read = lambda: bytes(smoke.SIZE)
        return reply


def test_content_that_comes_back_changed_is_seen_and_the_object_goes_all_the_same(
    object_store: ObjectStore, bucket: str
) -> None:
    outcomes = smoke.test(lambda _: Broken(object_store.client), bucket)
    assert [(one.step, one.works) for one in outcomes] == [("get", False), ("get", False)]
    assert "of another content" in outcomes[0].seen
    assert object_store.keys(bucket) == []


@pytest.fixture(scope="module")
def without_rdma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    store = ObjectStore(tmp_path_factory.mktemp("no-rdma"), arguments=("--no-rdma",))
    process = store.start()
    yield store
    process.terminate()
    process.wait(30)


def test_rdma_that_is_switched_off_is_declined(without_rdma: ObjectStore) -> None:
    bucket = without_rdma.bucket()
    found = rdma_readiness.probe(without_rdma.client, bucket)
    assert [one.result for one in found] == ["declined", "declined"]
    assert without_rdma.keys(bucket) == []


def test_a_store_that_ignores_the_header_does_not_offer_rdma(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    store = ObjectStore(tmp_path_factory.mktemp("aws"), arguments=("--dialect", "aws"))
    process = store.start()
    try:
        bucket = store.bucket()
        found = rdma_readiness.probe(store.client, bucket)
        assert [one.result for one in found] == ["not offered", "not offered"]
        assert store.keys(bucket) == []
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize(
    ("status", "code", "message", "headers", "result"),
    [
        (400, "InvalidRDMAToken", "no descriptor", {}, "ready"),
        (400, "InvalidArgument", "The RDMA token cannot be parsed", {}, "ready"),
        (200, "", "", {"x-amz-rdma-reply": "501"}, "declined"),
        (501, "NotImplemented", "", {"x-amz-rdma-reply": "501"}, "declined"),
        (200, "", "", {}, "not offered"),
        (200, "", "", {"x-amz-rdma-reply": "200"}, "unclear"),
        (400, "InvalidRequest", "", {}, "unclear"),
        (403, "AccessDenied", "", {}, "unclear"),
        (500, "InternalError", "rdma", {}, "unclear"),
    ],
)
def test_what_the_reply_to_a_bogus_token_means(
    status: int, code: str, message: str, headers: dict[str, str], result: str
) -> None:
    judged, saw = rdma_readiness.judge(status, code, message, headers)
    assert judged == result
    assert str(status) in saw


def test_one_header_that_works_is_enough() -> None:
    def overall(*results: str) -> str:
        return rdma_readiness.overall([rdma_readiness.Readiness("h", r, "") for r in results])

    assert overall("not offered", "ready") == "ready"
    assert overall("not offered", "declined") == "declined"
    assert overall("not offered", "unclear") == "unclear"
    assert overall("not offered", "not offered") == "not offered"
