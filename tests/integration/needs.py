"""What a test needs of the lab, by marker, and the reason when the lab lacks it.

A skip always has a reason. With --require-hardware a need of hardware that is not met is a failure: a lab that has
GPUs, RDMA NICs and an array must not be green because their tests were passed over.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable

import pytest
from harness import Bench

SIMULATED_STORE = "x-kvlab-simulated"  # the header by which the emulated array makes itself known


def _gpu(bench: Bench) -> str | None:
    if bench.host.run("test -e /dev/nvidiactl").rc == 0:
        return None
    return f"needs an NVIDIA GPU: {bench.host.name} has no /dev/nvidiactl"


def _rdma(bench: Bench) -> str | None:
    if bench.host.run("ls /sys/class/infiniband 2>/dev/null | grep -q .").rc == 0:
        return None
    return f"needs an RDMA NIC: {bench.host.name} has nothing under /sys/class/infiniband"


def _objectscale(bench: Bench) -> str | None:
    try:
        with urllib.request.urlopen(bench.witness_endpoint, timeout=5) as reply:
            headers = reply.headers
    except urllib.error.HTTPError as refusal:  # a stranger is refused with 403, by a reply with the headers
        headers = refusal.headers
    return (
        f"needs a real array: {bench.endpoint} is the emulated one" if headers.get(SIMULATED_STORE) else None
    )


def _hardware(bench: Bench) -> str | None:
    return "needs a lab without stand-ins" if bench.lab.simulated else None


def _multihost(bench: Bench) -> str | None:
    count = len(bench.gpu_hosts)
    return None if count > 1 else f"needs two GPU hosts: the inventory has {count}"


HARDWARE: dict[str, Callable[[Bench], str | None]] = {
    "gpu": _gpu,
    "rdma": _rdma,
    "objectscale": _objectscale,
    "hardware": _hardware,
    "multihost": _multihost,
}


def check(item: pytest.Item, bench: Bench) -> None:
    """Skip the test, or fail it, for the first need that is not met."""
    config = item.config
    for name, missing in HARDWARE.items():
        if item.get_closest_marker(name) and (reason := missing(bench)):
            if config.getoption("--require-hardware"):
                pytest.fail(f"--require-hardware: {reason}", pytrace=False)
            pytest.skip(reason)
    if (
        item.get_closest_marker("destructive")
        and not bench.lab.simulated
        and not config.getoption("--destructive")
    ):
        pytest.skip("disturbs the store or the services of a real lab; allow it with --destructive")
    if item.get_closest_marker("own_store") and not bench.host.local:
        pytest.skip(
            "starts an object store of its own beside the client, so it runs on the GPU host itself only"
        )


def slow(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Pass over tests that take minutes, unless -m says `slow`; with `drill` it asks for the ten drills alone."""
    asked = str(config.getoption("markexpr"))
    if "slow" in asked:
        return
    reason = pytest.mark.skip(reason="takes minutes; run it with -m 'integration and slow'")
    for item in items:
        if item.get_closest_marker("slow") and not ("drill" in asked and item.get_closest_marker("drill")):
            item.add_marker(reason)
