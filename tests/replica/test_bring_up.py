"""From bare nodes to converged ones, through what goes wrong on the way. Simulated; without vLLM.

The tests of this file are one story, told in order: a dry run, a power cut in the middle, the rerun, a run that finds
nothing to do, a host that is refused. They begin on bare nodes: ci/replica makes them and says --from-bare.
"""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.replica, pytest.mark.from_bare]
WITHOUT_VLLM = ("-e", "kvlab_serve=false")
LLDPAD = "[Service]\nExecStart=/bin/sleep infinity\n"


def test_a_dry_run_goes_through_on_bare_nodes_and_changes_nothing(replica: Any) -> None:
    before = {name: replica.files(name) for name in replica.all_nodes}
    play = replica.play(*WITHOUT_VLLM, "--check")
    assert play.rc == 0, play.stdout
    assert all(counts["changed"] > 0 for counts in play.stats.values()), (
        "it said of no change what it would be"
    )
    assert {name: replica.files(name) for name in replica.all_nodes} == before


def test_a_node_that_loses_its_power_stops_no_other_and_is_named(replica: Any) -> None:
    first, last = replica.nodes[0], replica.nodes[-1]
    running = replica.begin(*WITHOUT_VLLM)
    replica.wait_for_call(last, "dkms add -m kernel-mft-dkms", while_running=running)
    replica.cut_power(last)
    play = running.end()
    assert play.rc != 0
    assert play.stats[last]["unreachable"] == 1, play.stdout
    assert play.stats[first]["failed"] == 0, play.stdout
    assert "libcuobjclient" in replica.host(first).check_output("ldconfig -p"), (
        "the other host did not get to the end"
    )
    told = play.stdout.rpartition("HOSTS THAT WERE LOST ON THE WAY")[2]
    assert f"{last}: unreachable at '" in told
    assert f"{first}:" not in told


def test_the_same_command_goes_on_where_it_was(replica: Any) -> None:
    first, last = replica.nodes[0], replica.nodes[-1]
    replica.boot()
    play = replica.play(*WITHOUT_VLLM)
    assert play.rc == 0, play.stdout
    assert play.stats[first]["changed"] == 0, play.stdout
    assert play.stats[last]["changed"] > 0
    assert "LOST" not in play.stdout


def test_a_second_run_changes_nothing(replica: Any) -> None:
    play = replica.play(*WITHOUT_VLLM)
    assert play.rc == 0, play.stdout
    assert {name: counts["changed"] for name, counts in play.stats.items()} == dict.fromkeys(play.stats, 0), (
        play.stdout
    )
    assert set(replica.all_nodes) <= set(play.stats)


def test_a_host_that_preflight_refuses_stops_no_other_and_is_named_with_cause_and_remedy(
    replica: Any,
) -> None:
    first, last = replica.nodes[0], replica.nodes[-1]
    host = replica.host(last)
    unit = "/run/systemd/system/lldpad.service"
    host.check_output(
        "mkdir -p /run/systemd/system && printf %s > %s && systemctl start lldpad", LLDPAD, unit
    )
    try:
        play = replica.play(*WITHOUT_VLLM)
    finally:
        host.check_output("systemctl stop lldpad && rm %s && systemctl daemon-reload", unit)
    assert play.rc != 0
    assert play.stats[last]["failed"] == 1, play.stdout
    assert play.stats[first]["failed"] == 0
    assert play.stats[first]["ok"] > play.stats[last]["ok"]
    told = play.stdout.rpartition("HOSTS THAT WERE LOST ON THE WAY")[2]
    assert f"{last}: failed at '" in told
    assert "lldpad" in told
    assert f"{first}:" not in told
