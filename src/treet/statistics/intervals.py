"""How sure a mean of correlated values is."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

Floats = NDArray[np.float64]


def long_run_variance(trials: Sequence[Floats]) -> float:
    """The long-run variance of a stationary series, from trials with NaN for missing values.

    ``S = g_0 + 2 sum_{j=1}^{b} (1 - j / (b + 1)) g_j`` with the autocovariances ``g_j`` pooled over the pairs
    that lie in one trial (Newey and West's weights, bandwidth ``b = 4 (n / 100)^{2/9}``). Never below zero;
    where the sum is smaller than ``g_0`` by chance, ``g_0`` is not put in its place.

    >>> import numpy as np
    >>> white = np.random.default_rng(0).normal(size=10_000)
    >>> 0.9 < long_run_variance([white]) < 1.1
    True
    """
    n = sum(int(np.isfinite(trial).sum()) for trial in trials)
    if n < 2:
        return math.nan
    mean = sum(float(np.nansum(trial)) for trial in trials) / n
    centred = [np.nan_to_num(trial - mean) for trial in trials]
    bandwidth = max(1, math.floor(4 * (n / 100) ** (2 / 9)))
    total = sum(float(trial @ trial) for trial in centred)
    for lag in range(1, bandwidth + 1):
        weight = 1 - lag / (bandwidth + 1)
        total += 2 * weight * sum(float(trial[lag:] @ trial[:-lag]) for trial in centred if len(trial) > lag)
    return max(total, 0.0) / (n - 1)


def standard_error(trials: Sequence[Floats]) -> float:
    """The standard error of the mean of all values: ``sqrt(long_run_variance / n)``."""
    n = sum(int(np.isfinite(trial).sum()) for trial in trials)
    return math.sqrt(long_run_variance(trials) / n) if n > 1 else math.nan


def normal_interval(value: float, std_error: float, confidence: float) -> tuple[float, float]:
    """``value +- z std_error`` with the normal quantile z of ``confidence``."""
    half = float(norm.ppf(0.5 + confidence / 2)) * std_error
    return value - half, value + half
