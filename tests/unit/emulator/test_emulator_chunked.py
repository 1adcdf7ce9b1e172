"""aws-chunked bodies: the decoder alone, and through the emulator."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import itertools
import zlib
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from emulator_helpers import refused
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab.emulator.chunked import ChunkedDecoder, ChunkSigner
from kvlab.emulator.errors import S3Error

_EMPTY = hashlib.sha256(b"").hexdigest()


def sign(text: str) -> str:
    """A stand-in for the real signature: any function of the string will do for the chain."""
    return hashlib.sha256(b"key" + text.encode()).hexdigest()


def signer() -> ChunkSigner:
    return ChunkSigner(sign, "20261201T000000Z", "20261201/r/s3/aws4_request", "seed")


def encode(chunks: list[bytes], *, signed: bool, trailers: dict[str, str] | None = None) -> bytes:
    """An encoder written from the specification, independent of the decoder."""
    out, previous = b"", "seed"
    scope = "20261201T000000Z\n20261201/r/s3/aws4_request"
    for chunk in [*chunks, b""]:
        header = f"{len(chunk):x}"
        if signed:
            digest = hashlib.sha256(chunk).hexdigest()
            previous = sign(f"AWS4-HMAC-SHA256-PAYLOAD\n{scope}\n{previous}\n{_EMPTY}\n{digest}")
            header += f";chunk-signature={previous}"
        out += header.encode() + b"\r\n" + (chunk + b"\r\n" if chunk else b"")
    lines = "".join(f"{name}:{value}\n" for name, value in (trailers or {}).items())
    out += lines.replace("\n", "\r\n").encode()
    if signed and trailers:
        digest = hashlib.sha256(lines.encode()).hexdigest()
        signature = sign(f"AWS4-HMAC-SHA256-TRAILER\n{scope}\n{previous}\n{digest}")
        out += f"x-amz-trailer-signature:{signature}\r\n".encode()
    return out + b"\r\n"


def decode(decoder: ChunkedDecoder, body: bytes, cuts: list[int]) -> bytes:
    edges = [0, *sorted(c % (len(body) + 1) for c in cuts), len(body)]
    out = b"".join(bytes(p) for a, b in itertools.pairwise(edges) for p in decoder.feed(body[a:b]))
    decoder.finish()
    return out


CHUNKS = st.lists(st.binary(min_size=1, max_size=40), max_size=5)


@given(CHUNKS, st.booleans(), st.booleans(), st.lists(st.integers(0, 10**6), max_size=20))
def test_payload_and_trailers_survive_any_cutting_of_the_body(
    chunks: list[bytes], signed: bool, trailer: bool, cuts: list[int]
) -> None:
    trailers = {"x-amz-checksum-crc32": "AAAAAA=="} if trailer else {}
    decoder = ChunkedDecoder(signer() if signed else None, trailer=trailer)
    assert decode(decoder, encode(chunks, signed=signed, trailers=trailers), cuts) == b"".join(chunks)
    assert decoder.trailers == trailers


@given(CHUNKS, st.booleans(), st.integers(0, 10**6))
def test_a_body_cut_short_is_incomplete(chunks: list[bytes], signed: bool, cut: int) -> None:
    body = encode(chunks, signed=signed, trailers={"x-amz-checksum-crc32": "AAAAAA=="})
    decoder = ChunkedDecoder(signer() if signed else None, trailer=True)
    decoder.feed(body[: cut % len(body)])
    with pytest.raises(S3Error) as caught:
        decoder.finish()
    assert caught.value.code == "IncompleteBody"


@settings(max_examples=300)
@given(CHUNKS, st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_of_a_signed_body_never_passes_as_other_data(
    chunks: list[bytes], at: int, flip: int
) -> None:
    body = bytearray(encode(chunks, signed=True, trailers={"x-amz-checksum-crc32": "AAAAAA=="}))
    body[at % len(body)] ^= flip
    decoder = ChunkedDecoder(signer(), trailer=True)
    try:
        out = decode(decoder, bytes(body), [])
    except S3Error:
        return
    assert out == b"".join(chunks)
    assert decoder.trailers == {"x-amz-checksum-crc32": "AAAAAA=="}


@given(st.binary(max_size=200), st.booleans(), st.booleans())
def test_no_bytes_make_the_decoder_fail_in_another_way(body: bytes, signed: bool, trailer: bool) -> None:
    decoder = ChunkedDecoder(signer() if signed else None, trailer=trailer)
    with contextlib.suppress(S3Error):
        assert len(decode(decoder, body, [3, 50])) < len(body)


@pytest.mark.parametrize(
    "body",
    [
        b"0" * 2000,
        b"5\r\nhello!\r\n0\r\n\r\n",
        b"5\nhello\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"0x5\r\nhello\r\n0\r\n\r\n",
        b"5;chunk-signature=" + b"0" * 64 + b"\r\nhello\r\n0\r\n\r\n",
        b"5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
        b"5\r\nhello\r\n0\r\n\r\nmore",
        b"ffffffff\r\n",
    ],
)
def test_broken_framing_is_refused(body: bytes) -> None:
    with pytest.raises(S3Error):
        decode(ChunkedDecoder(), body, [])


def put(
    emulator: Any, path: str, payload: str, body: bytes, length: int, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """PUT a ready-made body whose x-amz-content-sha256 is `payload`; chunk signatures are put in where asked."""
    request = AWSRequest(
        "PUT", emulator.url + path, headers={"Content-Encoding": "aws-chunked", **(headers or {})}
    )
    request.headers["X-Amz-Decoded-Content-Length"] = str(length)
    auth = _Auth(Credentials("kvlab", "first/secret+1"), "s3", "us-east-1")
    auth.named = payload
    auth.add_auth(request)
    if payload.startswith("STREAMING-AWS4"):
        body = _sign_chunks(auth, request, body, trailer=payload.endswith("TRAILER"))
    connection = http.client.HTTPConnection("127.0.0.1", emulator.port, timeout=20)
    connection.request("PUT", path, body=body, headers=dict(request.headers.items()))
    reply = connection.getresponse()
    found = reply.status, reply.read()
    connection.close()
    return found


class _Auth(S3SigV4Auth):
    named = ""

    def payload(self, request: Any) -> str:  # noqa: ARG002
        return self.named


def _sign_chunks(auth: Any, request: Any, data: bytes, *, trailer: bool) -> bytes:
    timestamp = request.context["timestamp"]
    scope = auth.credential_scope(request)
    previous = request.headers["Authorization"].rpartition("=")[2]
    out = b""
    for at in [*range(0, len(data), 65536), len(data)]:
        chunk = data[at : at + 65536]
        digest = hashlib.sha256(chunk).hexdigest()
        text = f"AWS4-HMAC-SHA256-PAYLOAD\n{timestamp}\n{scope}\n{previous}\n{_EMPTY}\n{digest}"
        previous = auth.signature(text, request)
        out += f"{len(chunk):x};chunk-signature={previous}\r\n".encode() + (chunk + b"\r\n" if chunk else b"")
    if trailer:
        line = b"x-amz-checksum-crc32:" + crc32(data).encode()
        digest = hashlib.sha256(line + b"\n").hexdigest()
        text = f"AWS4-HMAC-SHA256-TRAILER\n{timestamp}\n{scope}\n{previous}\n{digest}"
        out += line + b"\r\nx-amz-trailer-signature:" + auth.signature(text, request).encode() + b"\r\n"
    return out + b"\r\n"


def crc32(data: bytes) -> str:
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()


DATA = bytes(range(256)) * 1000
SIGNED = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
TRAILER = {"x-amz-trailer": "x-amz-checksum-crc32"}


def unsigned(data: bytes, checksum: str | None = None) -> bytes:
    trailer = f"x-amz-checksum-crc32:{checksum}\r\n" if checksum else ""
    return f"{len(data):x}\r\n".encode() + data + f"\r\n0\r\n{trailer}\r\n".encode()


@pytest.mark.parametrize("name", ["emulator", "aws"])
def test_signed_chunks_are_decoded_and_stored(name: str, request: Any) -> None:
    server = request.getfixturevalue(name)
    client = server.client()
    client.create_bucket(Bucket="signed")
    assert put(server, "/signed/k", SIGNED, DATA, len(DATA)) == (200, b"")
    got = client.get_object(Bucket="signed", Key="k")
    assert got["Body"].read() == DATA
    assert got["ETag"] == f'"{hashlib.md5(DATA).hexdigest()}"'
    assert "ContentEncoding" not in got or "aws-chunked" not in got["ContentEncoding"]


def test_a_length_other_than_announced_is_refused(emulator: Any, bucket: str, s3: Any) -> None:
    for length in (len(DATA) - 1, len(DATA) + 1):
        status, body = put(emulator, f"/{bucket}/k", SIGNED, DATA, length)
        assert (status, b"IncompleteBody" in body) == (400, True)
    assert refused(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)


def test_objectscale_refuses_checksum_trailers_as_ecs_does(emulator: Any, bucket: str, s3: Any) -> None:
    for payload in ("STREAMING-UNSIGNED-PAYLOAD-TRAILER", SIGNED + "-TRAILER"):
        status, body = put(emulator, f"/{bucket}/k", payload, unsigned(DATA, crc32(DATA)), len(DATA), TRAILER)
        assert (status, b"<Code>XAmzContentSHA256Mismatch</Code>" in body) == (400, True)
    assert refused(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)


def test_aws_takes_trailers_and_checks_them(aws: Any) -> None:
    client = aws.client()
    client.create_bucket(Bucket="trailers")
    payload = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
    assert put(aws, "/trailers/u", payload, unsigned(DATA, crc32(DATA)), len(DATA), TRAILER)[0] == 200
    assert put(aws, "/trailers/s", SIGNED + "-TRAILER", DATA, len(DATA), TRAILER)[0] == 200
    for key in ("u", "s"):
        assert client.get_object(Bucket="trailers", Key=key)["Body"].read() == DATA
    status, body = put(aws, "/trailers/x", payload, unsigned(DATA, crc32(DATA + b"!")), len(DATA), TRAILER)
    assert (status, b"BadDigest" in body) == (400, True)
    status, body = put(aws, "/trailers/x", payload, unsigned(DATA), len(DATA), TRAILER)
    assert (status, b"BadDigest" in body) == (400, True), "an announced trailer that never comes"
    assert refused(client.get_object, Bucket="trailers", Key="x") == ("NoSuchKey", 404)


def test_unsigned_payload_may_be_chunked_without_a_trailer(emulator: Any, bucket: str, s3: Any) -> None:
    assert put(emulator, f"/{bucket}/k", "UNSIGNED-PAYLOAD", unsigned(DATA), len(DATA))[0] == 200
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == DATA


def test_a_checksum_is_checked_kept_and_given_back_by_aws(aws: Any) -> None:
    client = aws.client()
    client.create_bucket(Bucket="checksums")
    digest = base64.b64encode(hashlib.sha256(DATA).digest()).decode()
    arguments = {"Bucket": "checksums", "Key": "k", "Body": DATA}
    assert client.put_object(**arguments, ChecksumSHA256=digest)["ChecksumSHA256"] == digest
    assert client.head_object(Bucket="checksums", Key="k", ChecksumMode="ENABLED")["ChecksumSHA256"] == digest
    assert "ChecksumSHA256" not in client.head_object(Bucket="checksums", Key="k")
    wrong = base64.b64encode(bytes(32)).decode()
    assert refused(client.put_object, **arguments, ChecksumSHA256=wrong) == ("BadDigest", 400)


def test_a_body_of_unknown_length_is_taken(emulator: Any, bucket: str, s3: Any) -> None:
    for size in (0, 10, 3 << 20):
        data = bytes(size)
        request = AWSRequest("PUT", f"{emulator.url}/{bucket}/k", data=data)
        S3SigV4Auth(Credentials("kvlab", "first/secret+1"), "s3", "us-east-1").add_auth(request)
        connection = http.client.HTTPConnection("127.0.0.1", emulator.port, timeout=20)
        headers = dict(request.headers.items()) | {"Transfer-Encoding": "chunked"}
        pieces = (data[at : at + 1000] for at in range(0, size, 1000))
        connection.request("PUT", f"/{bucket}/k", pieces, headers, encode_chunked=True)
        assert connection.getresponse().status == 200
        connection.close()
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == data


def test_a_new_sdks_defaults_work_with_aws_and_over_plain_http(emulator: Any, aws: Any, bucket: str) -> None:
    for server in (emulator, aws):
        client = server.client(
            request_checksum_calculation="when_supported", response_checksum_validation="when_supported"
        )
        client.create_bucket(Bucket=bucket)
        client.put_object(Bucket=bucket, Key="k", Body=DATA)
        assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == DATA
