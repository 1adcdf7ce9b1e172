"""Burn-in on a converged node: a sound host passes, one with a row beyond remapping goes no further. Simulated."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.replica
GPUS = "/var/lib/kvlab-standins/nvidia-smi/gpus.json"


def burn_in(replica: Any, name: str) -> Any:
    """Run the role on one host."""
    words = ("--tags", "burn_in", "--limit", name, "-e", "burn_in_enabled=true", "-e", "kvlab_serve=false")
    return replica.play(*words, playbook="playbooks/gpu_hosts.yml")


def test_a_sound_host_passes_and_its_gpus_were_looked_at(replica: Any) -> None:
    play = burn_in(replica, replica.nodes[0])
    assert play.rc == 0, play.stdout
    assert "nvidia-smi --query-remapped-rows" in replica.host(replica.nodes[0]).check_output(
        "cat /var/lib/kvlab-standins/calls.log"
    )


def test_a_host_whose_gpu_could_not_remap_a_row_goes_no_further_and_says_why(replica: Any) -> None:
    name = replica.nodes[0]
    host = replica.host(name)
    host.check_output("cp %s %s.sound", GPUS, GPUS)
    try:
        host.check_output(
            'sed -i \'0,/"remapped_rows.failure": "No"/s//"remapped_rows.failure": "Yes"/\' %s', GPUS
        )
        play = burn_in(replica, name)
    finally:
        host.check_output("mv %s.sound %s", GPUS, GPUS)
    assert play.rc != 0
    assert f"{name} failed its burn-in and goes no further" in play.stdout
    assert "HOST040" in play.stdout
    assert "have the GPU replaced" in play.stdout


def test_a_host_whose_kernel_told_of_an_xid_goes_no_further(replica: Any) -> None:
    name = replica.nodes[0]
    host = replica.host(name)
    log = "/var/lib/kvlab-standins/dmesg.txt"
    host.check_output(
        "echo '[  812.4] NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus.' > %s", log
    )
    try:
        play = burn_in(replica, name)
    finally:
        host.check_output("rm %s", log)
    assert play.rc != 0
    assert "HOST041" in play.stdout
    assert "79" in play.stdout
