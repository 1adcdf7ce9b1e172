"""A server that answers as vLLM and LMCache's MP server do, as far as drain and smoke ask."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Stand:
    """What the server says; a test changes it."""

    def __init__(self) -> None:
        self.running = [0]
        self.hit_tokens: int | None = 0
        self.hits_a_pass = 512
        self.answers = [[7, 7]]
        self.asked: list[Any] = []
        self.url = ""

    def metrics(self) -> str:
        """vLLM's metrics; each reading takes the next number of running requests, the last one stays."""
        running = self.running.pop(0) if len(self.running) > 1 else self.running[0]
        hits = (
            [] if self.hit_tokens is None else [f"vllm:external_prefix_cache_hits_total {self.hit_tokens}.0"]
        )
        return "\n".join(
            [f"vllm:num_requests_running {running}.0", "vllm:num_requests_waiting 0.0", *hits, ""]
        )

    def complete(self, asked: Any) -> list[int]:
        """The token ids for a request; from the second of a prompt on, the cache gives chunks."""
        if any(asked["prompt"] == former["prompt"] for former in self.asked) and self.hit_tokens is not None:
            self.hit_tokens += self.hits_a_pass
        self.asked.append(asked)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def serving() -> Iterator[Stand]:
    """The server on a port of its own."""
    stand = Stand()

    class Handler(http.server.BaseHTTPRequestHandler):
        def _say(self, text: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json" if text.startswith("{") else "text/plain")
            self.end_headers()
            self.wfile.write(text.encode())

        def do_GET(self) -> None:
            self._say('{"data": [{"id": "tiny"}]}' if self.path == "/v1/models" else stand.metrics())

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            event = {"choices": [{"token_ids": stand.complete(asked), "finish_reason": "length"}]}
            self._say(f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n")

        def log_message(self, *words: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stand.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield stand
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
