"""Multipart uploads, copies and ObjectScale's byte-range PUT."""

from __future__ import annotations

import base64
import hashlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from emulator_helpers import refused

PART = 5 << 20


def upload(s3: Any, bucket: str, key: str, parts: dict[int, bytes]) -> tuple[str, list[dict[str, Any]]]:
    made = s3.create_multipart_upload(Bucket=bucket, Key=key, Metadata={"m": "1"}, ContentType="text/plain")
    done = []
    for number, data in parts.items():
        etag = s3.upload_part(
            Bucket=bucket, Key=key, UploadId=made["UploadId"], PartNumber=number, Body=data
        )["ETag"]
        done.append({"PartNumber": number, "ETag": etag})
    return made["UploadId"], done


def test_parts_become_one_object_with_s3s_etag(emulator: Any, s3: Any, bucket: str) -> None:
    parts = {2: os.urandom(PART), 7: os.urandom(PART + 1), 9: b"end"}
    uid, done = upload(s3, bucket, "k", parts)
    assert refused(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)
    listed = s3.list_parts(Bucket=bucket, Key="k", UploadId=uid, MaxParts=2)
    assert [p["PartNumber"] for p in listed["Parts"]] == [2, 7]
    assert listed["IsTruncated"]
    rest = s3.list_parts(
        Bucket=bucket, Key="k", UploadId=uid, PartNumberMarker=listed["NextPartNumberMarker"]
    )
    assert [(p["PartNumber"], p["Size"]) for p in rest["Parts"]] == [(9, 3)]
    ended = s3.complete_multipart_upload(
        Bucket=bucket, Key="k", UploadId=uid, MultipartUpload={"Parts": done}
    )
    digests = b"".join(hashlib.md5(d).digest() for d in parts.values())
    assert ended["ETag"] == f'"{hashlib.md5(digests).hexdigest()}-3"'
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == b"".join(parts.values())
    assert (got["Metadata"], got["ContentType"], got["ETag"]) == ({"m": "1"}, "text/plain", ended["ETag"])
    one = s3.get_object(Bucket=bucket, Key="k", PartNumber=2)
    assert (one["Body"].read(), one["PartsCount"]) == (parts[7], 3)
    assert refused(s3.get_object, Bucket=bucket, Key="k", PartNumber=4) == ("InvalidPartNumber", 416)
    assert refused(s3.list_parts, Bucket=bucket, Key="k", UploadId=uid) == ("NoSuchUpload", 404)
    files = {r for r in emulator.data_files() if r.stat().st_size == PART}
    assert not files, "the parts' own files must be gone"


def test_completing_again_gives_the_same_answer_until_the_object_is_another(s3: Any, bucket: str) -> None:
    uid, done = upload(s3, bucket, "k", {1: b"end"})
    arguments = {"Bucket": bucket, "Key": "k", "UploadId": uid, "MultipartUpload": {"Parts": done}}
    assert (
        s3.complete_multipart_upload(**arguments)["ETag"] == s3.complete_multipart_upload(**arguments)["ETag"]
    )
    s3.put_object(Bucket=bucket, Key="k", Body=b"other")
    assert refused(s3.complete_multipart_upload, **arguments) == ("NoSuchUpload", 404)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"other"


def test_an_aborted_upload_leaves_nothing(emulator: Any, s3: Any, bucket: str) -> None:
    before = set(emulator.data_files())
    uid, done = upload(s3, bucket, "k", {1: b"x" * 1000})
    assert len(set(emulator.data_files()) - before) == 1
    s3.abort_multipart_upload(Bucket=bucket, Key="k", UploadId=uid)
    assert set(emulator.data_files()) == before
    for call, more in (
        (s3.abort_multipart_upload, {}),
        (s3.upload_part, {"PartNumber": 1, "Body": b"x"}),
        (s3.complete_multipart_upload, {"MultipartUpload": {"Parts": done}}),
    ):
        assert refused(call, Bucket=bucket, Key="k", UploadId=uid, **more) == ("NoSuchUpload", 404)


def test_a_part_sent_again_replaces_the_first(s3: Any, bucket: str) -> None:
    uid, _ = upload(s3, bucket, "k", {1: b"first"})
    etag = s3.upload_part(Bucket=bucket, Key="k", UploadId=uid, PartNumber=1, Body=b"second")["ETag"]
    s3.complete_multipart_upload(
        Bucket=bucket, Key="k", UploadId=uid, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": etag}]}
    )
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"second"


def test_a_wrong_list_of_parts_is_refused_and_the_upload_goes_on(s3: Any, bucket: str) -> None:
    uid, done = upload(s3, bucket, "k", {1: b"small", 2: b"end"})
    first, second = done

    def complete(*parts: dict[str, Any]) -> tuple[str, int]:
        return refused(
            s3.complete_multipart_upload,
            Bucket=bucket,
            Key="k",
            UploadId=uid,
            MultipartUpload={"Parts": list(parts)},
        )

    assert complete(first, second) == ("EntityTooSmall", 400)
    assert complete(second, first) == ("InvalidPartOrder", 400)
    assert complete(first, first) == ("InvalidPartOrder", 400)
    assert complete({"PartNumber": 3, "ETag": first["ETag"]}) == ("InvalidPart", 400)
    assert complete(first | {"ETag": second["ETag"]}) == ("InvalidPart", 400)
    assert complete() == ("MalformedXML", 400)
    s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=uid, MultipartUpload={"Parts": [second]})
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"end"


@pytest.mark.parametrize("number", [0, 10001])
def test_part_numbers_run_from_1_to_10000(s3: Any, bucket: str, number: int) -> None:
    uid, _ = upload(s3, bucket, "k", {})
    arguments = {"Bucket": bucket, "Key": "k", "UploadId": uid, "PartNumber": number, "Body": b"x"}
    assert refused(s3.upload_part, **arguments) == ("InvalidArgument", 400)


def test_uploads_in_progress_are_listed_with_paging(s3: Any, bucket: str) -> None:
    made = [(key, upload(s3, bucket, key, {})[0]) for key in ("a", "b", "b", "c")]
    pages = s3.get_paginator("list_multipart_uploads").paginate(
        Bucket=bucket, PaginationConfig={"PageSize": 1}
    )
    found = [(u["Key"], u["UploadId"]) for p in pages for u in p.get("Uploads", [])]
    assert found == made
    only = s3.list_multipart_uploads(Bucket=bucket, Prefix="b")["Uploads"]
    assert {u["UploadId"] for u in only} == {made[1][1], made[2][1]}


def test_a_bucket_is_deleted_together_with_its_unfinished_uploads(
    emulator: Any, s3: Any, bucket: str
) -> None:
    before = set(emulator.data_files())
    upload(s3, bucket, "k", {1: b"x"})
    s3.delete_bucket(Bucket=bucket)
    assert set(emulator.data_files()) == before


def test_boto3s_managed_transfer_works_in_both_directions(s3: Any, bucket: str, tmp_path: Any) -> None:
    source = tmp_path / "source"
    source.write_bytes(os.urandom(20 << 20))
    s3.upload_file(str(source), bucket, "k")
    s3.copy({"Bucket": bucket, "Key": "k"}, bucket, "k2")
    s3.download_file(bucket, "k2", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == source.read_bytes()


def test_a_copy_has_the_bytes_and_the_metadata_of_its_source(s3: Any, bucket: str) -> None:
    put = s3.put_object(
        Bucket=bucket, Key="a b/ü", Body=b"data", Metadata={"m": "1"}, ContentType="text/plain"
    )
    done = s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "a b/ü"})
    assert done["CopyObjectResult"]["ETag"] == put["ETag"]
    got = s3.get_object(Bucket=bucket, Key="copy")
    assert (got["Body"].read(), got["Metadata"], got["ContentType"]) == (b"data", {"m": "1"}, "text/plain")
    s3.delete_object(Bucket=bucket, Key="a b/ü")
    assert s3.get_object(Bucket=bucket, Key="copy")["Body"].read() == b"data"


def test_a_copy_may_replace_the_metadata_also_onto_itself(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"data", Metadata={"m": "1"})
    source = f"{bucket}/k"
    assert refused(s3.copy_object, Bucket=bucket, Key="k", CopySource=source) == ("InvalidRequest", 400)
    s3.copy_object(
        Bucket=bucket, Key="k", CopySource=source, MetadataDirective="REPLACE", Metadata={"n": "2"}
    )
    got = s3.get_object(Bucket=bucket, Key="k")
    assert (got["Body"].read(), got["Metadata"]) == (b"data", {"n": "2"})


def test_a_copy_keeps_its_conditions_and_needs_its_source(s3: Any, bucket: str) -> None:
    etag = s3.put_object(Bucket=bucket, Key="k", Body=b"data")["ETag"]
    arguments = {"Bucket": bucket, "Key": "copy", "CopySource": f"{bucket}/k"}
    assert refused(s3.copy_object, **arguments, CopySourceIfMatch='"x"') == ("PreconditionFailed", 412)
    assert refused(s3.copy_object, **arguments, CopySourceIfNoneMatch=etag) == ("PreconditionFailed", 412)
    s3.copy_object(**arguments, CopySourceIfMatch=etag)
    assert refused(s3.copy_object, **arguments | {"CopySource": f"{bucket}/none"}) == ("NoSuchKey", 404)
    assert refused(s3.copy_object, **arguments | {"CopySource": "no-such-bucket/k"}) == ("NoSuchBucket", 404)
    assert refused(s3.copy_object, **arguments | {"CopySource": "nonsense"}) == ("InvalidArgument", 400)
    assert refused(s3.copy_object, **arguments | {"CopySource": f"{bucket}/k?versionId=7"}) == (
        "NotImplemented",
        501,
    )


def put_range(s3: Any, bucket: str, text: str, body: bytes) -> Any:
    """PUT with a Range header, as ObjectScale's extension wants it."""

    def add(request: Any, **_: Any) -> None:
        request.headers["Range"] = text

    s3.meta.events.register("before-sign.s3.PutObject", add, unique_id="range")
    try:
        return s3.put_object(Bucket=bucket, Key="k", Body=body)
    finally:
        s3.meta.events.unregister("before-sign.s3.PutObject", unique_id="range")


@pytest.mark.parametrize(
    ("text", "body", "expected"),
    [
        ("bytes=-1-", b"XYZ", b"0123456789XYZ"),
        ("bytes=2-4", b"XYZ", b"01XYZ56789"),
        ("bytes=8-", b"XYZ", b"01234567XYZ"),
        ("bytes=2-", b"XYZ", b"01XYZ56789"),
        ("bytes=10-", b"XYZ", b"0123456789XYZ"),
    ],
)
def test_a_range_on_put_appends_or_updates(
    s3: Any, bucket: str, text: str, body: bytes, expected: bytes
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789", Metadata={"m": "1"})
    put = put_range(s3, bucket, text, body)
    got = s3.get_object(Bucket=bucket, Key="k")
    assert (got["Body"].read(), got["Metadata"]) == (expected, {"m": "1"})
    assert put["ETag"] == got["ETag"] == f'"{hashlib.md5(expected).hexdigest()}"'


def test_a_wrong_range_on_put_changes_nothing(s3: Any, bucket: str) -> None:
    assert refused(put_range, s3, bucket, "bytes=-1-", b"x") == ("NoSuchKey", 404)
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    assert refused(put_range, s3, bucket, "bytes=11-", b"x") == ("InvalidRange", 416)
    assert refused(put_range, s3, bucket, "bytes=0-4", b"x") == ("InvalidArgument", 400)
    assert refused(put_range, s3, bucket, "lines=1", b"x") == ("InvalidArgument", 400)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"0123456789"


def test_appends_at_the_same_time_are_all_kept(emulator: Any, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"")

    def append(number: int) -> None:
        client = emulator.client()
        for _ in range(5):
            put_range(client, bucket, "bytes=-1-", bytes([number]) * 10)

    threads = [threading.Thread(target=append, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    data = s3.get_object(Bucket=bucket, Key="k")["Body"].read()
    assert sorted(data) == sorted(bytes([0, 1, 2, 3]) * 50)
    assert all(len(set(data[at : at + 10])) == 1 for at in range(0, 200, 10))


def test_aws_ignores_a_range_on_put(aws: Any) -> None:
    client = aws.client()
    client.create_bucket(Bucket="range-put")
    client.put_object(Bucket="range-put", Key="k", Body=b"0123456789")
    put_range(client, "range-put", "bytes=2-4", b"XYZ")
    assert client.get_object(Bucket="range-put", Key="k")["Body"].read() == b"XYZ"


def test_a_checksum_over_all_parts_is_refused_by_aws_and_never_said_to_be_right(
    aws: Any, tmp_path: Path
) -> None:
    client = aws.client()
    client.create_bucket(Bucket="whole")
    name, parts = upload(client, "whole", "k", {1: b"part"})
    complete = {"Bucket": "whole", "Key": "k", "UploadId": name, "MultipartUpload": {"Parts": parts}}
    wrong = base64.b64encode(bytes(32)).decode()
    assert refused(client.complete_multipart_upload, **complete, ChecksumSHA256=wrong) == (
        "NotImplemented",
        501,
    )
    client.complete_multipart_upload(**complete)
    # What SDKs send by default, a checksum with each part, goes on working.
    data = os.urandom(9 << 20)
    (tmp_path / "data").write_bytes(data)
    aws.client(request_checksum_calculation="when_supported").upload_file(
        str(tmp_path / "data"), "whole", "large"
    )
    assert client.get_object(Bucket="whole", Key="large")["Body"].read() == data
