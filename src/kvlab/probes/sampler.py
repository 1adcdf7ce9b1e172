"""Counters of a host over time: RDMA ports, netdevs with their pause frames, CPU time of processes.

Job: {"hz": 1 to 10, "devices": [RDMA device, ...] (all), "netdevs": [name, ...] (those of the devices), "pids": [id,
...]}. It runs through probes.shipping and speaks line by line: each `ping` on stdin is answered {"pong": this host's
clock}, `go` starts the samples {"t", "rdma": {"device/port": {counter: value}}, "net": {netdev: {counter: value}},
"cpu": {pid: seconds}}, the end of stdin ends it. Standard library only; a sample takes some reads of sysfs and one
ioctl for each netdev.
"""

from __future__ import annotations

import array
import fcntl
import json
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MIN_HZ, MAX_HZ = 1, 10
NET = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped")
ETHTOOL = ("rx_vport_rdma_unicast_bytes", "tx_vport_rdma_unicast_bytes", "rx_vport_unicast_bytes",
           "tx_vport_unicast_bytes", "rx_discards_phy", "out_of_buffer")  # fmt: skip
_SIOCETHTOOL, _GDRVINFO, _GSTRINGS, _GSTATS, _STRING = 0x8946, 0x03, 0x1B, 0x1D, 32
_TICKS = os.sysconf("SC_CLK_TCK")


def run(job: Any) -> Iterator[dict[str, Any]]:
    """The answers and samples, one JSON line each."""
    sysfs = Path(job.get("sysfs") or "/sys")
    for line in sys.stdin:
        if line.strip() == "go":
            break
        yield {"pong": time.time()}
    else:
        return
    hz = min(MAX_HZ, max(MIN_HZ, float(job.get("hz") or MIN_HZ)))
    devices, netdevs = watched(sysfs, job.get("devices") or (), job.get("netdevs") or ())
    begin, number = time.monotonic(), 0
    while True:
        yield sample(sysfs, devices, netdevs, job.get("pids") or ())
        number += 1
        wait = begin + number / hz - time.monotonic()
        if wait < 0:  # behind by more than a period: samples are left out, not bunched
            number = int((time.monotonic() - begin) * hz)
        ready, _, _ = select.select([sys.stdin], [], [], max(0.0, wait))
        if ready and not sys.stdin.readline():
            return


def watched(sysfs: Path, devices: Any, netdevs: Any) -> tuple[list[str], list[str]]:
    """Names of RDMA devices and netdevs; without names all devices, and the devices' own netdevs."""
    folder = sysfs / "class/infiniband"
    names = (
        list(devices) or sorted(path.name for path in folder.iterdir()) if folder.is_dir() else list(devices)
    )
    found = list(netdevs)
    for name in [] if found else names:
        net = folder / name / "device/net"
        found += sorted(path.name for path in net.iterdir()) if net.is_dir() else []
    return names, found


def sample(sysfs: Path, devices: Any, netdevs: Any, pids: Any) -> dict[str, Any]:
    """All counters now. What is gone (a process that ended, a device that was removed) is left out."""
    return {
        "t": time.time(),
        "rdma": {name: values for device in devices for name, values in _rdma(sysfs, device)},
        "net": {name: _net(sysfs, name) for name in netdevs},
        "cpu": {str(pid): seconds for pid in pids if (seconds := cpu_seconds(pid)) is not None},
    }


def _rdma(sysfs: Path, device: str) -> Iterator[tuple[str, dict[str, int]]]:
    ports = sysfs / "class/infiniband" / device / "ports"
    for port in sorted(ports.iterdir()) if ports.is_dir() else ():
        values: dict[str, int] = {}
        for folder in (port / "counters", port / "hw_counters"):
            for file in folder.iterdir() if folder.is_dir() else ():
                value = _number(file)
                if value is not None:
                    values[file.name] = value
        yield f"{device}/{port.name}", values


def _net(sysfs: Path, netdev: str) -> dict[str, int]:
    folder = sysfs / "class/net" / netdev / "statistics"
    values = {name: value for name in NET if (value := _number(folder / name)) is not None}
    for name, value in ethtool(netdev).items():
        if name in ETHTOOL or "pause" in name:
            values[name] = value
    return values


def cpu_seconds(pid: int) -> float | None:
    """User and system time of a process with its threads; None when it is gone."""
    try:
        words = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(words[11]) + int(words[12])) / _TICKS


def ethtool(netdev: str) -> dict[str, int]:
    """What `ethtool -S` shows, by the same ioctl and without a process; empty where the driver has none."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
            info = array.array("B", struct.pack("I", _GDRVINFO) + bytes(192))
            _ioctl(handle, netdev, info)
            (count,) = struct.unpack_from("I", info, 180)
            if not 0 < count < 1 << 16:
                return {}
            names = array.array("B", struct.pack("III", _GSTRINGS, 1, count) + bytes(count * _STRING))
            _ioctl(handle, netdev, names)
            values = array.array("B", struct.pack("II", _GSTATS, count) + bytes(count * 8))
            _ioctl(handle, netdev, values)
    except OSError:
        return {}
    raw = names.tobytes()[12:]
    labels = (raw[at : at + _STRING].split(b"\0")[0].decode() for at in range(0, count * _STRING, _STRING))
    # Python 3.9 has no zip(strict=True); both have `count` items.
    return dict(zip(labels, struct.unpack_from(f"{count}Q", values, 8)))  # noqa: B905


def _ioctl(handle: socket.socket, netdev: str, data: Any) -> None:
    request = struct.pack("16sP", netdev.encode()[:15], data.buffer_info()[0])
    fcntl.ioctl(handle.fileno(), _SIOCETHTOOL, request)


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except (OSError, ValueError):
        return None


def main() -> None:
    """Run as a program with the job on the first line of stdin."""
    for one in run(json.loads(sys.stdin.readline() or "{}")):
        print(json.dumps(one), flush=True)


if __name__ == "__main__":
    main()
