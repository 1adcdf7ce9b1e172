"""ObjectScale's byte-range PUT: a Range header that appends to an object or overwrites a part of it."""

from __future__ import annotations

import hashlib
import re

from kvlab.emulator.call import Call, Reply
from kvlab.emulator.errors import S3Error
from kvlab.emulator.index import Bucket, Entry
from kvlab.emulator.service import Service
from kvlab.emulator.store import Incoming

_APPEND = "bytes=-1-"
_UPDATE = re.compile(r"bytes=(\d+)-(\d*)")


async def update_object(service: Service, call: Call, bucket: Bucket) -> Reply:
    """`bytes=-1-` appends, `bytes=a-b` and `bytes=a-` overwrite from a on; the object must exist.

    All of it or nothing, also against other writers of the same key.
    """
    text = call.header("Range").replace(" ", "")
    match = _UPDATE.fullmatch(text)
    if text != _APPEND and not match:
        raise S3Error("InvalidArgument", "The Range of a PUT must be bytes=-1-, bytes=a-b or bytes=a-.")
    service.entry(bucket, call.key)
    change = service.store.incoming()
    try:
        received = await service.receive(call, change)
        if match and match[2] and int(match[2]) - int(match[1]) + 1 != received.size:
            raise S3Error("InvalidArgument", "The body is not as long as the Range.")
        while True:
            base = service.entry(bucket, call.key)
            at = int(match[1]) if match else base.size
            if at > base.size:
                raise S3Error("InvalidRange", "The range begins behind the object's end.")
            entry = await _apply(service, call, bucket, base, change, at)
            if entry is not None:
                break
    finally:
        change.discard()
    headers = {"ETag": f'"{entry.etag}"'}
    if not match:
        headers["x-emc-append-offset"] = str(at)
    return Reply(headers=headers)


async def _apply(
    service: Service, call: Call, bucket: Bucket, base: Entry, change: Incoming, at: int
) -> Entry | None:
    """The object with the change at `at`; None when somebody else replaced the object meanwhile."""
    result = service.store.incoming()
    fd = service.store.open(base)
    digest = hashlib.md5(usedforsecurity=False)

    def merge() -> None:
        result.append(fd, 0, at, digest)
        result.append(change.fd, 0, change.size, digest)
        rest = at + change.size
        if rest < base.size:
            result.append(fd, rest, base.size - rest, digest)

    try:
        await service.in_thread(merge)
        if service.entry(bucket, call.key).file != base.file:
            return None
        return await service.commit(call, bucket, result, result.size, digest.hexdigest(), base.meta)
    finally:
        service.close_file(fd)
        result.discard()
