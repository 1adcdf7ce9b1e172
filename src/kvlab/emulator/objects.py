"""Operations on single objects: put, get, head, delete, and deleting many."""

from __future__ import annotations

import datetime
from dataclasses import replace
from email.utils import parsedate_to_datetime

from kvlab.emulator import onesided, updating
from kvlab.emulator.call import Call, Reply
from kvlab.emulator.conditions import check_delete, check_read, check_write, parse_range
from kvlab.emulator.errors import S3Error
from kvlab.emulator.index import Bucket, Entry
from kvlab.emulator.log import http_date
from kvlab.emulator.metadata import meta_from
from kvlab.emulator.retention import refuse_retained
from kvlab.emulator.service import Service
from kvlab.emulator.xml import MAX_DOCUMENT, document, malformed, parse, text

MAX_DELETE = 1000
OVERRIDES = {
    "response-content-type": "Content-Type",
    "response-cache-control": "Cache-Control",
    "response-content-disposition": "Content-Disposition",
    "response-content-encoding": "Content-Encoding",
    "response-content-language": "Content-Language",
    "response-expires": "Expires",
}


def entry_headers(entry: Entry, *, checksum: bool) -> dict[str, str]:
    """The reply headers that describe an object, without its length."""
    headers = {
        "ETag": f'"{entry.etag}"',
        "Last-Modified": http_date(int(entry.modified)),
        "Accept-Ranges": "bytes",
        "Content-Type": "binary/octet-stream",
    }
    headers.update(entry.meta.headers)
    if entry.meta.checksum and checksum:
        headers[entry.meta.checksum[0]] = entry.meta.checksum[1]
    for name, value in entry.meta.user.items():
        headers[f"x-amz-meta-{name}"] = value
    return headers


async def put_object(service: Service, call: Call) -> Reply:
    """Store the body, or with a descriptor the client's memory, as the object; all of it or nothing."""
    bucket = service.bucket(call)
    meta = meta_from(call, service.dialect)
    before = service.index.get(bucket.id, call.key)
    check_write(call, before)
    refuse_retained(bucket, before, service.clock())
    if call.rdma_requested and service.dialect.rdma:
        return await onesided.put(service, call, bucket, meta)
    if call.has("Range") and service.dialect.range_put:
        return await updating.update_object(service, call, bucket)
    incoming = service.store.incoming()
    try:
        received = await service.receive(call, incoming)
        headers = {"ETag": f'"{received.md5}"'}
        if received.checksum:
            headers[received.checksum[0]] = received.checksum[1]
            meta = replace(meta, checksum=received.checksum)
        await service.commit(call, bucket, incoming, received.size, received.md5, meta)
    finally:
        incoming.discard()
    return Reply(headers=headers)


async def get_object(service: Service, call: Call) -> Reply:
    """The object or a range of it, in the body or, with a descriptor, in the client's memory."""
    bucket = service.bucket(call)
    entry = service.visible(call, bucket)
    check_read(call, entry)
    headers, status, offset, length = _extent(call, entry)
    if "short-body" in call.struck:
        length = max(length - 1, 0)
    body = await service.open(call, entry, offset, length)
    if call.rdma_requested and service.dialect.rdma:
        return await onesided.get(service, call, headers, status, body)
    return Reply(status, headers, body)


async def head_object(service: Service, call: Call) -> Reply:
    bucket = service.bucket(call)
    entry = service.visible(call, bucket)
    check_read(call, entry)
    headers, status, _offset, length = _extent(call, entry)
    headers["Content-Length"] = str(length)
    return Reply(status, headers)


def _extent(call: Call, entry: Entry) -> tuple[dict[str, str], int, int, int]:
    """(headers, status, offset, length) of what a GET or HEAD asks for."""
    headers = entry_headers(
        entry,
        checksum=call.header("x-amz-checksum-mode") == "ENABLED" and not call.has("Range"),
    )
    for name, value in call.query.items():
        if name in OVERRIDES:
            headers[OVERRIDES[name]] = value
    wanted = parse_range(call.header("Range"), entry.size) if call.has("Range") else None
    if "partNumber" in call.query:
        wanted = _part(call, entry, headers)
    if wanted is None or entry.size == 0:
        return headers, 200, 0, entry.size
    offset, length = wanted
    headers["Content-Range"] = f"bytes {offset}-{offset + length - 1}/{entry.size}"
    return headers, 206, offset, length


def _part(call: Call, entry: Entry, headers: dict[str, str]) -> tuple[int, int]:
    """(offset, length) of the part that partNumber names."""
    if call.has("Range") or not call.query["partNumber"].isdecimal():
        raise S3Error("InvalidRequest", "Cannot specify both Range header and partNumber query parameter")
    sizes = entry.meta.parts or (entry.size,)
    number = int(call.query["partNumber"])
    if not 1 <= number <= len(sizes):
        raise S3Error("InvalidPartNumber", "The requested partnumber is not satisfiable")
    if entry.meta.parts:
        headers["x-amz-mp-parts-count"] = str(len(sizes))
    return sum(sizes[: number - 1]), sizes[number - 1]


async def delete_object(service: Service, call: Call) -> Reply:
    """Forget the object, if it is the one that the conditions name; 204 also when there was none."""
    _delete(
        service,
        service.bucket(call),
        call.key,
        etag=call.header("If-Match"),
        modified=_time(call.header("x-amz-if-match-last-modified-time")),
        size=_size(call.header("x-amz-if-match-size")),
    )
    return Reply(204)


def _time(written: str) -> datetime.datetime | None:
    try:
        return parsedate_to_datetime(written) if written else None
    except ValueError:
        return _iso_time(written)


def _iso_time(written: str) -> datetime.datetime | None:
    try:
        found = datetime.datetime.fromisoformat(written)
    except ValueError:
        raise S3Error("InvalidArgument", "The time of a condition is not a date.") from None
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def _size(written: str) -> int | None:
    if written and not (written.isascii() and written.isdigit()):
        raise S3Error("InvalidArgument", "The size of a condition is not a number.")
    return int(written) if written else None


def _delete(
    service: Service,
    bucket: Bucket,
    key: str,
    *,
    etag: str = "",
    modified: datetime.datetime | None = None,
    size: int | None = None,
) -> None:
    entry = service.index.get(bucket.id, key)
    if entry:
        check_delete(entry, etag=etag, modified=modified, size=size)
        refuse_retained(bucket, entry, service.clock())
        service.index.delete(bucket.id, key)
        service.drop(entry.file, entry.size)


async def delete_objects(service: Service, call: Call) -> Reply:
    """Delete up to 1,000 keys named in the body. ObjectScale insists on Content-MD5 here."""
    bucket = service.bucket(call)
    require_md5(service, call)
    root = parse(await service.document(call, MAX_DOCUMENT), "Delete")
    wanted = root.findall("Object")
    if not 1 <= len(wanted) <= MAX_DELETE:
        raise malformed()
    quiet = text(root, "Quiet", "false").strip().lower() == "true"
    results: list[tuple[str, list[tuple[str, str]]]] = []
    for node in wanted:
        key = text(node, "Key")
        if not key:
            raise malformed()
        if text(node, "VersionId", "null") not in ("null", ""):
            results.append(
                (
                    "Error",
                    [("Key", key), ("Code", "NotImplemented"), ("Message", "Versions are not supported.")],
                )
            )
            continue
        try:
            _delete(
                service,
                bucket,
                key,
                etag=text(node, "ETag", ""),
                modified=_time(text(node, "LastModifiedTime", "")),
                size=_size(text(node, "Size", "")),
            )
        except S3Error as error:
            results.append(("Error", [("Key", key), ("Code", error.code), ("Message", error.message)]))
            continue
        if not quiet:
            results.append(("Deleted", [("Key", key)]))
    return Reply(body=document("DeleteResult", results))


def require_md5(service: Service, call: Call) -> None:
    """ECS wants Content-MD5 on documents that new SDKs send with a CRC instead."""
    if service.dialect.require_content_md5 and not call.has("Content-MD5"):
        raise S3Error("InvalidRequest", "Missing required header for this request: Content-MD5")
