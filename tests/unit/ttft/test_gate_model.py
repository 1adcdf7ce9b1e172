"""The gate's statistics: levels, power, and what a missing sample does."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from kvlab.ttft import model, variance
from kvlab.ttft.model import INCONCLUSIVE, PASS, REGRESS

P, STARTS, C = 3, 5, 5


def side(seed: int, *, starts: int = STARTS, start_sd: float = 0.01, sd: float = 0.01) -> variance.Floats:
    draw = np.random.default_rng(seed)
    return draw.normal(0, start_sd, (P, starts, 1)) + draw.normal(0, sd, (P, starts, C))


def test_equal_sides_pass_and_a_slow_profile_regresses_alone() -> None:
    base, candidate = side(1), side(2)
    assert model.judge(base, candidate).overall == PASS
    candidate[1] += np.log(1.2)
    found = model.judge(base, candidate)
    assert found.overall == REGRESS
    assert found.profiles.tolist() == [PASS, REGRESS, PASS]
    assert found.cells[1].tolist() == [REGRESS] * C
    assert found.profile.shift[1] == pytest.approx(np.log(1.2), abs=0.03)


def test_a_slow_cell_regresses_with_its_profile_and_leaves_its_siblings() -> None:
    base, candidate = side(1), side(2)
    candidate[2, :, 3] += np.log(1.2)
    found = model.judge(base, candidate)
    assert found.profiles.tolist() == [PASS, PASS, REGRESS]
    assert [c for c in range(C) if found.cells[2, c] == REGRESS] == [3]


def test_a_faster_candidate_passes_and_its_unchanged_cells_are_not_called_slow() -> None:
    base, candidate = side(1), side(2)
    candidate[0, :, :4] -= np.log(1.5)
    found = model.judge(base, candidate)
    assert found.overall == PASS
    assert (found.cells != REGRESS).all()


def test_a_change_too_small_to_matter_is_no_regression_however_sure() -> None:
    quiet = {"start_sd": 0.001, "sd": 0.001}
    base, candidate = side(1, **quiet), side(2, **quiet)
    candidate[0] += np.log(1.03)
    found = model.judge(base, candidate)
    assert found.profile_p[0] < 1e-6
    assert found.overall == PASS


def test_a_spread_too_wide_to_rule_a_slowdown_out_is_inconclusive() -> None:
    loud = {"start_sd": 0.15, "sd": 0.01}
    assert model.judge(side(1, **loud), side(2, **loud)).overall == INCONCLUSIVE


@pytest.mark.parametrize("gone", [slice(None), slice(0, 3)])
def test_a_cell_without_enough_starts_keeps_its_profile_from_passing(gone: slice) -> None:
    base, candidate = side(1), side(2)
    candidate[1, gone, 4] = np.nan
    found = model.judge(base, candidate)
    assert found.profiles.tolist() == [PASS, INCONCLUSIVE, PASS]
    assert found.cells[1, 4] == INCONCLUSIVE
    assert found.overall == INCONCLUSIVE


def test_two_starts_a_side_are_too_few_for_any_verdict() -> None:
    found = model.judge(side(1, starts=2), side(2, starts=2))
    assert found.overall == INCONCLUSIVE
    assert np.isnan(found.profile.shift).all()


def test_one_nightly_start_is_judged_against_ten() -> None:
    base, candidate = side(1, starts=10), side(2, starts=1)
    assert model.judge(base, candidate).overall == INCONCLUSIVE
    assert model.judge(base, candidate, model.NIGHTLY).overall == PASS
    assert model.judge(base, candidate + 0.2, model.NIGHTLY).overall == REGRESS


def test_a_missing_cell_of_one_start_does_not_bend_the_mean_of_that_start() -> None:
    levels = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    base, candidate = side(1) + levels, side(2) + levels
    candidate[0, 0, 4] = np.nan
    assert abs(model.judge(base, candidate).profile.shift[0]) < 0.02


def test_leading_axes_are_judged_one_by_one() -> None:
    sides = [(side(seed), side(seed + 100)) for seed in range(4)]
    sides[2][1][0] += 0.3
    together = model.judge(np.stack([b for b, _ in sides]), np.stack([c for _, c in sides]))
    alone = [model.judge(b, c) for b, c in sides]
    assert together.overall.tolist() == [int(one.overall) for one in alone]
    np.testing.assert_allclose(together.cell_p, np.stack([one.cell_p for one in alone]))


def test_cells_of_one_start_add_no_certainty_to_what_the_starts_know() -> None:
    base, candidate = (np.broadcast_to(side(seed)[:1, :, :1], (P, STARTS, 40)) for seed in (1, 2))
    assert model.judge(base, candidate).cell.df.max() <= P * (2 * STARTS - 2)


def test_holm_corrects_as_its_definition_says_and_skips_what_is_no_test() -> None:
    p = np.array([0.04, np.nan, 0.01, 0.03])
    np.testing.assert_allclose(model.holm(p), [0.06, np.nan, 0.03, 0.06])
    assert model.holm(np.array([0.9, 0.9])).tolist() == [1.0, 1.0]


def test_the_detectable_change_is_found_with_the_power_it_names() -> None:
    shifts = model.Shifts(np.zeros(1), np.array([0.02]), np.array([24.0]))
    slowdown = np.log1p(shifts.detectable(0.01, 0.9))
    found = stats.nct.sf(stats.t.isf(0.01, 24), 24, slowdown / 0.02)
    assert found == pytest.approx(0.9, abs=0.01)


def test_variances_that_agree_are_shared_and_one_that_does_not_is_kept_apart() -> None:
    alike, df = variance.moderated(np.array([1.0, 1.1, 0.9]) * 1e-3, np.full(3, 8.0))
    np.testing.assert_allclose(alike, 1e-3)
    assert df.tolist() == [24.0] * 3
    apart, df = variance.moderated(np.array([1.0, 1.0, 400.0]) * 1e-3, np.full(3, 8.0))
    assert apart[2] > 0.2
    assert (df < 12).all()


def test_a_member_without_a_variance_has_none_and_lends_none() -> None:
    found, df = variance.moderated(np.array([1e-3, np.nan, 1e-3]), np.array([8.0, 0.0, 8.0]))
    np.testing.assert_allclose(found, [1e-3, np.nan, 1e-3])
    np.testing.assert_allclose(df, [16.0, np.nan, 16.0])


def test_equal_values_prove_no_precision() -> None:
    found, _ = variance.moderated(np.zeros(3), np.full(3, 8.0))
    np.testing.assert_allclose(found, variance.MIN_SD**2)
