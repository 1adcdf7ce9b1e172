"""Another driver and another OFED on a converged node: what waits for a reboot, what is compiled anew. Simulated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

pytestmark = pytest.mark.replica
GPU_HOSTS = {"playbook": "playbooks/gpu_hosts.yml"}
OTHER_DRIVER = "595.71.05"
OTHER_OFED = "3.4.0"
RECORD = "/var/lib/kvlab/nvidia-driver.json"


@pytest.fixture(scope="module")
def name(replica: Any) -> Iterator[str]:
    """A converged node, which is brought back to the inventory's versions afterwards."""
    name = replica.nodes[0]
    yield name
    play = replica.play("--limit", name, "-e", "kvlab_serve=false", **GPU_HOSTS)
    assert play.rc == 0, play.stdout


def loaded(host: Any) -> str:
    """Version of the driver that the kernel runs."""
    return str(host.check_output("cat /var/lib/kvlab-standins/sysfs/module/nvidia/version"))


def test_a_driver_without_leave_to_reboot_stops_there_and_says_what_remains(replica: Any, name: str) -> None:
    host = replica.host(name)
    before, boot = loaded(host), replica.boot_id(name)
    words = ("--limit", name, "-e", "kvlab_serve=false", "-e", f"nvidia_driver_version={OTHER_DRIVER}")
    held = replica.play(*words, "-e", "reboot_allowed=false", **GPU_HOSTS)
    assert held.rc != 0
    assert f"reboot_required: {name} must be rebooted" in held.stdout
    assert before in held.stdout
    assert OTHER_DRIVER in held.stdout
    assert (replica.boot_id(name), loaded(host)) == (boot, before)
    assert host.package("nvidia-open").version.startswith(OTHER_DRIVER)
    assert "TASK [kvlab.lab.cuda_toolkit" not in held.stdout

    allowed = replica.play(*words, **GPU_HOSTS)
    assert allowed.rc == 0, allowed.stdout
    assert replica.boot_id(name) != boot
    assert loaded(host) == OTHER_DRIVER


def test_another_ofed_has_peermem_compiled_anew(replica: Any, name: str) -> None:
    host = replica.host(name)
    before = json.loads(host.file(RECORD).content_string)["peermem"]
    calls = len(host.check_output("cat /var/lib/kvlab-standins/calls.log").splitlines())
    words = ("--limit", name, "-e", "kvlab_serve=false", "-e", f"nvidia_driver_version={OTHER_DRIVER}")
    play = replica.play(*words, "-e", f"doca_ofed_version={OTHER_OFED}", **GPU_HOSTS)
    assert play.rc == 0, play.stdout
    after = json.loads(host.file(RECORD).content_string)["peermem"]
    assert after["matches"]
    assert after["ofed"] != before["ofed"]
    assert after["compiled_against"] != before["compiled_against"]
    since = host.check_output("cat /var/lib/kvlab-standins/calls.log").splitlines()[calls:]
    assert [
        call for call in since if call.startswith(f"dkms install nvidia/{OTHER_DRIVER}") and "--force" in call
    ]
    assert host.run("modprobe nvidia_peermem").rc == 0
