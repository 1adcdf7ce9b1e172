"""The claims of a TTFT plan, measured in the lab that is up: `pytest -m ttft`.

KVLAB_TTFT_PLAN names the plan (default: thresholds/smoke.yml, some minutes), KVLAB_TTFT_RESULT a run to judge instead
of measuring one.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from harness import Tell

from kvlab.cli import _ttft
from kvlab.serving import lab as labs
from kvlab.ttft import plan as plans
from kvlab.ttft import result as results
from kvlab.ttft.claims import Claim, claims
from kvlab.ttft.result import Result

pytestmark = pytest.mark.ttft

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory, lab: labs.Lab, tell: Tell) -> Result:
    """A run of the plan, or the one that is given."""
    if given := os.environ.get("KVLAB_TTFT_RESULT"):
        return results.read(Path(given))
    plan = Path(os.environ.get("KVLAB_TTFT_PLAN", ROOT / "thresholds/smoke.yml"))
    output = tmp_path_factory.mktemp("ttft") / f"{plan.stem}.json"
    found, _ = _ttft.run(plan, output, resume=False, starts=None, only=(), tell=tell)
    assert found.simulated == lab.simulated
    return found


@pytest.fixture(scope="module")
def judged(measured: Result) -> list[Claim]:
    plan = plans.from_mapping(measured.plan, measured.id)
    return claims([measured], plan.limits)


def test_every_pass_is_proven(measured: Result) -> None:
    unproven = [
        f"{p.profile}, {p.context} tokens, {p.series}: {p.reasons[0]}"
        for p in measured.passes
        if not p.proven
    ]
    assert measured.complete, measured.stopped
    assert measured.passes
    assert unproven == []


def test_every_claim_that_the_plan_limits_is_kept(judged: list[Claim], measured: Result) -> None:
    limited = [claim for claim in judged if claim.verdict]
    limits = [name for name, limit in (measured.plan.get("limits") or {}).items() if limit is not None]
    assert len(limited) == len(limits)
    bad = [
        f"{c.kind}: {c.verdict}, {c.value} ({c.low} to {c.high}) for {c.limit}; {c.detail}"
        for c in limited
        if c.verdict != "pass"
    ]
    assert bad == []


def test_claims_of_a_simulated_run_are_labelled(judged: list[Claim], measured: Result) -> None:
    assert judged
    assert {claim.simulated for claim in judged} == {measured.simulated}
