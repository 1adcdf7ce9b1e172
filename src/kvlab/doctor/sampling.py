"""Samples of many hosts' counters at once, on one clock: before, during and after a transfer or a benchmark.

    with Sampling(hosts, {"hz": 5}) as sampling:
        ...                                  # the transfer
    counters = sampling.between(host, began, ended)

Each host has one connection for the whole time. Its clock is measured against ours at the start, from the quickest of
some pings, and the samples' times are ours.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from kvlab.doctor.hosts import Host
from kvlab.errors import KvlabError
from kvlab.probes import sampler, shipping

PINGS = 5
START_S = 15.0


@dataclass
class Series:
    """One host's samples; `offset_s` is its clock minus ours, known to `uncertainty_s`."""

    host: str
    offset_s: float = 0.0
    uncertainty_s: float = 0.0
    samples: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""


class Sampling:
    """Samplers on hosts, started on entry and ended on exit. A host that fails has its reason in `Series.error`."""

    def __init__(self, hosts: Iterable[Host], job: Mapping[str, Any]) -> None:
        self._hosts = list(hosts)
        self._job = dict(job)
        self._running: dict[str, tuple[subprocess.Popen[str], threading.Thread]] = {}
        self.series = {host.name: Series(host.name) for host in self._hosts}

    def __enter__(self) -> Self:
        ready = [threading.Event() for _ in self._hosts]
        for host, event in zip(self._hosts, ready, strict=True):
            process = subprocess.Popen(
                host.command(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            reader = threading.Thread(target=self._read, args=(host.name, process, event), daemon=True)
            self._running[host.name] = process, reader
            reader.start()
        deadline = time.monotonic() + START_S
        for host, event in zip(self._hosts, ready, strict=True):
            if not event.wait(max(0.0, deadline - time.monotonic())):
                self.series[host.name].error = f"no sample came within {START_S:.0f} s"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process, _ in self._running.values():
            if process.stdin:
                process.stdin.close()
        for name, (process, reader) in self._running.items():
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                self.series[name].error = self.series[name].error or "the sampler did not end by itself"
            reader.join(5)

    def between(self, host: str, began: float, ended: float) -> dict[str, Any]:
        """Topic `rdma_counters` of one host for a span of our clock: the last sample before it, the first after it.

        The sampler reads most counters of a port only once a second. Such a one is taken from the last sample before
        the span that has it and the first after it, so that it may hold up to a second more on either side, and never
        less; where the sampling has ended, each has a sample after the span.

        Raises:
            KvlabError: no sample lies on one side of the span.
        """
        series = self.series[host]
        before = [one for one in series.samples if one["t"] - series.offset_s <= began]
        after = [one for one in series.samples if one["t"] - series.offset_s >= ended]
        if not before or not after:
            reason = series.error or f"{len(series.samples)} samples, none on one side of the span"
            raise KvlabError(f"the counters of {host} say nothing about that time: {reason}.")
        return difference(_completed(reversed(before)), _completed(after))

    def _read(self, name: str, process: subprocess.Popen[str], ready: threading.Event) -> None:
        series = self.series[name]
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(shipping.package("kvlab.probes.sampler", self._job))
            trips = []
            for _ in range(PINGS):
                sent = time.time()
                process.stdin.write("ping\n")
                process.stdin.flush()
                pong = json.loads(process.stdout.readline())["pong"]
                back = time.time()
                trips.append(((back - sent) / 2, pong - (sent + back) / 2))
            series.uncertainty_s, series.offset_s = min(trips)
            process.stdin.write("go\n")
            process.stdin.flush()
            for line in process.stdout:
                series.samples.append(json.loads(line))
                ready.set()
        except (OSError, ValueError) as error:
            said = process.stderr.read().strip().splitlines() if process.stderr else []
            series.error = said[-1] if said else f"the sampler ended: {error}"
        finally:
            ready.set()


def _completed(samples: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The first of the samples, with the ports' counters that it lacks from the first of the others to have them."""
    samples = iter(samples)
    found = dict(next(samples))
    for one in itertools.islice(samples, sampler.MAX_HZ):  # one of so many has them all
        found["rdma"] = {
            port: one["rdma"].get(port, {}) | found["rdma"].get(port, {})
            for port in {**found["rdma"], **one["rdma"]}
        }
    return found


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Topic `rdma_counters` out of two samples; a counter that went backwards (a reset) is left out."""

    def moved(old: Mapping[str, int], new: Mapping[str, int]) -> dict[str, int]:
        return {name: new[name] - old[name] for name in new if name in old and new[name] >= old[name]}

    net = {name: moved(before["net"].get(name, {}), values) for name, values in after["net"].items()}
    return {
        "seconds": after["t"] - before["t"],
        "deltas": {
            port: moved(before["rdma"].get(port, {}), values) for port, values in after["rdma"].items()
        },
        "net": net,
        "pause": {
            name: {counter: count for counter, count in values.items() if "prio3_pause" in counter}
            for name, values in net.items()
        },
        "cpu_seconds": {
            pid: round(seconds - before["cpu"][pid], 3)
            for pid, seconds in after["cpu"].items()
            if pid in before["cpu"]
        },
    }


def moved_bytes(found: Mapping[str, Any], direction: str) -> dict[str, int]:
    """Bytes by RDMA and by TCP in a difference's span, "in" or "out" of the host."""
    moved = sampler.payload(found["deltas"].values(), found["net"].values())
    return {way: moved[f"{way}_{direction}"] for way in ("rdma", "tcp")}


def transfer(
    quiet: Mapping[str, Any],
    moved: Mapping[str, Any],
    control: Mapping[str, Any],
    *,
    payload: int,
    direction: str,
    lab_simulated: bool,
) -> dict[str, Any]:
    """Topic `transfer_counters` out of three spans of one client: before, by RDMA, and the same payload over HTTP.

    Nothing is said of the server, whose counters an array keeps to itself.
    """
    return {
        "payload": payload,
        "direction": direction,
        "seconds": moved["seconds"],
        "quiet": moved_bytes(quiet, direction),
        "client": moved_bytes(moved, direction),
        "server": None,
        "control": {**moved_bytes(control, direction), "payload": payload},
        "lab_simulated": lab_simulated,
        "simulated": lab_simulated,
    }
