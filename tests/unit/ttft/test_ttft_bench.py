"""The server of known TTFT, the client that measures, and the comparison of the two."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from kvlab.errors import KvlabError
from kvlab.ttft import bench
from kvlab.ttft.client import Client


def free_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return f"http://127.0.0.1:{probe.getsockname()[1]}"


def test_the_client_sees_what_the_known_server_does() -> None:
    with bench._known_server(0.2) as url:
        first, second = Client(url, 4, 10.0).ask([[1] * 64, [2] * 32])
    for answer, tokens in ((first, 64), (second, 32)):
        # Never before it was sent; how soon after is the benchmark's business, not a test's.
        assert answer["ttft_first_chunk_ms"] >= 200
        assert answer["ttft_ms"] >= answer["ttft_first_chunk_ms"]
        assert answer["total_ms"] >= answer["ttft_ms"]
        assert (answer["output_ids"], answer["finish_reason"]) == ([97] * 4, "length")
        assert answer["usage"]["prompt_tokens"] == tokens


def test_requests_of_one_pass_are_sent_at_once() -> None:
    with bench._known_server(0.5) as url:
        answers = Client(url, 4, 10.0).ask([[n] * 8 for n in range(4)])
    # One after the other, the last would have waited for three others.
    assert max(a["ttft_ms"] for a in answers) < 2000


def test_a_service_that_is_gone_is_one_sentence() -> None:
    with pytest.raises(KvlabError, match="does not answer"):
        Client(free_url(), 4, 1.0).ask([[1], [2]])


def test_a_service_that_falls_silent_is_a_fact_of_the_pass() -> None:
    with bench._known_server(5.0) as url:
        (answer,) = Client(url, 4, 0.3).ask([[1]])
    assert "silent" in answer["error"]
    assert answer["ttft_ms"] is None


def test_the_benchmark_compares_with_a_raw_socket() -> None:
    said: list[str] = []
    found = bench.run(bench.Settings(rounds=3, delay_ms=30), said.append)
    assert found["simulated"]
    assert set(found["ttft_ms"]) == {"raw", "kvlab"}
    assert min(found["ttft_ms"].values()) >= 30
    assert found["overhead_ms"] == pytest.approx(
        found["ttft_ms"]["kvlab"] - found["ttft_ms"]["raw"], abs=0.002
    )
    assert said[-1] == "round 3 of 3"


def test_the_summary_judges_by_one_percent_or_two_milliseconds() -> None:
    slow = bench._summary(bench.Settings(url="http://x:1"), {"raw": [1000.0], "kvlab": [1009.0]})
    assert (slow["within"], slow["simulated"]) == (True, False)
    assert not bench._summary(bench.Settings(), {"raw": [100.0], "kvlab": [102.5]})["within"]


@pytest.mark.parametrize(
    ("vllm", "within"), [([99.0, 198.0], True), ([97.0, 194.0], False), ([103.0, 206.0], False)]
)
def test_a_disagreement_with_vllms_client_is_not_within(vllm: list[float], within: bool) -> None:
    found = bench._summary(bench.Settings(), {"raw": [100.0, 200.0], "kvlab": [100.0, 200.0], "vllm": vllm})
    assert found["kvlab_over_vllm"] == pytest.approx(100.0 / vllm[0], abs=1e-5)
    assert found["within"] is within


@pytest.mark.parametrize("url", ["nonsense", ""])
def test_a_server_that_names_no_model_is_one_sentence(url: str) -> None:
    with pytest.raises(KvlabError, match="does not answer with the model it serves"):
        bench.run(bench.Settings(url=url or free_url(), rounds=1), lambda _line: None)


@pytest.mark.parametrize(("url", "words"), [("nonsense", "is no address"), ("", "does not answer")])
def test_a_wrong_address_is_one_sentence(url: str, words: str) -> None:
    with pytest.raises(KvlabError, match=words):
        bench.run(bench.Settings(url=url or free_url(), model="m", rounds=1), lambda _line: None)


BENCHMARK = """
import sys

def add_cli_args(parser):
    for name in ("backend", "base-url", "endpoint", "model", "dataset-name", "num-prompts", "max-concurrency"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("temperature", "ready-check-timeout-sec"):
        parser.add_argument(f"--{name}", type=float, required=True)
    for name in ("skip-tokenizer-init", "ignore-eos", "disable-tqdm", "save-detailed"):
        parser.add_argument(f"--{name}", action="store_true", required=True)

def main(arguments):
    print("a benchmark says much")
    samples = get_samples(arguments, None)
    assert len(samples) == int(arguments.num_prompts)
    return {
        "ttfts": [0.5 + sum(one.prompt) + one.expected_output_len for one in samples],
        "errors": ["refused" if 9 in one.prompt else "" for one in samples],
    }
"""
DATASETS = """
import dataclasses

@dataclasses.dataclass
class SampleRequest:
    prompt: list
    prompt_len: int
    expected_output_len: int
"""
PARSER = "import argparse; FlexibleArgumentParser = argparse.ArgumentParser"


def test_vllms_benchmark_is_asked_for_one_prompt_at_a_time_after_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modules = {
        "benchmarks/serve.py": BENCHMARK,
        "benchmarks/datasets.py": DATASETS,
        "utils/argparse_utils.py": PARSER,
    }
    for name, text in modules.items():
        (tmp_path / "vllm" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "vllm" / name).write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with bench._vllm(Path(sys.executable), "http://127.0.0.1:1", "m") as ask:
        assert (
            ask([1] * 100) == 100 + bench.MAX_TOKENS + 0.5
        )  # that of the prompt, not of the short one before
        assert ask([2] * 100) == 200 + bench.MAX_TOKENS + 0.5
        with pytest.raises(KvlabError, match="vLLM's client failed: 'refused'"):
            ask([1, 9])


def test_a_vllm_client_that_does_not_start_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vllm").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with (
        pytest.raises(KvlabError, match="vLLM's client ended; try it by hand"),
        bench._vllm(Path(sys.executable), "http://127.0.0.1:1", "m"),
    ):
        pass
