"""Water-filling: the capacity of Gaussian noise of any spectrum, and of parallel Gaussian channels.

Reference: Cover and Thomas, Elements of Information Theory, chapter 9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import quad
from scipy.optimize import brentq

from treet.capacity.noise import Floats
from treet.checks import check_number
from treet.errors import TreetError

Spectrum = Callable[[Floats], Floats]

TOLERANCE = 1e-9
"""The largest error in nats that a capacity may have."""

LOOKOUT = 4096
"""How many frequencies are looked at to find where the spectrum crosses the water level."""


def water_filling_capacity(spectrum: Spectrum, power: float, breaks: Sequence[float] = ()) -> float:
    """The capacity in nats a use of ``Y = X + Z``, ``Z`` Gaussian with ``spectrum``, ``E[X^2] <= power``.

    ``C = (1/2pi) int_0^pi log(max(nu, S) / S) dw`` with the water level ``nu`` from
    ``(1/pi) int_0^pi max(nu - S, 0) dw = power``, to 1e-9.

    ``spectrum``  ``S(w) >= 0`` for an array of frequencies in [0, pi]; ``S(-w) = S(w)``. The mean of ``S``
                  is the variance of the noise.
    ``breaks``    frequencies in (0, pi) where the spectrum jumps, has a kink or a sharp peak.

    >>> round(water_filling_capacity(lambda w: 1.25 + np.cos(w), power=1.0), 6)
    0.405465
    """
    check_number("power", power, above=0)
    marks = _marks(breaks)
    values = spectrum(np.linspace(0.0, math.pi, LOOKOUT))
    if np.shape(values) != (LOOKOUT,) or not (np.isfinite(values).all() and np.min(values) >= 0):
        raise TreetError(
            "spectrum must return one finite number of at least 0 for every frequency in [0, pi]. "
            "Check it at the frequencies np.linspace(0, np.pi, 4096)."
        )
    level = water_level(spectrum, power, marks)

    def integrand(frequency: float) -> float:
        return max(0.0, math.log(level) - math.log(max(_at(spectrum, frequency), 1e-300)))

    return _integral(integrand, _wet(spectrum, level, marks), TOLERANCE / 10) / (2 * math.pi)


def water_level(spectrum: Spectrum, power: float, breaks: Sequence[float] = ()) -> float:
    """The level ``nu`` with ``(1/pi) int_0^pi max(nu - S, 0) dw = power``.

    The level is at most ``power`` above the mean of the spectrum, so the root is bracketed from the start.
    """
    marks = _marks(breaks)

    def excess(level: float) -> float:
        pieces = _wet(spectrum, level, marks)
        return (
            _integral(lambda w: max(level - _at(spectrum, w), 0.0), pieces, 1e-12 * power) / math.pi - power
        )

    mean = _integral(lambda w: _at(spectrum, w), list(pairwise(marks)), TOLERANCE * power) / math.pi
    return float(brentq(excess, 0.0, (mean + power) * (1 + 1e-6), xtol=1e-14 * power, rtol=1e-15))


def parallel_capacity(noise_variances: ArrayLike, power: float) -> float:
    """The capacity in nats of parallel Gaussian channels that share ``power``: a vector channel.

    ``C = sum_i log(max(nu, N_i) / N_i) / 2`` with ``sum_i max(nu - N_i, 0) = power``. Noise with a
    covariance matrix is parallel channels with its eigenvalues.

    >>> round(parallel_capacity([1.0, 4.0], power=2.0), 6)
    0.549306
    """
    check_number("power", power, above=0)
    noise = np.sort(np.array(noise_variances, dtype=np.float64).ravel())
    if noise.size == 0 or not np.isfinite(noise).all() or noise[0] <= 0:
        raise TreetError("noise_variances must be one or more finite numbers above 0.")
    levels = (power + np.cumsum(noise)) / np.arange(1, noise.size + 1)
    level = levels[np.flatnonzero(levels > noise)[-1]]
    return float(np.log(np.maximum(level / noise, 1.0)).sum() / 2)


def _at(spectrum: Spectrum, frequency: float) -> float:
    return float(spectrum(np.array([frequency]))[0])


def _marks(breaks: Sequence[float]) -> list[float]:
    """0, the breaks and pi in order."""
    for frequency in breaks:
        check_number("breaks", frequency, above=-1e-12, below=math.pi + 1e-12)
    inner = {float(frequency) for frequency in breaks if 0 < frequency < math.pi}
    return [0.0, *sorted(inner), math.pi]


def _wet(spectrum: Spectrum, level: float, marks: Sequence[float]) -> list[tuple[float, float]]:
    """The intervals in which the spectrum is below ``level``, cut at ``marks``."""
    looked_at = np.union1d(np.linspace(0.0, math.pi, LOOKOUT), marks)
    below = spectrum(looked_at) < level
    crossings = [
        float(brentq(lambda w: _at(spectrum, w) - level, looked_at[i], looked_at[i + 1], xtol=1e-14))
        for i in np.flatnonzero(below[1:] != below[:-1])
    ]
    pieces = pairwise(sorted({*marks, *crossings}))
    return [(a, b) for a, b in pieces if _at(spectrum, (a + b) / 2) < level]


def _integral(function: Callable[[float], float], pieces: list[tuple[float, float]], error: float) -> float:
    total, doubt = 0.0, 0.0
    for start, end in pieces:
        value, uncertain, *_ = quad(
            function, start, end, epsabs=error, epsrel=1e-13, limit=500, full_output=1
        )
        total, doubt = total + value, doubt + uncertain
    if doubt > max(10 * error * len(pieces), 1e-10 * abs(total)):
        raise TreetError(
            f"The spectrum could not be integrated: the error may be {doubt:.1e}. "
            "Name the frequencies where it jumps or peaks in breaks."
        )
    return total
