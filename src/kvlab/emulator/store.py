"""Objects as files, and the index that names them. Everything in one state folder:

index.sqlite     buckets, objects, uploads (see index.py)
incoming/<id>    a body being written
data/<xx>/<id>   an object's or a part's bytes, complete; <xx> are the first two digits of <id>
lock             held while an emulator uses the folder
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import sqlite3
import uuid
from pathlib import Path
from typing import Protocol

from kvlab.emulator.errors import S3Error
from kvlab.emulator.index import Entry, Index
from kvlab.errors import KvlabError

_PIECE = 1 << 20  # bytes copied at a time
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Hash(Protocol):
    """What hashlib's objects offer."""

    def update(self, data: bytes | memoryview, /) -> None: ...
    def digest(self) -> bytes: ...


class Incoming:
    """A body on its way in: a file nobody names yet. `Store.place` keeps it, `discard` removes it."""

    def __init__(self, folder: str, name: str) -> None:
        self.name = name
        self.path = f"{folder}/{name}"
        self.size = 0
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes | memoryview) -> None:
        """Append; OSError as the kernel gives it. Safe in a thread as long as one writes at a time."""
        view = memoryview(data)
        while view:
            done = os.write(self.fd, view)
            self.size += done
            view = view[done:]

    def append(self, fd: int, offset: int, length: int, digest: Hash | None = None) -> None:
        """Append bytes of another file, hashing them on the way. Blocks: call it in a thread."""
        end = offset + length
        while offset < end:
            piece = os.pread(fd, min(_PIECE, end - offset), offset)
            if not piece:
                raise OSError(errno.EIO, "a data file is shorter than its index says")
            if digest:
                digest.update(piece)
            self.write(piece)
            offset += len(piece)

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def discard(self) -> None:
        """Remove what was written; nothing to do once the file has been moved into place."""
        self.close()
        if self.path:
            os.unlink(self.path)  # noqa: PTH108
            self.path = ""


class Store:
    """The state folder. KvlabError when it cannot be used or another emulator holds it."""

    def __init__(self, folder: Path, *, utf16_order: bool, fsync: bool) -> None:
        self._fsync = fsync
        self._data = folder / "data"
        self._incoming = folder / "incoming"
        self._data_name, self._incoming_name = str(self._data), str(self._incoming)
        try:
            for needed in (folder, self._data, self._incoming):
                needed.mkdir(mode=0o700, parents=True, exist_ok=True)
            for n in range(256):
                (self._data / f"{n:02x}").mkdir(mode=0o700, exist_ok=True)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.index = Index(folder / "index.sqlite", utf16_order=utf16_order, fsync=fsync)
        except BlockingIOError:
            raise KvlabError(
                f"another emulator uses the state folder {folder}; name another with --state"
            ) from None
        except (OSError, sqlite3.Error) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise KvlabError(
                f"the state folder {folder} cannot be written ({why}); name a writable one with --state"
            ) from None
        self._sweep()

    def close(self) -> None:
        self.index.close()
        os.close(self._lock)

    def _sweep(self) -> None:
        """Remove what a killed process left: bodies half written, files whose row never came or is gone."""
        for path in self._incoming.iterdir():
            path.unlink()
        named = self.index.files()
        for shard in self._data.iterdir():
            for path in shard.iterdir():
                if path.name not in named:
                    path.unlink()

    def path(self, file: str) -> str:
        """Where the data file of that name lies. Text, not a Path: this is on the way of every request."""
        return f"{self._data_name}/{file[:2]}/{file}"

    def incoming(self) -> Incoming:
        """A new file for a body."""
        return Incoming(self._incoming_name, uuid.uuid4().hex)

    def place(self, body: Incoming) -> str:
        """Move a complete body among the data files; its name. Blocks for the disk when fsync is on."""
        if self._fsync:
            os.fsync(body.fd)
        body.close()
        target = self.path(body.name)
        os.rename(body.path, target)  # noqa: PTH104
        body.path = ""
        if self._fsync:
            folder = os.open(self._data / body.name[:2], os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return body.name

    def remove(self, file: str) -> None:
        """Unlink a data file that no row names any more. May block for large files."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(file))  # noqa: PTH108

    def open(self, entry: Entry) -> int:
        """A read-only file descriptor on the object's bytes; it stays good when the object is replaced."""
        try:
            return os.open(self.path(entry.file), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise S3Error("InternalError", "The data of the object is lost.") from None


def storage_error(error: Exception) -> S3Error | None:
    """The S3 error for a full or failing disk; None when the exception is no storage error."""
    if isinstance(error, OSError) and error.errno in _FULL:
        return S3Error("InsufficientStorage", "The store is full; nothing was stored.")
    if isinstance(error, sqlite3.Error) and "full" in str(error):
        return S3Error("InsufficientStorage", "The store is full; nothing was stored.")
    if isinstance(error, (OSError, sqlite3.Error)) and not isinstance(error, ConnectionError):
        return S3Error("InternalError", "The store failed to read or write.")
    return None
