"""One request on its way through the emulator, and the reply to it."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote_to_bytes, urlsplit

from aiohttp.web import BaseRequest

from kvlab.emulator.auth import Verified
from kvlab.emulator.errors import S3Error
from kvlab.emulator.faults import Struck
from kvlab.emulator.log import iso

MAX_KEY = 1024  # bytes of UTF-8; ECS 3.5 says 255 characters, later releases follow AWS (docs/fidelity.md)
RDMA_HEADERS = ("x-rdma-info", "x-amz-rdma-token")


@dataclass
class FileSlice:
    """`length` bytes from `offset` of an open file; whoever sends the reply closes the descriptor."""

    fd: int
    offset: int
    length: int


@dataclass
class Reply:
    """Status, headers and body. For HEAD the headers carry Content-Length and the body is empty."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | FileSlice = b""


@dataclass
class Call:
    """One request. `key` is empty for a bucket, `bucket` for the service. Counters: bytes of object data."""

    request: BaseRequest
    request_id: str
    op: str = "Unknown"
    bucket: str = ""
    key: str = ""
    query: dict[str, str] = field(default_factory=dict)
    raw_path: str = ""
    raw_query: str = ""
    who: Verified | None = None
    started: float = field(default_factory=time.time)
    clock: float = field(default_factory=time.perf_counter)
    body_in: int = 0
    body_out: int = 0
    rdma_in: int = 0
    rdma_out: int = 0
    rdma_client: str | None = None
    struck: Struck = field(default_factory=Struck)
    error: str | None = None
    close: bool = False  # the connection cannot be used again

    @property
    def method(self) -> str:
        return self.request.method

    def header(self, name: str, default: str = "") -> str:
        """A request header's value."""
        value: str = self.request.headers.get(name, default)
        return value

    @property
    def user(self) -> str:
        return self.who.user.access_key if self.who else ""

    @property
    def rdma_token(self) -> str | None:
        """The descriptor the client sent, under either name; None when it asks for an ordinary transfer."""
        found = {self.header(name) for name in RDMA_HEADERS if name in self.request.headers}
        if len(found) > 1:
            raise S3Error("InvalidRDMAToken", "x-rdma-info and x-amz-rdma-token differ.")
        return found.pop() if found else None

    @functools.cached_property
    def rdma_requested(self) -> bool:
        return any(name in self.request.headers for name in RDMA_HEADERS)

    def split(self) -> None:
        """Take the request's target apart: /bucket/key?query, path style."""
        target = self.request.raw_path
        if not target.startswith("/"):
            parts = urlsplit(target)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self.raw_path, _, self.raw_query = target.partition("?")
        if "%" not in self.raw_path and not self.raw_query and self.raw_path.isascii():
            self.bucket, _, self.key = self.raw_path[1:].partition("/")
            if len(self.key) > MAX_KEY:
                raise S3Error("KeyTooLongError", "Your key is too long.")
            return
        try:
            bucket, _, key = unquote_to_bytes(self.raw_path[1:]).decode().partition("/")
            pairs = parse_qsl(self.raw_query, keep_blank_values=True, errors="strict")
        except (UnicodeDecodeError, ValueError):
            raise S3Error("InvalidURI", "The request's path or query is not valid UTF-8.") from None
        self.bucket, self.key = bucket, key
        self.query = dict(pairs)
        if len(key.encode()) > MAX_KEY:
            raise S3Error("KeyTooLongError", "Your key is too long.")

    def record(self, status: int) -> dict[str, object]:
        """The access log's line."""
        path = (
            "rdma" if self.rdma_in or self.rdma_out else "http" if self.body_in or self.body_out else "none"
        )
        return {
            "time": iso(self.started),
            "op": self.op,
            "bucket": self.bucket,
            "key": self.key,
            "status": status,
            "body_in": self.body_in,
            "body_out": self.body_out,
            "rdma_in": self.rdma_in,
            "rdma_out": self.rdma_out,
            "path": path,
            "rdma_requested": self.rdma_requested,
            "rdma_client": self.rdma_client,
            "duration_ms": round((time.perf_counter() - self.clock) * 1000, 3),
            "fault": self.struck.names,
            "error": self.error,
            "user": self.user,
            "request_id": self.request_id,
            "simulated": True,
        }
