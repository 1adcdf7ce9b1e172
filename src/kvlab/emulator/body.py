"""Receiving a body: framing, digests and the file it goes to, with the hashing off the event loop."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from aiohttp import ClientPayloadError, web

from kvlab.emulator.auth import Verified
from kvlab.emulator.call import Call
from kvlab.emulator.chunked import ChunkedDecoder, ChunkSigner
from kvlab.emulator.dialect import Dialect
from kvlab.emulator.errors import DisconnectedError, S3Error
from kvlab.emulator.rdma_files import reserve
from kvlab.emulator.store import Hash, Incoming

INLINE = 128 << 10  # smaller bodies are hashed and written on the loop: a thread hop costs more than they do
BATCH = 1 << 20  # bytes handed to the threads at a time; bounds memory to two batches per request
MAX_OBJECT = 5 << 30  # S3's limit for one PUT
READ_TIMEOUT_S = 60.0
_SHA256 = re.compile("[0-9a-f]{64}")
_UNSIGNED = "UNSIGNED-PAYLOAD"
_SIGNED_CHUNKS = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
_SIGNED_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
_UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
_TRAILED = (_SIGNED_TRAILER, _UNSIGNED_TRAILER)


class Crc32:
    """zlib's CRC-32 in hashlib's shape; the digest is big-endian, as S3 writes it."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes | memoryview, /) -> None:
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


CHECKSUMS: dict[str, Callable[[], Hash]] = {
    "x-amz-checksum-crc32": Crc32,
    "x-amz-checksum-sha1": hashlib.sha1,
    "x-amz-checksum-sha256": hashlib.sha256,
}
_UNCHECKED = ("x-amz-checksum-crc32c", "x-amz-checksum-crc64nvme")


@dataclass(frozen=True)
class Received:
    """What came: bytes of payload, their MD5 in hex, and the checksum the client sent with them."""

    size: int
    md5: str
    checksum: tuple[str, str] | None = None


class Body:
    """The body of one request, not yet read. Raises S3Error for anything wrong with it."""

    def __init__(self, call: Call, dialect: Dialect, pool: Executor) -> None:
        assert call.who is not None
        self._call = call
        self._pool = pool
        self._dialect = dialect
        self._payload = call.who.payload
        self._decoder: ChunkedDecoder | None = None
        if self._payload.startswith("STREAMING-"):
            self._decoder = self._framing(call.who)
        elif self._payload == _UNSIGNED and call.has("x-amz-decoded-content-length"):
            self._decoder = ChunkedDecoder()
        elif self._payload != _UNSIGNED and not _SHA256.fullmatch(self._payload):
            raise S3Error(
                "InvalidArgument", "x-amz-content-sha256 must be UNSIGNED-PAYLOAD or a SHA-256 in hex."
            )
        self.length = self._length()
        self._md5 = _content_md5(call.header("content-md5")) if call.has("content-md5") else None
        self._checksum = self._announced()

    def _framing(self, who: Verified) -> ChunkedDecoder:
        if self._payload in _TRAILED and self._dialect.refuse_checksum_trailers:
            raise S3Error(
                "XAmzContentSHA256Mismatch",
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
            )
        if self._payload == _UNSIGNED_TRAILER:
            return ChunkedDecoder(trailer=True)
        if self._payload not in (_SIGNED_CHUNKS, _SIGNED_TRAILER):
            raise S3Error("NotImplemented", "This kind of streaming signature is not supported.")
        claim = who.authorization
        signer = ChunkSigner(who.chunk_signature, who.timestamp, claim.scope, claim.signature)
        return ChunkedDecoder(signer, trailer=self._payload == _SIGNED_TRAILER)

    def _length(self) -> int | None:
        """Bytes of payload to come; None for a plain body of unknown length."""
        name = "x-amz-decoded-content-length" if self._decoder else "content-length"
        text = self._call.header(name)
        if not text:
            if not self._decoder:
                return None if self._call.has("transfer-encoding") else 0
            raise S3Error("MissingContentLength", f"You must provide the {name} HTTP header.")
        if not (text.isascii() and text.isdigit()):
            raise S3Error("InvalidArgument", f"{name} must be a number.")
        if int(text) > MAX_OBJECT:
            raise S3Error("EntityTooLarge", "Your proposed upload exceeds the maximum allowed size.")
        return int(text)

    def _announced(self) -> tuple[str, Hash] | None:
        """The checksum to compute, named in a header or as trailer; none in ObjectScale's dialect."""
        if self._dialect.refuse_checksum_trailers:
            return None
        trailer = self._call.header("x-amz-trailer").lower()
        names = [n for n in (*CHECKSUMS, *_UNCHECKED) if self._call.has(n) or n == trailer]
        if trailer and not names:
            raise S3Error(
                "InvalidRequest", "The value specified in the x-amz-trailer header is not supported."
            )
        if len(names) > 1:
            raise S3Error("InvalidRequest", "Expecting a single x-amz-checksum- header.")
        if not names:
            return None
        if names[0] in _UNCHECKED:
            raise S3Error("NotImplemented", f"{names[0]} is not supported; use CRC32, SHA1 or SHA256.")
        return names[0], CHECKSUMS[names[0]]()

    async def to_file(self, target: Incoming) -> Received:
        """Write the payload to the file. OSError when the disk refuses; S3Error when the body is wrong."""
        if self.length is not None and self.length > BATCH:
            # Before the client is told to go on: a full disk then costs it nothing, and ext4 writes faster.
            await asyncio.get_running_loop().run_in_executor(self._pool, reserve, target.fd, self.length)
        return await self._run(target.write)

    async def to_bytes(self, limit: int) -> bytes:
        """The payload in memory, for documents; MalformedXML-style refusal is left to the caller."""
        if self.length is None:
            raise S3Error("MissingContentLength", "You must provide the content-length HTTP header.")
        if self.length > limit:
            raise S3Error("EntityTooLarge", f"The document is larger than {limit} bytes.")
        out = bytearray()
        await self._run(out.extend)
        return bytes(out)

    async def _run(self, write: Callable[[bytes | memoryview], object]) -> Received:
        call = self._call
        if call.header("expect").lower() == "100-continue" and call.request.transport is not None:
            call.request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        md5 = hashlib.md5(usedforsecurity=False)
        writers: list[Callable[[bytes | memoryview], object]] = [write]
        hashers: list[Callable[[bytes | memoryview], object]] = [md5.update]
        sha256 = hashlib.sha256() if not self._decoder and self._payload != _UNSIGNED else None
        if sha256:
            writers.append(sha256.update)
        if self._checksum:
            hashers.append(self._checksum[1].update)
        if self.length is not None and self.length <= INLINE:
            size = await self._inline(writers + hashers)
        else:
            size = await self._threaded(writers, hashers)
        self._verify(size, md5.digest(), sha256)
        return Received(size, md5.hexdigest(), self._verify_checksum())

    async def _inline(self, consumers: list[Callable[[bytes | memoryview], object]]) -> int:
        size = 0
        async for piece in self._pieces():
            size += len(piece)
            for consume in consumers:
                consume(piece)
        return size

    async def _threaded(
        self,
        writers: list[Callable[[bytes | memoryview], object]],
        hashers: list[Callable[[bytes | memoryview], object]],
    ) -> int:
        """While the next batch arrives, one thread writes this one and another hashes it."""
        loop = asyncio.get_running_loop()

        def run(batch: list[bytes | memoryview]) -> list[Awaitable[None]]:
            return [loop.run_in_executor(self._pool, _feed, group, batch) for group in (writers, hashers)]

        size = held = 0
        batch: list[bytes | memoryview] = []
        working: list[Awaitable[None]] = []
        try:
            async for piece in self._pieces():
                batch.append(piece)
                held += len(piece)
                if held >= BATCH:
                    size += held
                    await _all(working)
                    working = run(batch)
                    batch, held = [], 0
            await _all(working)
            working = run(batch)
            return size + held
        finally:
            await _all(working)

    async def _pieces(self) -> AsyncIterator[bytes | memoryview]:
        content = self._call.request.content
        received, most = 0, MAX_OBJECT if self.length is None else self.length
        while True:
            try:
                async with asyncio.timeout(READ_TIMEOUT_S):
                    data, boundary = await content.readchunk()  # unlike readany, never joins what has come
            except TimeoutError:
                self._call.close = True
                raise S3Error("RequestTimeout", "The body did not arrive in time.") from None
            except (ConnectionError, ClientPayloadError, web.RequestPayloadError):
                raise DisconnectedError("the client went away inside the body") from None
            if not data and (not boundary or content.at_eof()):
                break
            for whole in self._decoder.feed(data) if self._decoder else [data]:
                piece = self._until_reset(whole, received)
                received += len(piece)
                if received > most:
                    code = "IncompleteBody" if self.length is not None else "EntityTooLarge"
                    raise S3Error(code, "The body is longer than the announced or the greatest length.")
                self._call.body_in += len(piece)
                yield piece
                if self._call.struck.by_kind:
                    await self._suffer(received, len(piece))
        if self._decoder:
            self._decoder.finish()

    def _until_reset(self, piece: bytes | memoryview, received: int) -> bytes | memoryview:
        """The piece, cut where a fault resets the connection."""
        if "reset-inside" not in self._call.struck:
            return piece
        return piece[: max((self.length or 0) // 2 - received, 0)]

    async def _suffer(self, received: int, size: int) -> None:
        struck = self._call.struck
        if "reset-inside" in struck and received >= (self.length or 0) // 2:
            raise DisconnectedError("reset by a fault")
        if "bandwidth" in struck:
            await asyncio.sleep(size / struck["bandwidth"].bytes_per_second)

    def _verify(self, size: int, md5: bytes, sha256: Hash | None) -> None:
        if self.length is not None and size != self.length:
            raise S3Error(
                "IncompleteBody", "You did not provide the number of bytes specified by the length header."
            )
        if sha256 and not hmac.compare_digest(sha256.digest().hex(), self._payload):
            raise S3Error(
                "XAmzContentSHA256Mismatch",
                "The provided 'x-amz-content-sha256' header does not match what was computed.",
            )
        if self._md5 is not None and self._md5 != md5:
            raise S3Error("BadDigest", "The Content-MD5 you specified did not match what we received.")

    def _verify_checksum(self) -> tuple[str, str] | None:
        if not self._checksum:
            return None
        name, computed = self._checksum
        sent = self._decoder.trailers.get(name, "") if self._decoder else ""
        sent = sent or self._call.header(name)
        text = base64.b64encode(computed.digest()).decode()
        if sent != text:
            kind = name.rpartition("-")[2].upper()
            raise S3Error("BadDigest", f"The {kind} you specified did not match the calculated checksum.")
        return name, text


def _feed(consumers: list[Callable[[bytes | memoryview], object]], batch: list[bytes | memoryview]) -> None:
    for consume in consumers:
        for piece in batch:
            consume(piece)


async def _all(working: list[Awaitable[None]]) -> None:
    """Wait for every thread, then raise the first error: nobody may write to a file that is being removed."""
    results = await asyncio.gather(*working, return_exceptions=True)
    working.clear()
    for result in results:
        if isinstance(result, BaseException):
            raise result


def _content_md5(text: str) -> bytes:
    try:
        digest = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        digest = b""
    if len(digest) != 16:
        raise S3Error("InvalidDigest", "The Content-MD5 you specified is not valid.")
    return digest
