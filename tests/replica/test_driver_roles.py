"""On a converged node: one driver, one OFED, one CUDA release, each as the kernel and the loader see it. Simulated."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytestmark = pytest.mark.replica
SETTING = ("dkms install", "dkms build", "update-initramfs", "openibd")
"""How calls begin that change something; a second converge makes none of them."""


@pytest.fixture(scope="module")
def host(replica: Any) -> Any:
    """A GPU host after site.yml."""
    return replica.host("node1")


def test_the_kernel_runs_the_driver_that_is_installed(host: Any) -> None:
    installed = host.package("nvidia-open").version.rpartition("-")[0]
    said = host.check_output("nvidia-smi --query-gpu=driver_version --format=csv,noheader").split()
    assert said
    assert set(said) == {installed}


def test_the_fabric_manager_is_of_exactly_the_drivers_version(host: Any) -> None:
    assert host.package("nvidia-fabricmanager").version == host.package("nvidia-open").version
    assert host.service("nvidia-fabricmanager").is_running


def test_the_gpus_keep_persistence_mode(host: Any) -> None:
    modes = host.check_output("nvidia-smi --query-gpu=persistence_mode --format=csv,noheader").split()
    assert set(modes) == {"Enabled"}


def test_peermem_was_compiled_against_the_ofed_that_is_there(host: Any) -> None:
    peermem = json.loads(host.file("/var/lib/kvlab/nvidia-driver.json").content_string)["peermem"]
    assert peermem["matches"]
    assert peermem["ofed"] == host.package("mlnx-ofed-kernel-dkms").version
    assert host.run("modprobe nvidia_peermem").rc == 0


def test_the_rdma_drivers_are_docas(host: Any) -> None:
    assert "/updates/" in host.check_output("modinfo -F filename mlx5_core")
    loaded = host.check_output("cat /var/lib/kvlab-standins/sysfs/module/mlx5_core/srcversion")
    assert loaded == host.check_output("modinfo -F srcversion mlx5_core")


def test_each_vendors_packages_come_from_its_own_repository(host: Any) -> None:
    assert host.package("mft").version == "4.34.1-10"
    assert not host.package("dkms").version.endswith("mlnx")
    assert not host.package("cuda-drivers").is_installed


def test_the_loader_finds_the_cuobject_client_of_the_stack(host: Any) -> None:
    assert host.package("libcuobjclient-13-1").version.startswith("1.0.0.26-")
    assert "libcuobjclient.so.1 " in host.check_output("ldconfig -p")


def test_a_second_converge_sets_nothing(replica: Any, host: Any) -> None:
    before = host.check_output("cat /var/lib/kvlab-standins/calls.log").splitlines()
    play = replica.play("--tags", "doca_ofed,nvidia_driver,cuda_toolkit", "--limit", "node1")
    assert play.rc == 0, play.stdout
    calls = host.check_output("cat /var/lib/kvlab-standins/calls.log").splitlines()[len(before) :]
    assert calls
    assert not [call for call in calls if call.startswith(SETTING)]
