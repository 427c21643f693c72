"""Transfer entropy through Gaussian channels: of a given input, and the most that any input can have.

All values are ``TE(l) = I(X_{t-l} .. X_t ; Y_t | Y_{t-l} .. Y_{t-1})`` in nats, ``memory=l``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import toeplitz
from scipy.signal import correlate

from treet.capacity.noise import Floats
from treet.checks import check_number
from treet.errors import TreetError

TOLERANCE = 1e-9
"""How far in nats a ceiling may be from the supremum."""

NEWTON_STEPS = 100
"""More than any barrier problem needs: the steps are damped and the problem is concave."""


def joint_transfer_entropy(autocovariances: ArrayLike, input_dim: int = 1) -> float:
    """TE(l) of jointly Gaussian stationary ``(X, Y)``, feedback or not.

    ``autocovariances``  (l + 1, d, d): ``E[v_t v_{t-j}']`` of ``v = (X, Y)`` at lags j = 0 .. l.
    ``input_dim``        how many of the ``d`` components are ``X``.

    ``TE(l) = (log det S_Y - log det S_XY) / 2`` with the covariances of the errors of predicting ``Y_t`` from
    its past alone, and from ``X_{t-l} .. X_t`` as well.

    >>> round(joint_transfer_entropy([[[1.0, 1.0], [1.0, 2.0]]]), 6)  # white input, white noise
    0.346574
    """
    gamma = np.array(autocovariances, dtype=np.float64)
    if gamma.ndim != 3 or gamma.shape[1] != gamma.shape[2] or not 0 < input_dim < gamma.shape[1]:
        raise TreetError(
            f"autocovariances must have the shape (memory + 1, d, d) with d above input_dim = {input_dim}. "
            f"Got {gamma.shape} instead."
        )
    length, d = len(gamma), gamma.shape[1]
    covariance = _block_toeplitz(gamma)
    # Oldest first, so the past of Y is what comes before the last d rows.
    is_input = np.tile(np.arange(d) < input_dim, length)
    order = np.arange(length * d)
    past = order[~is_input][: (length - 1) * (d - input_dim)]
    present = order[~is_input][(length - 1) * (d - input_dim) :]
    alone = _error_log_det(covariance, past, present)
    return (alone - _error_log_det(covariance, np.concatenate([past, order[is_input]]), present)) / 2


def _block_toeplitz(gamma: Floats) -> Floats:
    """(length d, length d) covariance of ``v_{t-l} .. v_t``."""
    length, d = len(gamma), gamma.shape[1]
    both = np.concatenate([gamma[:0:-1].transpose(0, 2, 1), gamma])
    step = np.subtract.outer(np.arange(length), np.arange(length))
    return np.asarray(both[step + length - 1].transpose(0, 2, 1, 3).reshape(length * d, length * d))


def _error_log_det(covariance: Floats, past: NDArray[np.intp], present: NDArray[np.intp]) -> float:
    """``log det`` of the error of the best linear prediction of ``present`` from ``past``."""
    rows = np.concatenate([past, present])
    try:
        factor = np.linalg.cholesky(covariance[np.ix_(rows, rows)])
    except np.linalg.LinAlgError as error:
        raise TreetError(
            "The autocovariances are not those of a process in which Y has noise of its own: "
            "their covariance matrix is not positive definite."
        ) from error
    return float(2 * np.log(np.diag(factor)[len(past) :]).sum())


def input_transfer_entropy(input_autocovariances: ArrayLike, noise_autocovariances: ArrayLike) -> float:
    """TE(l) of ``Y = X + Z`` for a Gaussian input without feedback, from autocovariances at lags 0 .. l.

    Given ``X`` the channel's output is its noise, so that
    ``TE(l) = h(Y_t | Y_{t-l} .. Y_{t-1}) - h(Z_t | Z_{t-l} .. Z_{t-1})``.

    >>> round(input_transfer_entropy([1.0, 0.0], [1.25, 0.5]), 6)  # MA(1) noise, white input
    0.355748
    """
    x, z = (np.array(values, dtype=np.float64) for values in (input_autocovariances, noise_autocovariances))
    if x.ndim != 1 or x.shape != z.shape or x.size == 0:
        raise TreetError(f"The autocovariances must be two lists of one length. Got {x.shape} and {z.shape}.")
    return (log_prediction_error(x + z) - log_prediction_error(z)) / 2


def log_prediction_error(autocovariances: Floats) -> float:
    """``log`` of the mean square error of the best prediction from ``l`` past values; lags 0 .. l."""
    factor = np.linalg.cholesky(toeplitz(autocovariances))
    return float(2 * np.log(factor[-1, -1]))


def largest_transfer_entropy(noise_autocovariances: ArrayLike, power: float) -> float:
    """The supremum of TE(l) of ``Y = X + Z`` over stationary inputs of ``power`` without feedback.

    ``Z`` is Gaussian with the given autocovariances at lags 0 .. l. The supremum can be above the capacity,
    because TE(l) conditions on ``l`` values of the past only; it tends to the capacity as ``l`` grows.

    >>> round(largest_transfer_entropy([1.25, 0.5, 0.0], power=1.0), 4)
    0.3995
    """
    best = best_input_autocovariances(noise_autocovariances, power)
    return input_transfer_entropy(best, noise_autocovariances)


def best_input_autocovariances(noise_autocovariances: ArrayLike, power: float) -> Floats:
    """The input autocovariances at lags 0 .. l that attain :func:`largest_transfer_entropy`, to 1e-9 nats.

    The entropy ``h(Y_t | Y_{t-l} .. Y_{t-1})`` is concave in the covariance of ``Y``, a Gaussian input is
    best, and what is free is ``r_1 .. r_l`` with a positive semidefinite Toeplitz matrix ``T(r)``,
    ``r_0 = power``. An interior point method: Newton's steps on ``h + mu log det T(r)``, whose maximum is
    within ``mu (l + 1)`` of the supremum, for falling ``mu``.
    """
    noise = np.array(noise_autocovariances, dtype=np.float64)
    check_number("power", power, above=0)
    if noise.ndim != 1 or noise.size == 0 or np.linalg.eigvalsh(toeplitz(noise))[0] <= 0:
        raise TreetError(
            "noise_autocovariances must be those at lags 0 .. l of noise that its past does not determine: "
            "their Toeplitz matrix must be positive definite."
        )
    scale = noise[0]
    barrier = _Barrier(noise / scale)
    best = np.zeros_like(noise)
    best[0] = power / scale
    mu = 1.0
    while len(noise) > 1 and mu * len(noise) > TOLERANCE:
        mu /= 10
        best = barrier.maximise(best, mu)
    return np.asarray(best * scale)


@dataclass(frozen=True, eq=False)
class _Barrier:
    """``F(r) = (log det T_l(r + s) - log det T_{l-1}(r + s)) / 2 + mu log det T_l(r)``, with derivatives."""

    noise: Floats

    def value(self, r: Floats, mu: float) -> float:
        """``F(r)``, minus infinity outside the domain."""
        try:
            inside = np.linalg.cholesky(toeplitz(r))
        except np.linalg.LinAlgError:
            return -np.inf
        return log_prediction_error(r + self.noise) / 2 + mu * float(2 * np.log(np.diag(inside)).sum())

    def derivatives(self, r: Floats, mu: float) -> tuple[Floats, Floats]:
        """Gradient (l,) and Hessian (l, l) in ``r_1 .. r_l``."""
        parts = [(0.5, r + self.noise), (-0.5, (r + self.noise)[:-1]), (mu, r)]
        size = len(r) - 1
        gradient, hessian = np.zeros(size), np.zeros((size, size))
        for weight, autocovariances in parts:
            first, second = _log_det_derivatives(autocovariances)
            gradient[: len(first)] += weight * first
            hessian[: len(first), : len(first)] += weight * second
        return gradient, hessian

    def maximise(self, r: Floats, mu: float) -> Floats:
        """The maximum of ``F`` by damped Newton steps from ``r``."""
        for _ in range(NEWTON_STEPS):
            gradient, hessian = self.derivatives(r, mu)
            direction: Floats = np.asarray(-np.linalg.solve(hessian, gradient), dtype=np.float64)
            rise = float(gradient @ direction)
            # The last tenth of what the barrier costs is not worth a step.
            if rise < mu * 1e-2:
                return r
            r = self._line_search(r, direction, rise, mu)
        return r

    def _line_search(self, r: Floats, direction: Floats, rise: float, mu: float) -> Floats:
        start, step = self.value(r, mu), 1.0
        while step > 1e-10:
            trial = r.copy()
            trial[1:] += step * direction
            if self.value(trial, mu) >= start + 0.1 * step * rise:
                return trial
            step /= 2
        return r


def _log_det_derivatives(autocovariances: Floats) -> tuple[Floats, Floats]:
    """Gradient and Hessian of ``log det T(r)`` in ``r_1 .. r_l``.

    With ``M = T^{-1}``: ``2 sum_a M[a, a + j]``, and ``-2 (C[j, k] + C[j, -k])`` with the correlation
    ``C[j, k] = sum_ab M[a, b] M[a + j, b + k]``.
    """
    inverse = np.linalg.inv(toeplitz(autocovariances))
    size = len(autocovariances) - 1
    gradient = np.array([2 * np.trace(inverse, offset=lag) for lag in range(1, size + 1)])
    matrix = correlate(inverse, inverse, method="fft")[size + 1 :]
    return gradient, -2 * (matrix[:, size + 1 :] + matrix[:, :size][:, ::-1])
