"""The threshold process: the source drives the target only while the target is high."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from treet.checks import check_number, check_whole
from treet.processes.base import Floats, numbered
from treet.processes.driven import Driven


@dataclass(frozen=True)
class Threshold(Driven):
    """``Y_t = Z_t`` where ``Y_{t-1} < threshold``, else ``rho X_{t-1} + sqrt(1 - rho^2) Z_t``.

    ``X`` and ``Z`` are independent standard normal series. Given its own past ``Y_t`` is standard normal, so
    with ``I = -log(1 - rho^2) / 2`` and ``q = P(Y >= threshold)`` the transfer entropy is ``q I`` under all
    lags that hold source lag 1. A local value is
    ``I - (y_t - rho x_{t-1})^2 / (2 (1 - rho^2)) + y_t^2 / 2`` where ``y_{t-1} >= threshold`` and 0
    elsewhere; its variance is ``q (rho^2 + I^2) - (q I)^2``.

    ``copies`` independent copies make source and target vectors; ``redundant`` adds source channels of pure
    noise, which carry nothing.

    >>> from treet.lags import Lags
    >>> process = Threshold(threshold=1.0, copies=3, redundant=1)
    >>> process.source_names, process.target_names
    (('x1', 'x2', 'x3', 'noise1'), ('y1', 'y2', 'y3'))
    >>> round(process.transfer_entropy(Lags.from_memory(10)), 4)
    0.3952
    """

    rho: float = 0.9
    threshold: float = 0.0
    copies: int = 1
    redundant: int = 0

    def __post_init__(self) -> None:
        check_number("rho", self.rho, above=-1, below=1)
        check_number("threshold", self.threshold)
        check_whole("copies", self.copies, 1)
        check_whole("redundant", self.redundant, 0)

    @property
    def source_names(self) -> tuple[str, ...]:
        return numbered("x", self.copies) + tuple(f"noise{i + 1}" for i in range(self.redundant))

    @property
    def target_names(self) -> tuple[str, ...]:
        return numbered("y", self.copies)

    @property
    def _driven_share(self) -> float:
        """``q = P(Y >= threshold)``."""
        return float(norm.sf(self.threshold))

    @property
    def _driven_information(self) -> float:
        """``I``, the information that the source gives while it drives."""
        return -math.log1p(-(self.rho**2)) / 2

    def _pair_value(self) -> float:
        return self._driven_share * self._driven_information

    def _pair_variance(self) -> float:
        second_moment = self._driven_share * (self.rho**2 + self._driven_information**2)
        return second_moment - self._pair_value() ** 2

    def _pair_local(self, present: Floats, target_past: Floats, source_past: Floats) -> Floats:
        squares = present**2 / 2 - (present - self.rho * source_past) ** 2 / (2 * (1 - self.rho**2))
        return np.where(target_past >= self.threshold, self._driven_information + squares, 0.0)

    def _trial(self, n_samples: int, generator: np.random.Generator) -> Floats:
        source = generator.standard_normal((n_samples, self.copies + self.redundant))
        free = generator.standard_normal((n_samples, self.copies))
        driven = np.empty_like(free)
        # The first value is drawn from the stationary law, in which Y_t is standard normal and independent of
        # X_t: both branches hold the same number.
        driven[0] = free[0]
        driven[1:] = self.rho * source[:-1, : self.copies] + math.sqrt(1 - self.rho**2) * free[1:]
        high = _follow(free >= self.threshold, driven >= self.threshold)
        high_before = np.roll(high, 1, axis=0)
        return np.hstack([source, np.where(high_before, driven, free)])


def _follow(if_low: NDArray[np.bool_], if_high: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The states ``s_t = if_high[t] if s_{t-1} else if_low[t]`` without a loop; the first rows must be equal.

    Each step is a map of {low, high} into itself. Where both branches agree it forgets the past; elsewhere
    it keeps the state or flips it. So a state is that of the last forgetting step, flipped as often as there
    were flips since.
    """
    forgets = if_low == if_high
    steps = np.arange(len(if_low))[:, None]
    last = np.maximum.accumulate(np.where(forgets, steps, 0), axis=0)
    flips = np.cumsum(if_low & ~if_high, axis=0)
    columns = np.arange(flips.shape[1])
    odd = (flips - flips[last, columns]) % 2 == 1
    return if_high[last, columns] ^ odd
