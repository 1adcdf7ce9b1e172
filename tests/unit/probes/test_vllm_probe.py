"""The probe of vLLM against a server of this test, and what VLLM011 makes of it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kvlab.checks import Finding, judge
from kvlab.probes.host import vllm

IDLE = {"running": 0.0, "waiting": 0.0, "finished": 12.0, "generated": 192.0}


class Engine:
    """A server that speaks as vLLM does; `answer` gives the status of a request, or None to hang."""

    def __init__(self, answer: Callable[[], int | None]) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []
        self.over = threading.Event()
        engine = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pages = {
                    "/health": "",
                    "/v1/models": json.dumps({"data": [{"id": "lab/model", "max_model_len": 64}]}),
                    "/metrics": "vllm:num_requests_running 0\nvllm:request_success_total 12\n",
                }
                self.reply(200, pages[self.path])

            def do_POST(self) -> None:
                engine.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                status = engine.answer()
                if status is None:
                    engine.over.wait(60)
                    return
                self.reply(status, "{}")

            def reply(self, status: int, body: str) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def verdict(self) -> Finding:
        facts = vllm.collect({"vllm_url": self.url, "connector": True, "patience_s": 0.5})
        (found,) = judge({"vllm": facts}, ["VLLM011"])
        return found


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine(lambda: 200)
    serving = threading.Thread(target=made.server.serve_forever)
    serving.start()
    yield made
    made.over.set()
    made.server.shutdown()
    serving.join()
    made.server.server_close()


def test_an_engine_that_gives_its_token_moves_on(engine: Engine) -> None:
    assert engine.verdict().status == "pass"
    (asked,) = engine.asked
    assert (asked["model"], asked["max_tokens"]) == ("lab/model", 1)


def test_an_engine_that_hangs_while_nothing_is_asked_of_it_is_named(engine: Engine) -> None:
    engine.answer = lambda: None
    found = engine.verdict()
    assert found.status == "fail"
    assert "the engine hangs" in " ".join(found.evidence)


@pytest.mark.parametrize(("status", "verdict"), [(500, "fail"), (401, "inconclusive")])
def test_a_refusal_is_no_token(engine: Engine, status: int, verdict: str) -> None:
    engine.answer = lambda: status
    assert engine.verdict().status == verdict


@pytest.mark.parametrize(
    ("later", "verdict"),
    [
        ({**IDLE, "waiting": 9.0}, "fail"),
        ({**IDLE, "generated": 200.0}, "pass"),
        ({**IDLE, "finished": 13.0}, "pass"),
        (None, "inconclusive"),
    ],
)
def test_a_long_queue_is_told_from_an_engine_that_hangs(later: dict[str, float] | None, verdict: str) -> None:
    silent = {"status": None, "error": "timed out"}
    facts = {"available": True, **IDLE, "request": silent, "seconds": 6.0, "later": later}
    assert [found.status for found in judge({"vllm": facts}, ["VLLM011"])] == [verdict]
