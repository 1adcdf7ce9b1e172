"""The S3 front end: one aiohttp handler that identifies, verifies, serves, answers and logs each request."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Callable

from aiohttp import web

from kvlab.emulator import auth, routes
from kvlab.emulator.call import Call, FileSlice, Reply
from kvlab.emulator.errors import DisconnectedError, NotModifiedError, S3Error
from kvlab.emulator.faults import Struck
from kvlab.emulator.log import AccessLog, http_date
from kvlab.emulator.reply import reset, send
from kvlab.emulator.service import Service
from kvlab.emulator.store import storage_error
from kvlab.emulator.xml import document

_log = logging.getLogger("kvlab.emulator")
SERVER = "kvlab-emulator"
AWS_REGION = "us-east-1"


class Front:
    """Serves S3 requests for one Service. `observers` are called with each log record (metrics)."""

    def __init__(self, service: Service, log: AccessLog | None) -> None:
        self.service = service
        self.log = log
        self.observers: list[Callable[[dict[str, object]], None]] = []
        self._boot = os.urandom(4).hex()
        self._numbers = itertools.count(1)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request, from its headers to the reply's last byte. Every path out of here logs one line."""
        self.service.in_progress += 1
        try:
            return await self._handle(Call(request, f"{self._boot}{next(self._numbers):08x}"))
        finally:
            self.service.in_progress -= 1

    async def _handle(self, call: Call) -> web.StreamResponse:
        reply = await self._answer(call)
        if reply is None or ("reset-after" in call.struck and not isinstance(reply.body, FileSlice)):
            self._record(call, 0)
            return self._abort(call)
        reply.headers = {
            "Server": SERVER,
            "x-amz-request-id": call.request_id,
            "x-kvlab-simulated": "objectscale",
        } | reply.headers
        if "clock-skew" in call.struck:
            reply.headers["Date"] = http_date(int(self.service.clock() + call.struck["clock-skew"].seconds))
        if isinstance(reply.body, bytes) and reply.body:
            reply.headers.setdefault("Content-Type", "application/xml")
        written = False

        def logged() -> None:
            nonlocal written
            written = True
            self._record(call, reply.status)

        try:
            return await send(call, reply, self.service.files, logged)
        except (DisconnectedError, ConnectionError) as error:
            call.error = str(error) or type(error).__name__
            if not written:
                self._record(call, reply.status)
            return self._abort(call)

    async def _answer(self, call: Call) -> Reply | None:
        """The reply, errors included; None when there is nobody left to answer."""
        try:
            return await self._serve(call)
        except S3Error as error:
            return _error_reply(call, error)
        except NotModifiedError as condition:
            modified = http_date(int(condition.modified))
            return Reply(304, {"ETag": f'"{condition.etag}"', "Last-Modified": modified})
        except DisconnectedError as gone:
            call.error = str(gone)
            return None
        except asyncio.CancelledError:
            call.error = "cancelled"
            self._record(call, 0)
            raise
        except Exception as error:  # noqa: BLE001 - a client must get S3's InternalError, and the log a line
            known = storage_error(error)
            if known is None:
                _log.exception("request %s failed", call.request_id)
                known = S3Error("InternalError", "We encountered an internal error. Please try again.")
            else:
                _log.error("request %s: %s", call.request_id, error)
            return _error_reply(call, known)

    async def _serve(self, call: Call) -> Reply:
        call.split(self.service.base_urls)
        route = routes.find(call)
        call.op = route.op
        service = self.service
        rdma = service.dialect.rdma
        call.struck = service.faults.strike(call.op, call.bucket, call.key, rdma=rdma and call.rdma_requested)
        skew = await _suffer(call.struck) if call.struck.by_kind else 0.0
        call.who = auth.verify(
            service.users,
            method=call.method,
            raw_path=call.raw_path,
            query=call.pairs,
            headers=call.headers,
            now=service.clock() + skew,
            region=None if service.dialect.region_ignored else AWS_REGION,
        )
        if call.struck.by_kind:
            _refuse_by_fault(call.struck)
        routes.refuse_unknown(call, route, rdma=rdma)
        return await route.handler(service, call)

    def _record(self, call: Call, status: int) -> None:
        record = call.record(status)
        for observe in self.observers:
            observe(record)
        if self.log:
            try:
                self.log.write(record)
            except OSError as error:
                _log.error("the access log cannot be written: %s", error)

    def _abort(self, call: Call) -> web.StreamResponse:
        reset(call.request.transport)
        return web.Response(status=499)


async def _suffer(struck: Struck) -> float:
    """What faults do before a request is looked at; by how many seconds the clock is off."""
    if struck.delay:
        await asyncio.sleep(struck.delay)
    if "reset-before" in struck:
        raise DisconnectedError("reset by a fault")
    return struck["clock-skew"].seconds if "clock-skew" in struck else 0.0


def _refuse_by_fault(struck: Struck) -> None:
    if "revoked" in struck:
        raise S3Error("InvalidAccessKeyId", "The access key ID you provided does not exist in our records.")
    if "slow-down" in struck:
        raise S3Error("SlowDown", "Please reduce your request rate.")
    if "full" in struck:
        raise S3Error("InsufficientStorage", "The store is full; nothing was stored.")


def _error_reply(call: Call, error: S3Error) -> Reply:
    call.error = error.code
    body = b""
    if call.method != "HEAD":
        nodes = [("Code", error.code), ("Message", error.message), *error.extra.items()]
        nodes += [("Resource", call.raw_path), ("RequestId", call.request_id)]
        body = document("Error", nodes, namespace=False)
    return Reply(error.status, body=body)
