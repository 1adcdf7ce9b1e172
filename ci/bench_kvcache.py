"""Measures kvlab size and kvlab lint against their limits; exit 1 over one. Not a test: run it on a quiet machine."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from kvlab.kvcache import lint
from kvlab.kvcache.files import context_of

DOCUMENT = Path(__file__).parents[1] / "tests" / "fixtures" / "kvcache" / "document-lmcache.yaml"
COMMAND_S = 0.5
FILES_S = 5.0
FILES = 1000


def best_of(runs: int, *arguments: str) -> float:
    """Shortest wall time of a kvlab command in seconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(
            [sys.executable, "-c", "from kvlab.cli import main; main()", *arguments],
            stdout=subprocess.DEVNULL,
            check=False,
        )
        times.append(time.perf_counter() - start)
    return min(times)


def lint_files() -> float:
    """Seconds to lint FILES different files in this process."""
    text = DOCUMENT.read_text()
    start = time.perf_counter()
    context = context_of(
        lmcache="0.4.5",
        nixl="1.1.0",
        vllm="0.19.0",
        model="Qwen3-Coder-30B-A3B-Instruct",
        tp=4,
        max_tokens=235_000,
    )
    for number in range(FILES):
        lint.lint(f"{text}# {number}\n", "lmcache.yaml", context)
    return time.perf_counter() - start


def main() -> int:
    """Print each measurement beside its limit."""
    rows = [
        ("kvlab size", best_of(5, "size", "--preset", "Qwen3-32B", "--tokens", "131072"), COMMAND_S),
        ("kvlab lint", best_of(5, "lint", str(DOCUMENT), "--model", "Qwen3-32B"), COMMAND_S),
        (f"lint of {FILES} files", lint_files(), FILES_S),
    ]
    for name, took, limit in rows:
        print(f"{name:22} {took:6.2f} s  (limit {limit} s)")
    return int(any(took > limit for _, took, limit in rows))


if __name__ == "__main__":
    sys.exit(main())
