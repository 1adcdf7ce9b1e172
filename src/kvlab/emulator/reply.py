"""Sending a reply: small ones in one write, files by sendfile, and the log line before the last byte."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import struct
import time
from collections.abc import Callable
from concurrent.futures import Executor

from aiohttp.web import BaseRequest, Response, StreamResponse

from kvlab.emulator.call import Call, FileSlice, Reply
from kvlab.emulator.errors import DisconnectedError

INLINE = 64 << 10  # a file this small is read on the loop and sent with the headers
_PIECE = 256 << 10  # bytes read at a time where sendfile cannot be used (TLS)
_STALL_S = 60.0  # a client that takes nothing for this long is gone


async def send(call: Call, reply: Reply, pool: Executor, logged: Callable[[], None]) -> StreamResponse:
    """Send the reply. `logged` is called once, before the last byte leaves."""
    request = call.request
    if not request.content.is_eof():
        call.close = True  # an unread body would be taken for the next request
    if isinstance(reply.body, FileSlice):
        try:
            if not {"bandwidth", "reset-inside", "reset-after"}.isdisjoint(call.struck.by_kind):
                return await _send_slowly(call, reply, reply.body, logged)
            if reply.body.length > INLINE:
                return await _send_file(call, reply, reply.body, pool, logged)
            body = os.pread(reply.body.fd, reply.body.length, reply.body.offset)
            call.body_out = len(body)
        finally:
            os.close(reply.body.fd)
    else:
        body = reply.body
    response: StreamResponse
    if request.method == "HEAD" or reply.status in (204, 304):
        response = StreamResponse(status=reply.status, headers=reply.headers)
    else:
        response = Response(status=reply.status, headers=reply.headers, body=body)
    _connection(call, response)
    logged()
    await response.prepare(request)
    await response.write_eof()
    return response


def _connection(call: Call, response: StreamResponse) -> None:
    if call.close:
        response.force_close()


async def _send_file(
    call: Call, reply: Reply, body: FileSlice, pool: Executor, logged: Callable[[], None]
) -> StreamResponse:
    request = call.request
    response = StreamResponse(status=reply.status, headers=reply.headers)
    response.content_length = body.length
    _connection(call, response)
    try:
        await response.prepare(request)
        await _send_most(call, request, body, pool)
        last = os.pread(body.fd, 1, body.offset + body.length - 1)
        call.body_out = body.length
        logged()
        await response.write(last)
        await response.write_eof()
    except (ConnectionError, TimeoutError) as error:
        call.close = True
        raise DisconnectedError(f"the client went away inside the reply ({type(error).__name__})") from None
    return response


async def _send_most(call: Call, request: BaseRequest, body: FileSlice, pool: Executor) -> None:
    """All but the last byte."""
    count = body.length - 1
    loop = asyncio.get_running_loop()
    transport = request.transport
    if transport is None:
        raise ConnectionResetError
    if transport.get_extra_info("sslcontext"):
        for at in range(0, count, _PIECE):
            piece = await loop.run_in_executor(
                pool, os.pread, body.fd, min(_PIECE, count - at), body.offset + at
            )
            await request.writer.write(piece)
            call.body_out += len(piece)
        return
    while transport.get_write_buffer_size():
        if transport.is_closing():
            raise ConnectionResetError
        await asyncio.sleep(0)
    # A copy of the descriptor, so that it stays ours when the loop closes the connection meanwhile.
    out = os.dup(transport.get_extra_info("socket").fileno())
    try:
        sent = await loop.run_in_executor(pool, _sendfile, out, body.fd, body.offset, count)
    finally:
        os.close(out)
    call.body_out += sent
    if sent < count:
        raise ConnectionResetError


def _sendfile(out: int, file: int, offset: int, count: int) -> int:
    """Copy file to socket in the kernel; the bytes sent, fewer than `count` when the client went away."""
    sent = 0
    poll = select.poll()
    poll.register(out, select.POLLOUT)
    last = time.monotonic()
    while sent < count:
        try:
            done = os.sendfile(out, file, offset + sent, count - sent)
        except BlockingIOError:
            if not poll.poll(1000) and time.monotonic() - last > _STALL_S:
                return sent
            continue
        except ConnectionError:
            return sent
        if done == 0:
            return sent
        sent += done
        last = time.monotonic()
    return sent


async def _send_slowly(
    call: Call, reply: Reply, body: FileSlice, logged: Callable[[], None]
) -> StreamResponse:
    """For faults: at a limited rate, or only a part before the connection is reset."""
    struck = call.struck
    rate = struck["bandwidth"].bytes_per_second if "bandwidth" in struck else 0
    cut = "reset-inside" in struck or "reset-after" in struck
    # "After" means that the request has had its whole effect, so only the last byte is missing.
    count = body.length // 2 if "reset-inside" in struck else max(body.length - 1, 0) if cut else body.length
    response = StreamResponse(status=reply.status, headers=reply.headers)
    response.content_length = body.length
    _connection(call, response)
    await response.prepare(call.request)
    size = min(_PIECE, max(rate // 20, 1)) if rate else _PIECE
    while call.body_out < count:
        piece = os.pread(body.fd, min(size, count - call.body_out), body.offset + call.body_out)
        call.body_out += len(piece)
        if call.body_out == body.length:
            logged()
        await response.write(piece)
        if rate:
            await asyncio.sleep(len(piece) / rate)
    if cut:
        await _flushed(call.request)
        raise DisconnectedError("reset by a fault")
    if not body.length:
        logged()
    await response.write_eof()
    return response


async def _flushed(request: BaseRequest) -> None:
    """Until everything written is with the kernel."""
    while request.transport is not None and request.transport.get_write_buffer_size():
        await asyncio.sleep(0.001)


def reset(transport: asyncio.Transport | None) -> None:
    """End a connection as a crash would: what is not sent yet is lost and the client sees a reset."""
    if transport is not None:
        transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        transport.abort()
