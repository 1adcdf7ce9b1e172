"""The replica's simulated hardware as a boot lays it out, read by the same code that reads a real host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kvlab.lab.plugins.module_utils import (
    gpu_topology,
    nvidia_driver,
    pci_sysfs,
    peer_memory,
    rdma_sysfs,
)

REPLICA = Path(__file__).parents[2] / "replica"
RAILS = ["198.51.100.11", "198.51.100.12"]


class Host:
    """A simulated host in a folder; each boot runs the scripts of boot.d in their order."""

    def __init__(self, home: Path, **hardware: Any) -> None:
        self.home, self.root = home, home / "root"
        self.root.mkdir()
        about = {"board_id": "DEL0000000036", "firmware": "28.41.1000", "bios": "2.2.4"}
        (home / "hardware.json").write_text(json.dumps({"gpus": 2, "rails": RAILS, **about, **hardware}))

    def module(self, name: str, *, part: str, **about: Any) -> None:
        """A kernel module on disk, in `updates` or `kernel`."""
        path = self.root / "lib/modules" / os.uname().release / part / f"{name}.ko"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"license": "Dual BSD/GPL", **about}))

    def boot(self) -> None:
        env = {
            **os.environ,
            "KVLAB_STANDINS": str(self.home),
            "KVLAB_STANDINS_ROOT": str(self.root),
            "PYTHONPATH": f"{REPLICA / 'commands'}:{REPLICA}",
        }
        for script in sorted((REPLICA / "boot.d").glob("*.py")):
            subprocess.run([sys.executable, str(script)], env=env, check=True, timeout=60)

    def read(self, path: str) -> str:
        return (self.home / path).read_text()


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = Host(tmp_path)
    for name in ("mlx5_core", "ib_core"):
        made.module(name, part="updates")
    made.module("ib_uverbs", part="updates", depends=["ib_core"])
    made.module("mlx5_ib", part="updates", depends=["mlx5_core", "ib_uverbs"])
    made.boot()
    return made


def test_its_pci_bus_has_gpus_nics_and_switches(host: Host) -> None:
    found = nvidia_driver.devices(host.home / "sysfs")
    assert (len(found["gpus"]), len(found["nvswitches"])) == (2, 4)
    assert [one["id"] for one in pci_sysfs.devices(host.home / "sysfs")["nics"]] == ["15b3:1021"] * 2
    assert set(found["gpus"]) <= set(json.loads(host.read("pci.json")))


def test_each_gpu_shares_a_switch_with_the_nic_of_its_number(host: Host) -> None:
    found = gpu_topology.parse(host.read("nvidia-smi/topo.txt"))
    assert found["links"] == {
        "GPU0": {"mlx5_0": "PIX", "mlx5_1": "SYS"},
        "GPU1": {"mlx5_0": "SYS", "mlx5_1": "PIX"},
    }


def test_its_ports_have_roce_v2_gids_of_their_addresses(host: Host) -> None:
    devices = rdma_sysfs.devices(host.home / "sysfs")
    chosen = [rdma_sysfs.choose_gid(device["ports"][0]) for device in devices]
    assert [gid["ipv4"] for gid, _ in chosen] == RAILS
    assert [device["ports"][0]["netdev"] for device in devices] == ["rail0", "rail1"]


def test_dma_buf_is_shown_by_the_rdma_core_alone(host: Host) -> None:
    found = peer_memory.evidence(host.home / "sysfs", host.home / "proc", host.home, "6.1.0")
    assert found["symbol"] is True


def test_a_boot_forgets_what_was_set_and_puts_firmware_parameters_in_force(host: Host) -> None:
    traffic_class = host.home / "sysfs/class/infiniband/mlx5_0/tc/1/traffic_class"
    traffic_class.write_text("Global tclass=106\n")
    (host.home / "mlnx_qos/rail0.json").write_text('{"trust": "dscp"}')
    (nic,) = (host.home / "mlxconfig").glob("0000:19*.json")
    state = json.loads(nic.read_text())
    state["parameters"]["ATS_ENABLED"]["next"] = "False(0)"
    nic.write_text(json.dumps(state))
    host.boot()
    assert traffic_class.read_text() == ""
    assert host.read("mlnx_qos/rail0.json") == "{}"
    assert json.loads(nic.read_text())["parameters"]["ATS_ENABLED"]["current"] == "False(0)"


def test_the_kernels_own_driver_has_no_traffic_class_and_no_driver_has_no_port(tmp_path: Path) -> None:
    inbox = Host(tmp_path)
    inbox.boot()
    assert rdma_sysfs.devices(tmp_path / "sysfs") == []
    assert inbox.read("proc/kallsyms") == ""
    for name in ("mlx5_core", "mlx5_ib"):
        inbox.module(name, part="kernel")
    inbox.boot()
    assert len(rdma_sysfs.devices(tmp_path / "sysfs")) == 2
    assert not (tmp_path / "sysfs/class/infiniband/mlx5_0/tc").exists()


def test_a_host_without_gpu_has_no_matrix(tmp_path: Path) -> None:
    bare = Host(tmp_path, gpus=0)
    bare.boot()
    assert bare.read("nvidia-smi/topo.txt") == ""
    assert nvidia_driver.devices(tmp_path / "sysfs") == {"gpus": [], "nvswitches": []}
