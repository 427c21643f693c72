"""Stationary Gaussian noise with a rational spectrum: its spectrum, its autocovariances, its memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from treet.checks import check_number, check_whole
from treet.errors import TreetError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ArmaNoise:
    """``Z_t = sum_i ar_i Z_{t-i} + N_t + sum_j ma_j N_{t-j}`` with ``N_t ~ N(0, variance)`` independent.

    Its spectrum is ``S(w) = variance |1 + sum_j ma_j e^{-ijw}|^2 / |1 - sum_i ar_i e^{-iiw}|^2``, and
    ``E[Z_t^2]`` is the mean of ``S`` over the frequencies.

    >>> noise = ArmaNoise(ma=(0.5,))
    >>> noise.autocovariances(2).tolist()
    [1.25, 0.5, 0.0]
    """

    ar: Sequence[float] = ()
    ma: Sequence[float] = ()
    variance: float = 1.0

    def __post_init__(self) -> None:
        for name in ("ar", "ma"):
            object.__setattr__(self, name, check_coefficients(name, getattr(self, name)))
        check_number("variance", self.variance, above=0)
        largest = max(np.abs(self._poles), default=0.0)
        if largest >= 1:
            raise TreetError(
                f"ar must be stable: the largest pole must be inside the unit circle. "
                f"Got one of size {largest:.4g}: make the coefficients smaller."
            )

    @property
    def _poles(self) -> Floats:
        return np.asarray(np.roots(np.concatenate([[1.0], -np.array(self.ar)])))

    @property
    def breaks(self) -> tuple[float, ...]:
        """The frequencies in (0, pi) of the poles and zeros, where the spectrum has its peaks and dips."""
        zeros = np.roots(np.concatenate([[1.0], self.ma]))
        angles = np.abs(np.angle(np.concatenate([self._poles, zeros])))
        return tuple(sorted({float(angle) for angle in angles if 1e-6 < angle < math.pi - 1e-6}))

    def spectrum(self, frequency: Floats) -> Floats:
        """``S(w)`` for frequencies ``w`` in radians a step, of any shape."""
        z = np.exp(-1j * np.asarray(frequency, dtype=np.float64))
        above = np.polynomial.polynomial.polyval(z, np.concatenate([[1.0], self.ma]))
        below = np.polynomial.polynomial.polyval(z, np.concatenate([[1.0], -np.array(self.ar)]))
        return np.asarray(self.variance * (np.abs(above) / np.abs(below)) ** 2)

    def responses(self, count: int) -> Floats:
        """The response ``psi_0 .. psi_{count-1}`` of ``Z`` to a unit ``N``: (count,)."""
        psi = np.zeros(count)
        psi[: len(self.ma) + 1] = [1.0, *self.ma][:count]
        for step in range(1, count):
            psi[step] += sum(a * psi[step - i] for i, a in enumerate(self.ar[:step], start=1))
        return psi

    def autocovariances(self, largest_lag: int) -> Floats:
        """``E[Z_t Z_{t-j}]`` for j = 0 .. ``largest_lag``: (largest_lag + 1,)."""
        check_whole("largest_lag", largest_lag, 0)
        known = list(self._first_autocovariances)
        for lag in range(len(known), largest_lag + 1):
            driven = self._driven[lag] if lag < len(self._driven) else 0.0
            known.append(driven + sum(a * known[lag - i] for i, a in enumerate(self.ar, start=1)))
        return np.array(known[: largest_lag + 1])

    @cached_property
    def _driven(self) -> Floats:
        """``E[Z_{t-k} (N_t + sum_j ma_j N_{t-j})]`` for k = 0 .. q."""
        weights = np.array([1.0, *self.ma])
        psi = self.responses(len(weights))
        overlap = [weights[k:] @ psi[: len(weights) - k] for k in range(len(weights))]
        return self.variance * np.array(overlap)

    @cached_property
    def _first_autocovariances(self) -> Floats:
        """The autocovariances at lags 0 .. p, from ``g_k = sum_i ar_i g_{|k-i|} + driven_k``."""
        size = len(self.ar) + 1
        matrix, driven = np.eye(size), np.zeros(size)
        driven[: len(self._driven)] = self._driven[:size]
        for k in range(size):
            for i, a in enumerate(self.ar, start=1):
                matrix[k, abs(k - i)] -= a
        return np.asarray(np.linalg.solve(matrix, driven))

    @cached_property
    def state_covariance(self) -> Floats:
        """The covariance of ``(Z_{t-1} .. Z_{t-p}, N_{t-1} .. N_{t-q})``: (p + q, p + q)."""
        p, q = len(self.ar), len(self.ma)
        lags = np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
        ahead = np.arange(q)[None, :] - np.arange(p)[:, None]
        responses = self.responses(max(q, 1))
        cross = np.where(ahead >= 0, responses[np.maximum(ahead, 0)], 0.0) * self.variance
        own = self.autocovariances(p)[lags]
        return np.block([[own, cross], [cross.T, self.variance * np.eye(q)]])


def check_coefficients(name: str, values: object) -> tuple[float, ...]:
    """``values`` as a tuple of floats; raises unless they are finite numbers in a sequence."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TreetError(f"{name} must be a sequence of numbers. Got {values!r} instead.") from error
    if array.ndim != 1 or not np.isfinite(array).all():
        raise TreetError(f"{name} must be a sequence of finite numbers. Got {values!r} instead.")
    return tuple(array.tolist())
