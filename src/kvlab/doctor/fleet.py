"""What only a comparison of hosts shows: topic `fleet` of the host `lab`, made from the hosts' own facts.

Topic `fleet`: {"simulated", "hosts": [name, ...], "values": {what: {host: value}}}; `what` is one of `COMPARED`, and a
host without the fact is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kvlab.doctor.labfacts import LAB

COMPARED = (
    "hash_seed",
    "none_hash",
    "mode",
    "model",
    "kv_dtype",
    "tensor_parallel",
    "chunk_size",
    "lmcache",
    "nixl",
    "vllm",
    "driver",
    "nic_firmware",
    "mtu",
)


def with_comparisons(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The hosts' facts, with topic `fleet` under the host `lab` where at least two hosts can be compared."""
    joined = {host: dict(topics) for host, topics in hosts.items()}
    if "fleet" in joined.get(LAB, {}):
        return joined
    values: dict[str, dict[str, Any]] = {}
    members = [host for host in hosts if host != LAB]
    for host in members:
        for what, value in _of(hosts[host]):
            values.setdefault(what, {})[host] = value
    if len(members) > 1 and values:
        simulated = any(
            isinstance(topic, Mapping) and topic.get("simulated") is True
            for host in members
            for topic in hosts[host].values()
        )
        joined.setdefault(LAB, {})["fleet"] = {"simulated": simulated, "hosts": members, "values": values}
    return joined


def _of(topics: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(what, value) of one host; what is not known is not given."""

    def get(topic: str, *path: str) -> Any:
        value: Any = topics.get(topic)
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value

    processes = get("processes", "processes")
    seeds = {
        one["environment"].get("PYTHONHASHSEED", "unset")
        for one in (processes if isinstance(processes, list) else ())
        if isinstance(one, Mapping) and isinstance(one.get("environment"), Mapping)
    }
    found = {
        "hash_seed": ", ".join(sorted(seeds)) or None,
        "none_hash": get("lmcache_log", "none_hash"),
        "mode": get("config", "mode"),
        "driver": get("driver", "loaded"),
        **{what: get("vllm", what) for what in ("model", "kv_dtype", "tensor_parallel")},
        "chunk_size": get("lmcache", "chunk_tokens"),
        **{what: get("venv", "versions", what) for what in ("lmcache", "nixl", "vllm")},
    }
    devices = get("rdma", "devices")
    if isinstance(devices, list) and devices:
        found["nic_firmware"] = ", ".join(sorted({str(d.get("firmware")) for d in devices}))
        mtus = {str(p["mtu"]) for d in devices for p in d.get("ports", ()) if p.get("mtu")}
        found["mtu"] = ", ".join(sorted(mtus)) or None
    for what in COMPARED:
        if found.get(what) is not None:
            yield what, found[what]
