"""Linear coupling with Student noise: outliers in the source and in the target."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.signal import lfilter
from scipy.special import entr, gammaln
from scipy.stats import t as student

from treet.checks import check_number
from treet.processes.base import Floats
from treet.processes.driven import Driven

STEP = 0.4
"""The step of the quadrature over the logarithm of a precision."""

MOST_FREEDOM = 1e5
"""More degrees of freedom are a normal distribution, and cost the quadrature digits."""

NEGLIGIBLE = 32.0
"""Densities are followed until they have fallen by ``exp(-NEGLIGIBLE)``."""


@dataclass(frozen=True)
class HeavyTailed(Driven):
    """``Y_t = decay Y_{t-1} + coupling X_{t-1} + noise_scale E_t`` with Student ``X`` and ``E``.

    Both have ``freedom`` degrees of freedom and are independent. Given its own past the target is
    ``coupling X + noise_scale E`` about a known centre, so
    ``TE = h(coupling X + noise_scale E) - h(noise_scale E)`` for all lags that hold source lag 1. The second
    entropy has a closed form. For the first, a Student variable is a normal one of random precision ``W``
    (Gamma): the density is ``E N(0, coupling^2 / W_1 + noise_scale^2 / W_2)``, a double trapezoid sum over
    the logarithms of the precisions, and the entropy a trapezoid sum over the inverse hyperbolic sine of the
    value; accurate to 1e-8. With ``freedom = 1`` (Cauchy) it is ``log(1 + |coupling| / noise_scale)``. The
    local values are not given.

    >>> from treet.lags import Lags
    >>> round(HeavyTailed(freedom=1, coupling=0.5).transfer_entropy(Lags(5, 5)), 4)
    0.4055
    """

    freedom: float = 3.0
    coupling: float = 0.8
    decay: float = 0.5
    noise_scale: float = 1.0

    def __post_init__(self) -> None:
        check_number("freedom", self.freedom, above=0.5, below=MOST_FREEDOM)
        check_number("coupling", self.coupling)
        check_number("decay", self.decay, above=-1, below=1)
        check_number("noise_scale", self.noise_scale, above=0)

    @property
    def source_names(self) -> tuple[str, ...]:
        return ("x",)

    @property
    def target_names(self) -> tuple[str, ...]:
        return ("y",)

    def _trial(self, n_samples: int, generator: np.random.Generator) -> Floats:
        # After the burn-in the weight of the arbitrary start is below exp(-NEGLIGIBLE).
        burn_in = 1 if self.decay == 0 else math.ceil(-NEGLIGIBLE / math.log(abs(self.decay))) + 1
        source, noise = generator.standard_t(self.freedom, (2, burn_in + n_samples))
        drive = self.noise_scale * noise
        drive[1:] += self.coupling * source[:-1]
        target = lfilter([1.0], [1.0, -self.decay], drive)
        return np.column_stack([source, target])[burn_in:]

    def _pair_value(self) -> float:
        # Without coupling the difference may end a rounding below zero.
        return max(0.0, self._value)

    @cached_property
    def _value(self) -> float:
        return self._entropy_of_sum() - float(student.entropy(self.freedom)) - math.log(self.noise_scale)

    def _entropy_of_sum(self, refine: int = 1) -> float:
        """``h(coupling X + noise_scale E)``, twice that of one half; ``refine`` divides the steps."""
        scale = abs(self.coupling) + self.noise_scale
        step = STEP / (4 * refine)
        u = np.arange(0, NEGLIGIBLE / self.freedom + 4, step)
        weight = step * scale * np.cosh(u)
        weight[0] /= 2
        return 2 * float(weight @ entr(self._density_of_sum(scale * np.sinh(u), refine)))

    def _density_of_sum(self, values: Floats, refine: int) -> Floats:
        """The density of ``coupling X + noise_scale E``."""
        precision, weight = self._precisions(refine)
        variance = (self.coupling**2 / precision[:, None] + self.noise_scale**2 / precision).ravel()
        share = (weight[:, None] * weight).ravel() / np.sqrt(2 * math.pi * variance)
        halves = -0.5 / variance
        return np.array([share @ np.exp(halves * value**2) for value in values])

    def _precisions(self, refine: int) -> tuple[Floats, Floats]:
        """Nodes and weights of an expectation over ``W ~ Gamma(freedom / 2, rate freedom / 2)``."""
        half = self.freedom / 2
        # The logarithm of W has a standard deviation of about 1 / sqrt(half) where freedom is large.
        step = min(STEP, 0.4 / math.sqrt(half)) / refine
        u = np.arange(-NEGLIGIBLE / half - 8, 6, step)
        log_density = half * (u + math.log(half)) - half * np.exp(u) - float(gammaln(half))
        u, log_density = (array[log_density > -NEGLIGIBLE - 10] for array in (u, log_density))
        return np.exp(u), step * np.exp(log_density)
