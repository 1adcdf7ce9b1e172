"""The `tcp` transport: the memory of a client on another host, through the thread that plays its NIC.

The client's side checks key and bounds, as a NIC does; the wire format is in native/cuobject/PROTOCOL.md.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from kvlab.emulator.rdma_descriptor import Descriptor, RdmaError
from kvlab.emulator.rdma_files import CHUNK, reserve, scratch, write_all

_REQUEST = struct.Struct("<4sIIIIIQQQ")
_REPLY = struct.Struct("<4sI")
_MAGIC = b"KVR1"
_READ, _WRITE = 1, 2
_TIMEOUT_S = 30

_REFUSALS = {
    1: "the request is malformed",
    2: "its DC key is not this endpoint's; set the same rdma_dc_key on both sides",
    3: "another process listens there",
    4: "Remote access error: the rkey names no registration",
    5: "Remote access error: the range does not lie within the registration",
    6: "memory that was registered is no longer there",
}


def pull(d: Descriptor, fd: int, length: int, dc_key: int) -> int:
    """Copies `length` bytes of the client's memory to the file, from offset 0."""
    with _granted(d, _READ, length, dc_key) as connection:
        reserve(fd, length)
        done = 0
        while done < length:
            with _network(d):
                count = connection.recv_into(scratch.view, min(CHUNK, length - done))
            if count == 0:
                raise RdmaError(f"The transfer with {d.client} broke off after {done} bytes.")
            write_all(fd, scratch.view[:count], done)
            done += count
    return length


def push(d: Descriptor, fd: int, offset: int, length: int, dc_key: int) -> int:
    """Copies `length` bytes of the file, from `offset`, to the client's memory."""
    with _granted(d, _WRITE, length, dc_key) as connection:
        done = 0
        while done < length:
            with _network(d):
                count = os.sendfile(connection.fileno(), fd, offset + done, length - done)
            if count == 0:
                raise ValueError("the file became shorter while it was sent")
            done += count
        _check_reply(d, connection)
    return length


@contextmanager
def _granted(d: Descriptor, operation: int, length: int, dc_key: int) -> Iterator[socket.socket]:
    if d.lid == 0:
        raise RdmaError(
            f"The client at {d.address} is on another host and its tcp transport is off; "
            "set KVLAB_CUOBJ_TCP=1 in its environment."
        )
    with _network(d):
        connection = socket.create_connection((str(d.address), d.lid), timeout=_TIMEOUT_S)
    with connection:
        with _network(d):
            # Kernel timeouts on a blocking socket: sendfile knows nothing of Python's.
            connection.settimeout(None)
            limit = struct.pack("@ll", _TIMEOUT_S, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(
                _REQUEST.pack(_MAGIC, operation, dc_key, d.dctn, d.rkey, 0, d.addr, d.size, length)
            )
        _check_reply(d, connection)
        yield connection


def _check_reply(d: Descriptor, connection: socket.socket) -> None:
    with _network(d):
        data = connection.recv(_REPLY.size, socket.MSG_WAITALL)
    if len(data) < _REPLY.size:
        raise RdmaError(f"The transfer with {d.client} broke off: the client's side closed the connection.")
    magic, status = _REPLY.unpack(data)
    if magic != _MAGIC:
        raise RdmaError(f"What listens at {d.address} port {d.lid} is not the software cuObject.")
    if status != 0:
        raise RdmaError(f"{d.client} refused: {_REFUSALS.get(status, f'status {status}')}.")


@contextmanager
def _network(d: Descriptor) -> Iterator[None]:
    """Tells the client's failures from those of the file, which stay OSError."""
    try:
        yield
    except BlockingIOError:
        raise RdmaError(f"The transfer with {d.client} made no progress in {_TIMEOUT_S} s.") from None
    except OSError as error:
        raise RdmaError(f"The transfer with {d.client} failed: {error.strerror or error}.") from error
