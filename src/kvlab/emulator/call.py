"""One request on its way through the emulator, and the reply to it."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote_to_bytes, urlsplit

from aiohttp.web import BaseRequest

from kvlab.emulator.addressing import BaseUrl, locate
from kvlab.emulator.auth import Verified
from kvlab.emulator.authorization import PRESIGNED
from kvlab.emulator.errors import S3Error
from kvlab.emulator.faults import NO_FAULT, Struck
from kvlab.emulator.log import iso

MAX_KEY = 1024  # bytes of UTF-8; ECS 3.5 says 255 characters, later releases follow AWS (docs/fidelity.md)
RDMA_HEADERS = ("x-rdma-info", "x-amz-rdma-token")


@dataclass(slots=True)
class FileSlice:
    """`length` bytes from `offset` of an open file; whoever sends the reply closes the descriptor."""

    fd: int
    offset: int
    length: int


@dataclass(slots=True)
class Reply:
    """Status, headers and body. For HEAD the headers carry Content-Length and the body is empty."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | FileSlice = b""


@dataclass(slots=True)
class Call:
    """One request. `key` is empty for a bucket, `bucket` for the service. Counters: bytes of object data.

    `headers` has every value of each header by its lower-case name, taken over once from aiohttp.
    """

    request: BaseRequest
    request_id: str
    headers: dict[str, list[str]] = field(default_factory=dict)
    op: str = "Unknown"
    bucket: str = ""
    key: str = ""
    namespace: str = ""  # the one that the host names
    query: dict[str, str] = field(default_factory=dict)  # without what belongs to a signature
    raw_path: str = ""
    pairs: list[tuple[str, str]] = field(default_factory=list)  # the whole query, in the order of the request
    who: Verified | None = None
    started: float = field(default_factory=time.time)
    clock: float = field(default_factory=time.perf_counter)
    body_in: int = 0
    body_out: int = 0
    rdma_in: int = 0
    rdma_out: int = 0
    rdma_client: str | None = None
    rdma_requested: bool = False  # whether there is a descriptor, under either name
    struck: Struck = NO_FAULT
    error: str | None = None
    close: bool = False  # the connection cannot be used again

    def __post_init__(self) -> None:
        for name, value in self.request.headers.items():
            self.headers.setdefault(name.lower(), []).append(value)
        self.rdma_requested = not self.headers.keys().isdisjoint(RDMA_HEADERS)

    @property
    def method(self) -> str:
        return self.request.method

    def header(self, name: str, default: str = "") -> str:
        """A request header's value, its first when it came more than once."""
        found = self.headers.get(name.lower())
        return found[0] if found else default

    def has(self, name: str) -> bool:
        """Whether the request has the header, be it empty."""
        return name.lower() in self.headers

    @property
    def user(self) -> str:
        return self.who.user.access_key if self.who else ""

    @property
    def rdma_token(self) -> str | None:
        """The descriptor the client sent, under either name; None when it asks for an ordinary transfer."""
        info, token = self.headers.get(RDMA_HEADERS[0]), self.headers.get(RDMA_HEADERS[1])
        if info and token and info != token:
            raise S3Error("InvalidRDMAToken", "x-rdma-info and x-amz-rdma-token differ.")
        found = info or token
        return found[0] if found else None

    def split(self, base_urls: Collection[BaseUrl] = ()) -> None:
        """Take the request's target apart: /bucket/key?query, or /key?query where the host names the bucket."""
        target = self.request.raw_path
        if not target.startswith("/"):
            parts = urlsplit(target)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self.raw_path, _, raw_query = target.partition("?")
        path = self.raw_path[1:]
        try:
            if "%" in path or not path.isascii():
                path = unquote_to_bytes(path).decode()
            if raw_query:
                self.pairs = parse_qsl(raw_query, keep_blank_values=True, errors="strict")
                self.query = {name: value for name, value in self.pairs if name not in PRESIGNED}
        except (UnicodeDecodeError, ValueError):
            raise S3Error("InvalidURI", "The request's path or query is not valid UTF-8.") from None
        if base_urls:
            self.bucket, self.namespace = locate(self.header("Host"), base_urls)
        if self.bucket:
            self.key = path
        else:
            self.bucket, _, self.key = path.partition("/")
        if len(self.key) > MAX_KEY or len(self.key.encode()) > MAX_KEY:
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
