"""Headless Chromium, driven by its own DevTools protocol: what a page asks for, logs, and does when it is used."""

from __future__ import annotations

import asyncio
import base64
import itertools
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE_S = 60.0


class Page:
    """One tab. `events` holds all that the browser reported, in order."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.events: list[dict[str, Any]] = []
        self.number = itertools.count(1)

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self.number)
        await self.socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await self.socket.receive_json(timeout=PATIENCE_S)
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return dict(message["result"])
            self.events.append(message)

    async def open(self, path: Path) -> None:
        """Load a file, and wait until the browser has."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=path.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(await self.socket.receive_json(timeout=PATIENCE_S))

    async def value(self, expression: str) -> Any:
        """What a JavaScript expression gives, as JSON."""
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    async def press(self, key: str, text: str) -> None:
        code = {"Enter": 13, " ": 32}[key]
        for kind in ("keyDown", "keyUp"):
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, text=text, windowsVirtualKeyCode=code
            )

    async def look(self, *, width: int, scheme: str = "light", media: str = "screen") -> None:
        """Be as wide as this (CSS pixels), and prefer a colour scheme."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        await self.call("Emulation.setEmulatedMedia", media=media, features=features)

    async def screenshot(self) -> bytes:
        found = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(found["data"])

    async def pdf(self) -> bytes:
        """The page as it is printed."""
        found = await self.call("Page.printToPDF", printBackground=False)
        return base64.b64decode(found["data"])

    def requests(self) -> list[str]:
        """Every address that was asked for."""
        return [
            e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """What stands in the console: messages, refusals of the content policy, uncaught errors."""
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [str(e["params"]) for e in self.events if e["method"] in kinds]


@asynccontextmanager
async def _browser() -> AsyncIterator[Page]:
    if CHROMIUM is None:
        raise RuntimeError("no Chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            port = await _port(Path(profile) / "DevToolsActivePort", process)
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    tab = next(one for one in await answer.json() if one["type"] == "page")
                async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    yield Page(socket)
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    """Where the browser listens; it writes so once it does."""
    for _ in range(int(PATIENCE_S / 0.1)):
        if process.returncode is not None:
            raise RuntimeError(f"{CHROMIUM} ended with {process.returncode}")
        if file.exists() and (lines := file.read_text().split()):
            return int(lines[0])
        await asyncio.sleep(0.1)
    raise RuntimeError(f"{CHROMIUM} did not listen within {PATIENCE_S:.0f} s")


def use(path: Path, what: Callable[[Page], Awaitable[Any]]) -> Any:
    """Open a file in a browser of its own, and do something with it."""

    async def run() -> Any:
        async with _browser() as page:
            await page.open(path)
            return await what(page)

    return asyncio.run(run())
