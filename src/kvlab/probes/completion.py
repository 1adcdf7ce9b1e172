"""One streamed completion from vLLM by token ids: TTFT, output token ids, why it ended.

Job: {"url": "http://127.0.0.1:8000", "prompt_ids": [...], "max_tokens": 16, "timeout_s": 120}. Needs httpx.
"""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

from kvlab.errors import KvlabError
from kvlab.probes import Facts, Job, document, main


def run(job: Job) -> Facts:
    """Send the prompt at temperature 0 and stream the answer; times in milliseconds from before the send.

    `ttft_first_chunk_ms` is the first event of the stream, `ttft_ms` the first that carries a token. A status
    other than 200, a stream that breaks off and a silence of `timeout_s` are facts (`error`); a server that
    cannot be reached is a KvlabError.
    """
    import httpx

    fact: Facts = {"url": job["url"], "prompt_tokens": len(job["prompt_ids"]), "http_status": None}
    fact["prompt_sha256"] = hashlib.sha256(json.dumps(job["prompt_ids"]).encode()).hexdigest()
    reader = StreamReader()
    silence_s = float(job.get("timeout_s", 120))
    try:
        with httpx.Client(timeout=silence_s) as client:
            began = time.perf_counter()
            with client.stream("POST", f"{job['url']}/v1/completions", json=_body(job)) as answer:
                fact["http_status"] = answer.status_code
                if answer.status_code != 200:
                    reader.error = answer.read().decode(errors="replace")[:500]
                else:
                    for line in answer.iter_lines():
                        reader.line(line, (time.perf_counter() - began) * 1000)
    except httpx.ConnectError as error:
        raise KvlabError(f"vLLM at {job['url']} does not answer ({error}); run ./lab up.") from error
    except httpx.TimeoutException:
        reader.error = f"vLLM was silent for {silence_s:.0f} s"
    except httpx.HTTPError as error:
        reader.error = f"the answer broke off: {error}"
    return document("completion", job.get("simulated"), **fact, error=reader.error, **reader.facts())


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
            if ids and self._first_token is None:
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
