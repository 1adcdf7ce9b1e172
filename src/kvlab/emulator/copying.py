"""CopyObject, and what a copy's source is."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import unquote_to_bytes

from kvlab.emulator.call import Call, Reply
from kvlab.emulator.conditions import check_read, check_write, parse_range
from kvlab.emulator.errors import S3Error
from kvlab.emulator.index import Entry
from kvlab.emulator.log import iso
from kvlab.emulator.metadata import meta_from
from kvlab.emulator.retention import PERIOD
from kvlab.emulator.service import Service
from kvlab.emulator.xml import document


def source_of(service: Service, call: Call) -> tuple[Entry, int, int]:
    """(object, offset, length) that x-amz-copy-source and x-amz-copy-source-range name; conditions hold."""
    name = call.header("x-amz-copy-source")
    name, question, version = name.partition("?")
    if question and version not in ("versionId=null", ""):
        raise S3Error("NotImplemented", "Versions are not supported.", Header="x-amz-copy-source")
    try:
        bucket_name, slash, key = unquote_to_bytes(name.removeprefix("/")).decode().partition("/")
    except UnicodeDecodeError:
        slash = ""
    if not slash or not key:
        raise S3Error(
            "InvalidArgument", "Copy Source must mention the source bucket and key: sourcebucket/sourcekey"
        )
    entry = service.entry(service.named_bucket(call, bucket_name, "GetObject", key), key)
    check_read(call, entry, prefix="x-amz-copy-source-")
    text = call.header("x-amz-copy-source-range")
    if not text:
        return entry, 0, entry.size
    found = parse_range(text, entry.size)
    last = text.rpartition("-")[2]
    if found is None or not last.isdigit():
        raise S3Error(
            "InvalidArgument", "The x-amz-copy-source-range value must be of the form bytes=first-last"
        )
    if int(last) >= entry.size:
        raise S3Error("InvalidRange", f"The range is not valid for the source object of size {entry.size}")
    return entry, *found


async def copy_object(service: Service, call: Call) -> Reply:
    """Copy an object the caller may read to the call's key, with its metadata or (REPLACE) the request's."""
    bucket = service.bucket(call)
    source, offset, length = source_of(service, call)
    directive = call.header("x-amz-metadata-directive", "COPY")
    if directive not in ("COPY", "REPLACE"):
        raise S3Error(
            "InvalidArgument", "Unknown metadata directive.", ArgumentName="x-amz-metadata-directive"
        )
    if directive == "COPY" and (source.bucket, source.key) == (bucket.id, call.key):
        raise S3Error(
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself without changing"
            " the object's metadata, storage class, website redirect location or encryption attributes.",
        )
    meta = meta_from(call, service.dialect)
    if directive == "COPY":  # all but the retention, which is the object's own
        kept = {name: value for name, value in source.meta.headers.items() if name != PERIOD}
        meta = replace(source.meta, headers=kept | {n: v for n, v in meta.headers.items() if n == PERIOD})
    check_write(call, service.index.get(bucket.id, call.key))
    incoming = service.store.incoming()
    fd = service.store.open(source)
    try:
        await service.in_thread(incoming.append, fd, offset, length)
        entry = await service.commit(call, bucket, incoming, length, source.etag, meta)
    finally:
        service.close_file(fd)
        incoming.discard()
    return Reply(
        body=document(
            "CopyObjectResult", [("LastModified", iso(entry.modified)), ("ETag", f'"{entry.etag}"')]
        )
    )
