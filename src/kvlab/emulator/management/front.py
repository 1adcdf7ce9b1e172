"""The management API over HTTPS: finds the operation, checks the token, answers in XML or JSON, writes the log."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie

from aiohttp import web

from kvlab.emulator.addressing import BaseUrl
from kvlab.emulator.faults import MANAGEMENT, Struck
from kvlab.emulator.log import AccessLog, iso
from kvlab.emulator.management import emptying, iam, keys, topology
from kvlab.emulator.management.account import TOKEN
from kvlab.emulator.management.ask import Answer, Array, Ask
from kvlab.emulator.management.documents import MAX_BODY, decode, encode, speakable, wants_json
from kvlab.emulator.management.errors import ApiError, IamError
from kvlab.emulator.management.routes import OPEN, ROUTES, Route
from kvlab.emulator.management.tokens import Administrator
from kvlab.emulator.reply import reset

_log = logging.getLogger("kvlab.emulator.management")
STEP_S = 0.05
"""Seconds between two batches of a bucket that is emptied."""
_EXPIRY_S = 1.0  # between two looks for keys that have expired

_NOBODY = Administrator("", "")


@dataclass
class _Seen:
    """What the log says of one request."""

    op: str = "Unknown"
    user: str = ""
    code: int | str | None = None
    struck: Struck = field(default_factory=Struck)


class Front:
    """Serves one array's management API."""

    def __init__(self, array: Array, log: AccessLog) -> None:
        self._array = array
        self._log = log

    def application(self) -> web.Application:
        made = web.Application(middlewares=[self._unknown], client_max_size=MAX_BODY)
        for route in ROUTES:
            made.router.add_route(route.method, route.path, self._handler(route))
        return made

    async def work(self) -> None:
        """Do what the array does by itself, for ever."""
        expiry = 0.0
        while True:
            try:
                emptying.step(self._array)
                if time.monotonic() >= expiry:
                    expiry = time.monotonic() + _EXPIRY_S
                    keys.expire(self._array)
            except (OSError, sqlite3.Error) as error:
                _log.error("a bucket could not be emptied, or a key not be ended: %s", error)
            await asyncio.sleep(STEP_S)

    def _handler(self, route: Route) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._serve(request, route)

        return handle

    @web.middleware
    async def _unknown(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Paths and methods that there are not are refused in the API's own form, and logged as all others."""
        try:
            return await handler(request)
        except web.HTTPMethodNotAllowed:
            return await self._refuse(
                request, ApiError(1007, f"{request.method} is not supported on {request.path}")
            )
        except web.HTTPNotFound:
            return await self._refuse(request, ApiError(2000, f"There is nothing at {request.path}"))

    async def _refuse(self, request: web.Request, error: ApiError) -> web.StreamResponse:
        def refuse(_ask: Ask) -> Answer:
            raise error

        return await self._serve(request, Route("Unknown", request.method, request.path, refuse))

    async def _serve(self, request: web.Request, route: Route) -> web.StreamResponse:
        seen = _Seen(op=route.op)
        begun, clock = time.time(), time.perf_counter()
        seen.struck = self._array.service.faults.strike(MANAGEMENT + route.op, "", "", rdma=False)
        status = 0
        try:
            if seen.struck.delay:
                await asyncio.sleep(seen.struck.delay)
            if "reset-before" in seen.struck:
                return _abort(request)
            reply = await self._reply(request, route, seen)
            if "reset-after" in seen.struck:
                return _abort(request)
            status = reply.status
            return reply
        finally:
            record: dict[str, object] = {
                "time": iso(begun),
                "op": seen.op,
                "method": request.method,
                "path": request.path,
                "status": status,
                "code": seen.code,
                "user": seen.user,
                "duration_ms": round((time.perf_counter() - clock) * 1000, 3),
                "fault": seen.struck.names,
                "simulated": True,
            }
            try:
                self._log.write(record)
            except OSError as error:
                _log.error("the management log cannot be written: %s", error)

    async def _reply(self, request: web.Request, route: Route, seen: _Seen) -> web.Response:
        """The reply, errors included."""
        as_json = wants_json(request.headers.get("Accept", ""))
        try:
            answer = await self._answer(request, route, seen)
        except ApiError as error:
            seen.code = error.code
            answer = Answer(error.document(), "error", error.status)
        except IamError as error:
            seen.code = error.code
            content = error.document() if as_json else {"Error": error.document()}
            answer = Answer(content, "ErrorResponse", error.status)
        except Exception:  # noqa: BLE001 - a client must get the API's own error, and the log a line
            _log.exception("%s %s failed", request.method, request.path)
            answer = _failed(seen)
        try:
            body = encode(answer.root, answer.document, as_json=as_json) if answer.document else b""
        except (ValueError, TypeError):
            _log.exception("the reply to %s %s cannot be written", request.method, request.path)
            answer = _failed(seen)
            body = encode(answer.root, answer.document, as_json=as_json)
        headers = {"x-kvlab-simulated": "objectscale", "Server": "kvlab-emulator", **answer.headers}
        if body:
            headers["Content-Type"] = "application/json" if as_json else "application/xml"
        return web.Response(status=answer.status, body=body, headers=headers)

    async def _answer(self, request: web.Request, route: Route, seen: _Seen) -> Answer:
        array, struck = self._array, seen.struck
        if "token-expired" in struck:
            array.tokens.expire_all()
        token = _token(request)
        admin = _NOBODY if route.op in OPEN else array.tokens.user(token)
        seen.user = admin.name
        if "busy" in struck:
            raise ApiError(6000, "The service is busy; try again later")
        if "failing" in struck:
            raise ApiError(30024, "An internal exception, as a fault wants it")
        if "unlicensed" in struck:
            raise ApiError(3001, "There is no valid licence")
        if not speakable([*request.query.values(), *request.match_info.values()]):
            if route.op == "Iam":
                raise IamError("ValidationError", "A parameter holds characters that XML has not.")
            raise ApiError(1008, "The path or the query holds characters that XML has not")
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ApiError(1013, "A compressed body is not taken")
        try:
            body = decode(await request.read(), request.content_type)
        except web.HTTPRequestEntityTooLarge:
            raise ApiError(1013, f"The request's body is over {MAX_BODY} bytes") from None
        answer = route.handler(
            Ask(
                array,
                admin,
                token,
                place=dict(request.match_info),
                query=dict(request.query),
                body=body,
                headers={name.lower(): value for name, value in request.headers.items()},
                authorization=request.headers.get("Authorization", ""),
            )
        )
        seen.user = answer.headers.get("X-SDS-AUTH-USERNAME", seen.user)
        return answer


def load(array: Array, base_urls: tuple[BaseUrl, ...]) -> None:
    """Let S3 know what is kept from before."""
    topology.publish_base_urls(array, base_urls)
    emptying.resume(array)
    for name in array.records.all("user"):
        keys.publish(array, name)
    for user in array.records.all(iam.USER).values():
        iam.publish(array, user)


def _failed(seen: _Seen) -> Answer:
    """The reply to a request that the emulator itself failed at."""
    failed = ApiError(30024, "The emulated array failed; its log says why")
    seen.code = failed.code
    return Answer(failed.document(), "error", failed.status)


def _token(request: web.Request) -> str:
    """From the header, or the cookie of the same name."""
    given = request.headers.get(TOKEN, "")
    if given:
        return given
    try:
        cookies = SimpleCookie(request.headers.get("Cookie", ""))
    except CookieError:
        return ""
    return cookies[TOKEN].value if TOKEN in cookies else ""


def _abort(request: web.Request) -> web.StreamResponse:
    """Let the client see a reset, as when a node crashes."""
    reset(request.transport)
    return web.Response(status=499)
