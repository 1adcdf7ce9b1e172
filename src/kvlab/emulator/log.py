"""The access log: one JSON line per request, written before the reply's last byte leaves.

Fields: time (ISO 8601, UTC, ms; when the request came), op, bucket, key, status, body_in and body_out (bytes
of objects in the HTTP body each way), rdma_in and rdma_out (bytes moved one-sided), path ("http", "rdma" or
"none", their way), rdma_requested, rdma_client, duration_ms, fault, error, user, request_id, simulated.
"""

from __future__ import annotations

import datetime
import functools
import json
import math
import os
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path

from kvlab.errors import KvlabError

_encode = json.JSONEncoder(separators=(",", ":")).encode
MAX_BYTES = 64 << 20  # about 200,000 requests; then the file becomes <name>.1 and a new one begins


def iso(seconds: float) -> str:
    """Unix time as ISO 8601 in UTC with milliseconds, as in `2026-12-01T10:00:00.123Z`."""
    whole = math.floor(seconds)
    return f"{_second(whole)}.{int((seconds - whole) * 1000):03d}Z"


@functools.lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


@functools.lru_cache(maxsize=1024)
def http_date(seconds: int) -> str:
    """Unix time as HTTP writes it."""
    return formatdate(seconds, usegmt=True)


class AccessLog:
    """Appends lines to a file; reopens it when it was renamed; keeps it under `2 * max_bytes` on disk."""

    def __init__(self, path: Path, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._name = str(path)
        self._max_bytes = max_bytes
        self._fd = -1
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._open()
        except OSError as error:
            raise KvlabError(
                f"the access log {path} cannot be written ({error.strerror}); name another with --access-log"
            ) from None

    def _open(self) -> None:
        self.close()
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self._inode = os.fstat(self._fd).st_ino

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def write(self, record: dict[str, object]) -> None:
        """Append one line; it can be read by others when this returns. OSError when the disk refuses."""
        try:
            found = os.stat(self._name)  # noqa: PTH116 - once per request; a Path costs four times as much
            if found.st_ino != self._inode:
                self._open()
            elif found.st_size >= self._max_bytes:
                self._path.replace(self._path.with_name(self._path.name + ".1"))
                self._open()
        except FileNotFoundError:
            self._open()
        os.write(self._fd, _encode(record).encode() + b"\n")


def since_text(text: str, now: float) -> str:
    """`--since`: seconds before now, or an ISO 8601 time; gives the time as the log writes it."""
    try:
        return iso(now - float(text))
    except ValueError:
        pass
    try:
        when = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise KvlabError(
            f"--since {text} is neither seconds nor a time such as 2026-12-01T10:00:00Z"
        ) from None
    return iso((when if when.tzinfo else when.astimezone()).timestamp())


def read_log(path: Path, since: str = "") -> Iterator[dict[str, object]]:
    """Records at or after `since` (as the log writes times), oldest first, the rotated file included.

    A last line that is still being written is left out; KvlabError when the file cannot be read.
    """
    older = path.with_name(path.name + ".1")
    for part in (older, path):
        try:
            with part.open("rb") as handle:
                for line in handle:
                    if line.endswith(b"\n"):
                        record = json.loads(line)
                        if record["time"] >= since:
                            yield record
        except FileNotFoundError:
            if part is path:
                raise KvlabError(
                    f"there is no access log {path}; name the emulator's --access-log file"
                ) from None
        except (OSError, ValueError, KeyError) as error:
            raise KvlabError(
                f"{part} cannot be read as an access log ({type(error).__name__}: {error})"
            ) from None
