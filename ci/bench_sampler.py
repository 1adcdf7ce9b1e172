"""What the sampler of counters costs: ci/bench_sampler.py [--seconds 10] [--hz 10] [--json]

A tree of files such as sysfs of an XE9680: ten mlx5 ports (22 counters, 30 hw_counters each); five processes. Three
samplers take turns in one process: the one that is there, which reads most counters once a second; one that reads all
of them every time; and one that opens each file anew, too, as the first version did. CPU time is that of the whole
sampler, its JSON included. Files are on disk, not in a driver: what a NIC's firmware takes to answer is not in it.
Exit status 1 where the sampler takes 1 % of a core or more.
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
ROUNDS = 3


def tree(root: Path) -> list[str]:
    """A sysfs of so many ports; the devices' names."""
    names = [f"mlx5_{number}" for number in range(DEVICES)]
    for name in names:
        port = root / "class/infiniband" / name / "ports/1"
        for folder, count in (("counters", COUNTERS), ("hw_counters", HW_COUNTERS)):
            (port / folder).mkdir(parents=True)
            names_of = sorted(sampler.EVERY_TIME) if folder == "counters" else []
            for number in range(count):
                name = names_of[number] if number < len(names_of) else f"counter_{number}"
                (port / folder / name).write_text(f"{number * 123456789}\n")
    return names


def share(take: Callable[[int], Any], seconds: float, hz: float) -> float:
    """CPU time over time of samples taken `hz` times a second; `take` is told the sample's number."""
    begin, used, number = time.monotonic(), time.process_time(), 0
    while time.monotonic() < begin + seconds:
        json.dumps(take(number))
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
    every = max(1, round(wanted.hz * sampler.ALL_EVERY_S))
    with tempfile.TemporaryDirectory() as root:
        names, pids = tree(Path(root)), [os.getpid()] * PIDS
        watch = sampler.Watch(Path(root), names, ["lo"], pids)
        ways: dict[str, Callable[[int], Any]] = {
            "as it is": lambda number: watch.sample(rest=number % every == 0),
            "all counters every time": lambda _: watch.sample(),
            "and each file opened anew": lambda _: sampler.sample(Path(root), names, ["lo"], pids),
        }
        shares: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, take in ways.items():
                shares[way].append(share(take, wanted.seconds / ROUNDS, wanted.hz))
        watch.close()
    cost = {way: sorted(found)[ROUNDS // 2] for way, found in shares.items()}
    if wanted.json:
        print(json.dumps({"share": cost, "wanted": WANTED}))
    else:
        print(f"CPU of the sampler at {wanted.hz:g} Hz, of a core (wanted: under {WANTED:.0%}):")
        for way, one in cost.items():
            print(f"  {one:6.2%}  {way} (ratio {one / cost['as it is']:.1f})")
    return int(cost["as it is"] >= WANTED)


if __name__ == "__main__":
    raise SystemExit(main())
