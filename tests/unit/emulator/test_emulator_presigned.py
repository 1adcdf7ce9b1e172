"""Presigned URLs: what botocore and urllib make of them, and everything that is wrong with one."""

from __future__ import annotations

import contextlib
import datetime
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

import pytest
from emulator_helpers import refused
from emulator_rdma_client import Registered
from hypothesis import given
from hypothesis import strategies as st

from kvlab.emulator.authorization import parse_presigned
from kvlab.emulator.errors import S3Error


def fetch(
    url: str, *, method: str = "GET", body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, str, bytes]:
    """(status, error code, body) of a request that is sent as it stands."""
    request = urllib.request.Request(url, body, headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as reply:
            return reply.status, "", reply.read()
    except urllib.error.HTTPError as error:
        said = error.read()
        return error.code, said.partition(b"<Code>")[2].partition(b"</Code>")[0].decode(), said


def presigned(
    client: Any, operation: str, *, at: datetime.datetime | None = None, expires: int = 60, **arguments: Any
) -> str:
    """A URL as botocore makes it, signed now or at another time."""
    with pytest.MonkeyPatch.context() as patch:
        if at is not None:
            patch.setattr("botocore.auth.get_current_datetime", lambda: at)
        url: str = client.generate_presigned_url(operation, Params=arguments, ExpiresIn=expires)
    return url


@pytest.fixture
def sigv4(emulator: Any) -> Any:
    """botocore presigns with the old Signature V2 for S3 unless it is told otherwise."""
    return emulator.client(signature_version="s3v4")


def altered(url: str, **changes: str | None) -> str:
    """The URL with query parameters replaced, or without those that are None (dashes as underscores)."""
    parts = urllib.parse.urlsplit(url)
    query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    for name, value in changes.items():
        if value is None:
            del query[name.replace("_", "-")]
        else:
            query[name.replace("_", "-")] = value
    return urllib.parse.urlunsplit(parts._replace(query=urllib.parse.urlencode(query)))


def test_an_object_is_put_got_and_deleted_by_url_alone(
    sigv4: Any, s3: Any, bucket: str, emulator: Any
) -> None:
    key = "folder/a b+ü"
    assert fetch(presigned(sigv4, "put_object", Bucket=bucket, Key=key), method="PUT", body=b"abc")[0] == 200
    assert fetch(presigned(sigv4, "get_object", Bucket=bucket, Key=key)) == (200, "", b"abc")
    assert {"user": "kvlab", "body_out": 3}.items() <= emulator.log()[-1].items()
    assert fetch(presigned(sigv4, "delete_object", Bucket=bucket, Key=key), method="DELETE")[0] == 204
    assert refused(s3.get_object, Bucket=bucket, Key=key) == ("NoSuchKey", 404)


def test_what_the_url_asks_for_is_signed_with_it(sigv4: Any, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"abc")
    url = presigned(sigv4, "get_object", Bucket=bucket, Key="k", ResponseContentType="text/x-told")
    with urllib.request.urlopen(url, timeout=20) as reply:
        assert reply.headers["Content-Type"] == "text/x-told"
    assert fetch(altered(url, response_content_type="text/other"))[:2] == (403, "SignatureDoesNotMatch")
    assert fetch(url.replace("/k?", "/other?"))[:2] == (403, "SignatureDoesNotMatch")
    assert fetch(url, method="DELETE")[:2] == (403, "SignatureDoesNotMatch")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"abc"


def test_a_url_expires_and_is_not_valid_before_its_time(sigv4: Any, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"abc")
    now = datetime.datetime.now(datetime.UTC)

    def status(minutes: float, expires: int) -> tuple[int, str]:
        at = now + datetime.timedelta(minutes=minutes)
        return fetch(presigned(sigv4, "get_object", at=at, expires=expires, Bucket=bucket, Key="k"))[:2]

    assert status(-60, 3700) == (200, "")
    assert status(-60, 3500) == (403, "AccessDenied")
    assert status(14, 60) == (200, "")  # the client's clock may be ahead as much as with signed headers
    assert status(16, 3600) == (403, "AccessDenied")


def test_the_sentence_of_an_expired_url_names_both_times(sigv4: Any, bucket: str) -> None:
    at = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    _, _, said = fetch(presigned(sigv4, "list_objects_v2", at=at, expires=10, Bucket=bucket))
    assert b"The request has expired." in said
    assert b"<Expires>2026-01-02T03:04:15.000Z</Expires>" in said
    assert f"<ServerTime>{time.strftime('%Y-%m-%dT', time.gmtime())}".encode() in said


@pytest.mark.parametrize(
    "changes",
    [
        {"X_Amz_Signature": None},
        {"X_Amz_Credential": None},
        {"X_Amz_Date": None},
        {"X_Amz_Expires": None},
        {"X_Amz_SignedHeaders": None},
        {"X_Amz_Algorithm": None},
        {"X_Amz_Algorithm": "AWS4-ECDSA-P256-SHA256"},
        {"X_Amz_Credential": "kvlab/20261201/us-east-1/s3"},
        {"X_Amz_Date": "yesterday"},
        {"X_Amz_Date": "20261301T000000Z"},
        {"X_Amz_Expires": "0"},
        {"X_Amz_Expires": "604801"},
        {"X_Amz_Expires": "-1"},
        {"X_Amz_Expires": "1.5"},
        {"X_Amz_SignedHeaders": "Host"},
        {"X_Amz_Signature": "0" * 63},
        {"X_Amz_Signature": "\u00e4" * 64},
    ],
)
def test_half_a_signature_in_the_query_is_said_to_be_malformed(
    sigv4: Any, bucket: str, changes: dict[str, str | None]
) -> None:
    url = presigned(sigv4, "list_objects_v2", Bucket=bucket)
    assert fetch(url)[0] == 200
    assert fetch(altered(url, **changes))[:2] == (400, "AuthorizationQueryParametersError")


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"X_Amz_Signature": "0" * 64}, "SignatureDoesNotMatch"),
        ({"X_Amz_Expires": "604800"}, "SignatureDoesNotMatch"),
        ({"X_Amz_SignedHeaders": "accept"}, "AccessDenied"),  # host must be signed
        ({"prefix": "x"}, "SignatureDoesNotMatch"),
    ],
)
def test_a_signature_of_another_request_does_not_match(
    sigv4: Any, bucket: str, changes: dict[str, str], code: str
) -> None:
    url = presigned(sigv4, "list_objects_v2", Bucket=bucket)
    assert fetch(altered(url, **changes))[:2] == (403, code)


def test_a_parameter_that_comes_twice_is_refused(sigv4: Any, bucket: str) -> None:
    url = presigned(sigv4, "list_objects_v2", Bucket=bucket)
    assert fetch(url + "&X-Amz-Expires=600")[:2] == (400, "AuthorizationQueryParametersError")


def test_a_request_is_signed_in_one_way_only(sigv4: Any, bucket: str) -> None:
    url = presigned(sigv4, "list_objects_v2", Bucket=bucket)
    assert fetch(url, headers={"Authorization": "AWS4-HMAC-SHA256 x"})[:2] == (400, "InvalidRequest")


def test_the_old_signature_version_2_is_denied(emulator: Any, bucket: str) -> None:
    url = presigned(emulator.client(signature_version="s3"), "list_objects", Bucket=bucket)
    assert "AWSAccessKeyId=" in url
    assert fetch(url)[:2] == (403, "AccessDenied")


def test_a_meaningful_header_that_the_url_did_not_sign_is_refused(sigv4: Any, s3: Any, bucket: str) -> None:
    url = presigned(sigv4, "put_object", Bucket=bucket, Key="k")
    with Registered(100) as memory:
        for name, value in (("x-rdma-info", memory.descriptor()), ("x-amz-meta-a", "1")):
            assert fetch(url, method="PUT", body=b"", headers={name: value})[:2] == (403, "AccessDenied")
    assert refused(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)


def test_a_payload_hash_in_the_query_is_what_the_body_must_have(emulator: Any, s3: Any, bucket: str) -> None:
    """As the AWS SDK for JavaScript sends it."""
    from botocore.auth import S3SigV4QueryAuth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    def url(payload: str) -> str:
        class Hashed(S3SigV4QueryAuth):  # type: ignore[misc]
            def payload(self, request: Any) -> str:  # noqa: ARG002
                return payload

        request = AWSRequest("PUT", f"{emulator.url}/{bucket}/k?X-Amz-Content-Sha256={payload}")
        Hashed(Credentials("kvlab", "first/secret+1"), "s3", "us-east-1", expires=60).add_auth(request)
        found: str = request.url
        return found

    right = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of b"abc"
    assert fetch(url("UNSIGNED-PAYLOAD"), method="PUT", body=b"any")[:2] == (200, "")
    assert fetch(url(right), method="PUT", body=b"abc")[:2] == (200, "")
    assert fetch(url(right), method="PUT", body=b"abx")[:2] == (400, "XAmzContentSHA256Mismatch")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"abc"


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    *("X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires"),
                    *("X-Amz-SignedHeaders", "X-Amz-Signature", "X-Amz-Content-Sha256", "prefix"),
                ]
            ),
            st.text(max_size=80)
            | st.sampled_from(["AWS4-HMAC-SHA256", "k/20261201/r/s3/aws4_request", "20261201T000000Z", "60"])
            | st.sampled_from(["host", "0" * 64]),
        ),
        max_size=9,
    )
)
def test_no_query_makes_the_parser_fail_in_another_way(query: list[tuple[str, str]]) -> None:
    with contextlib.suppress(S3Error):
        found = parse_presigned(query)
        assert (found is None) == all(name == "prefix" for name, _ in query)
        if found:
            assert 1 <= found.expires <= 604_800
            assert len(found.authorization.signature) == 64
