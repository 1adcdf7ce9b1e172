"""Who holds a TCP port of this host."""

from __future__ import annotations

import errno
import socket

import psutil


def holder(address: str, port: int) -> psutil.Process | None:
    """The process that listens on the port at that address, or None when nobody does or it cannot be seen."""
    for connection in psutil.net_connections("tcp"):
        if connection.status != psutil.CONN_LISTEN or not connection.laddr or connection.laddr.port != port:
            continue
        if connection.laddr.ip in (address, "0.0.0.0", "::") and connection.pid is not None:
            try:
                return psutil.Process(connection.pid)
            except psutil.NoSuchProcess:
                return None
    return None


def is_taken(address: str, port: int) -> bool:
    """Whether binding the port would fail, also when another user's process, which cannot be named, holds it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
