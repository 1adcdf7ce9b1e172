"""A server of known TTFT: answers completions as vLLM does, its first token a fixed time after the request was read.

    python -m kvlab.ttft.fake_vllm SECONDS

prints its port, and serves on loopback until it is ended. Nothing is computed: what it answers is simulated.
"""

from __future__ import annotations

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKENS = 4


class Handler(BaseHTTPRequestHandler):
    """One connection; `delay_s` is the server's."""

    protocol_version = "HTTP/1.1"
    delay_s = 0.1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Any GET is a health check."""
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self) -> None:
        """A streamed completion of a few tokens."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        due = time.perf_counter() + self.delay_s
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        time.sleep(max(due - time.perf_counter(), 0))
        for number in range(TOKENS):
            last = number == TOKENS - 1
            choice = {"index": 0, "text": "a", "token_ids": [97], "finish_reason": "length" if last else None}
            self._event(json.dumps({"choices": [choice]}))
        usage = {"prompt_tokens": len(asked["prompt"]), "completion_tokens": TOKENS}
        self._event(json.dumps({"choices": [], "usage": usage}))
        self._event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def _event(self, text: str) -> None:
        data = f"data: {text}\n\n".encode()
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: a line for each request would be timed with it."""


def main() -> None:
    """Serve until ended."""
    Handler.delay_s = float(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
