"""Measures kvlab gate and kvlab report on a folder of many results against their limit; exit 1 over it.

Not a test: run it on a quiet machine. The results are synthetic.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "unit" / "ttft"))

import ttft_generator  # noqa: E402

from kvlab.ttft import result as results  # noqa: E402

RESULTS = 10_000
LIMIT_S = 10.0
DRAWN = 50
"""Different runs; the others are copies of them under another id and time."""
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def fill(folder: Path, count: int, starts: int) -> int:
    """Write `count` results of `starts` starts, hour by hour; their size in bytes."""
    drawn = [ttft_generator.result(seed=seed, starts=starts, plan={"model": "m"}) for seed in range(DRAWN)]
    total = 0
    for number in range(count):
        one = drawn[number % DRAWN]
        at = (FIRST + timedelta(hours=number)).isoformat(timespec="seconds")
        old = one.created.encode()
        one.id = f"run-{number}"
        content = results.encode(one).replace(old, at.encode())
        (folder / f"{number:05}.json").write_bytes(content)
        total += len(content)
    return total


def timed(*arguments: str) -> tuple[float, float]:
    """Seconds of a kvlab command, by the clock and of processors.

    Its exit status is its own affair, an unusable file is not.
    """
    command = [sys.executable, "-c", "from kvlab.cli import main; main()", *arguments]
    began, used = time.perf_counter(), cpu_s()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if done.returncode == 2:
        raise SystemExit(f"{arguments[0]} could not read what was written for it")
    return time.perf_counter() - began, cpu_s() - used


def cpu_s() -> float:
    """Processor seconds of all commands so far: what a machine that is shared does not stretch as it does the clock."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    """Print seconds beside the limit: first look at a folder, and the second."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--results", type=int, default=RESULTS)
    asked.add_argument("--starts", type=int, default=3, help="Of each profile, in each result.")
    asked.add_argument(
        "--folder", type=Path, help="A file system to write to; default: that of temporary files."
    )
    given = asked.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as made:
        history, candidate = Path(made, "history"), Path(made, "candidate.json")
        history.mkdir()
        size = fill(history, given.results, given.starts)
        results.write(ttft_generator.result(seed=DRAWN, id="candidate", plan={"model": "m"}), candidate)
        print(f"{given.results} results, {size / 1e6:.0f} MB")
        rows = [
            (f"{name} ({which} time)", timed(name, *arguments))
            for which in ("first", "second")
            for name, arguments in (
                ("gate", (str(history), str(candidate))),
                ("report", (str(history), "-o", str(Path(made, "page")))),
            )
        ]
    for name, (took, used) in rows:
        print(f"{name:22} {took:6.2f} s  (limit {LIMIT_S:g} s), {used:.2f} s of processors")
    return int(any(took > LIMIT_S for _, (took, _) in rows))


if __name__ == "__main__":
    sys.exit(main())
