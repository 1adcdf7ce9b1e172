"""One streamed completion from vLLM by token ids: TTFT, output token ids, why it ended.

Job: {"url": "http://127.0.0.1:8000", "prompt_ids": [...], "max_tokens": 16, "timeout_s": 120}. Needs httpx.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kvlab.errors import KvlabError
from kvlab.probes import Facts, Job, document, main

if TYPE_CHECKING:
    import httpx


def run(job: Job) -> Facts:
    """Send the prompt at temperature 0 over a connection of its own; see `ask` for the facts."""
    import httpx

    with httpx.Client(timeout=float(job.get("timeout_s", 120))) as client:
        return ask(client, job)


def ask(client: httpx.Client, job: Job) -> Facts:
    """Stream the answer over `client`; times in milliseconds of a monotonic clock, from before the send.

    `ttft_first_chunk_ms` is the first event of the stream, `ttft_ms` the first that carries a token, `total_ms` the
    end. The request is encoded before the clock starts, and nothing is parsed before the stream has ended. A status
    other than 200, a stream that breaks off and a silence of `timeout_s` are facts (`error`); a server that
    cannot be reached is a KvlabError.
    """
    import httpx

    fact: Facts = {"url": job["url"], "prompt_tokens": len(job["prompt_ids"]), "http_status": None}
    fact["prompt_sha256"] = hashlib.sha256(json.dumps(job["prompt_ids"]).encode()).hexdigest()
    silence_s = float(job.get("timeout_s", 120))
    request = client.build_request("POST", f"{job['url']}/v1/completions", json=_body(job), timeout=silence_s)
    arrived: list[tuple[float, bytes]] = []
    error: str | None = None
    began = time.perf_counter()
    try:
        answer = client.send(request, stream=True)
        with contextlib.closing(answer):
            fact["http_status"] = answer.status_code
            for data in answer.iter_bytes():
                arrived.append(((time.perf_counter() - began) * 1000, data))
    except httpx.ConnectError as problem:
        raise KvlabError(f"vLLM at {job['url']} does not answer ({problem}); run ./lab up.") from problem
    except httpx.TimeoutException:
        error = f"vLLM was silent for {silence_s:.0f} s"
    except httpx.HTTPError as problem:
        error = f"the answer broke off: {problem}"
    fact["total_ms"] = (time.perf_counter() - began) * 1000
    if fact["http_status"] not in (200, None):
        error = error or b"".join(data for _, data in arrived).decode(errors="replace")[:500]
        arrived = []
    reader = StreamReader()
    reader.arrivals(arrived)
    return document("completion", job.get("simulated"), **fact, error=error or reader.error, **reader.facts())


def _body(job: Job) -> dict[str, Any]:
    """The request; the answer carries token ids, since text hides ids outside the printable range."""
    body = {
        "prompt": job["prompt_ids"],
        "max_tokens": job.get("max_tokens", 16),
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
        "ignore_eos": True,
    }
    return body | ({"model": job["model"]} if job.get("model") else {})


class StreamReader:
    """Reads the server-sent events of one completion."""

    def __init__(self) -> None:
        self.error: str | None = None
        self._first_chunk: float | None = None
        self._first_token: float | None = None
        self._ids: list[int] = []
        self._text = ""
        self._finish: str | None = None
        self._usage: dict[str, Any] | None = None

    def arrivals(self, arrived: Iterable[tuple[float, bytes]]) -> None:
        """Take the pieces of a stream, each with its milliseconds; a line came when its end did."""
        left = b""
        for at_ms, data in arrived:
            *lines, left = (left + data).split(b"\n")
            for line in lines:
                self.line(line.decode(errors="replace").rstrip("\r"), at_ms)

    def line(self, line: str, at_ms: float) -> None:
        """Take one line that arrived `at_ms` after the send."""
        if not line.startswith("data: ") or line == "data: [DONE]":
            return
        event = json.loads(line[len("data: ") :])
        if self._first_chunk is None:
            self._first_chunk = at_ms
        if "error" in event:
            self.error = json.dumps(event["error"])[:500]
        self._usage = event.get("usage") or self._usage
        for choice in event.get("choices", []):
            ids = choice.get("token_ids") or []
            if (ids or choice.get("text")) and self._first_token is None:
                self._first_token = at_ms
            self._ids += ids
            self._text += choice.get("text") or ""
            self._finish = choice.get("finish_reason") or self._finish

    def facts(self) -> Facts:
        """What was read so far."""
        return {
            "ttft_first_chunk_ms": self._first_chunk,
            "ttft_ms": self._first_token,
            "output_ids": self._ids,
            "text": self._text,
            "finish_reason": self._finish,
            "usage": self._usage,
        }


if __name__ == "__main__":
    main(run)
