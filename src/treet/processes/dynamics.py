"""A stable linear recursion with Gaussian noise: its autocovariances, its predictors, and fast samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_discrete_lyapunov

from treet.errors import TreetError
from treet.processes.base import Floats

BLOCK = 64
"""How many time steps are computed at once."""

PIVOT = 1e-12
"""Below this share of its variance, what a variable adds to those before it is taken for rounding."""

Variables = list[tuple[int, int]]
"""Values of the process by (channel, lag)."""


@dataclass(frozen=True, eq=False)
class Dynamics:
    """``v_t = sum_i A_i v_{t-i} + e_t``, ``e_t ~ N(0, S)``: ``A`` (order, d, d) and ``S`` (d, d)."""

    coefficients: Floats
    noise_covariance: Floats

    @property
    def order(self) -> int:
        return len(self.coefficients)

    @property
    def dimension(self) -> int:
        return int(self.coefficients.shape[1])

    @cached_property
    def companion(self) -> Floats:
        """``F`` in ``(v_t, .., v_{t-order+1}) = F (v_{t-1}, .., v_{t-order}) + noise``."""
        size = self.order * self.dimension
        matrix = np.eye(size, k=-self.dimension)
        matrix[: self.dimension] = self.coefficients.transpose(1, 0, 2).reshape(self.dimension, size)
        return matrix

    @property
    def spectral_radius(self) -> float:
        """The largest eigenvalue of the companion matrix in size: below 1 the process is stable."""
        return float(np.abs(np.linalg.eigvals(self.companion)).max())

    @cached_property
    def _state_covariance(self) -> Floats:
        """The stationary covariance ``P = F P F' + Q`` of ``(v_t, .., v_{t-order+1})``."""
        noise = np.zeros_like(self.companion)
        noise[: self.dimension, : self.dimension] = self.noise_covariance
        covariance = solve_discrete_lyapunov(self.companion, noise)
        return np.asarray((covariance + covariance.T) / 2)

    def autocovariances(self, largest_lag: int) -> Floats:
        """``E[v_t v_{t-j}']`` for j = 0 .. ``largest_lag``: (largest_lag + 1, d, d)."""
        first = self._state_covariance[: self.dimension]
        known = list(first.reshape(self.dimension, self.order, self.dimension).transpose(1, 0, 2))
        for lag in range(self.order, largest_lag + 1):
            known.append(sum(a @ known[lag - i] for i, a in enumerate(self.coefficients, start=1)))
        return np.array(known[: largest_lag + 1])

    def covariance(self, rows: Variables, columns: Variables) -> Floats:
        """The covariance of two lists of (channel, lag): (rows, columns)."""
        row, column = np.array(rows).reshape(-1, 2), np.array(columns).reshape(-1, 2)
        largest = max([0, *row[:, 1], *column[:, 1]])
        forward = self.autocovariances(largest)
        both = np.concatenate([forward[:0:-1].transpose(0, 2, 1), forward])
        step = column[None, :, 1] - row[:, None, 1]
        return np.asarray(both[step + largest, row[:, None, 0], column[None, :, 0]])

    def predictor(self, present: Variables, past: Variables) -> tuple[Floats, Floats]:
        """The best linear prediction of ``present`` from ``past``: coefficients and covariance of the error.

        ``K = C P^{-1}`` (present, past) and ``G - C P^{-1} C'`` (present, present), with ``G``, ``P`` the two
        covariances and ``C`` the one between them.
        """
        cross = self.covariance(present, past)
        coefficients = _solve(self.covariance(past, past), cross.T).T
        error = self.covariance(present, present) - coefficients @ cross.T
        return coefficients, (error + error.T) / 2

    def sample(self, n_samples: int, generator: np.random.Generator) -> Floats:
        """A stationary stretch, (n_samples, d), from an exact stationary start.

        A block of steps is one affine map of the state before them and of their noise: the noise part is one
        product for all blocks, and only the state goes from block to block.
        """
        block = self._block
        n_blocks = -(-n_samples // block)
        from_state, from_noise = self._block_maps
        noise = generator.standard_normal((n_blocks * block, self.dimension)) @ _root(self.noise_covariance).T
        values = noise.reshape(n_blocks, -1) @ from_noise.T
        size = self.order * self.dimension
        state = _root(self._state_covariance) @ generator.standard_normal(size)
        for row in values:
            row += from_state @ state
            state = row.reshape(block, self.dimension)[: -self.order - 1 : -1].ravel()
        return np.asarray(values.reshape(-1, self.dimension)[:n_samples])

    @property
    def _block(self) -> int:
        """A block holds at least a whole state."""
        return max(self.order, BLOCK)

    @cached_property
    def _block_maps(self) -> tuple[Floats, Floats]:
        """The maps of the state (newest first) and of the noise (in time order) to the values of a block."""
        d, block = self.dimension, self._block
        powers = [np.eye(len(self.companion))]
        for _ in range(block):
            powers.append(self.companion @ powers[-1])
        from_state = np.concatenate([power[:d] for power in powers[1:]])
        from_noise = np.zeros((block * d, block * d))
        for start in range(block):
            responses = np.concatenate([power[:d, :d] for power in powers[: block - start]])
            from_noise[start * d :, start * d : (start + 1) * d] = responses
        return from_state, from_noise


def check_noisy(covariance: Floats, total: Floats) -> None:
    """Raise where an error ``covariance`` says that part of what has ``total`` is predicted exactly."""
    scale = np.sqrt(np.diag(total))
    with np.errstate(divide="ignore", invalid="ignore"):
        smallest = np.nan_to_num(np.linalg.eigvalsh(np.nan_to_num(covariance / np.outer(scale, scale)))).min()
    if smallest < PIVOT:
        raise TreetError(
            "The target is a deterministic function of what is seen, so its transfer entropy is not finite. "
            "Give the target channels noise of their own."
        )


def _solve(matrix: Floats, right: Floats) -> Floats:
    """``matrix^{-1} right`` for a covariance; where it is singular, the solution of least norm.

    Variables are scaled to unit variance first, so that only their correlations matter.
    """
    scale = np.sqrt(np.where(np.diag(matrix) > 0, np.diag(matrix), 1.0))
    correlation, scaled = matrix / np.outer(scale, scale), right / scale[:, None]
    try:
        factor = cholesky(correlation, lower=True)
    except LinAlgError:
        factor = np.zeros_like(correlation)
    if np.diag(factor).min() ** 2 > PIVOT:
        solution = cho_solve((factor, True), scaled)
    else:
        solution = np.linalg.lstsq(correlation, scaled, rcond=PIVOT)[0]
    return np.asarray(solution / scale[:, None])


def _root(covariance: Floats) -> Floats:
    """A square root ``R R' = covariance``, singular ones included."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))
