"""Runs an emulator: opens the state folder, binds the ports, serves until told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import signal
import sqlite3
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from aiohttp import web

from kvlab import ports
from kvlab.emulator import admin, lifecycle, tls
from kvlab.emulator.addressing import BaseUrl
from kvlab.emulator.app import Front
from kvlab.emulator.dialect import DIALECTS
from kvlab.emulator.log import AccessLog
from kvlab.emulator.management import front as management
from kvlab.emulator.management.ask import Array, Setup
from kvlab.emulator.management.records import Records
from kvlab.emulator.management.tokens import Tokens, load_administrators
from kvlab.emulator.metrics import Metrics
from kvlab.emulator.rdma import DEFAULT_DC_KEY
from kvlab.emulator.service import Service
from kvlab.emulator.store import Store
from kvlab.emulator.users import UserStore, load_users
from kvlab.errors import KvlabError

_log = logging.getLogger("kvlab.emulator")
_READ_BUFFER = 1 << 20  # bytes aiohttp holds of a body before it stops reading the socket


@dataclass(frozen=True)
class Options:
    """What `kvlab emulator` is told. A port of 0 switches that interface off."""

    state: Path
    users: Path | None = None
    address: str = "127.0.0.1"
    s3_port: int = 9020
    tls_port: int = 0
    metrics_port: int = 0
    admin_port: int = 0
    access_log: Path | None = None
    dialect: str = "objectscale"
    fsync: bool = False
    rdma: bool = True
    rdma_dc_key: int = DEFAULT_DC_KEY
    base_urls: tuple[BaseUrl, ...] = ()
    management_port: int = 0
    management_credentials: Path | None = None
    management_log: Path | None = None
    replication_groups: tuple[str, ...] = Setup.replication_groups
    node_addresses: tuple[str, ...] = ()  # none: the address that is listened on


async def serve(options: Options, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT. `ready` gets one line once requests are answered."""
    users = UserStore(load_users(options.users) if options.users else [])
    dialect = DIALECTS[options.dialect]
    store = Store(options.state, utf16_order=dialect.utf16_order, fsync=options.fsync)
    service = Service(
        store,
        users,
        dialect,
        rdma=options.rdma,
        fsync=options.fsync,
        dc_key=options.rdma_dc_key,
        base_urls=list(options.base_urls),
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(service.close)
        log = AccessLog(options.access_log or options.state / "access.log")
        stack.callback(log.close)
        front = Front(service, log)
        if options.management_port:
            array = _array(stack, service, options)
        places = await _s3(stack, front, options)
        if options.management_port:
            places.append(await _management(stack, array, options))
        if options.admin_port:
            await _page(stack, admin.application(service.faults), options.admin_port)
            places.append(f"faults on http://127.0.0.1:{options.admin_port}")
        if options.metrics_port:
            metrics = Metrics(dialect.name)
            front.observers.append(metrics.observe)
            await _page(stack, metrics.application(), options.metrics_port)
            places.append(f"metrics on http://127.0.0.1:{options.metrics_port}/metrics")
        sweeper = asyncio.create_task(_sweep(service))
        stack.callback(sweeper.cancel)
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        if options.users:
            loop.add_signal_handler(signal.SIGHUP, _reload, users, options.users, ready)
        ready(f"kvlab emulator ({dialect.name}, simulated): {', '.join(places)}")
        await stop.wait()


async def _s3(stack: contextlib.AsyncExitStack, front: Front, options: Options) -> list[str]:
    """Listen for S3 over HTTP and, when asked, TLS; where."""
    server = web.Server(
        front.handle, access_log=None, auto_decompress=False, read_bufsize=_READ_BUFFER, lingering_time=5.0
    )
    runner = web.ServerRunner(server, shutdown_timeout=5.0)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await _listen(runner, options.address, options.s3_port)
    places = [f"S3 on http://{options.address}:{options.s3_port}"]
    if options.tls_port:
        await _listen(runner, options.address, options.tls_port, _certificate(options))
        places.append(f"https://{options.address}:{options.tls_port}")
    return places


def _certificate(options: Options) -> ssl.SSLContext:
    names = [name for base in options.base_urls for name in (base.name, f"*.{base.name}")]
    return tls.context(options.state / "tls", options.address, names)


def _array(stack: contextlib.AsyncExitStack, service: Service, options: Options) -> Array:
    """What the management API works on; S3 knows its users from here on."""
    if options.management_credentials is None:
        raise KvlabError("the management API needs its users; name their file with --management-credentials")
    tokens = Tokens(load_administrators(options.management_credentials))
    records = Records(options.state / "management.sqlite")
    stack.callback(records.close)
    address = "127.0.0.1" if options.address in ("0.0.0.0", "::") else options.address
    setup = Setup(options.replication_groups, options.node_addresses or (address,))
    array = Array(service, records, tokens, setup)
    management.load(array, options.base_urls)
    return array


async def _management(stack: contextlib.AsyncExitStack, array: Array, options: Options) -> str:
    """Serve the management API over TLS, as the array does; where."""
    log = AccessLog(options.management_log or options.state / "management.log")
    stack.callback(log.close)
    front = management.Front(array, log)
    runner = web.AppRunner(front.application(), access_log=None)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await _listen(runner, options.address, options.management_port, _certificate(options))
    worker = asyncio.create_task(front.work())
    stack.callback(worker.cancel)
    return f"management on https://{options.address}:{options.management_port}"


async def _page(stack: contextlib.AsyncExitStack, application: web.Application, port: int) -> None:
    """Serve an application on loopback, whatever address S3 has."""
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await _listen(runner, "127.0.0.1", port)


async def _sweep(service: Service) -> None:
    """Expire what lifecycles say, now and then."""
    while True:
        try:
            lifecycle.expire(service)
        except (OSError, sqlite3.Error) as error:
            _log.error("objects could not be expired: %s", error)
        await asyncio.sleep(lifecycle.SWEEP_S)


async def _listen(
    runner: web.BaseRunner, address: str, port: int, context: ssl.SSLContext | None = None
) -> None:
    try:
        await web.TCPSite(runner, address, port, ssl_context=context, backlog=512).start()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise KvlabError(
                f"port {port} on {address} is in use by {_holder(address, port)}; stop it or choose another port"
            ) from None
        raise KvlabError(f"cannot listen on {address}:{port} ({error.strerror})") from None


def _holder(address: str, port: int) -> str:
    """The process that listens on the port, in words."""
    process = ports.holder(address, port)
    if process is None:
        return "a process that this user may not see"
    try:
        return f"process {process.pid} ({' '.join(process.cmdline())[:80] or process.name()})"
    except psutil.Error:
        return f"process {process.pid}"


def _reload(users: UserStore, path: Path, say: Callable[[str], None]) -> None:
    """SIGHUP: take the users file again; a bad file leaves the users as they are."""
    try:
        users.replace_all(load_users(path))
        say(f"users read again from {path}")
    except KvlabError as error:
        say(f"users unchanged: {error}")
