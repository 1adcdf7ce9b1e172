"""Does the harness measure TTFT, or itself? Against a server of known TTFT, or a vLLM, clients take turns:

    raw    a socket and a prepared request: what this machine's loopback and scheduler cost
    kvlab  the client that measures in a run
    vllm   vLLM's own benchmark client, where there is a serving venv

`overhead_ms` is the median of kvlab's TTFT minus that of the raw socket's, in the same run; `within` says that it is
under 1 % or 2 ms, and that kvlab agrees with vLLM's client where that took part.
"""

from __future__ import annotations

import contextlib
import json
import math
import random
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from kvlab.errors import KvlabError
from kvlab.ttft import prompts
from kvlab.ttft.client import Client

MAX_TOKENS = 4
AGREEMENT = 0.02
"""How far kvlab's TTFT may be from that of vLLM's client, as a share of it."""
SILENCE_S = 120.0
Ask = Callable[[list[int]], float]
"""Seconds from the request to the first event of the stream."""


@dataclass(frozen=True)
class Settings:
    """`url` None: a server of known TTFT is started, `delay_ms` long. `serving_python` None: without vLLM's client."""

    url: str | None = None
    model: str = ""
    tokens: int = 512
    rounds: int = 20
    delay_ms: float = 100.0
    serving_python: Path | None = None


def run(settings: Settings, tell: Callable[[str], None]) -> dict[str, Any]:
    """Medians in ms by client, and what the harness adds. Raises KvlabError when the server does not answer."""
    with contextlib.ExitStack() as stack:
        url = settings.url or stack.enter_context(_known_server(settings.delay_ms / 1000))
        model = settings.model or (_served(url) if settings.url else "")
        clients: dict[str, Ask] = {"raw": _raw(url, model), "kvlab": _kvlab(url)}
        if settings.serving_python:
            tell("starting vLLM's client (its imports take half a minute)")
            clients["vllm"] = stack.enter_context(_vllm(settings.serving_python, url, model))
        times: dict[str, list[float]] = {name: [] for name in clients}
        order = random.Random(1)
        for number in range(settings.rounds + 1):
            # Each client leaves the server to the next after another pause: in a fixed order the same one would
            # always pay for the same predecessor, and seem slower by some percent.
            turn = order.sample(list(clients), len(clients))
            for name in turn:
                took = clients[name](prompts.prompt("bench", 1, number, settings.tokens))
                if number:  # the first round warms up
                    times[name].append(took * 1000)
            tell(f"round {number} of {settings.rounds}")
    return _summary(settings, times)


def _summary(settings: Settings, times: dict[str, list[float]]) -> dict[str, Any]:
    medians = {name: statistics.median(values) for name, values in times.items()}
    overhead = medians["kvlab"] - medians["raw"]
    found: dict[str, Any] = {
        "simulated": settings.url is None,
        "rounds": settings.rounds,
        "ttft_ms": {name: round(value, 3) for name, value in medians.items()},
        "overhead_ms": round(overhead, 3),
        "overhead_share": round(overhead / medians["raw"], 5),
        "within": overhead < max(2.0, medians["raw"] / 100),
    }
    if settings.url is None:
        found["known_ms"] = settings.delay_ms
    if "vllm" in medians:
        # Round by round, so that what slows the machine for a while is in both.
        ratio = statistics.median(k / v for k, v in zip(times["kvlab"], times["vllm"], strict=True))
        found["kvlab_over_vllm"] = round(ratio, 5)
        found["within"] = found["within"] and abs(ratio - 1) <= AGREEMENT
    return found


def _served(url: str) -> str:
    """The model that the vLLM at `url` serves; KvlabError when it does not say."""
    try:
        answer = httpx.get(f"{url}/v1/models", timeout=10, trust_env=False).raise_for_status().json()
        return str(answer["data"][0]["id"])
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, IndexError, TypeError) as error:
        raise KvlabError(f"{url} does not answer with the model it serves ({error}); is vLLM up?") from None


@contextlib.contextmanager
def _known_server(delay_s: float) -> Iterator[str]:
    command = [sys.executable, "-m", "kvlab.ttft.fake_vllm", str(delay_s)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        if not port:
            raise KvlabError(
                "the server of known TTFT did not start; run the command again with free memory."
            )
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _raw(url: str, model: str) -> Ask:
    parts = urlsplit(url)
    if not parts.hostname or not parts.port:
        raise KvlabError(f"{url} is no address such as http://127.0.0.1:8000.")
    place = parts.hostname, parts.port

    def ask(ids: list[int]) -> float:
        job: dict[str, Any] = {"prompt": ids, "max_tokens": MAX_TOKENS, "temperature": 0, "stream": True}
        job |= {"model": model} if model else {}
        body = json.dumps(job).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {place[0]}\r\nContent-Type: application/json\r\n"
        request = f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
        try:
            with socket.create_connection(place, timeout=SILENCE_S) as link:
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                began = time.perf_counter()
                link.sendall(request)
                found = b""
                while b"data: " not in found:
                    piece = link.recv(65536)
                    if not piece:
                        raise KvlabError(f"{url} ended the answer without a token: {found[:200]!r}.")
                    found += piece
                took = time.perf_counter() - began
                while link.recv(65536):
                    pass
                return took
        except OSError as error:
            raise KvlabError(f"{url} does not answer ({error}); is vLLM up?") from None

    return ask


def _kvlab(url: str) -> Ask:
    client = Client(url, MAX_TOKENS, SILENCE_S)

    def ask(ids: list[int]) -> float:
        (answer,) = client.ask([ids])
        if answer["ttft_first_chunk_ms"] is None:
            raise KvlabError(f"{url} gave no token: {answer['error']}.")
        return float(answer["ttft_first_chunk_ms"]) / 1000

    return ask


@contextlib.contextmanager
def _vllm(python: Path, url: str, model: str) -> Iterator[Ask]:
    process = subprocess.Popen(
        [python, Path(__file__).with_name("vllm_client.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )

    def answer() -> str:
        assert process.stdout is not None
        for line in process.stdout:
            text = line.strip()
            if text == "ready" or text.startswith("failed") or _is_number(text):
                return text
        raise KvlabError(
            f"vLLM's client ended; try it by hand: {python} {Path(__file__).with_name('vllm_client.py')}"
        )

    def ask(ids: list[int]) -> float:
        assert process.stdin is not None
        process.stdin.write(
            json.dumps({"url": url, "model": model, "prompt": ids, "tokens": MAX_TOKENS}) + "\n"
        )
        process.stdin.flush()
        said = answer()
        if not _is_number(said):
            raise KvlabError(f"vLLM's client {said}.")
        return float(said)

    try:
        if answer() != "ready":
            raise KvlabError("vLLM's client did not start.")
        yield ask
    finally:
        process.terminate()
        process.wait(10)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
