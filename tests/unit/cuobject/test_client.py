"""The library as NVIDIA documents its own: configuration, registration, operations, processes."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from cuobject_driver import Build, Client, write_config

from kvlab.emulator import rdma

LIMIT = 4 * 2**30 - 64 * 2**10


def connected(build: Build, config: Path | None, **environment: str) -> tuple[bool, str]:
    with Client(build, config, **environment) as driver:
        _, answer = driver.ask("new")
        return answer == "1", driver.finish()


# Configuration


def test_a_local_address_in_the_list_connects(build: Build, config: Path) -> None:
    assert connected(build, config) == (True, "")


@pytest.mark.parametrize(
    ("addresses", "reason"),
    [
        ([], "rdma_dev_addr_list is empty"),
        (["203.0.113.7"], "names no address of this host (203.0.113.7)"),
        (["203.0.113.7", "2001:db8::7"], "names no address of this host (203.0.113.7, 2001:db8::7)"),
        (["0.0.0.0"], "holds 0.0.0.0, which is no IP address of a NIC"),
        (["mlx5_0"], "holds mlx5_0, which is no IP address of a NIC; a device name such as mlx5_0 needs"),
        (["127.0.0.1", "mlx5_0"], "holds mlx5_0"),
        (["127.0.0.1", 3], "holds 3"),
        ([f"127.0.0.{n}" for n in range(1, 18)], "has more than 16 addresses"),
        ("127.0.0.1", "rdma_dev_addr_list is no list"),
    ],
)
def test_without_a_local_address_it_is_not_connected(
    build: Build, tmp_path: Path, addresses: object, reason: str
) -> None:
    ok, errors = connected(build, write_config(tmp_path / "c.json", rdma_dev_addr_list=addresses))
    assert not ok
    assert reason in errors


def used(driver: Client, count: int) -> list[str]:
    """The addresses in the descriptors of as many registrations, one after another."""
    texts = [driver.ask("put", 0, driver.memory(64), 64)[1] for _ in range(count)]
    return [str(rdma.parse(text).address) for text in texts]


@pytest.mark.parametrize(
    ("policy", "addresses"),
    [
        (None, ["127.0.0.2", "127.0.0.3", "127.0.0.1", "127.0.0.2", "127.0.0.3"]),
        ("RoundRobin", ["127.0.0.2", "127.0.0.3", "127.0.0.1", "127.0.0.2", "127.0.0.3"]),
        ("FirstFit", ["127.0.0.2"] * 5),
    ],
)
def test_registrations_take_the_local_addresses_in_turn_unless_told_otherwise(
    build: Build, tmp_path: Path, policy: str | None, addresses: list[str]
) -> None:
    listed = ["203.0.113.7", "127.0.0.2", "127.0.0.3", "127.0.0.1"]
    more = {} if policy is None else {"rdma_load_balancing_policy": policy}
    with Client(build, write_config(tmp_path / "c.json", rdma_dev_addr_list=listed, **more)) as driver:
        assert driver.ask("new") == ["0", "1"]
        assert used(driver, 5) == addresses


def test_a_registration_keeps_its_address(build: Build, tmp_path: Path) -> None:
    path = write_config(tmp_path / "c.json", rdma_dev_addr_list=["127.0.0.1", "127.0.0.2"])
    with Client(build, path) as driver:
        driver.ask("new")
        first, second = driver.memory(64), driver.memory(64)
        for _ in range(3):
            for address, where in ((first, "127.0.0.1"), (second, "127.0.0.2")):
                assert str(rdma.parse(driver.ask("get", 0, address, 64)[1]).address) == where


def test_addresses_of_other_hosts_and_other_policies_are_named_in_the_log(
    build: Build, tmp_path: Path
) -> None:
    path = write_config(
        tmp_path / "c.json",
        rdma_dev_addr_list=["203.0.113.7", "127.0.0.1", "203.0.113.8"],
        rdma_load_balancing_policy="MaxMinFit",
        logging={"level": "WARN"},
    )
    with Client(build, path) as driver:
        assert driver.ask("new") == ["0", "1"]
        said = driver.finish()
    assert "rdma_dev_addr_list: not of this host, left out: 203.0.113.7, 203.0.113.8" in said
    assert "rdma_load_balancing_policy MaxMinFit is not simulated; taking RoundRobin" in said


def test_a_file_that_cannot_be_read_is_named(build: Build, tmp_path: Path) -> None:
    ok, errors = connected(build, tmp_path / "missing.json")
    assert not ok
    assert f"cannot read {tmp_path}/missing.json" in errors


def test_a_file_that_is_no_json_is_named_with_the_line(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{\n "properties": {\n  "rdma_dev_addr_list": [127.0.0.1]\n}}')
    ok, errors = connected(build, path)
    assert not ok
    assert f"{path} is no JSON: line 3:" in errors


def test_comments_as_in_nvidias_template_are_read_over(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    path.write_text('// a lab\n{"properties": { // see below\n "rdma_dev_addr_list": ["127.0.0.1"] }}')
    assert connected(build, path)[0]


def test_cuobj_env_path_json_goes_before_cufile_env_path_json(
    build: Build, config: Path, tmp_path: Path
) -> None:
    empty = write_config(tmp_path / "empty.json", rdma_dev_addr_list=[])
    assert not connected(build, config, CUOBJ_ENV_PATH_JSON=str(empty))[0]
    assert connected(build, empty, CUOBJ_ENV_PATH_JSON=str(config))[0]


@pytest.mark.parametrize(("written", "key"), [("0xffeeddcc", 0xFFEEDDCC), ("0x12", 0x12), (7, 7)])
def test_the_dc_key_may_be_a_string_or_a_number(
    build: Build, tmp_path: Path, written: object, key: int
) -> None:
    with Client(build, write_config(tmp_path / "c.json", rdma_dc_key=written)) as driver:
        assert driver.ask("new") == ["0", "1"]
        assert struct.unpack_from("<I", driver.table.read_bytes(), 16)[0] == key


@pytest.mark.parametrize("written", ["key", "", "0x1ffffffff", -1, 1.5, True, []])
def test_a_dc_key_that_is_no_32_bit_number_is_not_connected(
    build: Build, tmp_path: Path, written: object
) -> None:
    ok, errors = connected(build, write_config(tmp_path / "c.json", rdma_dc_key=written))
    assert not ok
    assert "rdma_dc_key" in errors


def test_it_logs_to_the_configured_folder_at_the_configured_level(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    for level, lines in (("ERROR", 0), ("INFO", 1), ("DEBUG", 2)):
        write_config(path, logging={"dir": str(tmp_path), "level": level})
        with Client(build, path) as driver:
            driver.ask("new")
            driver.memory(64)
            log = tmp_path / f"cuobj_{driver.pid}.log"
            assert driver.finish() == ""
        written = log.read_text().splitlines()
        assert len(written) == lines
        assert all("(simulated)" in line for line in written)


# Registration and operations


def test_the_objects_own_bytes_are_never_written(client: Client) -> None:
    client.ask("put", 0, client.memory(4096), 4096)
    client.ask("delete", 0)
    assert client.number("object_untouched", 0) == 1


def test_a_descriptor_names_the_operations_own_range(client: Client) -> None:
    address = client.memory(8192)
    result, text = client.ask("get", 0, address + 100, 500)
    found = rdma.parse(text)
    assert result == "0"
    assert (found.addr, found.size, found.dctn) == (address + 100, 500, client.pid)


def test_up_to_4_gib_less_64_kib_can_be_registered_and_no_byte_more(client: Client) -> None:
    address = client.number("map", LIMIT + 4096)
    assert client.number("register", 0, address, LIMIT + 1) == 1
    assert client.number("register", 0, address, LIMIT) == 0
    _, text = client.ask("put", 0, address, LIMIT)
    assert rdma.parse(text).size == LIMIT


@pytest.mark.parametrize(("offset", "size"), [(0, 0), (4096, 8192), (2**46, 64)])
def test_memory_that_is_not_there_cannot_be_registered(client: Client, offset: int, size: int) -> None:
    address = client.number("map", 3 * 4096)
    assert client.number("unmap", address + 2 * 4096, 4096) == 0
    assert client.number("register", 0, address + offset, size) == 1


def test_the_same_start_cannot_be_registered_twice(client: Client) -> None:
    address = client.memory(4096)
    assert client.number("register", 0, address, 4096) == 1


def test_an_operation_outside_every_registration_is_refused_without_a_callback(client: Client) -> None:
    address = client.memory(4096)
    for start, size in (
        (address - 1, 10),
        (address, 4097),
        (address + 4096, 1),
        (2**64 - 1, 2),
        (address, 0),
    ):
        result, *descriptor = client.ask("get", 0, start, size)
        assert int(result) in (-errno.EFAULT, -errno.EINVAL)
        assert descriptor == []


def test_unregistered_memory_is_refused(client: Client) -> None:
    address = client.memory(4096)
    assert client.number("unregister", 0, address) == 0
    assert client.number("unregister", 0, address) == 1
    assert client.ask("put", 0, address, 4096) == [str(-errno.EFAULT)]


def test_a_registration_belongs_to_its_client(client: Client) -> None:
    address = client.memory(4096)
    assert client.ask("new") == ["1", "1"]
    assert client.ask("put", 1, address, 4096) == [str(-errno.EFAULT)]
    assert client.number("unregister", 1, address) == 1


def test_a_buffer_takes_one_operation_at_a_time(client: Client) -> None:
    address = client.memory(4096)
    assert client.ask("nested", 0, address, 4096) == ["0", str(-errno.EBUSY)]
    assert client.ask("get", 0, address, 4096)[0] == "0"


def test_a_destroyed_client_leaves_no_registration(client: Client) -> None:
    address = client.memory(4096)
    _, text = client.ask("put", 0, address, 4096)
    client.ask("delete", 0)
    slot = rdma.parse(text).rkey & 0xFFFF
    assert struct.unpack_from("<QQI", client.table.read_bytes(), 4096 + 32 * slot)[2] == 0
    assert client.ask("connected", 0) == ["0"]


def test_each_use_of_memory_has_a_key_of_its_own(client: Client) -> None:
    address, keys = client.number("alloc", 4096, 0), set()
    for _ in range(20):
        client.ask("register", 0, address, 4096)
        keys.add(rdma.parse(client.ask("put", 0, address, 4096)[1]).rkey)
        client.ask("unregister", 0, address)
    assert len(keys) == 20


# Processes


def test_the_table_is_private_and_goes_with_the_process(client: Client) -> None:
    status = client.table.stat()
    assert stat.S_IMODE(status.st_mode) == 0o600
    client.finish()
    assert not client.table.exists()


def test_a_killed_process_leaves_a_table_that_the_next_one_removes(
    client: Client, build: Build, config: Path
) -> None:
    with Client(build, config) as killed, Client(build, config) as other:
        killed.ask("new")
        killed.process.kill()
        killed.process.wait()
        assert killed.table.exists()
        other.ask("new")
        assert not killed.table.exists()
        assert client.table.exists()


def test_a_forked_child_is_not_connected_until_it_makes_a_client_of_its_own(client: Client) -> None:
    address = client.memory(4096)
    parent_slots = client.table.read_bytes()
    pid, before, own, after = client.ask("fork")
    assert (before, after) == ("0", "1")
    assert client.ask("put", 0, address, 4096) == [str(-errno.ENOTCONN)]
    assert client.number("register", own, address, 4096) == 0
    _, text = client.ask("put", own, address, 4096)
    assert rdma.parse(text).dctn == int(pid)
    assert client.table.read_bytes() == parent_slots
    child_table = Path(f"/dev/shm/kvlab-cuobj-{pid}")
    assert child_table.exists()
    client.send("quit_child")
    assert client.answer() == ["child", "ended", "0"]
    assert client.ask("put", 0, address, 4096)[0] == "0"
    assert client.table.exists()
    child_table.unlink()


def test_a_child_that_ends_normally_takes_only_its_own_table(client: Client) -> None:
    pid = client.ask("fork")[0]
    # Standard input is shared: its end ends the child first, then the parent.
    assert client.process.stdin is not None
    client.process.stdin.close()
    assert client.answer() == ["child", "ended", "0"]
    assert not Path(f"/dev/shm/kvlab-cuobj-{pid}").exists()
    client.process.wait()
    assert not client.table.exists()


def test_withdrawing_waits_for_an_endpoint_that_is_inside_a_transfer(client: Client) -> None:
    address = client.memory(4096)
    slot = 4096 + 32 * (rdma.parse(client.ask("put", 0, address, 4096)[1]).rkey & 0xFFFF)
    table = os.open(client.table, os.O_RDONLY)
    fcntl.fcntl(table, fcntl.F_OFD_SETLK, struct.pack("@hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, slot, 1, 0))
    client.send("unregister", 0, address)
    assert not client.answered(0.3)
    assert struct.unpack("<I", os.pread(table, 4, slot + 16)) == (0,)
    os.close(table)
    assert client.answer() == ["0"]


@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_threads_share_a_client_without_error(
    builds: Callable[[str], Build], tmp_path: Path, sanitizer: str
) -> None:
    config = write_config(tmp_path / "c.json", logging={"dir": str(tmp_path)})
    with Client(builds(sanitizer), config, KVLAB_CUOBJ_TCP="1") as driver:
        assert driver.ask("new") == ["0", "1"]
        assert driver.ask("threads", 0, 4, 150) == ["0"]
        driver.finish()
