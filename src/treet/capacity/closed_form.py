"""Capacities that have a formula, in nats a channel use."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq, minimize_scalar
from scipy.special import entr

from treet.checks import check_number, check_whole
from treet.errors import TreetError


def awgn_capacity(power: float, variance: float = 1.0, dimension: int = 1) -> float:
    """White Gaussian noise: ``C = (d/2) log(1 + power / variance)``.

    ``power`` bounds ``E|X|^2`` and ``variance`` is ``E|Z|^2``: both are shared over the ``d`` components.

    >>> round(awgn_capacity(1.0, dimension=4), 6)
    1.386294
    """
    check_number("power", power, above=0)
    check_number("variance", variance, above=0)
    return check_whole("dimension", dimension, 1) / 2 * math.log1p(power / variance)


def arma_feedback_capacity(power: float, ar: float = 0.0, ma: float = 0.0, variance: float = 1.0) -> float:
    """The feedback capacity of ``Z_t = ar Z_{t-1} + N_t + ma N_{t-1}``, ``N_t ~ N(0, variance)``.

    ``C = -log x`` with the one root in (0, 1) of
    ``P x^2 = (1 - x^2) (1 + s ma x)^2 / (1 - s ar x)^2``, ``s = sign(-ar - ma)``, ``P = power / variance``:
    ``(1 - x^2) (1 - |ma| x)^2`` for MA(1) and ``(1 - x^2) / (1 + |ar| x)^2`` for AR(1). Reference: Kim,
    Feedback capacity of stationary Gaussian channels, IEEE Trans. Inf. Theory 56 (2010). A filter with
    ``|ma| > 1`` has the spectrum of that with ``1 / ma`` and ``ma^2`` times the variance.

    >>> round(arma_feedback_capacity(1.0, ma=0.5), 6), round(arma_feedback_capacity(1.0, ar=0.5), 6)
    (0.546191, 0.496815)
    """
    check_number("power", power, above=0)
    check_number("ar", ar, above=-1, below=1)
    check_number("ma", ma)
    check_number("variance", variance, above=0)
    if abs(ma) > 1:
        return arma_feedback_capacity(power, ar, 1 / ma, variance * ma**2)
    sign = math.copysign(1.0, -ar - ma)

    def excess(x: float) -> float:
        shaped = (1 - x**2) * ((1 + sign * ma * x) / (1 - sign * ar * x)) ** 2
        return power / variance * x**2 - shaped

    return -math.log(brentq(excess, 0.0, 1.0, xtol=1e-16, rtol=1e-15))


def binary_entropy(p: float) -> float:
    """``-p log p - (1 - p) log(1 - p)`` in nats."""
    return float(entr(p) + entr(1 - p))


def bsc_capacity(flip: float) -> float:
    """The binary symmetric channel, with or without feedback: ``C = log 2 - H(flip)``."""
    check_probability("flip", flip)
    return math.log(2) - binary_entropy(flip)


def bec_capacity(erasure: float) -> float:
    """The binary erasure channel, with or without feedback: ``C = (1 - erasure) log 2``."""
    check_probability("erasure", erasure)
    return (1 - erasure) * math.log(2)


def bec_no_two_ones_feedback_capacity(erasure: float) -> float:
    """The binary erasure channel with feedback whose input never has two ones in a row.

    ``C = max_p H(p) / (p + 1 / (1 - erasure))`` over p in [0, 1/2]. Reference: Sabag, Permuter and Kashyap,
    The feedback capacity of the binary erasure channel with a no-consecutive-ones input constraint, IEEE
    Trans. Inf. Theory 62 (2016).

    >>> round(bec_no_two_ones_feedback_capacity(0.0), 6)  # the golden ratio's log
    0.481212
    """
    check_probability("erasure", erasure)
    if erasure == 1:
        return 0.0
    return _largest(lambda p: binary_entropy(p) / (p + 1 / (1 - erasure)), 0.5)


def trapdoor_feedback_capacity() -> float:
    """The trapdoor channel with feedback: the log of the golden ratio.

    Reference: Permuter, Cuff, Van Roy and Weissman, Capacity of the trapdoor channel with feedback, IEEE
    Trans. Inf. Theory 54 (2008).
    """
    return math.log((1 + math.sqrt(5)) / 2)


def ising_feedback_capacity() -> float:
    """The Ising channel with feedback: ``C = max_p 2 H(p) / (3 + p)``, 0.5755 bits.

    Reference: Elishco and Permuter, Capacity and coding for the Ising channel with feedback, IEEE Trans.
    Inf. Theory 60 (2014).
    """
    return _largest(lambda p: 2 * binary_entropy(p) / (3 + p), 1.0)


def mckellips_bound(peak: float, std: float = 1.0) -> float:
    """An upper bound on white Gaussian noise with ``|x| <= peak``.

    ``min(log(1 + 2 A / sqrt(2 pi e)), log(1 + A^2) / 2)``, ``A = peak / std``. Reference: McKellips, Simple
    tight bounds on capacity for the peak-limited discrete-time channel, ISIT 2004.
    """
    check_number("peak", peak, above=0)
    check_number("std", std, above=0)
    amplitude = peak / std
    return min(math.log1p(2 * amplitude / math.sqrt(2 * math.pi * math.e)), math.log1p(amplitude**2) / 2)


def poisson_lower_bound(peak: float, dark: float = 0.0) -> float:
    """A lower bound on the Poisson channel ``Y ~ Poisson(x + dark)``, ``0 <= x <= peak``.

    The information that ``x = peak U^2``, ``U`` uniform, is sure to give: with ``E = peak / 3`` and
    ``b^2 = (dark + 1/12) / peak``, ``log(peak) / 2 - log(pi e / 2) / 2 + (1 + E) log(1 + 1/E) - 1
    - log(1 + b^2) / 2 - b arctan(1/b)``. Reference: Lapidoth and Moser, On the capacity of the discrete-time
    Poisson channel, IEEE Trans. Inf. Theory 55 (2009), whose method this is, without their last
    simplification of the terms in ``b``. It is tight for a high peak.
    """
    _check_poisson(peak, dark)
    mean, b = peak / 3, math.sqrt((dark + 1 / 12) / peak)
    smoothed = (1 + mean) * math.log1p(1 / mean) - 1
    spread = math.log1p(b**2) / 2 + b * math.atan(1 / b)
    return max(0.0, (math.log(peak) - math.log(math.pi * math.e / 2)) / 2 + smoothed - spread)


def poisson_upper_bound(peak: float, dark: float, mean: float | None = None) -> float:
    """An upper bound on the Poisson channel with ``E[x] <= mean``: ``p (1 - p) peak log(1 + peak / dark)``.

    ``p = min(mean / peak, 1/2)``. It bounds the information by its symmetric form
    ``cov(x, log(x + dark))``, and is tight for a low peak. Reference: Aminian, Arjmandi, Gohari,
    Nasiri-Kenari and Mitra, Capacity of diffusion-based molecular communication networks over LTI-Poisson
    channels, IEEE Trans. Mol. Biol. Multi-Scale Commun. 1 (2015).
    """
    _check_poisson(peak, dark)
    if dark == 0:
        return math.inf
    share = 0.5 if mean is None else min(mean / peak, 0.5)
    return share * (1 - share) * peak * math.log1p(peak / dark)


def check_probability(name: str, value: float) -> None:
    """Raise unless ``0 <= value <= 1``."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise TreetError(f"{name} must be a probability, from 0 to 1. Got {value!r} instead.")


def _check_poisson(peak: float, dark: float) -> None:
    check_number("peak", peak, above=0)
    check_number("dark", dark, above=-math.ulp(0.0))


def _largest(function: Callable[[float], float], end: float) -> float:
    """The maximum over (0, end) of a function with one maximum."""
    found = minimize_scalar(
        lambda p: -function(p), bounds=(0.0, end), method="bounded", options={"xatol": 1e-10}
    )
    return -float(found.fun)
