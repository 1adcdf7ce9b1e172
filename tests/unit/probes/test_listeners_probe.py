"""The probe of open ports sees every socket of the lab's processes, and those of no others."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvlab.probes import listeners


@pytest.mark.parametrize(
    ("family", "address"),
    [
        (socket.AF_INET, "127.0.0.1"),
        (socket.AF_INET, "0.0.0.0"),
        (socket.AF_INET6, "::1"),
        (socket.AF_INET6, "::"),
    ],
)
def test_a_port_is_told_with_the_address_it_is_open_at(family: socket.AddressFamily, address: str) -> None:
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        found = [one for one in listeners.listeners([os.getpid()]) if one["port"] == port]
    assert [one["address"] for one in found] == [address]
    assert "pytest" in str(found[0]["command"])
    assert not [one for one in listeners.listeners([os.getpid()]) if one["port"] == port]


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[int]:
    """A process whose parent has the command line of the lab's supervisord."""
    child = "import os; print(os.getpid(), flush=True); input()"
    child = f"import subprocess; subprocess.run([{sys.executable!r}, '-c', {child!r}])"
    argv = [sys.executable, "-c", child, "-c", f"{tmp_path}/etc/supervisord.conf"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        yield int(parent.stdout.readline())
        parent.communicate("\n")


def test_what_the_supervisor_started_is_the_labs_and_nothing_else_is(supervised: int, tmp_path: Path) -> None:
    found = listeners.ours(str(tmp_path))
    assert supervised in found
    assert len(found) == 2
    assert os.getpid() not in found
    assert not listeners.ours(str(tmp_path / "other"))
