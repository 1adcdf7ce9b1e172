"""The gate's distributions are those of scipy.stats, which takes too long to import."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from kvlab.ttft import distributions

DF = np.array([1.0, 2.0, 8.0, 24.0, 1e9])


@pytest.mark.parametrize("value", [-3.0, 0.0, 0.5, 40.0])
def test_students_t_is_that_of_scipy_stats(value: float) -> None:
    assert distributions.t_above(value, DF) == pytest.approx(stats.t.sf(value, DF), rel=1e-9)


@pytest.mark.parametrize("p", [1e-6, 0.013 / 3, 0.5, 0.975])
def test_quantiles_are_those_of_scipy_stats(p: float) -> None:
    assert distributions.t_quantile(p, DF) == pytest.approx(stats.t.ppf(p, DF), rel=1e-9, abs=1e-12)
    assert distributions.normal_quantile(p) == pytest.approx(stats.norm.ppf(p), abs=1e-12)
    assert distributions.chi2_above_quantile(p, 7) == pytest.approx(stats.chi2.isf(p, 7))


def test_f_is_that_of_scipy_stats_and_infinity_is_never_exceeded() -> None:
    assert distributions.f_above(3.0, 8, 5) == pytest.approx(stats.f.sf(3.0, 8, 5))
    assert distributions.f_above(np.inf, 8, 5) == 0


@pytest.mark.parametrize("df", [0.0, np.nan])
def test_without_degrees_of_freedom_nothing_is_known(df: float) -> None:
    assert np.isnan(distributions.t_above(1.0, df))
    assert np.isnan(distributions.t_quantile(0.9, df))
    assert np.isnan(distributions.f_above(1.0, df, 5))
