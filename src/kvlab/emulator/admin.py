"""The fault interface: HTTP with JSON, on loopback only, for `kvlab emulator fault` and drills.

GET    /faults         what is armed, with hits
POST   /faults         arm one: {"kind": "flip-read", "key": "kv_*", "count": 1}
DELETE /faults/<name>  clear one
DELETE /faults         clear all
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from aiohttp import web

from kvlab.emulator.faults import Fault, FaultBook

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def application(book: FaultBook) -> web.Application:
    """The interface on that book."""

    async def listed(request: web.Request) -> web.Response:  # noqa: ARG001
        return web.json_response({"faults": book.listed(), "simulated": True})

    async def add(request: web.Request) -> web.Response:
        # Insisting on JSON keeps a web page in some browser of this machine from arming faults.
        if request.content_type != "application/json":
            return _refused(415, "send application/json")
        try:
            fields = json.loads(await request.read())
            if not isinstance(fields, dict):
                raise ValueError("a fault is a JSON object")
            fault = Fault.make(fields)
            book.add(fault)
        except ValueError as error:
            return _refused(400, str(error))
        return web.json_response({"name": fault.name}, status=201)

    async def clear(request: web.Request) -> web.Response:
        name = request.match_info.get("name")
        count = book.clear(name)
        if name and not count:
            return _refused(404, f"there is no fault named {name}")
        return web.json_response({"cleared": count})

    app = web.Application(client_max_size=64 << 10)
    app.router.add_get("/faults", listed)
    app.router.add_post("/faults", add)
    app.router.add_delete("/faults", clear)
    app.router.add_delete("/faults/{name}", clear)
    return app


def _refused(status: int, why: str) -> web.Response:
    return web.json_response({"error": why}, status=status)
