"""Objects through boto3, as a client sees them."""

from __future__ import annotations

import datetime
import hashlib
import os
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from emulator_helpers import refused, with_md5
from multidict import CIMultiDict

from kvlab.emulator.call import Call
from kvlab.emulator.dialect import OBJECTSCALE
from kvlab.emulator.metadata import meta_from

INLINE = 128 << 10
SIZES = [0, 1, 4095, 4096, INLINE - 1, INLINE, INLINE + 1, 1 << 20, (1 << 20) + 1, 5_000_000]


@pytest.mark.parametrize("size", SIZES)
def test_an_object_comes_back_byte_for_byte_with_its_md5_as_etag(s3: Any, bucket: str, size: int) -> None:
    data = os.urandom(size)
    put = s3.put_object(Bucket=bucket, Key="k", Body=data)
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == data
    assert put["ETag"] == got["ETag"] == f'"{hashlib.md5(data).hexdigest()}"'
    assert got["ContentLength"] == s3.head_object(Bucket=bucket, Key="k")["ContentLength"] == size


@pytest.mark.parametrize(
    "key",
    [
        "a",
        "a/b//c",
        "../../x",
        "/lead",
        "trail/",
        "ü ñ 漢字 🎉",
        "a%2Fb",
        "a+b&c=d?e#f",
        ".",
        "x" * 1024,
        "'\"<>&",
    ],
)
def test_any_key_of_up_to_1024_bytes_names_its_own_object(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == key.encode()
    assert [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]] == [key]


def test_a_key_over_1024_bytes_is_refused(s3: Any, bucket: str) -> None:
    for key in ("x" * 1025, "\u00e4" * 513):
        assert refused(s3.put_object, Bucket=bucket, Key=key, Body=b"") == ("KeyTooLongError", 400)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bytes=0-0", (0, 1)),
        ("bytes=5-9", (5, 10)),
        ("bytes=9990-", (9990, 10000)),
        ("bytes=-7", (9993, 10000)),
        ("bytes=9000-20000", (9000, 10000)),
        ("bytes=-20000", (0, 10000)),
    ],
)
def test_a_range_gives_206_and_just_those_bytes(
    s3: Any, bucket: str, text: str, expected: tuple[int, int]
) -> None:
    data = os.urandom(10000)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    got = s3.get_object(Bucket=bucket, Key="k", Range=text)
    first, end = expected
    assert got["Body"].read() == data[first:end]
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert got["ContentRange"] == f"bytes {first}-{end - 1}/10000"


def test_a_range_of_a_large_object_is_sent_from_the_right_place(s3: Any, bucket: str) -> None:
    data = os.urandom(1 << 20)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    got = s3.get_object(Bucket=bucket, Key="k", Range="bytes=1000-900000")
    assert got["Body"].read() == data[1000:900001]


def test_a_range_outside_the_object_is_416(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"12345")
    assert refused(s3.get_object, Bucket=bucket, Key="k", Range="bytes=5-") == ("InvalidRange", 416)


def test_a_range_that_is_no_range_is_ignored(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"12345")
    got = s3.get_object(Bucket=bucket, Key="k", Range="lines=1-2")
    assert (got["Body"].read(), got["ResponseMetadata"]["HTTPStatusCode"]) == (b"12345", 200)


def test_metadata_and_headers_come_back(s3: Any, bucket: str) -> None:
    s3.put_object(
        Bucket=bucket,
        Key="k",
        Body=b"x",
        Metadata={"Model": "llama", "rank": "0"},
        ContentType="text/plain",
        CacheControl="no-store",
        ContentEncoding="gzip",
        ContentDisposition="attachment",
        ContentLanguage="en",
    )
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Metadata"] == {"model": "llama", "rank": "0"}
    assert (got["ContentType"], got["CacheControl"], got["ContentEncoding"]) == (
        "text/plain",
        "no-store",
        "gzip",
    )
    assert (got["ContentDisposition"], got["ContentLanguage"]) == ("attachment", "en")
    assert got["Body"].read() == b"x", "a stored Content-Encoding must not make the server decode"
    other = s3.get_object(Bucket=bucket, Key="k", ResponseContentType="image/png")
    assert other["ContentType"] == "image/png"


def test_too_much_metadata_is_refused(s3: Any, bucket: str) -> None:
    assert refused(s3.put_object, Bucket=bucket, Key="k", Body=b"", Metadata={"m": "x" * 2048}) == (
        "MetadataTooLarge",
        400,
    )


def test_a_missing_object_is_404_for_get_and_head(s3: Any, bucket: str) -> None:
    assert refused(s3.get_object, Bucket=bucket, Key="none") == ("NoSuchKey", 404)
    assert refused(s3.head_object, Bucket=bucket, Key="none") == ("404", 404)


def test_deleting_is_204_whether_or_not_the_object_was_there(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for _ in range(2):
        assert s3.delete_object(Bucket=bucket, Key="k")["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert refused(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)


def test_conditions_of_a_read_are_kept(s3: Any, bucket: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    now = datetime.datetime.now(datetime.UTC)
    hour = datetime.timedelta(hours=1)
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=etag)["Body"].read() == b"x"
    assert refused(s3.get_object, Bucket=bucket, Key="k", IfMatch='"other"') == ("PreconditionFailed", 412)
    assert refused(s3.get_object, Bucket=bucket, Key="k", IfNoneMatch=etag) == ("304", 304)
    assert s3.get_object(Bucket=bucket, Key="k", IfNoneMatch='"other"')["Body"].read() == b"x"
    assert refused(s3.head_object, Bucket=bucket, Key="k", IfModifiedSince=now + hour) == ("304", 304)
    assert refused(s3.get_object, Bucket=bucket, Key="k", IfUnmodifiedSince=now - hour) == (
        "PreconditionFailed",
        412,
    )


def test_put_if_absent_stores_once_and_leaves_the_first(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"first", IfNoneMatch="*")
    assert refused(s3.put_object, Bucket=bucket, Key="k", Body=b"second", IfNoneMatch="*") == (
        "PreconditionFailed",
        412,
    )
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"first"


def test_put_unless_match_leaves_what_it_names(s3: Any, bucket: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"first")["ETag"]
    assert refused(s3.put_object, Bucket=bucket, Key="k", Body=b"x", IfNoneMatch=etag) == (
        "PreconditionFailed",
        412,
    )
    s3.put_object(Bucket=bucket, Key="k", Body=b"second", IfNoneMatch=etag.replace(etag[1], "z"))
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"second"


def test_a_deletion_with_a_condition_takes_only_what_it_names(s3: Any, bucket: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"first")["ETag"]
    when = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    for wrong in (
        {"IfMatch": '"other"'},
        {"IfMatchSize": 4},
        {"IfMatchLastModifiedTime": when - datetime.timedelta(seconds=9)},
    ):
        assert refused(s3.delete_object, Bucket=bucket, Key="k", **wrong) == ("PreconditionFailed", 412)
    with_md5(s3)
    for wrong in ({"ETag": "other"}, {"Size": 4}):
        done = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k", **wrong}]})
        assert [e["Code"] for e in done["Errors"]] == ["PreconditionFailed"]
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"first"
    s3.delete_object(Bucket=bucket, Key="k", IfMatch=etag, IfMatchSize=5, IfMatchLastModifiedTime=when)
    assert refused(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)
    s3.delete_object(Bucket=bucket, Key="k", IfMatch='"other"')  # nothing is there that could be another


def test_put_if_match_replaces_only_what_it_names(s3: Any, bucket: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"first")["ETag"]
    assert refused(s3.put_object, Bucket=bucket, Key="k", Body=b"x", IfMatch='"other"') == (
        "PreconditionFailed",
        412,
    )
    assert refused(s3.put_object, Bucket=bucket, Key="none", Body=b"x", IfMatch=etag) == ("NoSuchKey", 404)
    s3.put_object(Bucket=bucket, Key="k", Body=b"second", IfMatch=etag)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"second"


def test_of_many_put_if_absent_at_once_just_one_wins(emulator: Any, bucket: str) -> None:
    won: list[int] = []
    lost: list[str] = []

    def put(number: int) -> None:
        client = emulator.client()
        try:
            client.put_object(Bucket=bucket, Key="k", Body=bytes([number]) * 300_000, IfNoneMatch="*")
            won.append(number)
        except client.exceptions.ClientError as error:
            lost.append(error.response["Error"]["Code"])

    threads = [threading.Thread(target=put, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), lost) == (1, ["PreconditionFailed"] * 7)
    assert emulator.client().get_object(Bucket=bucket, Key="k")["Body"].read() == bytes(won) * 300_000


def test_a_reader_keeps_the_object_it_opened_while_a_writer_replaces_it(emulator: Any, bucket: str) -> None:
    client = emulator.client()
    old = os.urandom(32 << 20)
    client.put_object(Bucket=bucket, Key="k", Body=old)
    reading = client.get_object(Bucket=bucket, Key="k")["Body"]
    head = reading.read(1000)
    emulator.client().put_object(Bucket=bucket, Key="k", Body=b"new")
    assert head + reading.read() == old
    assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == b"new"


def test_metadata_that_comes_more_than_once_is_joined() -> None:
    headers = CIMultiDict([("x-amz-meta-a", "1"), ("X-Amz-Meta-A", "2"), ("x-amz-meta-b", "3")])
    call = Call(cast(Any, SimpleNamespace(headers=headers)), "id")
    assert meta_from(call, OBJECTSCALE).user == {"a": "1,2", "b": "3"}


def test_content_md5_is_checked_and_a_wrong_one_stores_nothing(s3: Any, bucket: str) -> None:
    wrong = "1B2M2Y8AsgTpgAmY7PhCfg=="
    assert refused(s3.put_object, Bucket=bucket, Key="k", Body=b"x", ContentMD5=wrong) == ("BadDigest", 400)
    assert refused(s3.put_object, Bucket=bucket, Key="k", Body=b"x", ContentMD5="no") == (
        "InvalidDigest",
        400,
    )
    assert refused(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)


def test_deleting_many_reports_each_and_needs_content_md5(s3: Any, bucket: str) -> None:
    for key in ("a", "b", "c"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    wanted = {"Objects": [{"Key": "a"}, {"Key": "b"}, {"Key": "never"}]}
    assert refused(s3.delete_objects, Bucket=bucket, Delete=wanted) == ("InvalidRequest", 400)
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 3
    with_md5(s3)
    done = s3.delete_objects(Bucket=bucket, Delete=wanted)
    assert [d["Key"] for d in done["Deleted"]] == ["a", "b", "never"]
    assert [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["c"]


@pytest.mark.parametrize(
    "options",
    [
        {"ACL": "public-read"},
        {"Tagging": "a=b"},
        {"ServerSideEncryption": "AES256"},
        {"StorageClass": "GLACIER"},
        {"ObjectLockMode": "COMPLIANCE", "ObjectLockRetainUntilDate": datetime.datetime(2030, 1, 1)},
        {"WebsiteRedirectLocation": "/x"},
        {"GrantRead": "id=x"},
    ],
)
def test_what_is_not_supported_is_refused_and_stores_nothing(
    s3: Any, bucket: str, options: dict[str, Any]
) -> None:
    assert refused(s3.put_object, Bucket=bucket, Key="k", Body=b"x", **options) == ("NotImplemented", 501)
    assert refused(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)


@pytest.mark.parametrize(
    ("operation", "options"),
    [
        ("get_object_acl", {"Key": "k"}),
        ("get_object_tagging", {"Key": "k"}),
        ("put_object_tagging", {"Key": "k", "Tagging": {"TagSet": []}}),
        ("get_bucket_acl", {}),
        ("get_bucket_versioning", {}),
        ("put_bucket_versioning", {"VersioningConfiguration": {"Status": "Enabled"}}),
        ("get_bucket_policy", {}),
        ("get_bucket_cors", {}),
        ("get_bucket_encryption", {}),
        ("get_object_attributes", {"Key": "k", "ObjectAttributes": ["ETag"]}),
        ("restore_object", {"Key": "k"}),
        ("get_object", {"Key": "k", "VersionId": "1"}),
        ("delete_object", {"Key": "k", "VersionId": "1"}),
    ],
)
def test_operations_that_do_not_exist_answer_not_implemented(
    s3: Any, bucket: str, operation: str, options: dict[str, Any]
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    code, status = refused(getattr(s3, operation), Bucket=bucket, **options)
    assert (code, status) == ("NotImplemented", 501)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"
