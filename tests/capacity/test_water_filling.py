"""Water-filling against the exact table, brute force on a fine grid, and spectra with a closed form."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from treet.capacity.closed_form import awgn_capacity
from treet.capacity.noise import ArmaNoise
from treet.capacity.water_filling import parallel_capacity, water_filling_capacity, water_level
from treet.errors import TreetError


def by_midpoints(noise: ArmaNoise, power: float, count: int = 400_000) -> float:
    """Sums over a midpoint grid; the level from sorting, without a search."""
    spectrum = np.sort(noise.spectrum((np.arange(count) + 0.5) * math.pi / count))
    levels = (power * count + np.cumsum(spectrum)) / np.arange(1, count + 1)
    level = levels[np.flatnonzero(levels > spectrum)[-1]]
    return float(np.log(np.maximum(level / spectrum, 1)).mean() / 2)


NOISES = [
    ArmaNoise(ma=(0.5,)),
    ArmaNoise(ma=(-0.9, 0.5), variance=2.0),
    ArmaNoise(ar=(0.5,)),
    ArmaNoise(ar=(0.9, -0.8)),
    ArmaNoise(ar=(0.3,), ma=(0.4, 0.8)),
]


@pytest.mark.parametrize(("noise", "power"), list(product(NOISES, (0.01, 0.3, 5.0))))
def test_against_a_fine_grid(noise: ArmaNoise, power: float) -> None:
    found = water_filling_capacity(noise.spectrum, power, noise.breaks)
    assert found == pytest.approx(by_midpoints(noise, power), abs=1e-8)


def test_a_spectrum_that_is_all_under_water_has_a_formula() -> None:
    """The mean of log S is the log of the innovation variance (Szego)."""
    noise = ArmaNoise(ma=(0.5,), variance=2.0)
    expected = 0.5 * math.log((20 + 2.5) / 2)
    assert water_filling_capacity(noise.spectrum, 20.0) == pytest.approx(expected, abs=1e-10)


def test_white_noise() -> None:
    white = ArmaNoise(variance=3.0).spectrum
    assert water_filling_capacity(white, 2.0) == pytest.approx(awgn_capacity(2.0, 3.0), abs=1e-12)
    assert water_level(white, 2.0) == pytest.approx(5.0)


def test_a_low_level_next_to_a_quadratic_minimum() -> None:
    """Near w = pi, MA(1): S = m + a d^2, so power = (2 / 3 pi) e sqrt(e / a) for an excess e."""
    noise = ArmaNoise(ma=(0.5,))
    power = 1e-7
    excess = (power * 3 * math.pi / 2 * math.sqrt(0.5)) ** (2 / 3)
    assert water_level(noise.spectrum, power) - 0.25 == pytest.approx(excess, rel=1e-3)


def test_bands_with_jumps_are_parallel_channels() -> None:
    def bands(w: np.ndarray) -> np.ndarray:
        return np.where(w < 1.0, 1.0, 4.0)

    share = 1 / math.pi
    power = 2.0
    level = (power + share * 1 + (1 - share) * 4) if power > share * 3 else 1 + power / share
    expected = (share * math.log(level) + (1 - share) * math.log(level / 4)) / 2
    assert water_filling_capacity(bands, power, breaks=[1.0]) == pytest.approx(expected, abs=1e-10)


def test_a_sharp_resonance_and_a_zero_on_the_circle() -> None:
    sharp = ArmaNoise(ar=(2 * 0.999 * math.cos(1.0), -(0.999**2)))
    found = water_filling_capacity(sharp.spectrum, 1.0, sharp.breaks)
    assert found == pytest.approx(by_midpoints(sharp, 1.0), abs=1e-6)
    zero = ArmaNoise(ma=(-2 * math.cos(1.0), 1.0))
    # All under water: the mean of log S is 0 although S is 0 at w = 1.
    expected = 0.5 * math.log(20 + 1 + 1 + 4 * math.cos(1.0) ** 2)
    assert water_filling_capacity(zero.spectrum, 20.0, zero.breaks) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("scale", [1e-6, 1e5])
def test_scaling_power_and_noise_changes_nothing(scale: float) -> None:
    noise, scaled = ArmaNoise(ma=(0.5,)), ArmaNoise(ma=(0.5,), variance=scale)
    expected = water_filling_capacity(noise.spectrum, 0.3)
    assert water_filling_capacity(scaled.spectrum, 0.3 * scale) == pytest.approx(expected, abs=1e-9)


def test_parallel_channels() -> None:
    assert parallel_capacity([2.0], 3.0) == pytest.approx(0.5 * math.log(2.5))
    assert parallel_capacity([1.0] * 4, 2.0) == pytest.approx(2 * math.log(1.5))
    assert parallel_capacity([5.0, 1.0, 9.0], 4.0) == pytest.approx(0.5 * math.log(5))
    noise = np.random.default_rng(0).uniform(0.1, 3, 6)
    found = parallel_capacity(noise, 2.5)
    shares = np.random.default_rng(1).dirichlet(np.full(6, 0.5), 20_000) * 2.5
    others = 0.5 * np.log1p(shares / noise).sum(axis=1)
    assert others.max() < found < others.max() + 0.05


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: water_filling_capacity(lambda w: w - 1, 1.0), "spectrum must return one finite number"),
        (lambda: water_filling_capacity(lambda w: 1.0, 1.0), "spectrum must return one finite number"),
        (lambda: water_filling_capacity(lambda w: 1 + w, 0.0), "power must be a finite number above 0"),
        (lambda: water_filling_capacity(lambda w: 1 + w, 1.0, [4.0]), "breaks must be"),
        (lambda: parallel_capacity([1.0, 0.0], 1.0), "noise_variances must be"),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with pytest.raises(TreetError) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value).startswith(message)
