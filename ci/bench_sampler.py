"""What the sampler of counters costs: ci/bench_sampler.py [--seconds 10] [--hz 10] [--json]

A tree of files such as sysfs of an XE9680: ten mlx5 ports (22 counters, 30 hw_counters each); and five processes.
Two samplers take turns in one process: the one that is there, and one that opens each file anew, as the first version
did. CPU time is that of the whole sampler, its JSON included. Files are on disk, not in a driver: what a NIC's firmware
takes to answer is not in it. Exit status 1 where the sampler takes 1 % of a core or more.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kvlab.probes import sampler

DEVICES, COUNTERS, HW_COUNTERS, PIDS = 10, 22, 30, 5
WANTED = 0.01


def tree(root: Path) -> list[str]:
    """A sysfs of so many ports; the devices' names."""
    names = [f"mlx5_{number}" for number in range(DEVICES)]
    for name in names:
        port = root / "class/infiniband" / name / "ports/1"
        for folder, count in (("counters", COUNTERS), ("hw_counters", HW_COUNTERS)):
            (port / folder).mkdir(parents=True)
            for number in range(count):
                (port / folder / f"counter_{number}").write_text(f"{number * 123456789}\n")
    return names


def share(take: Callable[[], Any], seconds: float, hz: float) -> float:
    """CPU time over time of samples taken `hz` times a second."""
    begin, used, number = time.monotonic(), time.process_time(), 0
    while time.monotonic() < begin + seconds:
        json.dumps(take())
        number += 1
        time.sleep(max(0.0, begin + number / hz - time.monotonic()))
    return (time.process_time() - used) / (time.monotonic() - begin)


def main() -> int:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=10)
    options.add_argument("--hz", type=float, default=10)
    options.add_argument("--json", action="store_true")
    wanted = options.parse_args()
    with tempfile.TemporaryDirectory() as root:
        names, pids = tree(Path(root)), [os.getpid()] * PIDS
        watch = sampler.Watch(Path(root), names, ["lo"], pids)
        kept: list[float] = []
        opened: list[float] = []
        for _ in range(3):
            kept.append(share(watch.sample, wanted.seconds / 3, wanted.hz))
            opened.append(
                share(lambda: sampler.sample(Path(root), names, ["lo"], pids), wanted.seconds / 3, wanted.hz)
            )
        watch.close()
    cost, before = sorted(kept)[1], sorted(opened)[1]
    if wanted.json:
        print(json.dumps({"share": cost, "share_opening": before, "ratio": cost / before, "wanted": WANTED}))
    else:
        print(f"sampler: {cost:.2%} of a core at {wanted.hz:g} Hz (wanted: under {WANTED:.0%})")
        print(f"opening each file anew: {before:.2%}; ratio {cost / before:.2f}")
    return int(cost >= WANTED)


if __name__ == "__main__":
    raise SystemExit(main())
