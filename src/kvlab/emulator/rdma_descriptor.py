"""The descriptor of a cuObject transfer: the 81 characters of `x-rdma-info` and `x-amz-rdma-token`."""

from __future__ import annotations

import functools
import ipaddress
import os
import re
import socket
import time
from typing import Literal, NamedTuple

_PATTERN = re.compile(
    r"([0-9a-f]{16}):([0-9a-f]{8}):([0-9a-f]{8}):([0-9a-f]{4}):([0-9a-f]{6}):([01]):([0-9a-f]{32})"
)


Transport = Literal["process", "tcp"]


@functools.lru_cache(maxsize=64)
def _address(gid: bytes) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.IPv6Address(gid)
    return address.ipv4_mapped or address


class RdmaError(Exception):
    """A one-sided transfer that was refused or that failed.

    `code` is the S3 error code, `status` the HTTP status to answer with, str() a message for the client.
    """

    def __init__(self, message: str, code: str = "RDMATransferFailed", status: int = 500) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class DescriptorError(RdmaError):
    """The descriptor itself is wrong; no memory was looked at."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "InvalidRDMAToken", 400)


class Descriptor(NamedTuple):
    """A range of a client's memory and where that client is.

    In the software cuObject `dctn` is the client's process id and `lid` the port of its tcp transport
    (0: none); see native/cuobject/PROTOCOL.md. `addr` and `size` (bytes) are those of one operation, `rkey`
    names the registration that they must lie in.
    """

    addr: int
    size: int
    rkey: int
    lid: int
    dctn: int
    gid_present: bool
    gid: bytes

    @property
    def address(self) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
        """The IP address that the GID (RoCEv2) stands for."""
        return _address(self.gid)

    @property
    def client(self) -> str:
        """Who is meant, for a log: "pid 123 via process at 127.0.0.1"."""
        return _client(self.dctn, self.lid, self.gid, transport_for(self))


@functools.lru_cache(maxsize=256)
def _client(dctn: int, lid: int, gid: bytes, transport: Transport) -> str:
    address = _address(gid)
    where = f"[{address}]" if transport == "tcp" and address.version == 6 else str(address)
    return f"pid {dctn} via {transport} at {where}" + (f":{lid}" if transport == "tcp" else "")


def parse(text: str) -> Descriptor:
    """Reads the 81 characters `addr:size:rkey:lid:dctn:gid_present:gid`, lower-case hex.

    Raises DescriptorError for anything else, for an empty or wrapping range and for a missing GID (on RoCEv2
    the GID is the client's only address).
    """
    match = _PATTERN.fullmatch(text)
    if match is None:
        raise DescriptorError(
            "The RDMA descriptor is not of the form addr:size:rkey:lid:dctn:gid_present:gid "
            "(16:8:8:4:6:1:32 lower-case hexadecimal digits)."
        )
    addr, size, rkey = int(match[1], 16), int(match[2], 16), int(match[3], 16)
    gid = bytes.fromhex(match[7])
    if size == 0 or addr == 0 or addr + size > 1 << 64:
        raise DescriptorError("The RDMA descriptor names no range of memory.")
    if match[6] == "0" or not any(gid):
        raise DescriptorError("The RDMA descriptor carries no GID, so its client has no address on RoCEv2.")
    return Descriptor(addr, size, rkey, int(match[4], 16), int(match[5], 16), True, gid)


def transport_for(d: Descriptor) -> Transport:
    """`process` where the descriptor's address is one of this host's, else `tcp`.

    KVLAB_RDMA_TRANSPORT overrides that, so that one host can try both.
    """
    match os.environ.get("KVLAB_RDMA_TRANSPORT"):
        case "process":
            return "process"
        case "tcp":
            return "tcp"
    return "process" if _is_local(d.gid, int(time.monotonic())) else "tcp"


@functools.lru_cache(maxsize=64)
def _is_local(gid: bytes, second: int) -> bool:  # noqa: ARG001
    """Whether this host has the address. Asked at most once a second: it costs as much as a small transfer."""
    address = _address(gid)
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True
