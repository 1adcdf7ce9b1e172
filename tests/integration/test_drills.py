"""Drills in the lab that is up: each fault is named by its check; and a healthy lab has no finding.

All of them run with -m slow; ten that need no start of vLLM run with -m drill, too, as in ci/local-lab.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import labhosts
import pytest
from harness import Tell

from kvlab.doctor import collect, diagnosis
from kvlab.drills import bench as drills
from kvlab.drills.catalogue import DRILLS
from kvlab.drills.drill import Drill, run
from kvlab.drills.record import line
from kvlab.serving import lab as labs

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.destructive]

HEALTHY_RUNS = 20


@pytest.fixture(scope="module")
def local_lab(lab: labs.Lab, gpu_host: labhosts.Host) -> labs.Lab:
    """The lab of this machine."""
    if not gpu_host.local:
        pytest.skip(f"drills break the lab of the machine they run on, and {gpu_host.name} is another one")
    return lab


@pytest.fixture(scope="module")
def drill_bench(local_lab: labs.Lab, tell: Tell) -> Iterator[drills.Bench]:
    """One bench for all drills, so that the store is restarted with its fault interface once."""
    with drills.Bench(local_lab, tell) as bench:
        yield bench


@pytest.mark.parametrize(
    "drill",
    [pytest.param(one, id=one.name, marks=[pytest.mark.drill] if one.ci else []) for one in DRILLS.values()],
)
def test_a_fault_is_named_by_its_check(
    drill: Drill, drill_bench: drills.Bench, record_property: Callable[[str, object], None]
) -> None:
    outcome = run(drill, drill_bench)
    for name, value in outcome.as_json().items():
        record_property(f"drill_{name}", value)
    if outcome.verdict != "named":
        pytest.fail(line(outcome), pytrace=False)


def test_twenty_doctors_find_nothing_in_a_healthy_lab(local_lab: labs.Lab, tell: Tell) -> None:
    for number in range(1, HEALTHY_RUNS + 1):
        found = diagnosis.diagnose(collect.lab(None, lambda _line: None), diagnosis.select((), None))
        tell(f"doctor {number}/{HEALTHY_RUNS}: exit status {found.exit_code}")
        assert found.exit_code == 0, found.as_json()
