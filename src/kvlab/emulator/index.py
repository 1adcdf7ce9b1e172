"""The index of buckets, objects and uploads: SQLite, in the state folder beside the data files.

An object exists when its row does; its bytes are the file the row names. A row is committed only after its
file has been renamed into place, and a file is unlinked only after its row is gone. So a process killed at
any time leaves the old object or the new one, and at most a nameless file, which the next start removes.
"""

from __future__ import annotations

import functools
import json
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

_SCHEMA = """
CREATE TABLE IF NOT EXISTS settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS buckets (
    id INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL,
    created REAL NOT NULL, lifecycle TEXT, attributes TEXT NOT NULL DEFAULT '{}', UNIQUE (namespace, name));
CREATE TABLE IF NOT EXISTS objects (
    bucket INTEGER NOT NULL, sort BLOB NOT NULL, key TEXT NOT NULL, file TEXT NOT NULL, size INTEGER NOT NULL,
    etag TEXT NOT NULL, modified REAL NOT NULL, meta TEXT NOT NULL, PRIMARY KEY (bucket, sort)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS uploads (
    id TEXT PRIMARY KEY, bucket INTEGER NOT NULL, key TEXT NOT NULL, owner TEXT NOT NULL,
    started REAL NOT NULL, meta TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS parts (
    upload TEXT NOT NULL, number INTEGER NOT NULL, file TEXT NOT NULL, size INTEGER NOT NULL,
    etag TEXT NOT NULL, modified REAL NOT NULL, PRIMARY KEY (upload, number)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS completed (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, bucket INTEGER NOT NULL, key TEXT NOT NULL,
    etag TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Bucket:
    """One bucket. `attributes` holds what the management API or x-emc-* set; `created` is Unix time in s."""

    id: int
    namespace: str
    name: str
    owner: str
    created: float
    lifecycle: str | None = None
    attributes: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Meta:
    """What travels with an object's bytes: HTTP headers to give back, user metadata (lower-case names)."""

    headers: dict[str, str] = field(default_factory=dict)
    user: dict[str, str] = field(default_factory=dict)
    parts: tuple[int, ...] = ()  # sizes in bytes of a multipart object's parts
    checksum: tuple[str, str] | None = None  # header and value that came with the bytes and were right

    def dump(self) -> str:
        return json.dumps([self.headers, self.user, self.parts, self.checksum], separators=(",", ":"))

    @staticmethod
    @functools.lru_cache(maxsize=1024)
    def load(text: str) -> Meta:
        """Objects of one kind have the same metadata, so its text is parsed once."""
        headers, user, parts, *more = json.loads(text)
        return Meta(headers, user, tuple(parts), tuple(more[0]) if more and more[0] else None)


class Entry(NamedTuple):
    """One object: `file` names its data, `etag` has no quotes, `modified` is Unix time, size in bytes."""

    bucket: int
    key: str
    file: str
    size: int
    etag: str
    modified: float
    meta: Meta


@dataclass(frozen=True)
class Upload:
    """A multipart upload in progress."""

    id: str
    bucket: int
    key: str
    owner: str
    started: float
    meta: Meta


@dataclass(frozen=True)
class Part:
    """One part of an upload; `etag` is the MD5 of its bytes in hex."""

    number: int
    file: str
    size: int
    etag: str
    modified: float


_KEPT_COMPLETIONS = 10_000  # for clients that did not get the answer and ask again
_CACHED_BUCKETS, _CACHED_ENTRIES = 1024, 2048
_ENTRY = "bucket, key, file, size, etag, modified, meta"


class Index:
    """All calls are short and made from one thread (the event loop's)."""

    def __init__(self, path: Path, *, utf16_order: bool, fsync: bool) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        # With OFF a killed process loses nothing (the page cache survives it); only a power cut may.
        self._db.execute(f"PRAGMA synchronous={'FULL' if fsync else 'OFF'}")
        self._db.execute("PRAGMA cache_size=-8192")
        self._db.executescript(_SCHEMA)
        self._codec = "utf-16-be" if utf16_order else "utf-8"
        self._entries: dict[tuple[int, str], Entry] = {}  # those looked up lately; a change drops its own
        self._buckets: dict[tuple[str, str], Bucket] = {}  # those looked up lately; every change clears it
        self._adopt_order()

    def close(self) -> None:
        self._db.close()

    def _adopt_order(self) -> None:
        row = self._db.execute("SELECT value FROM settings WHERE name = 'order'").fetchone()
        if row is None or row[0] != self._codec:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.create_function("sort_key", 1, self._sort, deterministic=True)
            self._db.execute("UPDATE objects SET sort = sort_key(key)")
            self._db.execute("INSERT OR REPLACE INTO settings VALUES ('order', ?)", (self._codec,))
            self._db.execute("COMMIT")

    def _sort(self, key: str) -> bytes:
        return key.encode(self._codec)

    # Buckets

    def bucket(self, namespace: str, name: str) -> Bucket | None:
        found = self._buckets.get((namespace, name))
        if found is None:
            found = self._read_bucket(namespace, name)
            if found is not None and len(self._buckets) < _CACHED_BUCKETS:
                self._buckets[namespace, name] = found
        return found

    def _read_bucket(self, namespace: str, name: str) -> Bucket | None:
        row = self._db.execute(
            "SELECT id, namespace, name, owner, created, lifecycle, attributes FROM buckets"
            " WHERE namespace = ? AND name = ?",
            (namespace, name),
        ).fetchone()
        return _bucket(row) if row else None

    def buckets(self, namespace: str, owner: str | None = None) -> list[Bucket]:
        """By name; of one owner, or of everyone in the namespace."""
        rows = self._db.execute(
            "SELECT id, namespace, name, owner, created, lifecycle, attributes FROM buckets"
            " WHERE namespace = ? AND (? IS NULL OR owner = ?) ORDER BY name",
            (namespace, owner, owner),
        )
        return [_bucket(row) for row in rows]

    def lifecycle_buckets(self) -> list[Bucket]:
        rows = self._db.execute(
            "SELECT id, namespace, name, owner, created, lifecycle, attributes FROM buckets"
            " WHERE lifecycle IS NOT NULL"
        )
        return [_bucket(row) for row in rows]

    def create_bucket(self, namespace: str, name: str, owner: str, attributes: dict[str, object]) -> Bucket:
        """Raises sqlite3.IntegrityError when the namespace has a bucket of that name."""
        self._db.execute(
            "INSERT INTO buckets (namespace, name, owner, created, attributes) VALUES (?, ?, ?, ?, ?)",
            (namespace, name, owner, time.time(), json.dumps(attributes)),
        )
        bucket = self.bucket(namespace, name)
        assert bucket is not None
        return bucket

    def update_bucket(self, bucket: int, **columns: object) -> None:
        """Set `owner`, `lifecycle` (text or None) or `attributes` (a dict)."""
        for name, value in columns.items():
            if name not in ("owner", "lifecycle", "attributes"):
                raise ValueError(name)
            text = json.dumps(value) if name == "attributes" else value
            self._db.execute(f"UPDATE buckets SET {name} = ? WHERE id = ?", (text, bucket))
        self._buckets.clear()

    def delete_bucket(self, bucket: int) -> None:
        self._db.execute("DELETE FROM buckets WHERE id = ?", (bucket,))
        self._buckets.clear()

    def is_empty(self, bucket: int) -> bool:
        return not self._db.execute("SELECT 1 FROM objects WHERE bucket = ? LIMIT 1", (bucket,)).fetchone()

    # Objects

    def get(self, bucket: int, key: str) -> Entry | None:
        found = self._entries.get((bucket, key))
        if found is None:
            found = self._read_entry(bucket, key)
            if found is not None:
                if len(self._entries) >= _CACHED_ENTRIES:
                    self._entries.clear()
                self._entries[bucket, key] = found
        return found

    def _read_entry(self, bucket: int, key: str) -> Entry | None:
        row = self._db.execute(
            f"SELECT {_ENTRY} FROM objects WHERE bucket = ? AND sort = ?", (bucket, self._sort(key))
        ).fetchone()
        return _entry(row) if row else None

    def put(self, entry: Entry) -> None:
        """Insert the object or replace the one under its key, atomically."""
        self._entries.pop((entry.bucket, entry.key), None)
        self._db.execute(
            "INSERT OR REPLACE INTO objects (bucket, sort, key, file, size, etag, modified, meta)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                entry.bucket,
                self._sort(entry.key),
                entry.key,
                entry.file,
                entry.size,
                entry.etag,
                entry.modified,
                entry.meta.dump(),
            ),
        )

    def delete(self, bucket: int, key: str) -> None:
        self._entries.pop((bucket, key), None)
        self._db.execute("DELETE FROM objects WHERE bucket = ? AND sort = ?", (bucket, self._sort(key)))

    def scan(self, bucket: int, *, prefix: str, after: str | None, beyond: str | None) -> Iterator[Entry]:
        """Objects in key order whose keys start with `prefix`.

        after: only keys greater than this. beyond: only keys greater than every key that starts with this.
        """
        low, inclusive = self._sort(prefix), True
        high = _successor(low)
        if after is not None and self._sort(after) >= low:
            low, inclusive = self._sort(after), False
        if beyond is not None:
            past = _successor(self._sort(beyond))
            if past is None:
                return
            if past > low:
                low, inclusive = past, True
        where = f"bucket = ? AND sort {'>=' if inclusive else '>'} ?"
        values: list[object] = [bucket, low]
        if high is not None:
            where += " AND sort < ?"
            values.append(high)
        for row in self._db.execute(f"SELECT {_ENTRY} FROM objects WHERE {where} ORDER BY sort", values):
            yield _entry(row)

    def usage(self, bucket: int) -> tuple[int, int]:
        """(objects, bytes) in the bucket."""
        row = self._db.execute(
            "SELECT count(*), coalesce(sum(size), 0) FROM objects WHERE bucket = ?", (bucket,)
        )
        count, size = row.fetchone()
        return count, size

    def files(self) -> set[str]:
        """Every data file that an object or a part names."""
        rows = self._db.execute("SELECT file FROM objects UNION SELECT file FROM parts")
        return {row[0] for row in rows}

    # Multipart uploads

    def create_upload(self, upload: Upload) -> None:
        self._db.execute(
            "INSERT INTO uploads VALUES (?, ?, ?, ?, ?, ?)",
            (upload.id, upload.bucket, upload.key, upload.owner, upload.started, upload.meta.dump()),
        )

    def upload(self, bucket: int, key: str, upload_id: str) -> Upload | None:
        row = self._db.execute(
            "SELECT id, bucket, key, owner, started, meta FROM uploads"
            " WHERE id = ? AND bucket = ? AND key = ?",
            (upload_id, bucket, key),
        ).fetchone()
        return _upload(row) if row else None

    def uploads(self, bucket: int) -> list[Upload]:
        """By key, then by start."""
        rows = self._db.execute(
            "SELECT id, bucket, key, owner, started, meta FROM uploads WHERE bucket = ?", (bucket,)
        )
        return sorted((_upload(row) for row in rows), key=lambda u: (self._sort(u.key), u.started, u.id))

    def put_part(self, upload: str, part: Part) -> str | None:
        """Insert or replace a part; gives the file of the part it replaces, if any."""
        row = self._db.execute(
            "SELECT file FROM parts WHERE upload = ? AND number = ?", (upload, part.number)
        ).fetchone()
        self._db.execute(
            "INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?, ?, ?)",
            (upload, part.number, part.file, part.size, part.etag, part.modified),
        )
        return row[0] if row else None

    def parts(self, upload: str) -> list[Part]:
        """By number."""
        rows = self._db.execute(
            "SELECT number, file, size, etag, modified FROM parts WHERE upload = ? ORDER BY number", (upload,)
        )
        return [Part(*row) for row in rows]

    def end_upload(self, upload: str, entry: Entry | None) -> list[Part]:
        """Forget the upload and its parts and, when it was completed, put its object: all or nothing.

        Gives the parts, whose files nobody names any more.
        """
        self._db.execute("BEGIN IMMEDIATE")
        try:
            parts = self.parts(upload)
            if entry is not None:
                self.put(entry)
                self._db.execute(
                    "INSERT INTO completed (id, bucket, key, etag) VALUES (?, ?, ?, ?)",
                    (upload, entry.bucket, entry.key, entry.etag),
                )
                self._db.execute(
                    "DELETE FROM completed WHERE number <= (SELECT max(number) FROM completed) - ?",
                    (_KEPT_COMPLETIONS,),
                )
            self._db.execute("DELETE FROM parts WHERE upload = ?", (upload,))
            self._db.execute("DELETE FROM uploads WHERE id = ?", (upload,))
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")
        return parts

    def completed(self, bucket: int, key: str, upload: str) -> str | None:
        """The ETag that an upload ended in, if that was lately."""
        row = self._db.execute(
            "SELECT etag FROM completed WHERE id = ? AND bucket = ? AND key = ?", (upload, bucket, key)
        ).fetchone()
        return row[0] if row else None


def _successor(prefix: bytes) -> bytes | None:
    """The least byte string greater than all that start with the prefix; None when there is none."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes([stripped[-1] + 1]) if stripped else None


def _bucket(row: tuple[int, str, str, str, float, str | None, str]) -> Bucket:
    number, namespace, name, owner, created, lifecycle, attributes = row
    return Bucket(number, namespace, name, owner, created, lifecycle, json.loads(attributes))


def _entry(row: tuple[int, str, str, int, str, float, str]) -> Entry:
    bucket, key, file, size, etag, modified, meta = row
    return Entry(bucket, key, file, size, etag, modified, Meta.load(meta))


def _upload(row: tuple[str, int, str, str, float, str]) -> Upload:
    number, bucket, key, owner, started, meta = row
    return Upload(number, bucket, key, owner, started, Meta.load(meta))
