"""PUT and GET whose payload travels between client memory and the object's file, not in the HTTP body.

Both manners: `x-rdma-info` (NIXL's Dell engine, LMCache) and `x-amz-rdma-token` (the cross-vendor name). The
reply says in x-amz-rdma-reply how it went: 200 or 206 moved, 501 declined (docs/fidelity.md).
"""

from __future__ import annotations

import asyncio
import importlib
import os
import uuid
from typing import Any

from kvlab.emulator.call import Call, FileSlice, Reply
from kvlab.emulator.errors import S3Error
from kvlab.emulator.index import Bucket, Entry, Meta
from kvlab.emulator.service import Service

REPLY = "x-amz-rdma-reply"
MOVED = "x-amz-rdma-bytes-transferred"


def mover() -> Any:
    """The module that moves bytes, imported at first use."""
    try:
        return importlib.import_module("kvlab.emulator.rdma")
    except ModuleNotFoundError:
        raise S3Error("NotImplemented", "This emulator has no RDMA transport.") from None


def descriptor(call: Call) -> Any:
    """The descriptor in the request's header, parsed; InvalidRDMAToken when it is none."""
    rdma = mover()
    token = call.rdma_token
    assert token is not None
    try:
        found = rdma.parse(token)
    except rdma.DescriptorError as error:
        raise S3Error("InvalidRDMAToken", f"The RDMA descriptor is not valid: {error}.") from None
    call.rdma_client = str(found.client)
    return found


async def move(service: Service, work: Any, *values: object) -> int:
    """Run a blocking mover in its pool; a failed transfer becomes the S3 error it names."""
    rdma = mover()
    try:
        moved: int = await asyncio.get_running_loop().run_in_executor(service.movers, work, *values)
    except rdma.RdmaError as error:
        failed = S3Error(error.code, str(error))
        failed.status = error.status
        raise failed from None
    return moved


async def put(service: Service, call: Call, bucket: Bucket, meta: Meta) -> Reply:
    """Pull the client's memory into a new object. Declined: 200 with reply 501, and nothing is stored."""
    if call.header("Content-Length", "0") != "0" or "Transfer-Encoding" in call.request.headers:
        raise S3Error("InvalidRequest", "A PUT with an RDMA descriptor must have Content-Length 0.")
    if not service.rdma:
        return Reply(headers={REPLY: "501"})
    found = descriptor(call)
    incoming = service.store.incoming()
    try:
        moved = await move(service, mover().pull, found, incoming.fd, found.size)
        call.rdma_in = moved
        if moved != found.size:
            raise S3Error("RDMATransferFailed", "Fewer bytes came than the descriptor announces.")
        # Nobody hashes what a NIC has written; the suffix tells clients that this ETag is no MD5.
        etag = f"{uuid.uuid4().hex}-1"
        await service.commit(call, bucket, incoming, moved, etag, meta)
    finally:
        incoming.discard()
    return Reply(headers={"ETag": f'"{etag}"', REPLY: "200", MOVED: str(moved)})


async def get(
    service: Service, call: Call, entry: Entry, headers: dict[str, str], offset: int, length: int
) -> Reply:
    """Push the bytes into the client's memory; 206 with an empty body. Declined: bytes in the body."""
    status = 206 if "Content-Range" in headers else 200
    if not service.rdma:
        return Reply(status, headers | {REPLY: "501"}, FileSlice(service.store.open(entry), offset, length))
    found = descriptor(call)
    if length > found.size:
        raise S3Error(
            "InvalidRDMAToken", f"The descriptor covers {found.size} bytes, the range has {length}."
        )
    fd = service.store.open(entry)
    try:
        call.rdma_out = await move(service, mover().push, found, fd, offset, length)
    finally:
        os.close(fd)
    if call.rdma_out != length:
        raise S3Error("RDMATransferFailed", "Fewer bytes were written than the range has.")
    return Reply(status, headers | {REPLY: str(status), MOVED: str(length)})
