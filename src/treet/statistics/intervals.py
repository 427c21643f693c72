"""How sure a mean of correlated values is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Floats = NDArray[np.float64]


# Andrews and Monahan's limit: closer to a random walk the bandwidth would run away.
_LARGEST_CORRELATION = 0.97


def long_run_variance(trials: Sequence[Floats]) -> float:
    """The long-run variance of a stationary series, from trials with NaN for missing values.

    ``S = g_0 + 2 sum_{j=1}^{b} (1 - j / (b + 1)) g_j`` with the autocovariances ``g_j`` pooled over the pairs
    that lie in one trial, and the bandwidth ``b`` of ``_bandwidth``. Never below zero; where the sum is
    smaller than ``g_0`` by chance, ``g_0`` is not put in its place. NaN for fewer than two values and where
    one of them is infinite.

    >>> import numpy as np
    >>> white = np.random.default_rng(0).normal(size=10_000)
    >>> 0.9 < long_run_variance([white]) < 1.1
    True
    """
    n = sum(int((~np.isnan(trial)).sum()) for trial in trials)
    if n < 2 or any(np.isinf(trial).any() for trial in trials):
        return math.nan
    mean = sum(float(np.nansum(trial)) for trial in trials) / n
    centred = [np.nan_to_num(trial - mean) for trial in trials]
    bandwidth = _bandwidth(trials, centred, n)
    total = _products(centred, 0)
    for lag in range(1, min(bandwidth + 1, max(len(trial) for trial in trials))):
        total += 2 * (1 - lag / (bandwidth + 1)) * _products(centred, lag)
    return max(total, 0.0) / (n - 1)


def _bandwidth(trials: Sequence[Floats], centred: Sequence[Floats], n: int) -> int:
    """The larger of two rules, at most half the number of values.

    Newey and West's ``4 (n / 100)^{2/9}`` alone is too narrow for a series with a long memory: at n = 2000 a
    nominal 95 % interval of the mean of an AR(1) covers 92 % at the coefficient 0.5 and 83 % at 0.8. Andrews'
    ``1.1447 (4 r^2 / (1 - r^2)^2 n)^{1/3}`` is optimal for an AR(1) of coefficient ``r``, here the lag-one
    correlation: 93.5 % and 91 %. Alone it would be too narrow where neighbours are uncorrelated but values
    further apart are not.
    """
    present = [~np.isnan(trial) for trial in trials]
    pairs = sum(int((there[1:] & there[:-1]).sum()) for there in present)
    variance = _products(centred, 0) / n
    correlation = _products(centred, 1) / pairs / variance if pairs and variance > 0 else 0.0
    r2 = min(abs(correlation), _LARGEST_CORRELATION) ** 2
    newey_west: float = 4 * (n / 100) ** (2 / 9)
    andrews: float = 1.1447 * (4 * r2 / (1 - r2) ** 2 * n) ** (1 / 3)
    return max(1, min(math.floor(max(newey_west, andrews)), n // 2))


def _products(centred: Sequence[Floats], lag: int) -> float:
    """The sum of the products of values ``lag`` apart in one trial."""
    return sum(float(trial[lag:] @ trial[: len(trial) - lag]) for trial in centred if len(trial) > lag)


def standard_error(trials: Sequence[Floats]) -> float:
    """The standard error of the mean of all values: ``sqrt(long_run_variance / n)``."""
    n = sum(int((~np.isnan(trial)).sum()) for trial in trials)
    return math.sqrt(long_run_variance(trials) / n) if n > 1 else math.nan


def normal_interval(value: float, std_error: float, confidence: float) -> tuple[float, float]:
    """``value +- z std_error`` with the normal quantile z of ``confidence``."""
    half = float(norm.ppf(0.5 + confidence / 2)) * std_error
    return value - half, value + half
