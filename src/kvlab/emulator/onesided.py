"""PUT and GET whose payload travels between client memory and the object's file, not in the HTTP body.

Both manners: `x-rdma-info` (NIXL's Dell engine, LMCache) and `x-amz-rdma-token` (the cross-vendor name). The
reply says in x-amz-rdma-reply how it went: 200 or 206 moved, 501 declined (docs/fidelity.md).
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import os
import uuid
from collections.abc import Callable

from kvlab.emulator import rdma
from kvlab.emulator.call import Call, FileSlice, Reply
from kvlab.emulator.errors import DisconnectedError, S3Error
from kvlab.emulator.index import Bucket, Meta
from kvlab.emulator.service import Service

REPLY = "x-amz-rdma-reply"
MOVED = "x-amz-rdma-bytes-transferred"
_BRIEF = 1 << 20  # bytes; 0.2 ms, which is less than a request's own processing
_EMPTY_MD5 = hashlib.md5(b"", usedforsecurity=False).hexdigest()


def descriptor(call: Call) -> rdma.Descriptor:
    """The descriptor in the request's header, parsed; InvalidRDMAToken when it is none."""
    token = call.rdma_token
    assert token is not None
    try:
        found = rdma.parse(token)
    except rdma.DescriptorError as error:
        raise S3Error("InvalidRDMAToken", f"The RDMA descriptor is not valid: {error}.") from None
    call.rdma_client = found.client
    return found


async def move(
    service: Service,
    call: Call,
    work: Callable[..., int],
    found: rdma.Descriptor,
    *values: int,
    at_once: bool = False,
) -> int:
    """Run a blocking mover in its pool, or at once; a failed transfer becomes the S3 error it names."""
    if "bandwidth" in call.struck:
        await asyncio.sleep(found.size / call.struck["bandwidth"].bytes_per_second)
    run = functools.partial(work, found, *values, dc_key=service.dc_key)
    try:
        if at_once:
            return run()
        return await asyncio.get_running_loop().run_in_executor(service.movers, run)
    except rdma.RdmaError as error:
        failed = S3Error(error.code, str(error))
        failed.status = error.status
        raise failed from None


async def put(service: Service, call: Call, bucket: Bucket, meta: Meta) -> Reply:
    """Pull the client's memory into a new object. Declined: 200 with reply 501, and nothing is stored."""
    if call.header("Content-Length", "0") != "0" or call.has("Transfer-Encoding"):
        raise S3Error("InvalidRequest", "A PUT with an RDMA descriptor must have Content-Length 0.")
    if not service.rdma or "rdma-declined" in call.struck:
        return Reply(headers={REPLY: "501"})
    incoming = service.store.incoming()
    try:
        if "rdma-ignored" in call.struck:
            await service.commit(call, bucket, incoming, 0, _EMPTY_MD5, meta)
            return Reply(headers={"ETag": f'"{_EMPTY_MD5}"'})
        found = descriptor(call)
        size = found.size
        if "rdma-unmoved" in call.struck:
            os.ftruncate(incoming.fd, size)
        else:
            wanted = size // 2 if _halved(call) else size
            call.rdma_in = await move(service, call, rdma.pull, found, incoming.fd, wanted) if wanted else 0
            _fail_halfway(call)
            if call.rdma_in != size:
                raise S3Error("RDMATransferFailed", "Fewer bytes came than the descriptor announces.")
        # Nobody hashes what a NIC has written; the suffix tells clients that this ETag is no MD5.
        etag = f"{uuid.uuid4().hex}-1"
        await service.commit(call, bucket, incoming, size, etag, meta)
    finally:
        incoming.discard()
    return Reply(headers={"ETag": f'"{etag}"', REPLY: "200", MOVED: str(size)})


async def get(service: Service, call: Call, headers: dict[str, str], status: int, body: FileSlice) -> Reply:
    """Push the bytes into the client's memory; an empty HTTP body. Declined: the bytes are in the body."""
    if not service.rdma or "rdma-declined" in call.struck:
        return Reply(status, headers | {REPLY: "501"}, body)
    if "rdma-fallback" in call.struck:
        return Reply(status, headers, body)
    try:
        if "rdma-ignored" in call.struck:
            return Reply(status, headers)
        found = descriptor(call)
        length = body.length
        if length > found.size:
            raise S3Error(
                "InvalidRDMAToken", f"The descriptor covers {found.size} bytes, the range has {length}."
            )
        wanted = 0 if "rdma-unmoved" in call.struck else length // 2 if _halved(call) else length
        if wanted:
            at_once = is_brief(service, found, wanted)
            call.rdma_out = await move(
                service, call, rdma.push, found, body.fd, body.offset, wanted, at_once=at_once
            )
        _fail_halfway(call)
    finally:
        service.close_file(body.fd)
    return Reply(status, headers | {REPLY: str(status), MOVED: str(length)})


def is_brief(service: Service, found: rdma.Descriptor, length: int) -> bool:
    """Whether a push should not go to a thread: the hop takes as long as the move, and nobody waits for the loop."""
    return length <= _BRIEF and service.in_progress == 1 and rdma.transport_for(found) == "process"


def _halved(call: Call) -> bool:
    return "rdma-partial" in call.struck or "reset-inside" in call.struck


def _fail_halfway(call: Call) -> None:
    if "reset-inside" in call.struck:
        raise DisconnectedError("reset by a fault")
    if "rdma-partial" in call.struck:
        raise S3Error("RDMATransferFailed", "The transfer broke off.")
