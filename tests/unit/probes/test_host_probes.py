"""Host probes read what tools print and the kernel shows, and say so where they cannot."""

from __future__ import annotations

import ctypes
import io
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvlab.checks import judge
from kvlab.probes import host, sampler, shipping
from kvlab.probes.host import driver, gds, kernel, logs, network, pcie, processes, rdma, tools, vllm


def test_dkms_status_of_old_and_new_releases_is_read() -> None:
    listing = """nvidia/590.48.01, 6.8.0-85-generic, x86_64: installed
mlnx-ofed-kernel, 25.10.OFED.25.10.1.7.1.1, 6.8.0-85-generic, x86_64: installed
nvidia-fs/2.26.6: added
"""
    assert [(one["module"], one["kernel"], one["state"]) for one in kernel.dkms(listing)] == [
        ("nvidia", "6.8.0-85-generic", "installed"),
        ("mlnx-ofed-kernel", "6.8.0-85-generic", "installed"),
        ("nvidia-fs", "", "added"),
    ]


def test_modules_have_their_holders_and_version(tmp_path: Path) -> None:
    (tmp_path / "module/ib_core").mkdir(parents=True)
    (tmp_path / "module/ib_core/version").write_text("25.10\n")
    listing = "ib_core 507904 3 rdma_cm,mlx5_ib,ib_uverbs, Live 0x0\nnvidia 9 0 - Live 0x0 (O)\n"
    found = kernel.modules(listing, tmp_path)
    assert found["ib_core"] == {"version": "25.10", "holders": ["rdma_cm", "mlx5_ib", "ib_uverbs"]}
    assert found["nvidia"]["holders"] == []


def test_the_newest_kernel_is_found_by_number_not_by_letter() -> None:
    assert (
        kernel.newest(["vmlinuz-6.8.0-85-generic", "vmlinuz-6.8.0-100-generic", "config-7"])
        == "6.8.0-100-generic"
    )
    assert kernel.newest([]) is None


def config_space(max_read: int, acs: int) -> bytes:
    """A configuration space with one Express capability and one ACS capability behind another extended one."""
    data = bytearray(4096)
    data[0x34], data[0x40], data[0x41] = 0x40, 0x01, 0x60  # power management first
    data[0x60] = 0x10
    data[0x68:0x6A] = ({128: 0, 512: 2, 4096: 5}[max_read] << 12).to_bytes(2, "little")
    data[0x100:0x104] = (0x0001 | 1 << 16 | 0x148 << 20).to_bytes(4, "little")
    data[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
    data[0x14E:0x150] = acs.to_bytes(2, "little")
    return bytes(data)


@pytest.mark.parametrize(("size", "acs"), [(512, 0x1D), (4096, 0)])
def test_read_request_and_acs_are_read_from_configuration_space(size: int, acs: int) -> None:
    data = config_space(size, acs)
    assert (pcie.read_request(data), pcie.acs(data)) == (size, acs)


def test_a_configuration_space_cut_for_want_of_root_is_unknown_not_good() -> None:
    data = config_space(4096, 0)[:64]
    assert (pcie.read_request(data), pcie.acs(data)) == (None, None)


def test_a_made_up_pcie_tree_is_judged(tmp_path: Path) -> None:
    for bdf, vendor, kind, width in (
        ("0000:15:01.0", "0x1000", "0x060400", None),
        ("0000:1b:00.0", "0x15b3", "0x020000", "8"),
    ):
        folder = tmp_path / "bus/pci/devices" / bdf
        folder.mkdir(parents=True)
        files = {"vendor": vendor, "class": kind}
        if width:
            files |= {"current_link_speed": "32.0 GT/s PCIe", "max_link_speed": "32.0 GT/s PCIe",
                      "current_link_width": width, "max_link_width": "16"}  # fmt: skip
        for name, text in files.items():
            (folder / name).write_text(text + "\n")
        (folder / "config").write_bytes(config_space(512, 0x1D))
    facts = pcie.collect({"sysfs": str(tmp_path)}) | {"virtual": False}
    found = {f.id: f.status for f in judge({"pcie": facts}, ["HOST061", "HOST062", "HOST063"])}
    assert found == {"HOST061": "fail", "HOST062": "fail", "HOST063": "fail"}


def test_the_default_route_is_the_one_with_the_lowest_metric() -> None:
    table = """Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT
rail0 00000000 0100A8C0 0003 0 0 200 00000000 0 0 0
eno1 00000000 010200C0 0003 0 0 100 00000000 0 0 0
eno1 000200C0 00000000 0001 0 0 100 00FFFFFF 0 0 0
"""
    assert network.default_route(table) == "eno1"
    assert network.default_route("") is None


def test_nvidia_smi_says_bar1_and_persistence() -> None:
    output = """GPU 00000000:19:00.0
    FB Memory Usage
        Total                             : 81559 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
        Used                              : 9 MiB
        Free                              : 131063 MiB
"""
    assert driver.bar1(output) == {"GPU0": {"total_mib": 131072, "used_mib": 9}}
    assert driver.bar1(None) is None
    assert driver.persistence("0, Enabled\n1, Disabled\n") == {"GPU0": True, "GPU1": False}


def test_gdscheck_says_what_is_supported() -> None:
    output = """ GDS release version: 1.16.1.26
 nvidia_fs version:  2.28 libcufile version: 2.12
 =====================
 NVMe               : Unsupported
 NFS                : Supported
"""
    assert gds.gdscheck(output) == {"NVMe": "Unsupported", "NFS": "Supported", "driver": "2.28"}
    assert gds.properties('{\n // note\n "properties": {"allow_compat_mode": false}}') == {
        "allow_compat_mode": False
    }


def test_limits_and_environment_of_a_process_are_read_and_secrets_stay_where_they_are() -> None:
    table = """Limit                     Soft Limit           Hard Limit           Units
Max locked memory         8388608              8388608              bytes
Max open files            unlimited            unlimited            files
"""
    assert processes.limits(table) == {"memlock": 8388608, "nofile": None}
    block = b"PYTHONHASHSEED=0\0AWS_SECRET_ACCESS_KEY=hush\0AWS_REQUEST_CHECKSUM_CALCULATION=when_required\0"
    assert processes.environment(block) == {
        "PYTHONHASHSEED": "0",
        "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
    }


def test_libraries_in_the_map_are_told_apart_by_file(tmp_path: Path) -> None:
    old, new = tmp_path / "site-packages/nvidia/libcufile.so.0", tmp_path / "lib/libcufile.so.1.16.1"
    for file, content in ((old, b"cuFileRead"), (new, b"..cuFileRDMADescStrGet..")):
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
    (tmp_path / "site-packages/nvidia_cufile-1.15.1.6.dist-info").mkdir()
    maps = "".join(
        f"7f0-7f1 r-xp 00000000 08:01 1 {path}\n" for path in (old, old, new, "/usr/lib/libc.so.6")
    )
    assert [(lib["version"], lib["rdma_descriptors"]) for lib in processes.loaded(maps)] == [
        ("1.16.1", True),
        ("1.15.1.6", False),
    ]


def test_the_probe_finds_a_serving_process_by_its_command(tmp_path: Path) -> None:
    script = tmp_path / "vllm.entrypoints.py"
    script.write_text("import sys; print('up', flush=True); sys.stdin.read()")
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONHASHSEED": "7"},
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        (found,) = processes.serving(Path("/proc"), [process.pid])
        assert (found["role"], found["environment"]) == ("vllm", {"PYTHONHASHSEED": "7"})
        assert set(found["limits"]) == {"memlock", "nofile"}
        process.stdin.close()  # type: ignore[union-attr]


def test_only_what_the_log_says_since_the_last_start_counts(tmp_path: Path) -> None:
    log = tmp_path / "lmcache.log"
    old = "LMCache v0.5.6 (x)\nERROR Insufficient NIXL storage capacity\n"
    log.write_text(old + "LMCache v0.5.6 (x)\n\x1b[31mNo handler registered\x1b[0m for mode\n")
    seen = logs.collect({"log": str(log)})["seen"]
    assert seen["storage_full"]["count"] == 0
    assert seen["no_handler"] == {"count": 1, "last": "No handler registered for mode"}
    log.write_text(old)
    found = {f.id: f.status for f in judge({"lmcache_log": logs.collect({"log": str(log)})}, ["LMC130"])}
    assert found == {"LMC130": "fail"}


def test_vllms_numbers_are_found_under_the_names_of_each_release() -> None:
    old = vllm.counts({"vllm:num_requests_running": 2.0, "vllm:external_prefix_cache_queries": 5.0})
    new = vllm.counts({"vllm:num_requests_running": 2.0, "vllm:external_prefix_cache_queries_total": 5.0})
    assert old == new
    assert vllm.counts({})["external_queries"] is None


def test_what_mlnx_qos_does_not_say_is_an_error_not_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rdma, "said", lambda *_command, **_more: "DCBX mode: OS controlled\n")
    assert "not understood" in rdma.qos("rail0")["error"]
    monkeypatch.setattr(rdma, "said", lambda *_command, **_more: None)
    assert "not installed" in rdma.qos("rail0")["error"]


def test_a_probe_that_fails_leaves_its_reason_and_the_others_go_on(tmp_path: Path) -> None:
    facts = host.run({"topics": ["lmcache_log", "files"], "log": str(tmp_path / "none"), "secrets": []})[
        "facts"
    ]
    assert "FileNotFoundError" in facts["lmcache_log"]["error"]
    assert facts["files"]["secrets"] == []
    assert {f.status for f in judge({"lmcache_log": facts["lmcache_log"]}, ["LMC130"])} == {"inconclusive"}


def test_a_command_that_hangs_or_is_absent_gives_nothing() -> None:
    assert tools.said("sleep", "5", timeout_s=0.1) is None
    assert tools.said("no-such-command-here") is None
    assert tools.said("false") is None


def shipped(entry: str, job: Any, stdin: str = "") -> list[Any]:
    """What a bare interpreter prints that knows nothing of kvlab but what it is sent."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", shipping.BOOT], input=shipping.package(entry, job) + stdin,
        capture_output=True, text=True, check=False, timeout=60, cwd="/",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_probes_run_in_an_interpreter_that_has_no_kvlab() -> None:
    topics = [
        topic for topic in host.TOPICS if topic not in ("venv", "profile", "lmcache", "vllm", "lmcache_log")
    ]
    (answer,) = shipped("kvlab.probes.host", {"topics": topics})
    assert set(answer["facts"]) == set(topics)
    failed = {
        topic: facts["error"]
        for topic, facts in answer["facts"].items()
        if "the probe failed" in facts.get("error", "")
    }
    assert failed == {}


def test_everything_that_is_sent_compiles_as_python_3_9() -> None:
    import ast

    sent = shipping.modules()
    assert {"kvlab.probes.host.kernel", "kvlab.hostparsers.rdma_sysfs", "kvlab.probes.sampler"} <= set(sent)
    for name, source in sent.items():
        ast.parse(source, name, feature_version=(3, 9))


def test_the_sampler_answers_pings_then_samples_until_stdin_ends(tmp_path: Path) -> None:
    port = tmp_path / "class/infiniband/mlx5_0/ports/1"
    for folder, name, value in (("counters", "port_rcv_data", "77"), ("hw_counters", "out_of_sequence", "0")):
        (port / folder).mkdir(parents=True)
        (port / folder / name).write_text(value + "\n")
    job = {"hz": 10, "sysfs": str(tmp_path), "pids": [os.getpid(), 2**22 + 1]}
    pong, *samples = shipped("kvlab.probes.sampler", job, "ping\ngo\n")
    assert set(pong) == {"pong"}
    assert samples
    assert samples[0]["rdma"] == {"mlx5_0/1": {"port_rcv_data": 77, "out_of_sequence": 0}}
    assert samples[-1]["rdma"] == samples[0]["rdma"], "the last one has every counter, as the first has"
    assert list(samples[0]["cpu"]) == [str(os.getpid())]


def test_counters_that_tell_no_rate_are_read_once_a_second_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = tmp_path / "class/infiniband/mlx5_0/ports/1"
    for folder, name in (("counters", "port_rcv_data"), ("hw_counters", "out_of_sequence")):
        (port / folder).mkdir(parents=True)
        (port / folder / name).write_text("1\n")
    clock = [100.0]
    stdin = io.StringIO("go\n")
    asked: list[float] = []

    def select(
        readers: list[Any], _w: object, _x: object, wait: float
    ) -> tuple[list[Any], list[Any], list[Any]]:
        asked.append(wait)
        clock[0] += wait
        return (readers if len(asked) == 25 else [], [], [])

    monkeypatch.setattr(sampler.sys, "stdin", stdin)
    monkeypatch.setattr(sampler.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(sampler.select, "select", select)
    samples = list(sampler.run({"hz": 10, "sysfs": str(tmp_path)}))
    assert len(samples) == 26
    assert all(one["rdma"]["mlx5_0/1"]["port_rcv_data"] == 1 for one in samples)
    whole = [at for at, one in enumerate(samples) if "out_of_sequence" in one["rdma"]["mlx5_0/1"]]
    assert whole == [0, 10, 20, 25]


def test_statistics_of_a_netdev_without_ethtool_are_empty_and_no_error() -> None:
    assert sampler.Ethtool("no-such-netdev").read() == {}
    assert sampler.Ethtool("lo").read() == {}


class Driver:
    """A driver's side of ETHTOOL_GDRVINFO, GSTRINGS and GSTATS (linux/ethtool.h), for one netdev."""

    def __init__(self, counters: dict[str, int]) -> None:
        self.counters = counters
        self.asked: list[int] = []

    def ioctl(self, _: int, request: int, data: bytes) -> None:
        assert request == 0x8946
        name, address = struct.unpack("16sP", data)
        assert name.rstrip(b"\0") == b"rail0"
        (command,) = struct.unpack("I", ctypes.string_at(address, 4))
        self.asked.append(command)
        count = len(self.counters)
        if command == 0x03:
            answer, offset = struct.pack("I", count), 180
        elif command == 0x1B:
            labels = b"".join(name.encode().ljust(32, b"\0") for name in self.counters)
            answer, offset = struct.pack("I", count) + labels, 8
        else:
            answer, offset = struct.pack(f"=I{count}Q", count, *self.counters.values()), 4
        ctypes.memmove(address + offset, answer, len(answer))


def test_a_drivers_counters_keep_their_names_when_it_gets_more_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = Driver({"rx_packets": 1, "rx_prio3_pause": 2, "tx_vport_rdma_unicast_bytes": 3})
    monkeypatch.setattr(sampler.fcntl, "ioctl", driver.ioctl)
    one = sampler.Ethtool("rail0")
    assert one.read() == {"rx_prio3_pause": 2, "tx_vport_rdma_unicast_bytes": 3}
    driver.asked.clear()
    driver.counters["rx_prio3_pause"] = 5
    assert one.read()["rx_prio3_pause"] == 5
    assert driver.asked == [0x1D], "names are asked for once"
    driver.counters = {"queue_17": 7, **driver.counters}
    assert one.read() == {"rx_prio3_pause": 5, "tx_vport_rdma_unicast_bytes": 3}
    driver.counters = {}
    assert one.read() == {}


def test_what_is_gone_between_two_samples_is_left_out(tmp_path: Path) -> None:
    port = tmp_path / "class/infiniband/mlx5_0/ports/1/counters"
    port.mkdir(parents=True)
    (port / "port_rcv_data").write_text("77\n")
    (port / "link_downed").write_text("1\n")
    with subprocess.Popen(["sleep", "60"]) as process:
        watch = sampler.Watch(tmp_path, ["mlx5_0"], [], [process.pid, os.getpid()])
        assert set(watch.sample()["cpu"]) == {str(process.pid), str(os.getpid())}
        process.kill()
    (port / "port_rcv_data").write_text("78\n")
    (port / "link_downed").write_text("<not read>")
    after = watch.sample()
    watch.close()
    assert after["rdma"] == {"mlx5_0/1": {"port_rcv_data": 78}}
    assert set(after["cpu"]) == {str(os.getpid())}


def test_an_engine_that_wrote_its_title_over_its_environment_has_its_parents(tmp_path: Path) -> None:
    for pid, command, environ, parent in (
        ("70", b"python\0-m\0vllm.entrypoints.openai.api_server", b"PATH=/bin\0PYTHONHASHSEED=0\0", 1),
        ("71", b"VLLM::EngineCore", b"\0\0\0\0\0LS_COLORS=\0", 70),
    ):
        folder = tmp_path / pid
        folder.mkdir()
        (folder / "cmdline").write_bytes(command)
        (folder / "environ").write_bytes(environ)
        (folder / "stat").write_text(f"{pid} (VLLM::Engine (x)) S {parent} 1 1 0")
        (folder / "maps").write_text("")
        (folder / "limits").write_text("")
    found = processes.serving(tmp_path)
    assert [one["environment"] for one in found] == [{"PYTHONHASHSEED": "0"}] * 2


def journalctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    """A journalctl that writes these lines."""
    (tmp_path / "said").write_text(says)
    program = tmp_path / "bin" / "journalctl"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\ncat {tmp_path}/said\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


def test_the_log_of_a_unit_is_its_journal_since_lmcaches_last_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = ["LMCache v0.5.6", "degraded mode", "LMCache v0.5.6", "Insufficient NIXL storage capacity"]
    journalctl(tmp_path, monkeypatch, "\n".join(lines))
    facts = logs.collect({"log_unit": "kvlab-lmcache@s3-rdma.service"})
    assert facts["file"] == "kvlab-lmcache@s3-rdma.service"
    assert facts["seen"]["storage_full"]["count"] == 1
    assert facts["seen"]["degraded"]["count"] == 0
    assert "--unit kvlab-lmcache@s3-rdma.service" in (tmp_path / "asked").read_text()


def test_a_journal_without_a_start_of_lmcache_is_not_taken_for_a_healthy_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journalctl(tmp_path, monkeypatch, "-- No entries --\n")
    with pytest.raises(OSError, match="shows no start of LMCache"):
        logs.collect({"log_unit": "kvlab-lmcache@s3-rdma.service"})
