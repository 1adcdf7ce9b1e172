"""How a lab differs from when it was accepted: packages, firmware, settings, topology. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kvlab.doctor.labfacts import LAB, LabFacts

Area = Literal["packages", "firmware", "settings", "topology"]
ABSENT = "absent"


@dataclass(frozen=True)
class Change:
    """One thing that is not as it was accepted, on one host."""

    host: str
    area: Area
    name: str
    accepted: str
    now: str

    def __str__(self) -> str:
        return f"{self.host} {self.area}: {self.name} was {self.accepted}, is {self.now}"


@dataclass(frozen=True)
class Drift:
    """The changes, and what could not be compared."""

    changes: tuple[Change, ...]
    unseen: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """2 when a host or topic could not be compared, 1 with changes, else 0."""
        return 2 if self.unseen else 1 if self.changes else 0

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "schema": 1,
            "exit_code": self.exit_code,
            "changes": [
                {"host": c.host, "area": c.area, "name": c.name, "accepted": c.accepted, "now": c.now}
                for c in self.changes
            ],
            "unseen": list(self.unseen),
        }


def compare(accepted: LabFacts, now: LabFacts) -> Drift:
    """Every difference that is drift: counters, times and process ids are none."""
    unseen = [str(problem) for problem in now.problems]
    changes: list[Change] = []
    silent = {problem.host for problem in now.problems if not problem.topic}
    for host in sorted({*accepted.hosts, *now.hosts} - {LAB} - silent):
        if host not in now.hosts or host not in accepted.hosts:
            there = ("in the lab", ABSENT)
            changes.append(
                Change(host, "topology", "host", *(there if host in accepted.hosts else there[::-1]))
            )
            continue
        before, after = accepted.hosts[host], now.hosts[host]
        for topic in sorted(before):
            if topic not in after or (after[topic].get("error") and not before[topic].get("error")):
                reason = after.get(topic, {}).get("error", "it was not collected")
                unseen.append(f"{host} ({topic}): {reason}")
        usable = {
            t for t in before if t in after and not after[t].get("error") and not before[t].get("error")
        }
        was, has = _of(before, usable), _of(after, usable)
        for area, name in sorted({*was, *has}):
            old, new = was.get((area, name), ABSENT), has.get((area, name), ABSENT)
            if old != new:
                changes.append(Change(host, area, name, old, new))
    return Drift(tuple(changes), tuple(unseen))


def _of(topics: Mapping[str, Any], usable: set[str]) -> dict[tuple[Area, str], str]:
    found: dict[tuple[Area, str], str] = {}
    for topic in usable:
        if topic in _READERS:
            for area, name, value in _READERS[topic](topics[topic]):
                found[area, name] = str(value)
    return found


def _items(area: Area, prefix: str, values: Any) -> Iterator[tuple[Area, str, Any]]:
    for name, value in (values or {}).items():
        yield area, f"{prefix}{name}", value


def _packages(facts: Any) -> Iterator[tuple[Area, str, Any]]:
    yield from _items("packages", "", facts.get("packages"))


def _venv(facts: Any) -> Iterator[tuple[Area, str, Any]]:
    yield "packages", "Python of the serving environment", facts.get("python")
    yield from _items("packages", "serving environment: ", facts.get("versions"))


def _kernel(facts: Any) -> Iterator[tuple[Area, str, Any]]:
    yield "packages", "running kernel", facts.get("release")
    yield "settings", "kernel command line", " ".join(facts.get("cmdline") or ())
    yield "settings", "secure boot", facts.get("secure_boot")
    for one in facts.get("dkms") or ():
        yield (
            "packages",
            f"DKMS {one['module']} for {one['kernel'] or 'no kernel'}",
            f"{one['version']} {one['state']}",
        )


def _driver(facts: Any) -> Iterator[tuple[Area, str, Any]]:
    yield "packages", "NVIDIA driver that runs", facts.get("loaded")
    yield "topology", "GPUs", facts.get("gpus")


def _rdma(facts: Any) -> Iterator[tuple[Area, str, Any]]:
    for device in facts.get("devices") or ():
        yield "firmware", f"{device['name']} firmware", device.get("firmware")
        for port in device.get("ports") or ():
            name = f"{device['name']}/{port['port']}"
            yield "topology", f"{name} netdev", port.get("netdev")
            yield "topology", f"{name} state and rate", f"{port.get('state')}, {port.get('rate')}"
            yield "settings", f"{name} MTU", port.get("mtu")
            addresses = sorted(str(g.get("ipv4")) for g in port.get("gids") or () if g.get("ipv4"))
            yield "settings", f"{name} addresses", ", ".join(addresses)
    for netdev, state in (facts.get("qos") or {}).items():
        yield from _items("settings", f"{netdev} ", state)


def _firmware(facts: Any) -> Iterator[tuple[Area, str, Any]]:
    yield "firmware", "BIOS", (facts.get("bios") or {}).get("version")
    for gpu in facts.get("gpus") or ():
        yield "firmware", f"{gpu['gpu']} VBIOS", gpu.get("vbios")
    for nic in facts.get("nics") or ():
        yield "firmware", f"{nic['name']} PSID", nic.get("psid")


def _network(facts: Any) -> Iterator[tuple[Area, str, Any]]:
    for netdev, addresses in (facts.get("addresses") or {}).items():
        yield "settings", f"{netdev} addresses", ", ".join(sorted(addresses))
    yield "topology", "default route", facts.get("default_route")


def _pcie(facts: Any) -> Iterator[tuple[Area, str, Any]]:
    for device in facts.get("devices") or ():
        yield "topology", f"{device['kind']} {device['bdf']} width", device.get("width")
        yield "settings", f"{device['kind']} {device['bdf']} MaxReadReq", device.get("max_read_request")
    for bridge in facts.get("bridges") or ():
        yield "settings", f"bridge {bridge['bdf']} ACS", bridge.get("acs")


def _gpu_topology(facts: Any) -> Iterator[tuple[Area, str, Any]]:
    for gpu, one in (facts.get("assignment") or {}).items():
        yield "topology", f"NIC of {gpu}", f"{one.get('nic')} ({one.get('distance')})"


def _processes(facts: Any) -> Iterator[tuple[Area, str, Any]]:
    for process in facts.get("processes") or ():
        yield from _items("settings", f"{process['role']} ", process.get("environment"))
        yield from _items("settings", f"{process['role']} limit ", process.get("limits"))


def _vllm(facts: Any) -> Iterator[tuple[Area, str, Any]]:
    for name in ("model", "max_model_len", "tensor_parallel", "kv_dtype"):
        yield "settings", f"vLLM {name}", facts.get(name)


def _config(facts: Any) -> Iterator[tuple[Area, str, Any]]:
    yield "settings", "profile", facts.get("profile")
    yield "settings", "endpoint", facts.get("resolved_endpoint")


_READERS = {
    "packages": _packages,
    "venv": _venv,
    "kernel": _kernel,
    "driver": _driver,
    "rdma": _rdma,
    "firmware": _firmware,
    "network": _network,
    "pcie": _pcie,
    "gpu_topology": _gpu_topology,
    "processes": _processes,
    "vllm": _vllm,
    "config": _config,
}
