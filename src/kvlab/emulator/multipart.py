"""Multipart uploads: create, upload a part (from a body or another object), list, complete, abort.

Parts are data files of their own; completing joins them into one. The ETag is S3's: MD5 of the parts' MD5s, a
dash, the number of parts.
"""

from __future__ import annotations

import hashlib
import re
import uuid

from kvlab.emulator.call import Call, Reply
from kvlab.emulator.conditions import check_write
from kvlab.emulator.copying import source_of
from kvlab.emulator.errors import S3Error
from kvlab.emulator.index import Bucket, Meta, Part, Upload
from kvlab.emulator.listing import encoder, max_keys
from kvlab.emulator.log import iso
from kvlab.emulator.metadata import meta_from
from kvlab.emulator.service import Service
from kvlab.emulator.store import Incoming
from kvlab.emulator.xml import Node, document, malformed, parse, text

MAX_PARTS = 10000
MIN_PART = 5 << 20  # bytes; the last part may be smaller
_MAX_DOCUMENT = 4 << 20  # 10,000 parts with their checksums
_NUMBER = re.compile(r"[0-9]{1,5}")


async def create(service: Service, call: Call) -> Reply:
    """Begin an upload; its metadata is fixed here."""
    bucket = service.bucket(call)
    upload = Upload(
        uuid.uuid4().hex, bucket.id, call.key, call.user, service.clock(), meta_from(call, service.dialect)
    )
    service.index.create_upload(upload)
    nodes: list[Node] = [("Bucket", bucket.name), ("Key", call.key), ("UploadId", upload.id)]
    return Reply(body=document("InitiateMultipartUploadResult", nodes))


def _upload(service: Service, call: Call) -> Upload:
    bucket = service.bucket(call)
    upload = service.index.upload(bucket.id, call.key, call.query["uploadId"])
    if upload is None:
        raise S3Error("NoSuchUpload", "The specified upload does not exist.", UploadId=call.query["uploadId"])
    return upload


def _number(call: Call) -> int:
    number = call.query.get("partNumber", "")
    if not _NUMBER.fullmatch(number) or not 1 <= int(number) <= MAX_PARTS:
        raise S3Error(
            "InvalidArgument",
            f"Part number must be an integer between 1 and {MAX_PARTS}, inclusive",
            ArgumentName="partNumber",
        )
    return int(number)


async def upload_part(service: Service, call: Call) -> Reply:
    """Take a part; the same number replaces an earlier one."""
    upload, number = _upload(service, call), _number(call)
    incoming = service.store.incoming()
    try:
        received = await service.receive(call, incoming)
        await _keep(service, call, upload, number, incoming, received.size, received.md5)
    finally:
        incoming.discard()
    headers = {"ETag": f'"{received.md5}"'}
    if received.checksum:
        headers[received.checksum[0]] = received.checksum[1]
    return Reply(headers=headers)


async def upload_part_copy(service: Service, call: Call) -> Reply:
    """Take a part out of another object, all of it or x-amz-copy-source-range."""
    upload, number = _upload(service, call), _number(call)
    source, offset, length = source_of(service, call)
    incoming = service.store.incoming()
    fd = service.store.open(source)
    try:
        md5 = hashlib.md5(usedforsecurity=False)
        await service.in_thread(incoming.append, fd, offset, length, md5)
        part = await _keep(service, call, upload, number, incoming, length, md5.hexdigest())
    finally:
        service.close_file(fd)
        incoming.discard()
    nodes: list[Node] = [("LastModified", iso(part.modified)), ("ETag", f'"{part.etag}"')]
    return Reply(body=document("CopyPartResult", nodes))


async def _keep(
    service: Service, call: Call, upload: Upload, number: int, incoming: Incoming, size: int, etag: str
) -> Part:
    part = Part(number, await service.place(call, incoming), size, etag, service.clock())
    try:
        _upload(service, call)  # it may have been completed or aborted while the body came
        replaced = service.index.put_part(upload.id, part)
    except BaseException:
        service.store.remove(part.file)
        raise
    if replaced:
        service.drop(replaced, size)
    return part


async def list_parts(service: Service, call: Call) -> Reply:
    """The parts there are, by number, with paging."""
    upload = _upload(service, call)
    limit = max_keys(call.query, "max-parts")
    marker = max_keys(call.query, "part-number-marker", most=MAX_PARTS, default=0)
    parts = [p for p in service.index.parts(upload.id) if p.number > marker]
    shown = parts[:limit]
    nodes: list[Node] = [
        ("Bucket", call.bucket),
        ("Key", call.key),
        ("UploadId", upload.id),
        ("Initiator", [("ID", upload.owner), ("DisplayName", upload.owner)]),
        ("Owner", [("ID", upload.owner), ("DisplayName", upload.owner)]),
        ("StorageClass", "STANDARD"),
        ("PartNumberMarker", marker),
        ("MaxParts", limit),
        ("IsTruncated", "true" if len(parts) > len(shown) else "false"),
    ]
    if len(parts) > len(shown) and shown:
        nodes.append(("NextPartNumberMarker", shown[-1].number))
    for part in shown:
        nodes.append(
            (
                "Part",
                [
                    ("PartNumber", part.number),
                    ("LastModified", iso(part.modified)),
                    ("ETag", f'"{part.etag}"'),
                    ("Size", part.size),
                ],
            )
        )
    return Reply(body=document("ListPartsResult", nodes))


async def list_uploads(service: Service, call: Call) -> Reply:
    """The bucket's uploads in progress, with prefix and paging; a delimiter is not supported."""
    bucket = service.bucket(call)
    query = call.query
    limit, prefix = max_keys(query, "max-uploads"), query.get("prefix", "")
    key_marker, id_marker = query.get("key-marker", ""), query.get("upload-id-marker", "")
    uploads = [u for u in service.index.uploads(bucket.id) if u.key.startswith(prefix)]
    if key_marker:
        seen = [i + 1 for i, u in enumerate(uploads) if u.key == key_marker and u.id == id_marker]
        uploads = uploads[seen[0] :] if seen else [u for u in uploads if u.key > key_marker]
    shown = uploads[:limit]
    encode = encoder(query)
    nodes: list[Node] = [
        ("Bucket", bucket.name),
        ("KeyMarker", encode(key_marker)),
        ("UploadIdMarker", id_marker),
        ("Prefix", encode(prefix)),
        ("MaxUploads", limit),
        ("IsTruncated", "true" if len(uploads) > len(shown) else "false"),
    ]
    if len(uploads) > len(shown) and shown:
        nodes += [("NextKeyMarker", encode(shown[-1].key)), ("NextUploadIdMarker", shown[-1].id)]
    if "encoding-type" in query:
        nodes.append(("EncodingType", "url"))
    for upload in shown:
        who: list[Node] = [("ID", upload.owner), ("DisplayName", upload.owner)]
        nodes.append(
            (
                "Upload",
                [
                    ("Key", encode(upload.key)),
                    ("UploadId", upload.id),
                    ("Initiator", who),
                    ("Owner", who),
                    ("StorageClass", "STANDARD"),
                    ("Initiated", iso(upload.started)),
                ],
            )
        )
    return Reply(body=document("ListMultipartUploadsResult", nodes))


async def complete(service: Service, call: Call) -> Reply:
    """Join the parts the body names, in its order, into the object; the other parts are thrown away.

    A client that asks again because it did not get the answer is given the same one.
    """
    bucket = service.bucket(call)
    _refuse_checksum(service, call)
    wanted = _wanted(await service.document(call, _MAX_DOCUMENT))
    done = service.index.completed(bucket.id, call.key, call.query["uploadId"])
    now = service.index.get(bucket.id, call.key)
    if done is None or now is None or now.etag != done:
        done = await _complete(service, call, bucket, wanted)
    nodes: list[Node] = [
        ("Location", f"http://{call.header('Host')}{call.raw_path}"),
        ("Bucket", bucket.name),
        ("Key", call.key),
        ("ETag", f'"{done}"'),
    ]
    return Reply(body=document("CompleteMultipartUploadResult", nodes))


def _refuse_checksum(service: Service, call: Call) -> None:
    """Parts are checked as they come; a checksum over all of them is not computed, so none is said to be right."""
    found = [name for name in call.headers if name.startswith("x-amz-checksum-")]
    if found and not service.dialect.refuse_checksum_trailers:
        raise S3Error(
            "NotImplemented",
            "Checksums of whole multipart objects are not implemented.",
            Header=",".join(found),
        )


async def _complete(service: Service, call: Call, bucket: Bucket, wanted: list[tuple[int, str]]) -> str:
    upload = _upload(service, call)
    have = {part.number: part for part in service.index.parts(upload.id)}
    parts = _chosen(wanted, have)
    check_write(call, service.index.get(bucket.id, call.key))
    incoming = service.store.incoming()
    try:
        try:
            await service.in_thread(_join, service, parts, incoming)
        except FileNotFoundError:
            raise S3Error(
                "NoSuchUpload", "The specified upload does not exist.", UploadId=upload.id
            ) from None
        digests = b"".join(bytes.fromhex(part.etag) for part in parts)
        etag = f"{hashlib.md5(digests, usedforsecurity=False).hexdigest()}-{len(parts)}"
        meta = Meta(upload.meta.headers, upload.meta.user, tuple(part.size for part in parts))
        await service.commit(call, bucket, incoming, sum(p.size for p in parts), etag, meta, upload=upload)
    finally:
        incoming.discard()
    return etag


def _wanted(body: bytes) -> list[tuple[int, str]]:
    root = parse(body, "CompleteMultipartUpload")
    wanted = []
    for node in root.findall("Part"):
        number = text(node, "PartNumber").strip()
        if not _NUMBER.fullmatch(number):
            raise malformed()
        wanted.append((int(number), text(node, "ETag").strip().strip('"')))
    if not wanted:
        raise malformed()
    return wanted


def _chosen(wanted: list[tuple[int, str]], have: dict[int, Part]) -> list[Part]:
    numbers = [number for number, _ in wanted]
    if numbers != sorted(set(numbers)):
        raise S3Error("InvalidPartOrder", "The list of parts was not in ascending order.")
    chosen = []
    for number, etag in wanted:
        part = have.get(number)
        if part is None or part.etag != etag:
            raise S3Error(
                "InvalidPart",
                "One or more of the specified parts could not be found.",
                PartNumber=str(number),
            )
        chosen.append(part)
    for part in chosen[:-1]:
        if part.size < MIN_PART:
            raise S3Error(
                "EntityTooSmall",
                "Your proposed upload is smaller than the minimum allowed object size.",
                PartNumber=str(part.number),
                ProposedSize=str(part.size),
                MinSizeAllowed=str(MIN_PART),
            )
    return chosen


def _join(service: Service, parts: list[Part], incoming: Incoming) -> None:
    for part in parts:
        with open(service.store.path(part.file), "rb") as handle:
            incoming.append(handle.fileno(), 0, part.size)


async def abort(service: Service, call: Call) -> Reply:
    """Forget the upload and its parts."""
    service.end_upload(_upload(service, call))
    return Reply(204)
