"""Decoder for aws-chunked bodies: framing, chunk signatures and trailers. No I/O.

Framing (S3 API, "sigv4-streaming"): `hex-size[;chunk-signature=<64 hex>] CR LF data CR LF`, a last chunk of
size 0, then trailer lines when the payload header announced them, then an empty line.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from kvlab.emulator.errors import S3Error

MAX_LINE = 1024  # a chunk header is under 120 bytes, a trailer under 200
MAX_TRAILERS = 8
MAX_CHUNK = 1 << 30
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
_HEADER = re.compile(rb"([0-9a-fA-F]{1,8})(?:;chunk-signature=([0-9a-f]{64}))?")
_TRAILER = re.compile(rb"([A-Za-z0-9-]{1,64}):[ \t]*([\x21-\x7e]*)[ \t]*")


@dataclass
class ChunkSigner:
    """Checks the chain of chunk signatures. `sign` maps a string to sign to lower-case hex."""

    sign: Callable[[str], str]
    timestamp: str
    scope: str
    previous: str

    def check(self, digest: str, signature: str) -> None:
        """Accept the next chunk by its SHA-256, or raise SignatureDoesNotMatch."""
        self._advance("AWS4-HMAC-SHA256-PAYLOAD", f"{_EMPTY_SHA256}\n{digest}", signature)

    def check_trailer(self, text: bytes, signature: str) -> None:
        """Accept the trailer block (`name:value\\n` lines), or raise SignatureDoesNotMatch."""
        self._advance("AWS4-HMAC-SHA256-TRAILER", hashlib.sha256(text).hexdigest(), signature)

    def _advance(self, algorithm: str, tail: str, signature: str) -> None:
        expected = self.sign(f"{algorithm}\n{self.timestamp}\n{self.scope}\n{self.previous}\n{tail}")
        if expected != signature:
            raise S3Error("SignatureDoesNotMatch", "The signature of a chunk does not match.")
        self.previous = expected


@dataclass
class ChunkedDecoder:
    """Feed it the body's bytes in any pieces; it returns payload pieces. Holds no more than one header line.

    signer: checks chunk signatures; None for unsigned bodies, in which a signature is refused.
    trailer: whether trailer lines may follow the last chunk.
    """

    signer: ChunkSigner | None = None
    trailer: bool = False
    trailers: dict[str, str] = field(default_factory=dict)
    done: bool = False
    _line: bytearray = field(default_factory=bytearray)
    _left: int = 0  # payload bytes of the current chunk still to come
    _state: str = "header"
    _signature: str = ""
    _hash: hashlib._Hash = field(default_factory=hashlib.sha256)
    _trailer_text: bytearray = field(default_factory=bytearray)
    _trailer_signature: str = ""

    def feed(self, data: bytes) -> list[memoryview]:
        """Take the next bytes of the body; S3Error when they break the framing or a signature."""
        out: list[memoryview] = []
        view = memoryview(data)
        at = 0
        while at < len(view):
            if self._state == "data":
                piece = view[at : at + self._left]
                at += len(piece)
                self._left -= len(piece)
                if self.signer:
                    self._hash.update(piece)
                out.append(piece)
                if not self._left:
                    self._end_of_chunk()
                continue
            if self._state == "end":
                raise _malformed("there is data after the last chunk")
            newline = data.find(b"\n", at)
            stop = len(view) if newline < 0 else newline + 1
            self._line += view[at:stop]
            at = stop
            if len(self._line) > MAX_LINE:
                raise _malformed("a line is too long")
            if newline >= 0:
                if not self._line.endswith(b"\r\n"):
                    raise _malformed("a line does not end in CR LF")
                line = bytes(self._line[:-2])
                self._line.clear()
                self._take_line(line)
        return out

    def finish(self) -> None:
        """Call at the end of the body: IncompleteBody unless the last chunk has been seen."""
        if not self.done:
            raise S3Error("IncompleteBody", "The body ended before its last chunk.")

    def _take_line(self, line: bytes) -> None:
        if self._state == "header":
            self._take_header(line)
        elif self._state == "separator":
            if line:
                raise _malformed("a chunk is longer than its header says")
            self._state = "header"
        else:
            self._take_trailer(line)

    def _take_header(self, line: bytes) -> None:
        match = _HEADER.fullmatch(line)
        if not match or (match[2] is None) != (self.signer is None):
            raise _malformed("a chunk header is not as announced")
        self._left = int(match[1], 16)
        if self._left > MAX_CHUNK:
            raise _malformed("a chunk is too large")
        self._signature = (match[2] or b"").decode()
        self._hash = hashlib.sha256()
        if self._left:
            self._state = "data"
        else:
            if self.signer:
                self.signer.check(_EMPTY_SHA256, self._signature)
            self._state = "trailer"

    def _end_of_chunk(self) -> None:
        if self.signer:
            self.signer.check(self._hash.hexdigest(), self._signature)
        self._state = "separator"

    def _take_trailer(self, line: bytes) -> None:
        if not line:
            if self.trailer and self.signer and self.trailers:
                self.signer.check_trailer(bytes(self._trailer_text), self._trailer_signature)
            self._state, self.done = "end", True
            return
        match = _TRAILER.fullmatch(line)
        if not self.trailer or not match or len(self.trailers) >= MAX_TRAILERS:
            raise _malformed("a trailer is not as announced")
        name, value = match[1].decode().lower(), match[2].decode()
        if name == "x-amz-trailer-signature":
            self._trailer_signature = value
        elif name in self.trailers or self._trailer_signature:
            raise _malformed("a trailer comes twice or after the signature")
        else:
            self.trailers[name] = value
            self._trailer_text += f"{name}:{value}\n".encode()


def _malformed(why: str) -> S3Error:
    return S3Error("InvalidRequest", f"The aws-chunked body is malformed: {why}.")
