"""Counters before, during and after: differences on one clock, and what a host that fails leaves."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from kvlab.checks import judge
from kvlab.doctor.hosts import Host
from kvlab.doctor.sampling import Sampling, Series, difference, transfer
from kvlab.errors import KvlabError


def sample(at: float, rdma: int, pause: int = 0) -> dict[str, object]:
    return {
        "t": at,
        "rdma": {"mlx5_0/1": {"port_rcv_data": rdma, "out_of_sequence": 0}},
        "net": {"rail0": {"rx_bytes": 10, "rx_prio3_pause": pause}},
        "cpu": {"7": at},
    }


def test_a_difference_is_what_the_checks_judge() -> None:
    facts = difference(sample(1.0, 100), sample(3.0, 400, pause=50_000))
    assert facts["deltas"] == {"mlx5_0/1": {"port_rcv_data": 300, "out_of_sequence": 0}}
    assert (facts["seconds"], facts["cpu_seconds"]) == (2.0, {"7": 2.0})
    found = {f.id: f.status for f in judge({"rdma_counters": facts}, ["RDMA021", "RDMA022"])}
    assert found == {"RDMA021": "pass", "RDMA022": "fail"}


def test_a_counter_that_was_reset_meanwhile_is_left_out() -> None:
    assert "port_rcv_data" not in difference(sample(1.0, 100), sample(2.0, 5))["deltas"]["mlx5_0/1"]


def test_a_span_is_taken_on_our_clock_although_the_host_is_an_hour_ahead() -> None:
    sampling = Sampling([], {})
    sampling.series["node1"] = Series(
        "node1", 3600.0, 0.001, [sample(3600.0 + t, 100 * t) for t in (1, 2, 3, 4)]
    )
    facts = sampling.between("node1", 2.1, 2.9)
    assert facts["deltas"]["mlx5_0/1"]["port_rcv_data"] == 100
    with pytest.raises(KvlabError, match="none on one side"):
        sampling.between("node1", 2.1, 9.0)


def test_a_counter_that_few_samples_have_is_taken_from_those_around_the_span() -> None:
    sampling = Sampling([], {})
    samples = [sample(t, 100 * t) for t in range(1, 9)]
    for at, one in enumerate(samples):
        assert isinstance(one["rdma"], dict)
        one["rdma"] = {"mlx5_0/1": {"port_rcv_data": 100 * at}}
        if at in (0, 2, 6, 7):
            one["rdma"]["mlx5_0/1"]["out_of_sequence"] = at
    sampling.series["node1"] = Series("node1", 0.0, 0.001, samples)
    facts = sampling.between("node1", 4.5, 4.6)
    assert facts["seconds"] == 1
    assert facts["deltas"]["mlx5_0/1"] == {"port_rcv_data": 100, "out_of_sequence": 6 - 2}


def test_this_machine_is_sampled_for_the_time_of_a_block(tmp_path: Path) -> None:
    counter = tmp_path / "class/infiniband/mlx5_0/ports/1/counters/port_rcv_data"
    counter.parent.mkdir(parents=True)
    counter.write_text("100")
    with Sampling(
        [Host("here", {"ansible_connection": "local"})], {"hz": 10, "sysfs": str(tmp_path)}
    ) as sampling:
        series = sampling.series["here"]
        assert series.samples, series.error
        began = time.time()
        counter.write_text("900")
        ended = time.time()
        while not any(one["t"] - series.offset_s >= ended for one in series.samples):
            time.sleep(0.01)
    assert sampling.between("here", began, ended)["deltas"] == {"mlx5_0/1": {"port_rcv_data": 800}}
    assert abs(series.offset_s) <= series.uncertainty_s + 0.05


def test_a_host_that_cannot_be_reached_says_why() -> None:
    gone = Host("gone", {"ansible_host": "gone.invalid"})
    with Sampling([gone], {}) as sampling:
        pass
    assert "gone.invalid" in sampling.series["gone"].error or "ssh" in sampling.series["gone"].error
    with pytest.raises(KvlabError, match="gone say nothing"):
        sampling.between("gone", 0, 1)


MIB = 1 << 20


def span(rdma: int, tcp: int, seconds: float = 2.0) -> dict[str, object]:
    """What two ports and two netdevs counted; the second netdev's plain bytes hold no RDMA."""
    return {
        "seconds": seconds,
        "deltas": {
            port: {"port_rcv_data": rdma // 8, "port_xmit_data": 7} for port in ("mlx5_0/1", "mlx5_1/1")
        },
        "net": {
            "rail0": {"rx_bytes": rdma + tcp, "rx_vport_unicast_bytes": tcp // 2, "tx_bytes": 9},
            "mgmt0": {"rx_bytes": tcp // 2, "tx_bytes": 9},
        },
    }


@pytest.mark.parametrize(
    ("quiet", "moved", "control", "bad"),
    [
        (span(0, 4096), span(512 * MIB, 4096), span(0, 520 * MIB), set()),
        (span(0, 4096), span(0, 520 * MIB), span(0, 520 * MIB), {"PATH010"}),
        (span(0, 4096), span(512 * MIB, 520 * MIB), span(0, 520 * MIB), {"PATH010"}),
        (span(200 * MIB, 4096), span(512 * MIB, 4096), span(0, 520 * MIB), {"PATH012"}),
        (span(0, 4096), span(512 * MIB, 4096), span(512 * MIB, 4096), {"PATH013"}),
    ],
    ids=["proven", "fell back", "both ways", "a noisy NIC", "a control that looks the same"],
)
def test_the_nics_counters_of_a_transfer_are_judged_with_its_control(
    quiet: dict[str, object], moved: dict[str, object], control: dict[str, object], bad: set[str]
) -> None:
    facts = transfer(quiet, moved, control, payload=512 * MIB, direction="in", lab_simulated=True)
    assert facts["client"]["rdma"] == facts["payload"] or bad
    found = judge({"transfer_counters": facts}, ["PATH010", "PATH011", "PATH012", "PATH013"])
    assert {f.id for f in found if f.status != "pass"} == bad | {"PATH011"}
    assert all(f.simulated for f in found)
