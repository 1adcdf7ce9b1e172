"""vLLM's own benchmark, `vllm.benchmarks.serve.main`, one prompt at a time. Runs in the serving venv, by its path;
knows nothing of kvlab.

Each line on stdin is a job {"url", "model", "prompt", "tokens"}, the prompt as token ids; each on stdout the TTFT in
seconds that vLLM's benchmark reports for it, or a sentence.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from typing import Any

WARMUP_TOKENS = 8


def serve() -> None:
    """Answer every line of stdin; the benchmark's own words go to stderr."""
    with contextlib.redirect_stdout(sys.stderr):
        from vllm.benchmarks import serve as benchmark
        from vllm.benchmarks.datasets import SampleRequest
        from vllm.utils.argparse_utils import FlexibleArgumentParser

        parser: argparse.ArgumentParser = FlexibleArgumentParser()
        benchmark.add_cli_args(parser)
    print("ready", flush=True)
    for line in sys.stdin:
        job: dict[str, Any] = json.loads(line)
        # Its first request pays for the connection and for code that runs for the first time.
        samples = [
            SampleRequest(prompt=ids, prompt_len=len(ids), expected_output_len=job["tokens"])
            for ids in (job["prompt"][:WARMUP_TOKENS], job["prompt"])
        ]
        # Its data sets are texts, or drawn by itself; these ids are those that the other clients send.
        benchmark.get_samples = lambda _arguments, _tokenizer, samples=samples: samples
        with contextlib.redirect_stdout(sys.stderr):
            found = benchmark.main(parser.parse_args(_arguments(job["url"], job["model"])))
        errors = [error for error in found["errors"] if error]
        print(f"failed: {errors[0][:200]!r}" if errors else found["ttfts"][-1], flush=True)


def _arguments(url: str, model: str) -> list[str]:
    """Greedy, to the full length, without a request before the one that is measured."""
    return [
        "--backend=openai",
        f"--base-url={url}",
        "--endpoint=/v1/completions",
        f"--model={model or 'any'}",
        "--skip-tokenizer-init",
        "--dataset-name=custom",
        "--num-prompts=2",
        "--max-concurrency=1",
        "--temperature=0",
        "--ignore-eos",
        "--ready-check-timeout-sec=0",
        "--disable-tqdm",
        "--save-detailed",
    ]


if __name__ == "__main__":
    serve()
