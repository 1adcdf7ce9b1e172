"""The floors: the least that a store on this machine has to do, so that the emulator's figures mean something.

- HTTP: a bare socket server, sendfile for GET, receive to a new file and rename for PUT; no authentication, no
  hashing, no log. `python -m kvlab.emulator.bench_floor FOLDER` prints its port and serves one connection after
  another.
- One-sided: process_vm_writev of the bytes from memory (GET), process_vm_readv and a new file, renamed (PUT).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import socket
import sys
from pathlib import Path

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_PIECE = 1 << 20


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


_libc = ctypes.CDLL(None, use_errno=True)
for _name in ("process_vm_readv", "process_vm_writev"):
    _call = getattr(_libc, _name)
    _call.argtypes = [
        *(ctypes.c_int, ctypes.POINTER(_IoVec), ctypes.c_ulong, ctypes.POINTER(_IoVec), ctypes.c_ulong),
        ctypes.c_ulong,
    ]
    _call.restype = ctypes.c_ssize_t


def copy(name: str, pid: int, local: int, remote: int, length: int) -> None:
    """`process_vm_readv` or `process_vm_writev` between this process's memory and another's; OSError when refused."""
    done = 0
    while done < length:
        here, there = _IoVec(local + done, length - done), _IoVec(remote + done, length - done)
        moved: int = getattr(_libc, name)(pid, here, 1, there, 1, 0)
        if moved <= 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        done += moved


def one_sided_get(pid: int, local: int, remote: int, length: int) -> None:
    """The floor of a one-sided GET."""
    copy("process_vm_writev", pid, local, remote, length)


def one_sided_put(pid: int, local: int, remote: int, length: int, folder: Path) -> None:
    """The floor of a one-sided PUT: the bytes end in a new file, renamed into place. A piece at a time, which is
    faster than all at once: it stays in the cache between the two copies."""
    fd = os.open(folder / "new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        for at in range(0, length, _PIECE):
            count = min(_PIECE, length - at)
            copy("process_vm_readv", pid, local, remote + at, count)
            view = memoryview((ctypes.c_char * count).from_address(local)).cast("B")
            while view:
                view = view[os.write(fd, view) :]
    finally:
        os.close(fd)
    (folder / "new").rename(folder / "object")


def serve(folder: Path) -> None:
    """Answer GET and PUT of /bucket/key for ever; the key is the file's name."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    buffer = bytearray(_PIECE)
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, contextlib.suppress(ConnectionError):
            while _one(connection, folder, buffer):
                pass


def _one(connection: socket.socket, folder: Path, buffer: bytearray) -> bool:
    head = b""
    while b"\r\n\r\n" not in head:
        data = connection.recv(65536)
        if not data:
            return False
        head += data
    head, _, rest = head.partition(b"\r\n\r\n")
    method, target, _ = head.split(b" ", 2)
    path = folder / target.rpartition(b"/")[2].decode()
    if method == b"GET":
        with path.open("rb") as handle:
            size = os.fstat(handle.fileno()).st_size
            connection.sendall(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: %d\r\n\r\n' % size)
            sent = 0
            while sent < size:
                sent += os.sendfile(connection.fileno(), handle.fileno(), sent, size - sent)
        return True
    if b"100-continue" in head:
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    found = _LENGTH.search(b"\r\n" + head)
    left = (int(found[1]) if found else 0) - len(rest)
    with (folder / "new").open("wb", buffering=0) as handle:
        handle.write(rest)
        view = memoryview(buffer)
        while left > 0:
            count = connection.recv_into(view[: min(left, len(view))])
            if not count:
                return False
            handle.write(view[:count])
            left -= count
    (folder / "new").replace(path)
    connection.sendall(b'HTTP/1.1 200 OK\r\nETag: "x"\r\nContent-Length: 0\r\n\r\n')
    return True


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
