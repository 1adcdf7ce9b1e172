"""Counters of RDMA ports and of pause frames, as the kernel shows them. Read-only, no command is run."""

from __future__ import annotations

import fcntl
import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

DATA_UNIT = 4
"""port_rcv_data and port_xmit_data count units of four bytes (InfiniBand architecture, PortCounters)."""

PAUSE = re.compile(r"(?P<direction>[rt]x)_prio(?P<priority>\d)_pause")
"""mlx5's names for the pause frames of one priority (ethtool -S)."""

_SIOCETHTOOL, _GSSET_INFO, _GSTRINGS, _GSTATS = 0x8946, 0x37, 0x1B, 0x1D
_SET_STATS, _NAME_BYTES = 1, 32


def ports(sysfs: Path) -> Iterator[tuple[str, str, Path]]:
    """Each RDMA port by device, number and folder; none where there is no RDMA driver."""
    for folder in sorted(sysfs.glob("class/infiniband/*/ports/*")):
        yield folder.parents[1].name, folder.name, folder


def payload(port: Path) -> dict[str, int]:
    """Bytes that a port received and sent. Soft-RoCE counts none: the dictionary is then empty."""
    files = {"received": "port_rcv_data", "sent": "port_xmit_data"}
    found = {direction: _number(port / "counters" / name) for direction, name in files.items()}
    return {direction: value * DATA_UNIT for direction, value in found.items() if value is not None}


def hardware(port: Path) -> dict[str, int]:
    """The driver's own counters, such as out_of_sequence, rnr_nak_retry_err and np_cnp_sent."""
    found = {path.name: _number(path) for path in sorted(port.glob("hw_counters/*"))}
    # `lifespan` says how often the driver reads the others; it counts nothing.
    return {name: value for name, value in found.items() if value is not None and name != "lifespan"}


def netdevs(sysfs: Path) -> list[str]:
    """Network interfaces of the RDMA devices."""
    return sorted({path.name for path in sysfs.glob("class/infiniband/*/device/net/*")})


def pause_frames(stats: dict[str, int]) -> dict[tuple[str, str], int]:
    """Pause frames by (priority, received or sent) out of an interface's statistics."""
    words = {"rx": "received", "tx": "sent"}
    return {
        (match["priority"], words[match["direction"]]): value
        for name, value in stats.items()
        if (match := PAUSE.fullmatch(name))
    }


def statistics(netdev: str) -> dict[str, int]:
    """The driver's statistics of an interface, as `ethtool -S` shows them; empty where the driver has none.

    Asked of the kernel directly (its header linux/ethtool.h), because the command is not on every host.

    Raises:
        OSError: there is no such interface.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        try:
            # cmd, reserved, mask of sets; the kernel answers with the length of each set of the mask.
            sets = _ask(control, netdev, struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _SET_STATS, 0))
            count = struct.unpack_from("=I", sets, 16)[0] if struct.unpack_from("=Q", sets, 8)[0] else 0
            if not count:
                return {}
            names = _ask(
                control,
                netdev,
                struct.pack("=III", _GSTRINGS, _SET_STATS, count) + bytes(count * _NAME_BYTES),
            )
            values = _ask(control, netdev, struct.pack("=II", _GSTATS, count) + bytes(count * 8))
        except OSError as error:
            if error.errno in _NO_STATISTICS:
                return {}
            raise
    labels = [names[12 + at * _NAME_BYTES :][:_NAME_BYTES] for at in range(count)]
    return dict(
        zip(
            (label.split(b"\0")[0].decode("ascii", "replace") for label in labels),
            struct.unpack_from(f"={count}Q", values, 8),
            strict=True,
        )
    )


_NO_STATISTICS = (95,)  # EOPNOTSUPP


def _ask(control: socket.socket, netdev: str, question: bytes) -> bytes:
    import array

    data = array.array("B", question)
    address, _ = data.buffer_info()
    # struct ifreq: the name, then a pointer to the question, which the kernel overwrites with its answer.
    fcntl.ioctl(control.fileno(), _SIOCETHTOOL, struct.pack("16sP16x", netdev.encode()[:15], address))
    return data.tobytes()


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        # A counter that this port does not support reads as an error; it is left out, not shown as zero.
        return None
