"""Counters of a host over time: RDMA ports, netdevs with their pause frames, CPU time of processes.

Job: {"hz": 1 to 10, "devices": [RDMA device, ...] (all), "netdevs": [name, ...] (those of the devices; ["*"] is all
that have hardware behind them), "pids": [id, ...]}. It runs through probes.shipping and speaks line by line: each
`ping` on stdin is answered {"pong": this host's clock}, `go` starts the samples {"t", "rdma": {"device/port": {counter:
value}}, "net": {netdev: {counter: value}}, "cpu": {pid: seconds}}, the end of stdin ends it. Standard library only.
Files stay open from sample to sample, since opening one costs several times its read. What tells the path and the rate
(EVERY_TIME, netdevs, processes) is in each sample; the ports' other counters, of which mlx5 has half a hundred, are in
one sample a second, the first and the last.
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
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

MIN_HZ, MAX_HZ = 1, 10
WORD = 4
"""port_rcv_data and port_xmit_data count words of four bytes."""
EVERY_TIME = frozenset(
    ("port_rcv_data", "port_xmit_data", "port_rcv_packets", "port_xmit_packets", "port_xmit_wait")
)
"""Counters of a port that are in every sample."""
ALL_EVERY_S = 1.0
NET = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_dropped")
ETHTOOL = ("rx_vport_rdma_unicast_bytes", "tx_vport_rdma_unicast_bytes", "rx_vport_unicast_bytes",
           "tx_vport_unicast_bytes", "rx_discards_phy", "out_of_buffer")  # fmt: skip
_MANY = 1 << 14  # mlx5 has some thousand counters with all its queues
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
    watch = Watch(sysfs, devices, netdevs, job.get("pids") or ())
    begin, number, all_at = time.monotonic(), 0, 0.0
    while True:
        now = time.monotonic()
        yield watch.sample(rest=now >= all_at)
        all_at = now + ALL_EVERY_S - 0.5 / hz if now >= all_at else all_at
        number += 1
        wait = begin + number / hz - time.monotonic()
        if wait < 0:  # behind by more than a period: samples are left out, not bunched
            number = int((time.monotonic() - begin) * hz)
        ready, _, _ = select.select([sys.stdin], [], [], max(0.0, wait))
        if ready and not sys.stdin.readline():
            yield watch.sample()  # so that each counter has a value after whatever was watched
            return


def watched(sysfs: Path, devices: Any, netdevs: Any) -> tuple[list[str], list[str]]:
    """Names of RDMA devices and netdevs; without names all devices, and the devices' own netdevs."""
    folder = sysfs / "class/infiniband"
    names = (
        list(devices) or sorted(path.name for path in folder.iterdir()) if folder.is_dir() else list(devices)
    )
    found = list(netdevs)
    if found == ["*"]:
        return names, sorted(path.parent.name for path in sysfs.glob("class/net/*/device"))
    for name in [] if found else names:
        net = folder / name / "device/net"
        found += sorted(path.name for path in net.iterdir()) if net.is_dir() else []
    return names, found


def sample(
    sysfs: Path, devices: Iterable[str], netdevs: Iterable[str], pids: Iterable[int]
) -> dict[str, Any]:
    """All counters now, once. What is gone (a process that ended, a device that was removed) is left out."""
    watch = Watch(sysfs, devices, netdevs, pids)
    try:
        return watch.sample()
    finally:
        watch.close()


def payload(ports: Iterable[Mapping[str, int]], nets: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Bytes by RDMA and by TCP, in and out, out of the counters of ports and netdevs, or of their differences.

    Port counters count words of four bytes. Where a netdev's plain bytes hold its RDMA too (mlx5), there is a counter
    of vport unicast bytes that does not, which is taken.
    """
    ports, nets = list(ports), list(nets)
    return {
        "rdma_in": WORD * sum(port.get("port_rcv_data", 0) for port in ports),
        "rdma_out": WORD * sum(port.get("port_xmit_data", 0) for port in ports),
        "tcp_in": sum(net.get("rx_vport_unicast_bytes", net.get("rx_bytes", 0)) for net in nets),
        "tcp_out": sum(net.get("tx_vport_unicast_bytes", net.get("tx_bytes", 0)) for net in nets),
    }


class Watch:
    """The counters of a host that are read again and again."""

    def __init__(
        self, sysfs: Path, devices: Iterable[str], netdevs: Iterable[str], pids: Iterable[int]
    ) -> None:
        self._open: list[int] = []
        self._rdma: dict[str, list[tuple[str, int]]] = {}
        self._rest: dict[str, list[tuple[str, int]]] = {}
        for port, files in (found for device in devices for found in self._ports(sysfs, device)):
            self._rdma[port] = [one for one in files if one[0] in EVERY_TIME]
            self._rest[port] = [one for one in files if one[0] not in EVERY_TIME]
        self._net = {name: self._files(sysfs / "class/net" / name / "statistics", NET) for name in netdevs}
        self._ethtool = {name: Ethtool(name) for name in self._net}
        self._cpu = [(str(pid), self._file(Path("/proc", str(pid), "stat"))) for pid in pids]

    def close(self) -> None:
        """Close what is open."""
        for handle in self._open:
            os.close(handle)
        self._open.clear()
        for one in self._ethtool.values():
            one.close()

    def sample(self, *, rest: bool = True) -> dict[str, Any]:
        """The counters now, with or without the `rest` of the ports' counters; what is gone is left out."""
        rdma = {name: _numbers(files) for name, files in self._rdma.items()}
        for name, files in self._rest.items() if rest else ():
            rdma[name].update(_numbers(files))
        cpu = ((pid, _cpu_seconds(handle)) for pid, handle in self._cpu)
        return {
            "t": time.time(),
            "rdma": rdma,
            "net": {name: _numbers(files) | self._ethtool[name].read() for name, files in self._net.items()},
            "cpu": {pid: seconds for pid, seconds in cpu if seconds is not None},
        }

    def _ports(self, sysfs: Path, device: str) -> Iterator[tuple[str, list[tuple[str, int]]]]:
        ports = sysfs / "class/infiniband" / device / "ports"
        for port in sorted(ports.iterdir()) if ports.is_dir() else ():
            files: list[tuple[str, int]] = []
            for folder in (port / "counters", port / "hw_counters"):
                names = [file.name for file in folder.iterdir()] if folder.is_dir() else []
                files += self._files(folder, names)
            yield f"{device}/{port.name}", files

    def _files(self, folder: Path, names: Iterable[str]) -> list[tuple[str, int]]:
        handles = ((name, self._file(folder / name)) for name in names)
        return [(name, handle) for name, handle in handles if handle is not None]

    def _file(self, path: Path) -> int | None:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        self._open.append(handle)
        return handle


def _numbers(files: Iterable[tuple[str, int]]) -> dict[str, int]:
    values = {}
    for name, handle in files:
        try:
            values[name] = int(os.pread(handle, 64, 0))
        except (
            OSError,
            ValueError,
        ):  # the device was removed, or the file holds no number (lifespan's "<not read>")
            continue
    return values


def _cpu_seconds(handle: int | None) -> float | None:
    """User and system time from an open /proc/PID/stat; None when the process is gone, whoever has its id now."""
    if handle is None:
        return None
    try:
        words = os.pread(handle, 4096, 0).rpartition(b")")[2].split()
    except OSError:
        return None
    return (int(words[11]) + int(words[12])) / _TICKS if words else None


class Ethtool:
    """What `ethtool -S` shows of a netdev that is wanted here, by the same ioctl and without a process.

    Names go with the driver's queues: they are asked for again when their number differs.
    """

    def __init__(self, netdev: str) -> None:
        self._netdev = netdev
        self._handle = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._data = array.array("B", bytes(8 + _MANY * 8))
        self._count, self._wanted = self._names()

    def close(self) -> None:
        """Close the socket."""
        self._handle.close()

    def read(self) -> dict[str, int]:
        """The counters now; empty where there are none, or the netdev is gone."""
        if not self._wanted:
            return {}
        count, values = self._values()
        if count != self._count:
            self._count, self._wanted = self._names()
            count, values = self._values()
        if not values or count != self._count:
            return {}
        return {name: values[at] for name, at in self._wanted}

    def _values(self) -> tuple[int, tuple[int, ...]]:
        """How many counters the driver has now, and their values where that is as many as before."""
        # The kernel writes as many as there are, whatever it was told: the driver may have got more since.
        struct.pack_into("II", self._data, 0, _GSTATS, self._count)
        try:
            self._ioctl(self._data)
        except OSError:
            return self._count, ()
        (count,) = struct.unpack_from("I", self._data, 4)
        return count, struct.unpack_from(f"{count}Q", self._data, 8) if count == self._count else ()

    def _names(self) -> tuple[int, list[tuple[str, int]]]:
        """How many counters the driver has, and the wanted ones' names and places."""
        try:
            info = array.array("B", struct.pack("I", _GDRVINFO) + bytes(192))
            self._ioctl(info)
            (count,) = struct.unpack_from("I", info, 180)
            if not 0 < count <= _MANY:
                return 0, []
            names = array.array("B", struct.pack("III", _GSTRINGS, 1, count) + bytes(count * _STRING))
            self._ioctl(names)
        except OSError:
            return 0, []
        raw = names.tobytes()[12:]
        labels = [
            raw[at : at + _STRING].split(b"\0")[0].decode() for at in range(0, count * _STRING, _STRING)
        ]
        return count, [(name, at) for at, name in enumerate(labels) if name in ETHTOOL or "pause" in name]

    def _ioctl(self, data: Any) -> None:
        request = struct.pack("16sP", self._netdev.encode()[:15], data.buffer_info()[0])
        fcntl.ioctl(self._handle.fileno(), _SIOCETHTOOL, request)


def main() -> None:
    """Run as a program with the job on the first line of stdin."""
    for one in run(json.loads(sys.stdin.readline() or "{}")):
        print(json.dumps(one), flush=True)


if __name__ == "__main__":
    main()
