"""The document's claims: figures, intervals over starts, and a plan's limits."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
import ttft_generator

from kvlab.errors import KvlabError
from kvlab.ttft import bootstrap
from kvlab.ttft.claims import Claim, claims
from kvlab.ttft.plan import Limits
from kvlab.ttft.result import Result

CONTEXTS = ttft_generator.CONTEXTS


def run(seed: int = 1, **given: Any) -> Result:
    return ttft_generator.result(seed=seed, **given)


def of(found: list[Claim], kind: str, context: int | None = None, profile: str = "s3-rdma") -> Claim:
    (claim,) = (c for c in found if (c.kind, c.context, c.profile) == (kind, context, profile))
    return claim


def inside(claim: Claim, truth: float) -> bool:
    assert claim.low is not None
    assert claim.high is not None
    return claim.low <= truth <= claim.high


def true_ratio(above: str, below: str, context: int) -> float:
    return ttft_generator.ttft(above, context) / ttft_generator.ttft(below, context)


@pytest.mark.parametrize("context", CONTEXTS)
def test_ratios_and_rates_are_what_was_put_in(context: int) -> None:
    found = claims([run()])
    for kind, above in (("speedup", "baseline"), ("http_over_rdma", "s3-http")):
        truth = true_ratio(above, "s3-rdma", context)
        claim = of(found, kind, context)
        assert claim.value == pytest.approx(truth, rel=0.06)
        assert inside(claim, truth)
    rate = of(found, "implied_gb_s", context)
    payload = (context - 1) // 64 * 64 * ttft_generator.BYTES_PER_TOKEN
    assert rate.value == pytest.approx(payload / ttft_generator.ttft("s3-rdma", context) / 1e9, rel=0.05)


def test_the_crossover_is_the_first_context_from_which_on_rdma_wins() -> None:
    claim = of(claims([run()], Limits(crossover_exists=True)), "crossover")
    assert (claim.value, claim.low, claim.high, claim.verdict) == (1024, 1024, 1024, "pass")
    assert claim.detail == "s3-rdma wins from between 256 and 1024 tokens on"


def test_winning_from_the_shortest_context_on_is_a_crossover() -> None:
    claim = of(claims([run(contexts=(1024, 4096))], Limits(crossover_exists=True)), "crossover")
    assert (claim.value, claim.verdict) == (1024, "pass")
    assert claim.detail == "s3-rdma wins from the shortest context on, 1024 tokens"


def test_no_win_at_the_longest_context_is_no_crossover() -> None:
    claim = of(claims([run(contexts=(64, 256))], Limits(crossover_exists=True)), "crossover")
    assert (claim.value, claim.low, claim.verdict) == (None, None, "fail")
    assert "does not win at 256 tokens" in claim.detail


def test_a_win_in_the_middle_that_is_lost_again_is_no_crossover() -> None:
    one = run(contexts=(64, 1024, 8192))
    one.passes = [
        msgspec.structs.replace(p, ttft_first_token_s=9.0)
        if p.profile == "s3-rdma" and p.context == 8192
        else p
        for p in one.passes
    ]
    assert of(claims([one], Limits(crossover_exists=True)), "crossover").verdict == "fail"


def test_cpu_is_compared_for_the_same_bytes_only() -> None:
    found = claims([run()], Limits(client_cpu_saving_min=0.9))
    payload = 8128 * ttft_generator.BYTES_PER_TOKEN
    saving = of(found, "client_cpu_saving", 8192)
    assert saving.value == pytest.approx(1 - 0.002 / (0.002 + 4e-9 * payload))
    assert saving.verdict == "pass"
    one = run()
    one.passes = [
        msgspec.structs.replace(p, rdma_bytes=p.rdma_bytes // 2) if p.rdma_bytes else p for p in one.passes
    ]
    other = of(claims([one], Limits(client_cpu_saving_min=0.9)), "client_cpu_saving", 8192)
    assert (other.value, other.verdict) == (None, "inconclusive")
    assert "did not move the same bytes" in other.detail


@pytest.mark.parametrize(("least", "verdict"), [(5, "pass"), (9.65, "inconclusive"), (13.4, "fail")])
def test_a_limit_is_judged_at_the_longest_context_by_the_whole_interval(least: float, verdict: str) -> None:
    found = claims([run()], Limits(speedup_longest_min=least))
    assert of(found, "speedup", 8192).verdict == verdict
    assert {c.verdict for c in found if c.context != 8192} == {""}


def test_too_few_starts_are_inconclusive_whatever_the_figure() -> None:
    claim = of(claims([run(starts=2)], Limits(speedup_longest_min=1)), "speedup", 8192)
    assert claim.value is not None
    assert (claim.low, claim.high, claim.verdict) == (None, None, "inconclusive")
    assert claim.detail == "baseline has 2 and s3-rdma has 2 of 3 starts with proven TTFT; measure more"


def test_unproven_passes_and_a_profile_that_is_missing_leave_a_limit_inconclusive() -> None:
    one = run()
    one.passes = [
        msgspec.structs.replace(p, proven=False) if p.profile == "s3-rdma" else p for p in one.passes
    ]
    asked = Limits(
        speedup_longest_min=1, crossover_exists=True, http_over_rdma_longest_min=1, client_cpu_saving_min=0
    )
    for result in (one, run(profiles=("baseline",))):
        judged = [c for c in claims([result], asked) if c.verdict]
        assert {c.kind for c in judged} == {"speedup", "crossover", "http_over_rdma", "client_cpu_saving"}
        assert {c.verdict for c in judged} == {"inconclusive"}


def test_a_planned_context_that_was_not_reached_is_not_replaced_by_a_shorter_one() -> None:
    one = run(contexts=(64, 8192), plan={"contexts": [64, 8192, 16384]})
    found = claims([one], Limits(speedup_longest_min=1))
    assert of(found, "speedup", 16384).verdict == "inconclusive"
    assert of(found, "speedup", 8192).verdict == ""


@pytest.mark.parametrize(
    ("nics", "verdict", "words"),
    [(0.1, "fail", "more than the 0.1 GB/s"), (50, "", "% of the 50 GB/s"), (None, "", "")],
)
def test_a_rate_over_what_the_nics_carry_is_not_believed(
    nics: float | None, verdict: str, words: str
) -> None:
    where = {"hardware.nic_gb_s": nics} if nics else {}
    rate = of(claims([run(environment=ttft_generator.ENVIRONMENT | where)]), "implied_gb_s", 8192)
    assert (rate.verdict, words in rate.detail, bool(rate.detail)) == (verdict, True, bool(words))


def test_claims_of_a_simulated_run_are_labelled_and_a_seed_gives_the_same_again() -> None:
    assert all(c.simulated for c in claims([run()]))
    assert not any(c.simulated for c in claims([run(simulated=False)]))
    assert claims([run()], seed=4) == claims([run()], seed=4)


def test_several_requests_at_once_are_no_claim_of_the_document() -> None:
    with pytest.raises(KvlabError, match="no hot pass of a single request"):
        claims([run(concurrency=4)])


def test_claims_are_taken_from_one_environment() -> None:
    with pytest.raises(KvlabError, match="different environments"):
        claims([run(), run(2, environment={"a": 1})])
    assert claims([run(1, starts=2), run(2, starts=2)])


@pytest.mark.parametrize("starts", [3, 5, 10])
def test_the_interval_holds_the_truth_as_often_as_it_says(starts: int) -> None:
    rng = np.random.default_rng(1)
    samples = rng.normal(0, 1, (starts, 2000))
    bounds = [bootstrap.interval(column) for column in bootstrap.resampled(samples, rng, 1000).T]
    held = np.mean([low <= 0 <= high for low, high in bounds])
    assert 0.92 < held < 0.98


def test_a_column_with_two_samples_has_no_interval() -> None:
    values = np.array([[1.0, 1.0], [2.0, 2.0], [3.0, np.nan]])
    known, unknown = bootstrap.resampled(values, np.random.default_rng(1)).T
    assert bootstrap.interval(known)[0] < 1.5
    assert np.isnan(bootstrap.interval(unknown)).all()


def test_a_start_that_lacks_a_figure_leaves_it_to_the_others() -> None:
    values = np.array([[1.0], [1.1], [0.9], [np.nan], [np.nan]])
    low, high = bootstrap.interval(bootstrap.resampled(values, np.random.default_rng(1))[:, 0])
    assert 0.6 < low < 1 < high < 1.4
