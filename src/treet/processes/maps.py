"""A coupled nonlinear map, with its transfer entropy by quadrature."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from treet.checks import check_number
from treet.errors import TreetError
from treet.processes.base import Floats
from treet.processes.driven import Driven

BURN_IN = 1000
REACH = 9.0
"""How many standard deviations of a normal variable the quadratures cover: beyond lie 2e-19 of it."""

LEAST_NOISE = 0.05
"""The least noise for each unit of gain: below it the quadrature would need too many nodes."""

CHUNK = 4096
"""For how many windows at once the mixture density is computed."""


@dataclass(frozen=True)
class SineMap(Driven):
    """``Y_t = gain sin(Y_{t-1} + coupling X_{t-1}) + noise_std Z_t`` with standard normal ``X`` and ``Z``.

    The source moves the phase of a noisy sine map: bounded but for the noise, nonlinear in the target, in the
    source and in both together. Given ``x_{t-1}`` the target is Gaussian; given its own past alone it is the
    mixture ``p(y | y_{t-1}) = E_x N(y; gain sin(y_{t-1} + coupling x), noise_std^2)``, so that
    ``TE = E[h(Y | y_{t-1})] - h(noise)``, exact for all lags that hold source lag 1.

    The integrals over ``y_{t-1}``, ``x_{t-1}`` and ``y_t`` are trapezoid sums of smooth functions that vanish
    at both ends, which converge faster than any power of the step: halving the steps changes the value by
    less than 1e-9. The stationary density of ``Y`` solves ``density = K density`` on the same nodes.

    >>> from treet.lags import Lags
    >>> process = SineMap()
    >>> round(process.transfer_entropy(Lags(5, 5)), 4), process.transfer_entropy(Lags(5, 5), "y", "x")
    (0.3677, 0.0)
    """

    gain: float = 2.0
    coupling: float = 0.5
    noise_std: float = 0.5

    def __post_init__(self) -> None:
        check_number("gain", self.gain, above=0, below=10)
        check_number("coupling", self.coupling, above=-10, below=10)
        check_number("noise_std", self.noise_std, above=0, below=10)
        if self.noise_std < LEAST_NOISE * self.gain:
            raise TreetError(
                f"noise_std must be at least {LEAST_NOISE:g} x gain = {LEAST_NOISE * self.gain:g}. "
                f"Got {self.noise_std!r} instead."
            )

    @property
    def source_names(self) -> tuple[str, ...]:
        return ("x",)

    @property
    def target_names(self) -> tuple[str, ...]:
        return ("y",)

    def _trial(self, n_samples: int, generator: np.random.Generator) -> Floats:
        source, noise = generator.standard_normal((2, BURN_IN + n_samples))
        drive, noise = self.coupling * source, self.noise_std * noise
        target, value = [], 0.0
        for shift, added in zip([0.0, *drive[:-1].tolist()], noise.tolist(), strict=True):
            value = self.gain * math.sin(value + shift) + added
            target.append(value)
        return np.column_stack([source, target])[BURN_IN:]

    def _pair_value(self) -> float:
        # Without coupling the sum may end a rounding below zero.
        return max(0.0, self._moments[0])

    def _pair_variance(self) -> float:
        return self._moments[1] - self._moments[0] ** 2

    @cached_property
    def _moments(self) -> tuple[float, float]:
        return self._moments_of_local(refine=1)

    def _pair_local(self, present: Floats, target_past: Floats, source_past: Floats) -> Floats:
        values = np.empty_like(present)
        for start in range(0, len(present), CHUNK):
            part = slice(start, start + CHUNK)
            y, past, x = present[part, 0], target_past[part, 0], source_past[part, 0]
            known = self._log_noise(y - self.gain * np.sin(past + self.coupling * x))
            nodes, weights = self._source_nodes(refine=1)
            means = self.gain * np.sin(past[:, None] + self.coupling * nodes)
            values[part, 0] = known - logsumexp(self._log_noise(y[:, None] - means), axis=1, b=weights)
        return values

    def _log_noise(self, error: Floats) -> Floats:
        """The log density of the noise."""
        return -((error / self.noise_std) ** 2 + math.log(2 * math.pi * self.noise_std**2)) / 2

    def _source_nodes(self, refine: int) -> tuple[Floats, Floats]:
        """Nodes and weights of an expectation over ``X``: a step moves the mean by a quarter of the noise."""
        step = min(0.2, self.noise_std / (4 * self.gain * max(abs(self.coupling), 1e-9))) / refine
        nodes = np.linspace(-REACH, REACH, 2 * math.ceil(REACH / step) + 1)
        weights = np.exp(-(nodes**2) / 2)
        return nodes, weights / weights.sum()

    def _target_nodes(self, refine: int) -> Floats:
        """Equally spaced values that hold all but nothing of ``Y``, at most a fifth of the noise apart.

        Nor does a step move the mean of the next value by much more than the noise.
        """
        reach = self.gain + REACH * self.noise_std
        step = min(self.noise_std / 5, 1.2 * self.noise_std / self.gain, 0.2) / refine
        return np.linspace(-reach, reach, 2 * math.ceil(reach / step) + 1)

    def _moments_of_local(self, refine: int) -> tuple[float, float]:
        """The mean and the mean square of the local transfer entropy; ``refine`` divides all steps."""
        nodes, weights = self._source_nodes(refine)
        target = self._target_nodes(refine)
        step = target[1] - target[0]
        kernel = np.empty((len(target), len(target)))
        given_past = np.empty((len(target), 2))
        for column, past in enumerate(target):
            log_known = self._log_noise(target[:, None] - self.gain * np.sin(past + self.coupling * nodes))
            known = np.exp(log_known)
            kernel[:, column] = known @ weights
            # Far in the tails, where both densities underflow, the product below is 0 all the same.
            local = log_known - np.log(np.maximum(kernel[:, column], 1e-300))[:, None]
            given_past[column] = [step * ((known * local**power) @ weights).sum() for power in (1, 2)]
        mean, mean_square = _stationary(kernel * step) @ given_past
        return float(mean), float(mean_square)


def _stationary(transition: Floats) -> Floats:
    """The probabilities with ``transition p = p`` and ``sum p = 1``, for columns that add up to 1."""
    size = len(transition)
    return np.asarray(np.linalg.solve(np.eye(size) - transition + 1.0, np.ones(size)))
