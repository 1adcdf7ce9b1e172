"""Student's t, chi-square, F and the normal distribution, by scipy.special: scipy.stats takes two seconds to import.

Arguments broadcast; what is NaN stays NaN, and so does what no degrees of freedom (0) can tell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from kvlab.ttft.variance import Floats


def t_above(value: ArrayLike, df: ArrayLike) -> Floats:
    """Probability that Student's t is greater than a value."""
    return np.asarray(special.stdtr(_some(df), -np.asarray(value, dtype=float)), dtype=float)


def t_quantile(p: ArrayLike, df: ArrayLike) -> Floats:
    """The value below which Student's t lies with probability p."""
    return np.asarray(special.stdtrit(_some(df), p), dtype=float)


def normal_quantile(p: ArrayLike) -> Floats:
    """The value below which a standard normal lies with probability p."""
    return np.asarray(special.ndtri(p), dtype=float)


def chi2_above_quantile(p: ArrayLike, df: ArrayLike) -> Floats:
    """The value above which chi-square lies with probability p."""
    return np.asarray(special.chdtri(_some(df), p), dtype=float)


def f_above(value: ArrayLike, df_above: ArrayLike, df_below: ArrayLike) -> Floats:
    """Probability that F is greater than a value."""
    return np.asarray(special.fdtrc(_some(df_above), _some(df_below), value), dtype=float)


def _some(df: ArrayLike) -> Floats:
    known = np.asarray(df, dtype=float)
    return np.where(known > 0, known, np.nan)
