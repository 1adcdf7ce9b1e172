"""The endpoint's half of a one-sided transfer: what the array's NIC does for S3 over RDMA (simulated).

`pull` serves a PUT (RDMA READ of the client's memory into a file), `push` a GET (RDMA WRITE of a file into
the client's memory). Both block, release the GIL while bytes move, and are meant for a thread pool. No
payload byte becomes a Python object. The client side is native/cuobject; both sides follow its PROTOCOL.md.
"""

from __future__ import annotations

import os

from kvlab.emulator import rdma_process, rdma_tcp
from kvlab.emulator.rdma_descriptor import Descriptor, DescriptorError, RdmaError, parse, transport_for

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


def _check_length(d: Descriptor, length: int) -> None:
    if not 0 < length <= d.size:
        raise DescriptorError(f"The request is for {length} bytes, the RDMA descriptor for {d.size}.")
