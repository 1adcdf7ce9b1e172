"""What every operation needs: the store, the users, the dialect and the thread pools."""

from __future__ import annotations

import asyncio
import datetime
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from kvlab.emulator.body import Body, Received
from kvlab.emulator.call import Call
from kvlab.emulator.conditions import check_write
from kvlab.emulator.dialect import Dialect
from kvlab.emulator.errors import S3Error
from kvlab.emulator.index import Bucket, Entry, Index, Meta, Upload
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
    clock: Callable[[], float] = time.time
    files: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8, "files"))
    movers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8, "rdma"))

    @property
    def index(self) -> Index:
        return self.store.index

    def now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.clock(), datetime.UTC)

    def close(self) -> None:
        self.files.shutdown()
        self.movers.shutdown()
        self.store.close()

    async def in_thread(self, work: Callable[..., T], *values: object) -> T:
        """Run blocking file work off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.files, work, *values)

    def bucket(self, call: Call) -> Bucket:
        """The call's bucket, which must exist in its namespace and belong to the caller."""
        return self.named_bucket(call, call.bucket)

    def named_bucket(self, call: Call, name: str) -> Bucket:
        """Like `bucket`, for another name (a copy's source)."""
        bucket = self.index.bucket(self.namespace(call), name)
        if bucket is None:
            raise S3Error("NoSuchBucket", "The specified bucket does not exist.", BucketName=name)
        if bucket.owner != call.user:
            raise S3Error("AccessDenied", "Access Denied.")
        return bucket

    def namespace(self, call: Call) -> str:
        """The namespace of the caller; x-emc-namespace may name it, but nobody else's."""
        assert call.who is not None
        own = call.who.user.namespace
        asked = call.header("x-emc-namespace") if self.dialect.emc_headers else ""
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

    async def place(self, incoming: Incoming) -> str:
        """Move a complete body among the data files."""
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
        file = await self.place(incoming)
        before = self.index.get(bucket.id, call.key)
        entry = Entry(bucket.id, call.key, file, size, etag, self.clock(), meta)
        try:
            check_write(call, before)
            if self.index.bucket(bucket.namespace, bucket.name) is None:
                raise S3Error("NoSuchBucket", "The specified bucket does not exist.", BucketName=bucket.name)
            if upload is None:
                self.index.put(entry)
            elif self.index.upload(bucket.id, call.key, upload.id):
                self.index.end_upload(upload.id, entry)
            else:
                raise S3Error("NoSuchUpload", "The specified upload does not exist.", UploadId=upload.id)
        except BaseException:
            self.store.remove(file)
            raise
        if before:
            self.drop(before.file, before.size)
        return entry

    def close_file(self, fd: int) -> None:
        """Close a file that was read; here so that no operation touches descriptors itself."""
        os.close(fd)

    def drop(self, file: str, size: int) -> None:
        """Unlink a data file nobody names any more."""
        if size > _SMALL:
            self.files.submit(self.store.remove, file)
        else:
            self.store.remove(file)
