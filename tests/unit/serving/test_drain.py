"""Before a server is stopped for another, the requests that are on their way end."""

from __future__ import annotations

from serving_answers import serving

from kvlab.serving import drain


def test_it_waits_until_no_request_runs_in_two_readings_in_a_row() -> None:
    with serving() as vllm:
        vllm.running = [3, 0, 1, 0, 0]
        said = drain.wait(vllm.url, timeout_s=60, poll_s=0)
        assert said.startswith("no request is on its way")
        assert vllm.running == [0], "every reading was needed"


def test_requests_that_do_not_end_are_counted_and_no_longer_waited_for() -> None:
    with serving() as vllm:
        vllm.running = [2]
        assert "2 request(s) are still on their way" in drain.wait(vllm.url, timeout_s=0, poll_s=0)


def test_where_no_server_answers_there_is_nothing_to_wait_for() -> None:
    assert "no vLLM answers" in drain.wait("http://127.0.0.1:9", timeout_s=60)
