"""Buckets and listings through boto3."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from emulator_helpers import refused, with_md5
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab.emulator.buckets import valid_bucket_name
from kvlab.emulator.errors import S3Error
from kvlab.emulator.faults import Struck
from kvlab.emulator.index import Entry, Index, Meta
from kvlab.emulator.lifecycle import Rule, expire, parse_rules
from kvlab.emulator.listing import page
from kvlab.emulator.xml import parse


def test_a_bucket_is_created_found_listed_and_deleted(s3: Any) -> None:
    s3.create_bucket(Bucket="life-of-a-bucket")
    assert s3.head_bucket(Bucket="life-of-a-bucket")["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert "life-of-a-bucket" in [b["Name"] for b in s3.list_buckets()["Buckets"]]
    assert s3.get_bucket_location(Bucket="life-of-a-bucket")["LocationConstraint"] is None
    s3.create_bucket(Bucket="life-of-a-bucket")  # its owner may repeat it
    s3.delete_bucket(Bucket="life-of-a-bucket")
    assert refused(s3.head_bucket, Bucket="life-of-a-bucket") == ("404", 404)
    assert refused(s3.delete_bucket, Bucket="life-of-a-bucket") == ("NoSuchBucket", 404)
    assert refused(s3.list_objects_v2, Bucket="life-of-a-bucket") == ("NoSuchBucket", 404)
    assert refused(s3.put_object, Bucket="life-of-a-bucket", Key="k", Body=b"x") == ("NoSuchBucket", 404)


def test_buckets_are_listed_in_pages_when_asked(emulator: Any) -> None:
    client = emulator.client("stranger", "stranger-secret")
    names = [f"page-{n}" for n in range(5)]
    for name in names:
        client.create_bucket(Bucket=name)
    pages = client.get_paginator("list_buckets").paginate(Prefix="page-", PaginationConfig={"PageSize": 2})
    assert [[b["Name"] for b in page["Buckets"]] for page in pages] == [names[:2], names[2:4], names[4:]]


def test_a_bucket_with_objects_is_not_deleted(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert refused(s3.delete_bucket, Bucket=bucket) == ("BucketNotEmpty", 409)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"x"


@pytest.mark.parametrize(
    ("name", "wide", "narrow"),
    [
        ("plain-name", True, True),
        ("a.b", True, True),
        ("ab", True, False),
        ("Upper_Case", True, False),
        ("x" * 63, True, True),
        ("x" * 255, True, False),
        ("x" * 256, False, False),
        (".dot", False, False),
        ("dot.", False, False),
        ("a..b", False, False),
        ("10.0.0.1", False, False),
        ("sp ace", False, False),
        ("ümlaut", False, False),
        ("-a-b", True, False),
    ],
)
def test_bucket_names_follow_the_dialects_rules(name: str, wide: bool, narrow: bool) -> None:
    assert valid_bucket_name(name, wide=True) is wide
    assert valid_bucket_name(name, wide=False) is narrow


def test_the_dialect_decides_over_the_wire_too(emulator: Any, aws: Any) -> None:
    for server, expected in ((emulator, None), (aws, ("InvalidBucketName", 400))):
        client = server.client()
        client.meta.events.unregister("before-parameter-build.s3", _validator())
        if expected:
            assert refused(client.create_bucket, Bucket="Upper_Case") == expected
        else:
            client.create_bucket(Bucket="Upper_Case")


def _validator() -> Any:
    from botocore.handlers import validate_bucket_name

    return validate_bucket_name


KEYS = ["a", "a/1", "a/2", "a/b/1", "b", "b/1", "c-1", "ü/1", "z z"]


@pytest.fixture
def filled(s3: Any, bucket: str) -> str:
    for key in KEYS:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    return bucket


def test_a_listing_shows_keys_in_order_with_size_and_etag(s3: Any, filled: str) -> None:
    found = s3.list_objects_v2(Bucket=filled)
    assert [o["Key"] for o in found["Contents"]] == sorted(KEYS)
    assert found["KeyCount"] == len(KEYS)
    assert found["IsTruncated"] is False
    first = found["Contents"][0]
    assert (first["Size"], first["ETag"]) == (1, s3.head_object(Bucket=filled, Key="a")["ETag"])
    assert "Owner" not in first
    assert s3.list_objects_v2(Bucket=filled, FetchOwner=True)["Contents"][0]["Owner"]["ID"] == "kvlab"
    assert s3.list_objects(Bucket=filled)["Contents"][0]["Owner"]["ID"] == "kvlab"


def test_prefix_and_delimiter_group_keys(s3: Any, filled: str) -> None:
    for listing in (s3.list_objects_v2, s3.list_objects):
        found = listing(Bucket=filled, Delimiter="/")
        assert [o["Key"] for o in found["Contents"]] == ["a", "b", "c-1", "z z"]
        assert [p["Prefix"] for p in found["CommonPrefixes"]] == ["a/", "b/", "ü/"]
        found = listing(Bucket=filled, Delimiter="/", Prefix="a/")
        assert [o["Key"] for o in found["Contents"]] == ["a/1", "a/2"]
        assert [p["Prefix"] for p in found["CommonPrefixes"]] == ["a/b/"]
        assert "Contents" not in listing(Bucket=filled, Prefix="nothing")


@pytest.mark.parametrize("delimiter", ["", "/", "-"])
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pages_together_are_the_whole_listing(s3: Any, filled: str, size: int, delimiter: str) -> None:
    whole = s3.list_objects_v2(Bucket=filled, Delimiter=delimiter)
    for operation in ("list_objects_v2", "list_objects"):
        keys: list[str] = []
        prefixes: list[str] = []
        pages = s3.get_paginator(operation).paginate(
            Bucket=filled, Delimiter=delimiter, PaginationConfig={"PageSize": size}
        )
        for found in pages:
            assert len(found.get("Contents", [])) + len(found.get("CommonPrefixes", [])) <= size
            keys += [o["Key"] for o in found.get("Contents", [])]
            prefixes += [p["Prefix"] for p in found.get("CommonPrefixes", [])]
        assert keys == [o["Key"] for o in whole.get("Contents", [])]
        assert prefixes == [p["Prefix"] for p in whole.get("CommonPrefixes", [])]


def test_every_object_has_the_one_version_null(s3: Any, filled: str) -> None:
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=filled, PaginationConfig={"PageSize": 2})
    found = [(v["Key"], v["VersionId"], v["IsLatest"]) for p in pages for v in p["Versions"]]
    assert found == [(key, "null", True) for key in sorted(KEYS)]
    assert s3.get_object(Bucket=filled, Key="a", VersionId="null")["Body"].read() == b"a"
    s3.delete_object(Bucket=filled, Key="a", VersionId="null")
    assert refused(s3.get_object, Bucket=filled, Key="a") == ("NoSuchKey", 404)


def test_start_after_marker_and_zero_keys(s3: Any, filled: str) -> None:
    assert [o["Key"] for o in s3.list_objects_v2(Bucket=filled, StartAfter="b")["Contents"]] == sorted(KEYS)[
        5:
    ]
    assert [o["Key"] for o in s3.list_objects(Bucket=filled, Marker="b")["Contents"]] == sorted(KEYS)[5:]
    none = s3.list_objects_v2(Bucket=filled, MaxKeys=0)
    assert (none["KeyCount"], none["IsTruncated"]) == (0, False)


def test_bad_listing_arguments_are_refused(s3: Any, bucket: str) -> None:
    assert refused(s3.list_objects_v2, Bucket=bucket, MaxKeys=-1) == ("InvalidArgument", 400)
    assert refused(s3.list_objects_v2, Bucket=bucket, ContinuationToken="!") == ("InvalidArgument", 400)
    assert refused(s3.list_objects_v2, Bucket=bucket, EncodingType="html") == ("InvalidArgument", 400)


@pytest.mark.parametrize("key", ["a\x01b", "a\nb", "a\rb", "a&<>\"'b", "\ufffe", "a b+c%20"])
def test_keys_that_xml_cannot_hold_are_listed_by_url_encoding(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=b"")
    assert [o["Key"] for o in s3.list_objects_v2(Bucket=bucket)["Contents"]] == [key]


@pytest.mark.parametrize(
    ("utf16", "expected"), [(True, ["a", "\U0001f389", "\ufb01"]), (False, ["a", "\ufb01", "\U0001f389"])]
)
def test_order_is_utf16_for_objectscale_and_utf8_for_aws(
    tmp_path: Any, utf16: bool, expected: list[str]
) -> None:
    for order in (not utf16, utf16):  # a state folder may change its dialect
        index = Index(tmp_path / "index", utf16_order=order, fsync=False)
        for key in expected:
            index.put(Entry(1, key, "f", 0, "e", 0.0, Meta()))
        found = [e.key for e in index.scan(1, prefix="", after=None, beyond=None)]
        index.close()
    assert found == expected


@settings(max_examples=200, deadline=None)
@given(
    st.sets(st.text("ab/\U0001f389\ufb01", min_size=1, max_size=5), max_size=25),
    st.text("ab/", max_size=2),
    st.sampled_from(["", "/", "b", "ab"]),
    st.integers(1, 5),
    st.booleans(),
)
def test_paging_agrees_with_a_listing_made_by_hand(
    keys: set[str], prefix: str, delimiter: str, limit: int, utf16: bool
) -> None:
    index = Index(Path(":memory:"), utf16_order=utf16, fsync=False)
    for key in keys:
        index.put(Entry(1, key, "f", 0, "e", 0.0, Meta()))
    order = sorted(keys, key=lambda k: k.encode("utf-16-be" if utf16 else "utf-8"))
    objects, prefixes = [], []
    for key in order:
        if key.startswith(prefix):
            cut = key.find(delimiter, len(prefix)) if delimiter else -1
            if cut < 0:
                objects.append(key)
            elif key[: cut + len(delimiter)] not in prefixes:
                prefixes.append(key[: cut + len(delimiter)])
    seen: list[str] = []
    seen_prefixes: list[str] = []
    after = None
    while True:
        found = page(index, 1, prefix=prefix, delimiter=delimiter, after=after, limit=limit)
        seen += [e.key for e in found.entries]
        seen_prefixes += found.prefixes
        if not found.truncated:
            break
        assert len(found.entries) + len(found.prefixes) == limit
        after = found.last
    index.close()
    assert (seen, seen_prefixes) == (objects, prefixes)


def test_a_number_of_a_deleted_bucket_is_never_given_again(make_service: Any) -> None:
    """Else a PUT that began before the deletion would end in somebody else's bucket."""
    index = make_service().index
    first = index.create_bucket("ns1", "a", "kvlab", {})
    index.delete_bucket(first.id)
    assert index.create_bucket("ns1", "b", "neighbour", {}).id != first.id
    assert index.bucket("ns1", "a") is None


def test_a_put_that_outlives_its_bucket_does_not_end_in_the_next_of_that_name(make_service: Any) -> None:
    service = make_service()
    before = service.index.create_bucket("ns1", "a", "kvlab", {})
    service.index.delete_bucket(before.id)
    service.index.create_bucket("ns1", "a", "neighbour", {})
    body = service.store.incoming()
    call = SimpleNamespace(key="k", struck=Struck(), header=lambda name: "")  # noqa: ARG005
    with pytest.raises(S3Error) as caught:
        asyncio.run(service.commit(call, before, body, 0, "e", Meta()))
    assert caught.value.code == "NoSuchBucket"
    assert service.index.files() == set()


def test_what_is_looked_up_is_what_was_written_last(make_service: Any) -> None:
    index = make_service().index
    bucket = index.create_bucket("ns1", "a", "kvlab", {})
    for size in (1, 2):
        index.put(Entry(bucket.id, "k", "f", size, "e", 0.0, Meta()))
        assert index.get(bucket.id, "k").size == size
    index.delete(bucket.id, "k")
    assert index.get(bucket.id, "k") is None
    index.update_bucket(bucket.id, owner="neighbour")
    assert index.bucket("ns1", "a").owner == "neighbour"


LIFECYCLE = {
    "Rules": [
        {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "kv/"}, "Expiration": {"Days": 3}},
        {"ID": "off", "Status": "Disabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 1}},
    ]
}


def test_a_lifecycle_is_kept_given_back_and_deleted(s3: Any, bucket: str) -> None:
    assert refused(s3.get_bucket_lifecycle_configuration, Bucket=bucket) == (
        "NoSuchLifecycleConfiguration",
        404,
    )
    arguments = {"Bucket": bucket, "LifecycleConfiguration": LIFECYCLE}
    assert refused(s3.put_bucket_lifecycle_configuration, **arguments) == (
        "InvalidRequest",
        400,
    )  # no Content-MD5
    with_md5(s3)
    s3.put_bucket_lifecycle_configuration(**arguments)
    assert s3.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"] == LIFECYCLE["Rules"]
    s3.delete_bucket_lifecycle(Bucket=bucket)
    assert refused(s3.get_bucket_lifecycle_configuration, Bucket=bucket) == (
        "NoSuchLifecycleConfiguration",
        404,
    )


@pytest.mark.parametrize(
    "change",
    [
        {"Transitions": [{"Days": 1, "StorageClass": "GLACIER"}]},
        {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
        {"NoncurrentVersionExpiration": {"NoncurrentDays": 1}},
        {"Filter": {"Tag": {"Key": "a", "Value": "b"}}},
    ],
)
def test_a_lifecycle_of_anything_but_expiration_is_refused(
    s3: Any, bucket: str, change: dict[str, Any]
) -> None:
    with_md5(s3)
    rule = LIFECYCLE["Rules"][0] | change
    assert refused(
        s3.put_bucket_lifecycle_configuration, Bucket=bucket, LifecycleConfiguration={"Rules": [rule]}
    ) == ("NotImplemented", 501)


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("<Days>3</Days>", "<Days>0</Days>", "InvalidArgument"),
        ("<Days>3</Days>", "<Date>2026-12-01T10:00:00Z</Date>", "InvalidArgument"),
        ("<Days>3</Days>", "", "MalformedXML"),
        ("Enabled", "enabled", "MalformedXML"),
        ("LifecycleConfiguration>", "Configuration>", "MalformedXML"),
        ("<Rule>", "<!DOCTYPE x><Rule>", "MalformedXML"),
    ],
)
def test_a_wrong_lifecycle_document_is_refused(old: str, new: str, code: str) -> None:
    good = (
        "<LifecycleConfiguration><Rule><Status>Enabled</Status><Prefix>p</Prefix>"
        "<Expiration><Days>3</Days></Expiration></Rule></LifecycleConfiguration>"
    )
    assert parse_rules(good.encode())[0].days == 3
    with pytest.raises(S3Error) as caught:
        parse_rules(good.replace(old, new).encode())
    assert caught.value.code == code


def test_a_document_that_declares_entities_is_refused() -> None:
    bomb = '<!DOCTYPE Delete [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><Delete><Object><Key>&b;</Key></Object></Delete>'
    with pytest.raises(S3Error) as caught:
        parse(bomb.encode(), "Delete")
    assert caught.value.code == "MalformedXML"


def test_expiration_deletes_what_is_due_and_nothing_else(make_service: Any) -> None:
    service = make_service()
    made = service.index.create_bucket("ns1", "b", "kvlab", {})
    rules = [{"id": "r", "prefix": "kv/", "enabled": True, "days": 3, "date": None, "filter": True}]
    service.index.update_bucket(made.id, lifecycle=json.dumps(rules))
    day = 86400
    service.clock = lambda: 100 * day + 1000.0
    for key, age in (("kv/old", 4), ("kv/young", 2), ("other", 50)):
        body = service.store.incoming()
        body.write(b"x")
        entry = Entry(made.id, key, service.store.place(body), 1, "e", (100 - age) * day + 10.0, Meta())
        service.index.put(entry)
    assert expire(service) == 1
    assert [e.key for e in service.index.scan(made.id, prefix="", after=None, beyond=None)] == [
        "kv/young",
        "other",
    ]


def test_days_are_rounded_up_to_midnight() -> None:
    rule = Rule("r", "", True, days=1)
    assert rule.expires(Entry(1, "k", "f", 0, "e", 86400 * 10 + 5.0, Meta())) == 86400 * 12
