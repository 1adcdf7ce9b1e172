"""Retention: x-emc-retention-period of objects and buckets, through boto3."""

from __future__ import annotations

import math
import os
import time
from typing import Any

import pytest
from emulator_helpers import refused, with_header, with_md5
from emulator_rdma_client import Registered, one_sided

from kvlab.emulator.index import Bucket, Entry, Meta
from kvlab.emulator.lifecycle import expire
from kvlab.emulator.retention import PERIOD, retained_until

UNDER_RETENTION = ("ObjectUnderRetention", 409)


def put(client: Any, bucket: str, period: str, key: str = "k") -> None:
    with_header(client, "put_object", PERIOD, period, Bucket=bucket, Key=key, Body=b"kept")


def test_an_object_under_retention_is_neither_replaced_nor_deleted(
    emulator: Any, s3: Any, bucket: str
) -> None:
    put(s3, bucket, "3600")
    where = {"Bucket": bucket, "Key": "k"}
    s3.put_object(Bucket=bucket, Key="other", Body=b"x" * 200_000)
    upload = s3.create_multipart_upload(**where)["UploadId"]
    part = s3.upload_part(**where, UploadId=upload, PartNumber=1, Body=b"part")["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
    assert refused(s3.put_object, **where, Body=b"x" * 200_000) == UNDER_RETENTION
    assert refused(with_header, s3, "put_object", "Range", "bytes=-1-", **where, Body=b"x") == UNDER_RETENTION
    assert refused(s3.copy_object, **where, CopySource=f"{bucket}/other") == UNDER_RETENTION
    assert (
        refused(s3.complete_multipart_upload, **where, UploadId=upload, MultipartUpload=parts)
        == UNDER_RETENTION
    )
    assert refused(s3.delete_object, **where) == UNDER_RETENTION
    with Registered(100) as memory:
        assert refused(one_sided, s3, "put_object", memory.descriptor(), **where, Body=b"") == UNDER_RETENTION
    assert emulator.log()[-1]["rdma_in"] == 0
    reply = s3.get_object(**where)
    assert reply["Body"].read() == b"kept"
    assert reply["ResponseMetadata"]["HTTPHeaders"][PERIOD] == "3600"


def test_deleting_many_says_which_are_under_retention(s3: Any, bucket: str) -> None:
    put(s3, bucket, "-1", "kept")
    s3.put_object(Bucket=bucket, Key="free", Body=b"x")
    with_md5(s3)
    done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "kept"}, {"Key": "free"}]})
    assert [d["Key"] for d in done["Deleted"]] == ["free"]
    assert [(e["Key"], e["Code"]) for e in done["Errors"]] == [("kept", "ObjectUnderRetention")]


def test_after_its_time_an_object_is_free_again(s3: Any, bucket: str) -> None:
    put(s3, bucket, "1")
    assert refused(s3.delete_object, Bucket=bucket, Key="k") == UNDER_RETENTION
    time.sleep(1.1)
    s3.put_object(Bucket=bucket, Key="k", Body=b"new")
    s3.delete_object(Bucket=bucket, Key="k")


def test_a_bucket_gives_its_period_to_every_object(s3: Any) -> None:
    with_header(s3, "create_bucket", PERIOD, "3600", Bucket="retaining")
    s3.put_object(Bucket="retaining", Key="k", Body=b"x")
    assert refused(s3.delete_object, Bucket="retaining", Key="k") == UNDER_RETENTION
    put(s3, "retaining", "0", "longer-of-both-counts")
    assert refused(s3.delete_object, Bucket="retaining", Key="longer-of-both-counts") == UNDER_RETENTION


def test_a_copy_has_the_retention_of_its_own_request(s3: Any, bucket: str) -> None:
    put(s3, bucket, "3600", "source")
    source = {"Bucket": bucket, "CopySource": f"{bucket}/source"}
    s3.copy_object(Key="free", **source)
    s3.delete_object(Bucket=bucket, Key="free")
    with_header(s3, "copy_object", PERIOD, "3600", Key="kept", **source)
    assert refused(s3.delete_object, Bucket=bucket, Key="kept") == UNDER_RETENTION


@pytest.mark.parametrize("period", ["", "-2", "1.5", "soon", "1" * 13])
def test_a_period_that_is_none_is_refused(s3: Any, bucket: str, period: str) -> None:
    assert refused(put, s3, bucket, period) == ("InvalidArgument", 400)
    assert refused(with_header, s3, "create_bucket", PERIOD, period, Bucket="unmade") == (
        "InvalidArgument",
        400,
    )
    assert refused(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)


def test_a_retention_policy_is_not_implemented_and_stores_nothing(s3: Any, bucket: str) -> None:
    named = {"Bucket": bucket, "Key": "k", "Body": b"x"}
    assert refused(with_header, s3, "put_object", "x-emc-retention-policy", "p", **named) == (
        "NotImplemented",
        501,
    )
    assert refused(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)


def test_aws_knows_no_retention_of_this_kind(aws: Any) -> None:
    client = aws.client()
    client.create_bucket(Bucket="unretained")
    put(client, "unretained", "3600")
    client.delete_object(Bucket="unretained", Key="k")


@pytest.mark.parametrize(
    ("bucket", "own", "until"),
    [
        (None, None, 1000.0),
        (None, "60", 1060.0),
        ("90", "60", 1090.0),
        (90, None, 1090.0),
        ("-1", "60", math.inf),
        ("60", "-1", math.inf),
        ("0", "0", 1000.0),
    ],
)
def test_the_longer_period_counts_from_the_last_change(bucket: object, own: str | None, until: float) -> None:
    attributes = {} if bucket is None else {PERIOD: bucket}
    meta = Meta({} if own is None else {PERIOD: own})
    entry = Entry(1, "k", "f", 0, "e", 1000.0, meta)
    assert retained_until(Bucket(1, "ns1", "b", "u", 0.0, attributes=attributes), entry) == until


def test_a_lifecycle_does_not_expire_what_is_under_retention(make_service: Any) -> None:
    service = make_service()
    bucket = service.index.create_bucket("ns1", "b", "u", {})
    rule = '[{"id": "r", "prefix": "", "enabled": true, "days": 1}]'
    service.index.update_bucket(bucket.id, lifecycle=rule)
    for key, headers in (("kept", {PERIOD: str(10 * 86400)}), ("free", {})):
        incoming = service.store.incoming()
        os.write(incoming.fd, b"x")
        file = service.store.place(incoming)
        service.index.put(Entry(bucket.id, key, file, 1, "e", time.time() - 5 * 86400, Meta(headers)))
    assert expire(service) == 1
    assert service.index.get(bucket.id, "kept") is not None
    assert service.index.get(bucket.id, "free") is None
