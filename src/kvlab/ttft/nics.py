"""The NICs of this machine as its kernel counts them: what they carry, and what they moved so far."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kvlab.hostparsers import rdma_sysfs
from kvlab.probes import sampler

SYSFS = Path("/sys")


def rate(sysfs: Path = SYSFS) -> float | None:
    """What the active RDMA ports carry together, 1e9 bytes a second; None where there is none."""
    ports = [port for device in rdma_sysfs.devices(sysfs) for port in device["ports"]]
    rates = [(port["rate"] or "").partition(" Gb/sec") for port in ports if port["state"] == "ACTIVE"]
    return sum(float(number) for number, unit, _ in rates if unit) / 8 or None


def moved(sysfs: Path = SYSFS) -> dict[str, int] | None:
    """Bytes by RDMA and by TCP, in and out, since the counters began; None without an RDMA port.

    TCP is counted on every netdev with hardware behind it.
    """
    devices = [device["name"] for device in rdma_sysfs.devices(sysfs)]
    folder = sysfs / "class/net"
    netdevs = [one.name for one in folder.iterdir() if (one / "device").exists()] if folder.is_dir() else []
    if not devices:
        return None
    now = sampler.sample(sysfs, devices, netdevs, ())
    return sampler.payload(now["rdma"].values(), now["net"].values())


def between(before: Mapping[str, int] | None, after: Mapping[str, int] | None) -> dict[str, int] | None:
    """How far the counts moved; None where they were not read, or began anew."""
    if before is None or after is None or any(after[name] < before[name] for name in after):
        return None
    return {name: after[name] - before[name] for name in after}
