"""A web server of one folder that can know no ranges, end bodies early, or answer with an error for a while."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote


class Server:
    """`url` serves `folder`.

    `cut`: bytes after which a body ends, so many `times`; `ranges`: whether Range is honoured; `broken`: answers
    with 503 to come, `breaks_after` how many others.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ranges = True
        self.cut, self.times = 0, 0
        self.broken, self.breaks_after = 0, 0
        self.asked: list[tuple[str, str]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: object) -> None:
                """Silent."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def stop(self) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        wanted = request.headers.get("Range", "")
        name = unquote(request.path.lstrip("/"))
        self.asked.append((name, wanted))
        file = self.folder / name
        if self.breaks_after and len(self.asked) > self.breaks_after:
            self.broken, self.breaks_after = 99, 0
        if self.broken:
            self.broken -= 1
            request.send_error(503)
            return
        if not file.is_file():
            request.send_error(404)
            return
        content = file.read_bytes()
        offset = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.ranges else 0
        request.send_response(206 if offset else 200)
        body = content[offset:]
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        if self.times and file.suffix == ".safetensors":
            self.times -= 1
            body = body[: self.cut]
            request.close_connection = True
        request.wfile.write(body)
