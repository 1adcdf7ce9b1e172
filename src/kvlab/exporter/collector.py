"""The metrics themselves, made anew at each scrape. Every name is in monitoring/README.md with what it is for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kvlab.exporter.store import Buckets
from kvlab.probes import sampler

Facts = Mapping[str, Any]

LOOKUPS = {
    "requested": "lookup_requested_tokens",
    "hit": "lookup_hit_tokens",
    "hit_dram": "lookup_hit_l1_tokens",
    "hit_store": "lookup_hit_l2_tokens",
}
PAYLOAD = {"port_rcv_data": "received", "port_xmit_data": "sent"}
DATA_UNIT = 4
"""Both count units of four bytes (InfiniBand architecture, PortCounters)."""

READ_PERIOD = "lifespan"
"""Says how often the driver reads the hw_counters; it counts nothing."""

PAUSE = re.compile(r"(?P<direction>[rt]x)_prio(?P<priority>\d)_pause")
"""mlx5's names for the pause frames of one priority (ethtool -S)."""
DIRECTIONS = {"rx": "received", "tx": "sent"}

CHUNKS = {"stored": "l2_stored_chunks", "loaded": "l2_loaded_chunks"}


@dataclass(frozen=True)
class Profile:
    """What the exporter must know of the profile that runs here; `chunk_bytes` is the size of one object."""

    name: str
    path: str
    chunk_bytes: int
    lmcache: Callable[[], Facts] | None


# A registry keeps its collectors by identity.
@dataclass(frozen=True, eq=False)
class KvlabCollector(Collector):
    """What is true at the moment of the scrape. `running` tells the active profile, or None when none runs."""

    version: str
    simulated: bool
    running: Callable[[], Profile | None]
    buckets: Buckets
    quotas: Mapping[str, int]
    sysfs: Path = Path("/sys")

    def describe(self) -> Iterator[Metric]:
        """Nothing: registering must not wait for LMCache."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """All metrics; a source that is silent shows as such and never as zero."""
        profile = self.running()
        info = GaugeMetricFamily(
            "kvlab_info", "What is measured here.", labels=["version", "simulated", "profile", "path"]
        )
        info.add_metric(
            [
                self.version,
                str(self.simulated).lower(),
                profile.name if profile else "",
                profile.path if profile else "",
            ],
            1,
        )
        yield info
        yield from self._ports()
        if profile is not None and profile.lmcache is not None:
            yield from self._lmcache(profile, profile.lmcache())
        yield from self._buckets()

    def _ports(self) -> Iterator[Metric]:
        data = CounterMetricFamily(
            "kvlab_rdma_payload_bytes",
            "Bytes that the RDMA port moved.",
            labels=["device", "port", "direction"],
        )
        events = CounterMetricFamily(
            "kvlab_rdma_events", "The port's other counters.", labels=["device", "port", "counter"]
        )
        pauses = CounterMetricFamily(
            "kvlab_pause_frames",
            "Pause frames of one priority.",
            labels=["netdev", "priority", "direction"],
        )
        now = sampler.sample(self.sysfs, *sampler.watched(self.sysfs, (), ()), ())
        for name, counters in now["rdma"].items():
            device, _, port = name.rpartition("/")
            for counter, value in counters.items():
                if counter in PAYLOAD:
                    data.add_metric([device, port, PAYLOAD[counter]], value * DATA_UNIT)
                elif counter != READ_PERIOD:
                    events.add_metric([device, port, counter], value)
        for netdev, counters in now["net"].items():
            for name, value in counters.items():
                if match := PAUSE.fullmatch(name):
                    pauses.add_metric([netdev, match["priority"], DIRECTIONS[match["direction"]]], value)
        yield from (data, events, pauses)

    def _lmcache(self, profile: Profile, facts: Facts) -> Iterator[Metric]:
        up = GaugeMetricFamily("kvlab_lmcache_up", "Whether LMCache's server answers.", labels=["profile"])
        up.add_metric([profile.name], int(facts["available"]))
        yield up
        if not facts["available"]:
            return
        healthy = GaugeMetricFamily(
            "kvlab_lmcache_healthy", "Whether it says that it is healthy.", labels=["profile"]
        )
        healthy.add_metric([profile.name], int(facts["healthy"]))
        yield healthy
        counters = facts["counters"]
        lookups = CounterMetricFamily(
            "kvlab_lmcache_lookup_tokens",
            "Tokens looked up, and found, by the tier that had them.",
            labels=["profile", "result"],
        )
        for result, name in LOOKUPS.items():
            if counters.get(name) is not None:
                lookups.add_metric([profile.name, result], counters[name])
        moved = CounterMetricFamily(
            "kvlab_lmcache_store_bytes",
            "Bytes of the chunks that were stored to and loaded from the store, by LMCache's own count.",
            labels=["profile", "direction"],
        )
        for direction, name in CHUNKS.items():
            if counters.get(name) is not None:
                moved.add_metric([profile.name, direction], counters[name] * profile.chunk_bytes)
        yield from (lookups, moved)

    def _buckets(self) -> Iterator[Metric]:
        objects = GaugeMetricFamily("kvlab_bucket_objects", "Objects in the bucket.", labels=["bucket"])
        size = GaugeMetricFamily("kvlab_bucket_bytes", "Bytes in the bucket.", labels=["bucket"])
        at = GaugeMetricFamily(
            "kvlab_bucket_listed_timestamp_seconds", "When it was last listed.", labels=["bucket"]
        )
        failed = GaugeMetricFamily(
            "kvlab_bucket_listing_failed", "Whether the last listing failed.", labels=["bucket"]
        )
        quota = GaugeMetricFamily("kvlab_bucket_quota_bytes", "The bucket's quota.", labels=["bucket"])
        for name in self.buckets.names:
            failed.add_metric([name], int(name in self.buckets.failed))
            content = self.buckets.last.get(name)
            if content is not None:
                objects.add_metric([name], content.objects)
                size.add_metric([name], content.bytes)
                at.add_metric([name], content.at)
        for name, limit in self.quotas.items():
            quota.add_metric([name], limit)
        yield from (objects, size, at, failed, quota)
