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
    other than 200 is recorded with its body; an unreachable server is a KvlabError.
    """
    import httpx

    body = {
        "prompt": job["prompt_ids"],
        "max_tokens": job.get("max_tokens", 16),
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
        "ignore_eos": True,
    }
    if job.get("model"):
        body["model"] = job["model"]
    fact: Facts = {"url": job["url"], "prompt_tokens": len(job["prompt_ids"])}
    fact["prompt_sha256"] = hashlib.sha256(json.dumps(job["prompt_ids"]).encode()).hexdigest()
    reader = StreamReader()
    try:
        with httpx.Client(timeout=float(job.get("timeout_s", 120))) as client:
            began = time.perf_counter()
            with client.stream("POST", f"{job['url']}/v1/completions", json=body) as answer:
                fact["http_status"] = answer.status_code
                if answer.status_code != 200:
                    fact["error"] = answer.read().decode(errors="replace")[:500]
                    return document("completion", job.get("simulated"), **fact, **reader.facts())
                for line in answer.iter_lines():
                    reader.line(line, (time.perf_counter() - began) * 1000)
    except httpx.HTTPError as error:
        raise KvlabError(f"vLLM at {job['url']} does not answer ({error}); run ./lab up.") from error
    return document("completion", job.get("simulated"), **fact, error=reader.error, **reader.facts())


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
