"""A client of one-sided transfers in the test's own process, after native/cuobject/PROTOCOL.md (transport `process`).

It keeps the registration table that the library would keep, so that these tests need no C++ compiler. The library's
own tests are in tests/unit/cuobject.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from pathlib import Path
from types import TracebackType
from typing import Any

from emulator_helpers import with_header

GID = bytes(10) + b"\xff\xff" + bytes([127, 0, 0, 1])
DC_KEY = 0xFFEEDDCC
_HEADER = struct.Struct("<8sIIII16s")
_SLOT = struct.Struct("<QQIIQ")
_SLOTS = 65536
_FLOCK = struct.Struct("hhqqi4x")
_PR_SET_PTRACER = 0x59616D61


class Memory:
    """A registered buffer between two guards. `data` reads it, `poison` fills it, `descriptor` names it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._buffer = ctypes.create_string_buffer(size + 8192)
        self.address = ctypes.addressof(self._buffer) + 4096
        self.rkey = 0x00010001
        self.poison()

    def poison(self, byte: bytes = b"\xa5") -> None:
        ctypes.memset(ctypes.addressof(self._buffer), 0xEE, self.size + 8192)
        ctypes.memset(self.address, byte[0], self.size)

    @property
    def data(self) -> bytes:
        return ctypes.string_at(self.address, self.size)

    @data.setter
    def data(self, value: bytes) -> None:
        assert len(value) <= self.size
        ctypes.memmove(self.address, value, len(value))

    @property
    def guards_untouched(self) -> bool:
        base = ctypes.addressof(self._buffer)
        before = ctypes.string_at(base, 4096)
        after = ctypes.string_at(self.address + self.size, 4096)
        return before == after == b"\xee" * 4096

    def descriptor(self, size: int | None = None, *, offset: int = 0, rkey: int | None = None) -> str:
        key = self.rkey if rkey is None else rkey
        length = self.size if size is None else size
        return f"{self.address + offset:016x}:{length:08x}:{key:08x}:0000:{os.getpid():06x}:1:{GID.hex()}"


class Registered:
    """The table with one registration, as long as the block lasts."""

    def __init__(self, size: int, dc_key: int = DC_KEY) -> None:
        self.memory = Memory(size)
        self._path = Path(f"/dev/shm/kvlab-cuobj-{os.getpid()}")
        self._dc_key = dc_key

    def __enter__(self) -> Memory:
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(-1), 0, 0, 0)
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.ftruncate(self._fd, 4096 + _SLOTS * _SLOT.size)
        fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0))
        os.pwrite(self._fd, _HEADER.pack(b"KVLABCU1", _SLOTS, os.getpid(), self._dc_key, 0, GID), 0)
        slot = _SLOT.pack(self.memory.address, self.memory.size, self.memory.rkey, 1, 0)
        os.pwrite(self._fd, slot, 4096 + _SLOT.size)
        return self.memory

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        os.close(self._fd)
        self._path.unlink()


def one_sided(
    client: Any, operation: str, token: str, *, header: str = "x-rdma-info", **arguments: Any
) -> Any:
    """Call a client's operation with a descriptor in a signed header, as NIXL's Dell engine does."""
    return with_header(client, operation, header, token, **arguments)
