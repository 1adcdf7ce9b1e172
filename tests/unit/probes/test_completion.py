"""Reading vLLM's stream of one completion."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from kvlab.errors import KvlabError
from kvlab.probes import completion


def event(**choice: Any) -> str:
    return "data: " + json.dumps({"choices": [{"index": 0, "text": "", **choice}], "usage": None})


def read(*lines: str) -> dict[str, Any]:
    reader = completion.StreamReader()
    for number, line in enumerate(lines):
        reader.line(line, 10.0 * (number + 1))
    return reader.facts() | {"error": reader.error}


def test_ttft_is_the_first_event_with_a_token_not_the_first_event() -> None:
    facts = read(
        event(token_ids=None, prompt_token_ids=[1]), event(token_ids=[65, 66]), event(token_ids=[67])
    )
    assert (facts["ttft_first_chunk_ms"], facts["ttft_ms"]) == (10.0, 20.0)
    assert facts["output_ids"] == [65, 66, 67]


def test_finish_reason_text_and_usage_are_kept() -> None:
    usage = "data: " + json.dumps({"choices": [], "usage": {"prompt_tokens": 9}})
    facts = read(
        event(token_ids=[65], text="A"), event(text="B", finish_reason="length"), usage, "data: [DONE]"
    )
    assert (facts["text"], facts["finish_reason"], facts["usage"]) == ("AB", "length", {"prompt_tokens": 9})


def test_an_error_in_the_stream_is_kept() -> None:
    assert "boom" in read('data: {"error": {"message": "boom"}}')["error"]


def test_a_stream_without_tokens_has_no_ttft() -> None:
    assert read("", ": ping", "data: [DONE]")["ttft_ms"] is None


class Vllm(BaseHTTPRequestHandler):
    """A server that sends one token, then does what its path says."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert request["temperature"] == 0
        if self.path.startswith("/refuse"):
            self.send_response(400)
            self.end_headers()
            self.wfile.write(b"prompt too long")
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write((event(token_ids=[65]) + "\n\n").encode())
        if self.path.startswith("/hang"):
            time.sleep(2)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Vllm) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_server_that_falls_silent_is_a_fact_with_the_tokens_so_far(url: str) -> None:
    facts = completion.run({"url": f"{url}/hang", "prompt_ids": [1, 2], "timeout_s": 0.5})
    assert (facts["http_status"], facts["output_ids"]) == (200, [65])
    assert "silent" in facts["error"]


def test_a_refused_request_is_a_fact_with_its_reason(url: str) -> None:
    facts = completion.run({"url": f"{url}/refuse", "prompt_ids": [1, 2]})
    assert (facts["http_status"], facts["error"], facts["ttft_ms"]) == (400, "prompt too long", None)


def test_an_answer_has_status_ttft_and_the_prompts_length(url: str) -> None:
    facts = completion.run({"url": url, "prompt_ids": [1, 2]})
    assert (facts["http_status"], facts["error"], facts["prompt_tokens"]) == (200, None, 2)
    assert facts["ttft_ms"] > 0


def test_a_server_that_is_down_is_one_sentence() -> None:
    with pytest.raises(KvlabError, match=r"does not answer .* run \./lab up"):
        completion.run({"url": "http://127.0.0.1:1", "prompt_ids": [1]})
