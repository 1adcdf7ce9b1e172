"""Who may do what: signatures as botocore makes them, and everything that is wrong with one."""

from __future__ import annotations

import contextlib
import datetime
import http.client
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from emulator_helpers import refused
from hypothesis import given
from hypothesis import strategies as st

from kvlab.emulator.auth import SignedHeaders, Signer
from kvlab.emulator.authorization import parse_authorization, timestamp_of
from kvlab.emulator.errors import S3Error


def send(
    emulator: Any,
    method: str,
    path: str,
    *,
    body: bytes = b"",
    headers: dict[str, str] | None = None,
    alter: Callable[[dict[str, str]], None] | None = None,
    at: datetime.datetime | None = None,
) -> tuple[int, bytes, dict[str, str]]:
    """A request signed by botocore, with the headers altered after signing."""
    request = AWSRequest(method, emulator.url + path, headers=headers or {}, data=body)
    if at is None:
        S3SigV4Auth(Credentials("kvlab", "first/secret+1"), "s3", "us-east-1").add_auth(request)
    else:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("botocore.auth.get_current_datetime", lambda: at)
            S3SigV4Auth(Credentials("kvlab", "first/secret+1"), "s3", "us-east-1").add_auth(request)
    sent = dict(request.headers.items())
    if alter:
        alter(sent)
    connection = http.client.HTTPConnection("127.0.0.1", emulator.port, timeout=20)
    connection.request(method, path, body=body, headers=sent)
    reply = connection.getresponse()
    found = reply.status, reply.read(), {k.lower(): v for k, v in reply.getheaders()}
    connection.close()
    return found


def code(reply: tuple[int, bytes, dict[str, str]]) -> tuple[int, str]:
    status, body, _ = reply
    return status, body.partition(b"<Code>")[2].partition(b"</Code>")[0].decode()


def test_both_secrets_of_a_user_are_accepted(emulator: Any) -> None:
    for secret in ("first/secret+1", "second"):
        assert "Buckets" in emulator.client(secret=secret).list_buckets()


def test_an_unknown_key_and_a_wrong_secret_are_told_apart(emulator: Any) -> None:
    assert refused(emulator.client(key="nobody").list_buckets) == ("InvalidAccessKeyId", 403)
    assert refused(emulator.client(secret="wrong").list_buckets) == ("SignatureDoesNotMatch", 403)


def test_a_locked_user_is_denied(emulator: Any) -> None:
    assert refused(emulator.client("locked", "locked-secret").list_buckets) == ("AccessDenied", 403)


def test_an_unsigned_request_is_denied(emulator: Any) -> None:
    def strip(headers: dict[str, str]) -> None:
        del headers["Authorization"]

    assert code(send(emulator, "GET", "/", alter=strip)) == (403, "AccessDenied")


@pytest.mark.parametrize("minutes", [-16, 16])
def test_a_clock_more_than_15_minutes_off_is_refused(emulator: Any, minutes: int) -> None:
    now = datetime.datetime.now(datetime.UTC)
    at = now + datetime.timedelta(minutes=minutes)
    assert code(send(emulator, "GET", "/", at=at)) == (403, "RequestTimeTooSkewed")
    assert send(emulator, "GET", "/", at=now + datetime.timedelta(minutes=minutes * 14 // 16))[0] == 200


@pytest.mark.parametrize("minutes", [0, -16])
def test_a_date_header_may_stand_in_for_x_amz_date(emulator: Any, minutes: int) -> None:
    """botocore signs so when a request has a Date already."""
    at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=minutes)
    seen: list[dict[str, str]] = []
    reply = send(emulator, "GET", "/", headers={"Date": "now"}, at=at, alter=seen.append)
    assert "Date" in seen[0]
    assert "X-Amz-Date" not in seen[0]
    assert (reply[0], code(reply)[1]) == ((403, "RequestTimeTooSkewed") if minutes else (200, ""))


@pytest.mark.parametrize("date", ["", "yesterday", "Wed, 32 Dec 2026 11:22:33 GMT"])
def test_a_request_without_a_date_that_can_be_read_is_denied(emulator: Any, date: str) -> None:
    def replace(headers: dict[str, str]) -> None:
        del headers["X-Amz-Date"]
        headers["Date"] = date

    assert code(send(emulator, "GET", "/", alter=replace)) == (403, "AccessDenied")


def test_the_date_header_is_brought_to_utc() -> None:
    assert timestamp_of("Wed, 02 Dec 2026 13:00:00 +0200") == "20261202T110000Z"


def test_the_date_in_the_credential_must_be_that_of_the_request(emulator: Any) -> None:
    def yesterday(headers: dict[str, str]) -> None:
        day = headers["X-Amz-Date"][:8]
        headers["Authorization"] = headers["Authorization"].replace(f"/{day}/", f"/{int(day) - 1}/")

    assert code(send(emulator, "GET", "/", alter=yesterday)) == (400, "AuthorizationHeaderMalformed")


def test_another_users_bucket_gives_access_denied_and_no_data(emulator: Any, bucket: str, s3: Any) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"secret")
    neighbour = emulator.client("neighbour", "neighbour-secret")
    for call, arguments in (
        (neighbour.get_object, {"Key": "k"}),
        (neighbour.put_object, {"Key": "k", "Body": b"x" * 200_000}),
        (neighbour.delete_object, {"Key": "k"}),
        (neighbour.list_objects_v2, {}),
        (neighbour.delete_bucket, {}),
        (neighbour.copy_object, {"Key": "k2", "CopySource": f"{bucket}/k"}),
    ):
        assert refused(call, Bucket=bucket, **arguments) == ("AccessDenied", 403)
    assert refused(neighbour.head_bucket, Bucket=bucket) == ("403", 403)
    assert refused(neighbour.create_bucket, Bucket=bucket) == ("BucketAlreadyExists", 409)
    assert bucket not in [b["Name"] for b in neighbour.list_buckets()["Buckets"]]
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"secret"


def test_each_namespace_has_its_own_bucket_names(emulator: Any, bucket: str, s3: Any) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"mine")
    stranger = emulator.client("stranger", "stranger-secret")
    assert refused(stranger.get_object, Bucket=bucket, Key="k") == ("NoSuchBucket", 404)
    stranger.create_bucket(Bucket=bucket)
    stranger.put_object(Bucket=bucket, Key="k", Body=b"theirs")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"mine"


def test_x_emc_namespace_may_name_only_the_users_own(emulator: Any) -> None:
    assert send(emulator, "GET", "/", headers={"x-emc-namespace": "ns1"})[0] == 200
    assert code(send(emulator, "GET", "/", headers={"x-emc-namespace": "ns2"})) == (403, "AccessDenied")


def test_the_region_is_ignored_by_objectscale_and_checked_by_aws(emulator: Any, aws: Any) -> None:
    assert "Buckets" in emulator.client(region="mars-north-1").list_buckets()
    assert refused(aws.client(region="mars-north-1").list_buckets) == ("AuthorizationHeaderMalformed", 400)


def test_a_body_that_is_not_the_signed_one_is_refused_and_not_stored(
    emulator: Any, bucket: str, s3: Any
) -> None:
    for size in (10, 300_000):
        body = b"a" * size
        changed = _send_changed_body(emulator, f"/{bucket}/k", body)
        assert code(changed) == (400, "XAmzContentSHA256Mismatch")
        assert refused(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)


def _send_changed_body(emulator: Any, path: str, signed: bytes) -> tuple[int, bytes, dict[str, str]]:
    request = AWSRequest("PUT", emulator.url + path, data=signed)
    S3SigV4Auth(Credentials("kvlab", "first/secret+1"), "s3", "us-east-1").add_auth(request)
    connection = http.client.HTTPConnection("127.0.0.1", emulator.port, timeout=20)
    connection.request("PUT", path, body=signed[:-1] + b"!", headers=dict(request.headers.items()))
    reply = connection.getresponse()
    found = reply.status, reply.read(), dict(reply.getheaders())
    connection.close()
    return found


def test_an_empty_content_md5_is_no_digest(emulator: Any, bucket: str, s3: Any) -> None:
    reply = send(emulator, "PUT", f"/{bucket}/k", body=b"abc", headers={"Content-MD5": ""})
    assert code(reply) == (400, "InvalidDigest")
    assert refused(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-amz-meta-extra", "1"),
        ("x-rdma-info", "0" * 81),
        ("x-amz-rdma-token", "0" * 81),
        ("x-amz-copy-source", "b/k"),
    ],
)
def test_a_meaningful_header_that_nobody_signed_is_refused(
    emulator: Any, bucket: str, s3: Any, name: str, value: str
) -> None:
    def add(headers: dict[str, str]) -> None:
        headers[name] = value

    assert code(send(emulator, "PUT", f"/{bucket}/k", alter=add)) == (403, "AccessDenied")
    assert refused(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)


@pytest.mark.parametrize(
    "path", ["/?prefix=a%2Fb&delimiter=%2F", "/k~1_2.3-4", "/a%20b", "/a%2Bb", "/%E6%BC%A2"]
)
def test_the_path_and_query_are_part_of_the_signature(emulator: Any, bucket: str, path: str) -> None:
    method = "GET" if path.startswith("/?") else "PUT"
    assert send(emulator, method, f"/{bucket}{path}")[0] == 200

    request = AWSRequest(method, f"{emulator.url}/{bucket}{path}x")
    S3SigV4Auth(Credentials("kvlab", "first/secret+1"), "s3", "us-east-1").add_auth(request)
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(emulator.url).port or 0, timeout=20)
    connection.request(method, f"/{bucket}{path}", headers=dict(request.headers.items()))
    assert connection.getresponse().status == 403
    connection.close()


def test_a_query_that_the_client_left_unencoded_is_still_verified(emulator: Any, bucket: str) -> None:
    assert send(emulator, "GET", f"/{bucket}?prefix=a%2Fb")[0] == 200


@given(
    st.dictionaries(st.text("abcxyz-", min_size=1), st.lists(st.text(" \tab,\u00e4"), min_size=1, max_size=3))
)
def test_headers_are_made_canonical_as_botocore_makes_them(values: dict[str, list[str]]) -> None:
    signer = Signer(Credentials("k", "s"), "s3", "r")
    headers = SignedHeaders(dict(sorted(values.items())))
    assert signer.canonical_headers(headers) == S3SigV4Auth.canonical_headers(signer, headers)
    assert signer.signed_headers(headers) == S3SigV4Auth.signed_headers(signer, headers)


GOOD = (
    "AWS4-HMAC-SHA256 Credential=AKIA/with/slash/20261201/us-east-1/s3/aws4_request,"
    " SignedHeaders=host;x-amz-date, Signature=" + "0a" * 32
)


def test_the_header_is_taken_apart_also_with_slashes_in_the_key() -> None:
    found = parse_authorization(GOOD)
    assert found.access_key == "AKIA/with/slash"
    assert (found.date, found.region, found.service) == ("20261201", "us-east-1", "s3")
    assert found.signed_headers == ("host", "x-amz-date")
    assert found.signature == "0a" * 32


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("AWS4-HMAC-SHA256 ", "AWS "),
        ("Credential=", "Credentials="),
        ("/aws4_request", "/aws5_request"),
        ("AKIA/with/slash/20261201/us-east-1", "20261201"),
        ("host;x-amz-date", "x-amz-date;host"),
        ("host;x-amz-date", "host;host"),
        ("host;x-amz-date", "Host;x-amz-date"),
        ("0a", "0g"),
        ("0a" * 32, "0a" * 31),
        ("0a" * 32, "0a" * 33),
        ("0a" * 32, "0a" * 32 + "-x"),
        ("0a" * 32, ""),
        (", Signature", ", Signature=x, Signature"),
        ("SignedHeaders=host;x-amz-date,", ""),
        (", Signature=" + "0a" * 32, ""),
    ],
)
def test_anything_else_is_malformed(old: str, new: str) -> None:
    with pytest.raises(S3Error) as caught:
        parse_authorization(GOOD.replace(old, new))
    assert caught.value.status == 400


@given(st.text(max_size=300) | st.text("AWS4-HMAC=SHA256/ ,;Credentialgur0123456789abcdef_", max_size=300))
def test_no_text_makes_the_parser_fail_in_another_way(text: str) -> None:
    for header in (text, f"AWS4-HMAC-SHA256 {text}"):
        with contextlib.suppress(S3Error):
            found = parse_authorization(header)
            assert found.access_key
            assert len(found.signature) == 64


@given(st.integers(0, len(GOOD) - 1), st.characters())
def test_one_changed_character_is_refused_or_is_seen_in_the_result(at: int, character: str) -> None:
    changed = GOOD[:at] + character + GOOD[at + 1 :]
    try:
        found = parse_authorization(changed)
    except S3Error:
        return
    if found == parse_authorization(GOOD):
        assert changed == GOOD or (character.isspace() and GOOD[at] == " ")
