"""The endpoint's half of a one-sided transfer: what the array's NIC does for S3 over RDMA (simulated).

`pull` serves a PUT (RDMA READ of the client's memory into a file), `push` a GET (RDMA WRITE of a file into
the client's memory). Both block, release the GIL while bytes move, and are meant for a thread pool. No
payload byte becomes a Python object. The client side is native/cuobject; both sides follow its PROTOCOL.md.
"""

from __future__ import annotations

import functools
import ipaddress
import os
import socket
import time
from typing import Literal

from kvlab.emulator import rdma_process, rdma_tcp
from kvlab.emulator.rdma_descriptor import Descriptor, DescriptorError, RdmaError, parse

__all__ = [
    "DEFAULT_DC_KEY",
    "Descriptor",
    "DescriptorError",
    "RdmaError",
    "parse",
    "pull",
    "push",
    "transport_for",
]

# NVIDIA's documented default of rdma_dc_key.
DEFAULT_DC_KEY = 0xFFEEDDCC


def pull(d: Descriptor, fd: int, length: int, *, dc_key: int = DEFAULT_DC_KEY) -> int:
    """Reads `length` bytes at `d.addr` of the client's memory into the file, from offset 0; returns `length`.

    Raises RdmaError when the client's side refuses or fails (the file may then hold a part), OSError when the
    file's side does (a full disk).
    """
    _check_length(d, length)
    if transport_for(d) == "tcp":
        return rdma_tcp.pull(d, fd, length, dc_key)
    return rdma_process.pull(d, fd, length, dc_key)


def push(d: Descriptor, fd: int, offset: int, length: int, *, dc_key: int = DEFAULT_DC_KEY) -> int:
    """Writes `length` bytes of the file, from `offset`, to `d.addr` of the client's memory; returns `length`.

    Raises RdmaError as `pull` does, ValueError when the file has fewer bytes than that.
    """
    _check_length(d, length)
    if os.fstat(fd).st_size < offset + length:
        raise ValueError(f"the file holds fewer than {offset + length} bytes")
    if transport_for(d) == "tcp":
        return rdma_tcp.push(d, fd, offset, length, dc_key)
    return rdma_process.push(d, fd, offset, length, dc_key)


def transport_for(d: Descriptor) -> Literal["process", "tcp"]:
    """`process` where the descriptor's address is one of this host's, else `tcp`.

    KVLAB_RDMA_TRANSPORT overrides that, so that one host can try both.
    """
    match os.environ.get("KVLAB_RDMA_TRANSPORT"):
        case "process":
            return "process"
        case "tcp":
            return "tcp"
    return "process" if _is_local(d.address, int(time.monotonic())) else "tcp"


@functools.lru_cache(maxsize=64)
def _is_local(address: ipaddress.IPv4Address | ipaddress.IPv6Address, second: int) -> bool:  # noqa: ARG001
    """Whether this host has the address. Asked at most once a second: it costs as much as a small transfer."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def _check_length(d: Descriptor, length: int) -> None:
    if not 0 < length <= d.size:
        raise DescriptorError(f"The request is for {length} bytes, the RDMA descriptor for {d.size}.")
