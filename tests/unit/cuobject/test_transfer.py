"""Bytes between a client's memory and the endpoint's files, over both transports."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cuobject_driver import Build, Client, write_config

from kvlab.emulator import rdma

MIB = 1 << 20
POISON = 0xA5


@pytest.fixture(params=["process", "tcp"])
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("KVLAB_RDMA_TRANSPORT", request.param)
    return str(request.param)


def descriptor(client: Client, verb: str, address: int, size: int) -> rdma.Descriptor:
    result, text = client.ask(verb, 0, address, size)
    assert result == "0"
    return rdma.parse(text)


def new_file(path: Path, content: bytes = b"") -> int:
    path.write_bytes(content)
    return os.open(path, os.O_RDWR)


def refused(d: rdma.Descriptor, tmp_path: Path, **options: int) -> str:
    """Both directions must fail in the same words, and nothing may reach the file."""
    target, source = new_file(tmp_path / "target"), new_file(tmp_path / "source", os.urandom(d.size))
    with pytest.raises(rdma.RdmaError) as pulled:
        rdma.pull(d, target, d.size, **options)
    with pytest.raises(rdma.RdmaError) as pushed:
        rdma.push(d, source, 0, d.size, **options)
    assert (pulled.value.code, pulled.value.status) == ("RDMATransferFailed", 500)
    assert str(pulled.value) == str(pushed.value)
    assert (tmp_path / "target").read_bytes() == b""
    return str(pulled.value)


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize("size", [1, 4095, 4096, MIB, MIB + 1, 5 * MIB + 3])
def test_a_put_brings_the_clients_bytes_into_the_file(client: Client, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "data").write_bytes(data)
    address = client.memory(size)
    client.ask("load", address, tmp_path / "data")
    fd = new_file(tmp_path / "object")
    assert rdma.pull(descriptor(client, "put", address, size), fd, size) == size
    assert (tmp_path / "object").read_bytes() == data


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize(
    ("size", "offset"),
    # The last two: where source and target lie alike in their pages, they are copied another way.
    [(1, 0), (4096, 4096), (MIB + 1, 4095), (5 * MIB + 3, 70001), (10, 84), (3 * MIB + 5, 4096 + 84)],
)
def test_a_get_brings_the_range_into_memory_and_nothing_beside_it(
    client: Client, tmp_path: Path, size: int, offset: int
) -> None:
    data = os.urandom(offset + size + 10)
    fd = new_file(tmp_path / "object", data)
    address = client.memory(size + 200, POISON)
    assert rdma.push(descriptor(client, "get", address + 100, size), fd, offset, size) == size
    found = client.dump(address, size + 200, tmp_path / "found")
    assert found == bytes([POISON]) * 100 + data[offset : offset + size] + bytes([POISON]) * 100


@pytest.mark.usefixtures("transport")
def test_a_shorter_range_than_the_descriptors_leaves_the_rest_alone(client: Client, tmp_path: Path) -> None:
    fd = new_file(tmp_path / "object", b"x" * 100)
    address = client.memory(4096, POISON)
    assert rdma.push(descriptor(client, "get", address, 4096), fd, 50, 20) == 20
    assert client.dump(address, 40, tmp_path / "found") == b"x" * 20 + bytes([POISON]) * 20


def test_a_longer_range_than_the_descriptors_is_refused(client: Client, tmp_path: Path) -> None:
    found = descriptor(client, "get", client.memory(4096), 100)
    with pytest.raises(rdma.DescriptorError, match="for 101 bytes, the RDMA descriptor for 100"):
        rdma.push(found, new_file(tmp_path / "object", bytes(200)), 0, 101)


def test_a_shorter_file_than_the_range_is_the_callers_error(client: Client, tmp_path: Path) -> None:
    found = descriptor(client, "get", client.memory(4096), 100)
    with pytest.raises(ValueError, match="fewer than 100 bytes"):
        rdma.push(found, new_file(tmp_path / "object", bytes(99)), 0, 100)


@pytest.mark.usefixtures("transport")
def test_a_wrong_rkey_touches_nothing(client: Client, tmp_path: Path) -> None:
    address = client.memory(4096, POISON)
    good = descriptor(client, "get", address, 4096)
    for rkey in (good.rkey ^ 0x10000, good.rkey + 1, good.rkey & 0xFFFF, 0):
        assert "names no registration" in refused(good._replace(rkey=rkey), tmp_path)
    assert client.dump(address, 4096, tmp_path / "found") == bytes([POISON]) * 4096


@pytest.mark.usefixtures("transport")
def test_a_withdrawn_registration_is_refused_although_the_memory_is_registered_again(
    client: Client, tmp_path: Path
) -> None:
    address = client.memory(4096, POISON)
    old = descriptor(client, "get", address, 4096)
    client.ask("unregister", 0, address)
    assert "names no registration" in refused(old, tmp_path)
    client.ask("register", 0, address, 4096)
    assert "names no registration" in refused(old, tmp_path)
    assert client.dump(address, 4096, tmp_path / "found") == bytes([POISON]) * 4096


def test_a_key_stays_dead_when_its_slot_is_used_again(client: Client, tmp_path: Path) -> None:
    address = client.memory(4096, POISON)
    old = descriptor(client, "get", address, 4096)
    client.ask("unregister", 0, address)
    assert client.ask("cycle", 0, address, 4096, 65535) == ["0"]
    client.ask("register", 0, address, 4096)
    new = descriptor(client, "get", address, 4096)
    assert (new.rkey & 0xFFFF, new.rkey != old.rkey) == (old.rkey & 0xFFFF, True)
    assert "names no registration" in refused(old, tmp_path)
    assert rdma.pull(new, new_file(tmp_path / "object"), 4096) == 4096


@pytest.mark.usefixtures("transport")
def test_one_byte_out_of_bounds_touches_nothing(client: Client, tmp_path: Path) -> None:
    address = client.number("alloc", 3 * 4096, POISON)
    assert client.number("register", 0, address + 4096, 4096) == 0
    good = descriptor(client, "get", address + 4096, 4096)
    for bad in (
        good._replace(addr=good.addr - 1),
        good._replace(addr=good.addr + 1),
        good._replace(size=4097),
        good._replace(addr=good.addr + 4096, size=1),
        good._replace(addr=(1 << 64) - 4096),
    ):
        assert "not lie within" in refused(bad, tmp_path)
    assert client.dump(address, 3 * 4096, tmp_path / "found") == bytes([POISON]) * 3 * 4096


@pytest.mark.usefixtures("transport")
def test_another_dc_key_is_refused(client: Client, build: Build, tmp_path: Path) -> None:
    found = descriptor(client, "get", client.memory(4096), 4096)
    message = refused(found, tmp_path, dc_key=0x1234)
    assert "DC key" in message
    assert "1234" not in message
    with Client(build, write_config(tmp_path / "c.json", rdma_dc_key="0x1234"), KVLAB_CUOBJ_TCP="1") as other:
        other.ask("new")
        found = descriptor(other, "put", other.memory(64, 7), 64)
        assert "DC key" in refused(found, tmp_path)
        assert rdma.pull(found, new_file(tmp_path / "object"), 64, dc_key=0x1234) == 64


@pytest.mark.usefixtures("transport")
def test_memory_that_went_away_while_registered_fails_the_transfer(client: Client, tmp_path: Path) -> None:
    address = client.number("map", 4096)
    client.ask("register", 0, address, 4096)
    found = descriptor(client, "put", address, 4096)
    assert client.ask("protect", address, 4096) == ["0"]
    with pytest.raises(rdma.RdmaError):
        rdma.pull(found, new_file(tmp_path / "target"), 4096)
    with pytest.raises(rdma.RdmaError, match="no longer there"):
        rdma.push(found, new_file(tmp_path / "source", bytes(4096)), 0, 4096)
    assert client.ask("connected", 0) == ["1"]


def test_a_dead_process_is_refused(client: Client, tmp_path: Path, transport: str) -> None:
    found = descriptor(client, "get", client.memory(4096), 4096)
    client.process.kill()
    client.process.wait()
    message = refused(found, tmp_path)
    assert ("has ended" if transport == "process" else "refused") in message
    client.table.unlink()
    message = refused(found, tmp_path)
    assert ("No process" if transport == "process" else "refused") in message


def test_a_full_disk_is_an_oserror_and_not_the_clients_fault(client: Client) -> None:
    found = descriptor(client, "put", client.memory(2 * MIB), 2 * MIB)
    full = os.open("/dev/full", os.O_RDWR)
    with pytest.raises(OSError, match="No space left"):
        rdma.pull(found, full, 2 * MIB)


def test_a_file_that_cannot_become_so_large_gets_no_byte(client: Client, tmp_path: Path) -> None:
    found = descriptor(client, "put", client.memory(2 * MIB), 2 * MIB)
    fd = new_file(tmp_path / "object")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            rdma.pull(found, fd, 2 * MIB)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "object").read_bytes() == b""


def test_the_address_decides_the_transport(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KVLAB_RDMA_TRANSPORT", raising=False)
    here = descriptor(client, "get", client.memory(64), 64)
    assert here.client == f"pid {client.pid} via process at 127.0.0.1"
    away = here._replace(gid=bytes(10) + b"\xff\xff" + bytes((203, 0, 113, 7)))
    assert away.client == f"pid {client.pid} via tcp at 203.0.113.7:{here.lid}"


@pytest.fixture
def rails(build: Build, tmp_path: Path) -> Iterator[Client]:
    """A connected client with two addresses, whose tcp transport is on."""
    path = write_config(tmp_path / "rails.json", rdma_dev_addr_list=["127.0.0.1", "127.0.0.2"])
    with Client(build, path, KVLAB_CUOBJ_TCP="1") as driver:
        assert driver.ask("new") == ["0", "1"]
        yield driver


@pytest.mark.usefixtures("transport")
def test_bytes_move_over_each_of_a_clients_addresses(rails: Client, tmp_path: Path) -> None:
    found = [descriptor(rails, "put", rails.memory(4096, value), 4096) for value in (1, 2, 3)]
    assert [str(d.address) for d in found] == ["127.0.0.1", "127.0.0.2", "127.0.0.1"]
    assert (found[0].lid == found[2].lid, found[0].lid == found[1].lid) == (True, False)
    for value, d in enumerate(found, 1):
        fd = new_file(tmp_path / "object")
        assert rdma.pull(d, fd, 4096) == 4096
        assert os.pread(fd, 4096, 0) == bytes([value]) * 4096
        assert rdma.push(d, new_file(tmp_path / "other", b"x" * 4096), 0, 4096) == 4096
        assert rails.dump(d.addr, 4096, tmp_path / "found") == b"x" * 4096


def test_a_key_is_good_at_its_own_address_only(rails: Client, tmp_path: Path, transport: str) -> None:
    first, second = (descriptor(rails, "get", rails.memory(4096, POISON), 4096) for _ in range(2))
    other = first._replace(gid=second.gid, lid=second.lid)
    expected = "is not at the address" if transport == "process" else "names no registration"
    assert expected in refused(other, tmp_path)
    assert rails.dump(first.addr, 4096, tmp_path / "found") == bytes([POISON]) * 4096


# What the process transport alone has


def test_a_descriptor_of_another_address_is_refused(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVLAB_RDMA_TRANSPORT", "process")
    found = descriptor(client, "get", client.memory(64), 64)
    assert "is not at the address" in refused(found._replace(gid=bytes(15) + b"\1"), tmp_path)


def test_a_table_of_another_format_is_refused(tmp_path: Path, client: Client) -> None:
    found = descriptor(client, "get", client.memory(64), 64)
    with client.table.open("r+b") as table:
        table.write(b"KVLABCU9")
    assert "another format" in refused(found, tmp_path)


LOOPBACK = bytes(10) + b"\xff\xff" + bytes((127, 0, 0, 1))


def forge_table(folder: Path, pid: int) -> tuple[Path, rdma.Descriptor]:
    """A table that offers low memory of any process, and a descriptor for it."""
    header = struct.pack("<8sIIII16s", b"KVLABCU1", 65536, pid, rdma.DEFAULT_DC_KEY, 0, LOOPBACK)
    table = folder / f"kvlab-cuobj-{pid}"
    table.write_bytes(header.ljust(4096, b"\0") + struct.pack("<QQII8x", 4096, 1 << 40, 0x10000, 1))
    return table, rdma.Descriptor(4096, 64, 0x10000, 0, pid, True, LOOPBACK)


def test_a_table_left_over_under_an_id_that_is_in_use_again_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvlab.emulator.rdma_process._DIRECTORY", tmp_path)
    _, found = forge_table(tmp_path, os.getpid())
    assert "left over" in refused(found, tmp_path)


def test_a_table_of_another_user_than_the_process_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else anybody could offer up a process that never registered anything."""
    nobody = 65534
    victim = subprocess.Popen(["sleep", "600"], user=nobody) if os.getuid() == 0 else None
    monkeypatch.setattr("kvlab.emulator.rdma_process._DIRECTORY", tmp_path)
    table, found = forge_table(tmp_path, victim.pid if victim else 1)
    with table.open("r+b") as forged:
        lock = struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 1, 0)
        fcntl.fcntl(forged, fcntl.F_OFD_SETLK, lock)
        assert "not made by that process's user" in refused(found, tmp_path)
    if victim:
        victim.kill()
        victim.wait()


def test_a_kernel_that_forbids_ptrace_is_a_clear_error(client: Client, tmp_path: Path) -> None:
    _, text = client.ask("put", 0, client.memory(4096), 4096)
    assert client.ask("undumpable") == ["0"]
    endpoint = (
        "import os, sys; from kvlab.emulator import rdma\n"
        "fd = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT)\n"
        "try: rdma.pull(rdma.parse(sys.argv[1]), fd, 4096)\n"
        "except rdma.RdmaError as error: print(error.code, error)"
    )

    def drop_cap_sys_ptrace() -> None:
        ctypes.CDLL(None).prctl(24, 19, 0, 0, 0)  # PR_CAPBSET_DROP; without effect for a user who has none

    said = subprocess.run(
        [sys.executable, "-c", endpoint, text, tmp_path / "target"],
        preexec_fn=drop_cap_sys_ptrace,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert said.startswith(
        f"RDMATransferFailed The kernel forbids access to the memory of process {client.pid}"
    )
    assert (tmp_path / "target").read_bytes() == b""


# What the tcp transport alone has


def test_a_client_on_another_host_without_tcp_is_told_how_to_turn_it_on(
    build: Build, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVLAB_RDMA_TRANSPORT", "tcp")
    with Client(build, config) as driver:
        driver.ask("new")
        assert "KVLAB_CUOBJ_TCP=1" in refused(descriptor(driver, "get", driver.memory(64), 64), tmp_path)


def test_the_key_of_another_process_is_refused(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVLAB_RDMA_TRANSPORT", "tcp")
    found = descriptor(client, "get", client.memory(64), 64)
    assert "another process listens there" in refused(found._replace(dctn=found.dctn + 1), tmp_path)


def test_withdrawing_breaks_off_a_tcp_transfer(client: Client) -> None:
    size = 64 * MIB
    address = client.memory(size, POISON)
    found = descriptor(client, "put", address, size)
    with socket.create_connection(("127.0.0.1", found.lid), timeout=10) as peer:
        peer.sendall(
            struct.pack(
                "<4sIIIIIQQQ", b"KVR1", 1, rdma.DEFAULT_DC_KEY, found.dctn, found.rkey, 0, address, size, size
            )
        )
        assert peer.recv(8, socket.MSG_WAITALL) == b"KVR1" + bytes(4)
        # The peer takes nothing, so the transfer cannot end by itself.
        assert client.ask("unregister", 0, address) == ["0"]
        received = 0
        while data := peer.recv(MIB):
            received += len(data)
    assert received < size


def test_a_malformed_request_on_the_tcp_port_ends_only_its_own_connection(
    client: Client, tmp_path: Path
) -> None:
    found = descriptor(client, "get", client.memory(4096, POISON), 4096)

    def request(magic: bytes = b"KVR1", operation: int = 2, size: int = 64, length: int = 64) -> bytes:
        fields = rdma.DEFAULT_DC_KEY, found.dctn, found.rkey, 0, found.addr, size, length
        return struct.pack("<4sIIIIIQQQ", magic, operation, *fields)

    malformed = [
        b"GET / HTTP/1.1\r\nHost: here\r\nUser-Agent: aaaaa\r\n\r\n",
        bytes(48),
        request(magic=b"KVR2"),
        request(operation=0),
        request(operation=3),
        request(length=0),
        request(length=65),
    ]
    for data in malformed:
        with socket.create_connection(("127.0.0.1", found.lid), timeout=10) as peer:
            peer.sendall(data[:48])
            assert peer.recv(100, socket.MSG_WAITALL) == b"KVR1" + struct.pack("<I", 1)
    with socket.create_connection(("127.0.0.1", found.lid), timeout=10) as peer:
        peer.sendall(request()[:47])
    assert client.dump(found.addr, 4096, tmp_path / "found") == bytes([POISON]) * 4096
    assert client.ask("connected", 0) == ["1"]


# Both, under the sanitizers


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_transfers_beside_registrations_are_clean_under_the_sanitizers(
    builds: Callable[[str], Build], tmp_path: Path, sanitizer: str
) -> None:
    size = MIB + 1
    config = write_config(tmp_path / "c.json", logging={"dir": str(tmp_path)})
    with Client(builds(sanitizer), config, KVLAB_CUOBJ_TCP="1") as driver:
        assert driver.ask("new") == ["0", "1"]
        addresses = [driver.memory(size, value) for value in range(4)]
        found = [descriptor(driver, "put", address, size) for address in addresses]
        driver.send("threads", 0, 2, 200)
        with ThreadPoolExecutor(4) as pool:

            def both(index: int) -> bytes:
                path = tmp_path / f"object{index}"
                fd = new_file(path)
                for _ in range(3):
                    rdma.pull(found[index], fd, size)
                    rdma.push(found[index], fd, 0, size)
                return path.read_bytes()

            for value, data in enumerate(pool.map(both, range(4))):
                assert data == bytes([value]) * size
        assert driver.answer() == ["0"]
        for address in addresses:
            assert driver.ask("unregister", 0, address) == ["0"]
        refused(found[0], tmp_path)
        driver.finish()
