"""Which TCP ports the lab's own programs listen on, and at which addresses.

Job: {"state_dir": "/srv/kvlab/.lab"}. The lab's own are units kvlab-* of systemd and what the supervisord of that
folder started. Facts: `programs`, how many processes these are; `listeners`, each with address, port and command line.
The kernel tells a process's sockets to its user and to root alone, so that the probe runs as one of them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterator
from pathlib import Path

from kvlab.probes import Facts, Job, document, main

PROC = Path("/proc")
LISTEN = "0A"  # state of a socket, include/net/tcp_states.h
UNIT = "/kvlab-"


def run(job: Job) -> Facts:
    """Facts about the lab's processes and the ports at which they can be reached."""
    found = ours(job["state_dir"])
    return document("listeners", None, programs=len(found), listeners=listeners(found))


def ours(state_dir: str) -> set[int]:
    """Process ids of the lab's programs."""
    parents: dict[int, int] = {}
    roots: set[int] = set()
    config = f"{state_dir}/etc/supervisord.conf"
    for folder in PROC.glob("[0-9]*"):
        try:
            # The name of a program may hold spaces and brackets; what follows the last bracket does not.
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if config in command(int(folder.name)).split() or _is_unit(folder):
                roots.add(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return {pid for pid in parents if roots & set(_line(pid, parents))}


def _is_unit(folder: Path) -> bool:
    """Whether a process belongs to a unit of this system, not to one of a container that runs here."""
    if UNIT not in (folder / "cgroup").read_text():
        return False
    try:
        return (folder / "ns/pid").readlink() == (PROC / "self/ns/pid").readlink()
    except PermissionError:
        return False  # another user's, whose sockets cannot be seen either


def _line(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """A process and those that it descends from."""
    while pid in parents:
        yield pid
        pid = parents[pid]


def listeners(pids: Collection[int]) -> list[dict[str, str | int]]:
    """Address, port and command line of every TCP socket that these processes listen on."""
    found: list[dict[str, str | int]] = []
    for pid in sorted(pids):
        try:
            found += _of(pid)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
    return found


def _of(pid: int) -> list[dict[str, str | int]]:
    sockets, line = set(_sockets(pid)), command(pid)[:200]
    return [
        {"address": address, "port": port, "command": line}
        for table in ("tcp", "tcp6")
        # Each process sees the sockets of its own network namespace.
        for inode, address, port in _listening(pid, table)
        if inode in sockets
    ]


def command(pid: int) -> str:
    """A process's command line."""
    return (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()


def _sockets(pid: int) -> Iterator[str]:
    for entry in (PROC / str(pid) / "fd").iterdir():
        try:
            target = str(entry.readlink())
        except FileNotFoundError:
            continue  # it was closed meanwhile
        if target.startswith("socket:["):
            yield target[len("socket:[") : -1]


def _listening(pid: int, table: str) -> Iterator[tuple[str, str, int]]:
    for line in (PROC / str(pid) / "net" / table).read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == LISTEN:
            address, _, port = words[1].partition(":")
            yield words[9], _address(address), int(port, 16)


def _address(written: str) -> str:
    """An address as the kernel writes it: 32 bits at a time, each in this machine's order (little endian)."""
    raw = bytes.fromhex(written)
    return str(ipaddress.ip_address(b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))))


if __name__ == "__main__":
    main(run)
