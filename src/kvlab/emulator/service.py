"""What every operation needs: the store, the users, the dialect and the thread pools."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from kvlab.emulator import access
from kvlab.emulator.addressing import BaseUrl
from kvlab.emulator.body import Body, Received
from kvlab.emulator.call import Call, FileSlice
from kvlab.emulator.conditions import check_write
from kvlab.emulator.dialect import Dialect
from kvlab.emulator.errors import S3Error
from kvlab.emulator.faults import FaultBook, Struck
from kvlab.emulator.index import Bucket, Entry, Index, Meta, Upload
from kvlab.emulator.rdma import DEFAULT_DC_KEY
from kvlab.emulator.retention import refuse_retained
from kvlab.emulator.store import Incoming, Store
from kvlab.emulator.users import UserStore

T = TypeVar("T")
_SMALL = 1 << 20  # unlinking more than this can take milliseconds, so a thread does it


@dataclass
class Service:
    """One emulator. `clock` gives Unix time in s and can be shifted by a fault."""

    store: Store
    users: UserStore
    dialect: Dialect
    rdma: bool = True  # False: the array has RDMA switched off and declines every one-sided request
    fsync: bool = False
    dc_key: int = DEFAULT_DC_KEY
    clock: Callable[[], float] = time.time
    base_urls: list[BaseUrl] = field(default_factory=list)  # none: every request is path style
    faults: FaultBook = field(default_factory=FaultBook)
    in_progress: int = 0  # requests that have come and are not answered yet
    _stale: dict[tuple[int, str], Entry] = field(default_factory=dict)
    files: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8, "files"))
    movers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8, "rdma"))

    @property
    def index(self) -> Index:
        return self.store.index

    def close(self) -> None:
        self.files.shutdown()
        self.movers.shutdown()
        self.store.close()

    async def in_thread(self, work: Callable[..., T], *values: object) -> T:
        """Run blocking file work off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.files, work, *values)

    def bucket(self, call: Call) -> Bucket:
        """The call's bucket, which must exist in its namespace and let the caller do this."""
        return self.named_bucket(call, call.bucket, call.op, call.key)

    def named_bucket(self, call: Call, name: str, op: str, key: str) -> Bucket:
        """Like `bucket`, for another name and operation (a copy reads its source)."""
        bucket = self.index.bucket(self.namespace(call), name)
        if bucket is None:
            raise S3Error("NoSuchBucket", "The specified bucket does not exist.", BucketName=name)
        assert call.who is not None
        access.check(bucket, call.who.user, op, key)
        return bucket

    def namespace(self, call: Call) -> str:
        """The namespace of the caller; x-emc-namespace or the host may name it, but nobody else's."""
        assert call.who is not None
        own = call.who.user.namespace
        for asked in (call.namespace, call.header("x-emc-namespace") if self.dialect.emc_headers else ""):
            if asked and asked != own:
                raise S3Error("AccessDenied", f"The user does not belong to the namespace {asked}.")
        return own

    def entry(self, bucket: Bucket, key: str) -> Entry:
        """The object under the key, or NoSuchKey."""
        entry = self.index.get(bucket.id, key)
        if entry is None:
            raise S3Error("NoSuchKey", "The specified key does not exist.", Key=key)
        return entry

    async def receive(self, call: Call, incoming: Incoming) -> Received:
        """The request's body, into the file."""
        return await Body(call, self.dialect, self.files).to_file(incoming)

    async def document(self, call: Call, limit: int) -> bytes:
        """The request's body as a document in memory, at most `limit` bytes."""
        return await Body(call, self.dialect, self.files).to_bytes(limit)

    async def place(self, call: Call, incoming: Incoming) -> str:
        """Move a complete body among the data files."""
        if "flip-write" in call.struck:
            flip(incoming.fd, call.struck, "flip-write")
        if self.fsync:
            return await self.in_thread(self.store.place, incoming)
        return self.store.place(incoming)

    async def commit(
        self,
        call: Call,
        bucket: Bucket,
        incoming: Incoming,
        size: int,
        etag: str,
        meta: Meta,
        *,
        upload: Upload | None = None,
    ) -> Entry:
        """Make a complete body the object under the call's key; conditions are checked again, atomically."""
        file = await self.place(call, incoming)
        before = self.index.get(bucket.id, call.key)
        entry = Entry(bucket.id, call.key, file, size, etag, self.clock(), meta)
        try:
            check_write(call, before)
            refuse_retained(bucket, before, self.clock())
            access.check_quota(bucket, self.index, call.key, size)
            current = self.index.bucket(bucket.namespace, bucket.name)
            if current is None or current.id != bucket.id:
                raise S3Error("NoSuchBucket", "The specified bucket does not exist.", BucketName=bucket.name)
            if upload is None:
                self.index.put(entry)
            elif self.index.upload(bucket.id, call.key, upload.id):
                self.end_upload(upload, entry)
            else:
                raise S3Error("NoSuchUpload", "The specified upload does not exist.", UploadId=upload.id)
        except BaseException:
            self.store.remove(file)
            raise
        if before:
            self._retire(before)
        return entry

    def end_upload(self, upload: Upload, entry: Entry | None = None) -> None:
        """Complete (with its object) or abort an upload; its parts' files go."""
        for part in self.index.end_upload(upload.id, entry):
            self.drop(part.file, part.size)

    def _retire(self, before: Entry) -> None:
        """Unlink what an overwrite has replaced, unless a fault may want to show it again."""
        if self.faults.armed("stale-object"):
            older = self._stale.pop((before.bucket, before.key), None)
            self._stale[before.bucket, before.key] = before
            gone = [older] if older else []
        else:
            gone = [*self._stale.values(), before]
            self._stale.clear()
        for entry in gone:
            self.drop(entry.file, entry.size)

    def visible(self, call: Call, bucket: Bucket) -> Entry:
        """The object a reader of the call's key is shown: its own, unless a fault says otherwise."""
        entry = self.entry(bucket, call.key)
        if "lost-object" in call.struck:
            raise S3Error("NoSuchKey", "The specified key does not exist.", Key=call.key)
        if "stale-object" in call.struck:
            entry = self._stale.get((bucket.id, call.key), entry)
        if "wrong-object" in call.struck:
            others = (
                e for e in self.index.scan(bucket.id, prefix="", after=None, beyond=None) if e.key != call.key
            )
            other = next(others, entry)
            entry = entry._replace(file=other.file, size=other.size)
        return entry

    async def open(self, call: Call, entry: Entry, offset: int, length: int) -> FileSlice:
        """The object's bytes to send; a copy with one bit changed when a fault says so. Whoever sends closes."""
        fd = self.store.open(entry)
        if "flip-read" not in call.struck or length == 0:
            return FileSlice(fd, offset, length)
        copy = self.store.incoming()
        try:
            await self.in_thread(copy.append, fd, offset, length)
            flip(copy.fd, call.struck, "flip-read")
            return FileSlice(os.dup(copy.fd), 0, length)
        finally:
            os.close(fd)
            copy.discard()

    def close_file(self, fd: int) -> None:
        """Close a file that was read; here so that no operation touches descriptors itself."""
        os.close(fd)

    def drop(self, file: str, size: int) -> None:
        """Unlink a data file nobody names any more."""
        if size > _SMALL:
            self.files.submit(self.store.remove, file)
        else:
            self.store.remove(file)


def flip(fd: int, struck: Struck, kind: str) -> None:
    """Change the one bit of the file that the fault picks; nothing to do for an empty file."""
    size = os.fstat(fd).st_size
    if size:
        byte, bit = divmod(struck.bit(kind, size), 8)
        found = os.pread(fd, 1, byte)[0]
        os.pwrite(fd, bytes([found ^ 1 << bit]), byte)
