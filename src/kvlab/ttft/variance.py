"""Variances from few values, steadied by those of their family.

Five starts a side give a variance with 8 degrees of freedom, too few for a strict level. Where the members of a
family (profiles, or cells of the matrix) spread alike, they may share one variance; where they do not, they must
not. How far they may is estimated from the data: a scaled inverse chi-square prior is fitted to the family's
variances by moments of their logarithms, and each member's own variance is weighed against it (G. K. Smyth,
"Linear models and empirical Bayes methods", Stat. Appl. Genet. Mol. Biol. 3(1), 2004, sections 6.2 and 3).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import special

Floats = NDArray[np.float64]
MIN_SD = 1e-4
"""A spread of 0.01 % is below what a clock and a median of passes can show: equal values prove no precision."""
_MANY = 1e9  # degrees of freedom of a prior that is certain: all members share one variance


def moderated(variance: Floats, df: Floats) -> tuple[Floats, Floats]:
    """Steadied variances and their degrees of freedom.

    Both arguments have shape (..., G) for families of G members; NaN marks a member that has no variance (df 0).
    A family of one keeps its own variance.
    """
    known = np.isfinite(variance) & (df > 0)
    own = np.where(known, np.maximum(variance, MIN_SD**2), 1.0)
    freedom = np.where(known, df, 1.0)
    half = freedom / 2
    centred = np.log(own) - special.digamma(half) + np.log(half)
    members = np.maximum(known.sum(-1), 1)
    location = _mean(centred, known, members)
    around = np.where(known, (centred - location[..., None]) ** 2, 0.0).sum(-1) / np.maximum(members - 1, 1)
    excess = around - _mean(special.polygamma(1, half), known, members)
    prior_df = np.where(excess > 0, 2 * _trigamma_inverse(np.where(excess > 0, excess, 1.0)), _MANY)
    prior = np.where(
        excess > 0,
        np.exp(location + special.digamma(prior_df / 2) - np.log(prior_df / 2)),
        (own * freedom * known).sum(-1) / np.maximum((freedom * known).sum(-1), 1),
    )
    steadied = (prior_df * prior)[..., None] + freedom * own
    total = prior_df[..., None] + freedom
    shared = (freedom * known).sum(-1)[..., None]
    return np.where(known, steadied / total, np.nan), np.where(known, np.minimum(total, shared), np.nan)


def _mean(values: Floats, known: NDArray[np.bool_], members: NDArray[np.int_]) -> Floats:
    mean: Floats = np.where(known, values, 0.0).sum(-1) / members
    return mean


def _trigamma_inverse(values: Floats) -> Floats:
    """x with trigamma(x) = values, by Newton's method on 1/trigamma, which is nearly a line."""
    x = 0.5 + 1 / values
    for _ in range(12):
        trigamma = special.polygamma(1, x)
        x = x + trigamma * (1 - trigamma / values) / special.polygamma(2, x)
    return x
