"""Peak-limited channels: certified gaps, published structure, bounds with a formula, and brute force."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm, poisson

from treet.capacity.blahut_arimoto import discrete_capacity
from treet.capacity.closed_form import (
    awgn_capacity,
    mckellips_bound,
    poisson_lower_bound,
    poisson_upper_bound,
)
from treet.capacity.mass_points import amplitude_capacity, poisson_capacity
from treet.errors import TreetError


@pytest.mark.parametrize("peak", [0.3, 1.0, 1.6, 2.5])
def test_blahut_and_arimoto_on_a_grid_agree_for_gaussian_noise(peak: float) -> None:
    inputs = np.linspace(-peak, peak, 41)
    edges = np.concatenate([[-np.inf], np.linspace(-peak - 6, peak + 6, 1201), [np.inf]])
    law = np.diff(norm.cdf(edges[None] - inputs[:, None]), axis=1)
    expected = discrete_capacity(law / law.sum(axis=1, keepdims=True), tolerance=2e-4)
    found = amplitude_capacity(peak)
    assert expected.lower - 1e-5 < found.value < expected.upper + 2e-4


@pytest.mark.parametrize(("peak", "dark"), [(2.0, 0.5), (5.0, 0.0), (12.0, 1.0)])
def test_blahut_and_arimoto_on_a_grid_agree_for_photons(peak: float, dark: float) -> None:
    inputs = np.linspace(0, peak, 61)
    law = poisson.pmf(np.arange(80), inputs[:, None] + dark)
    expected = discrete_capacity(law / law.sum(axis=1, keepdims=True), tolerance=2e-4)
    found = poisson_capacity(peak, dark)
    assert expected.lower - 1e-6 < found.value < expected.upper + 2e-4


@pytest.mark.parametrize(("peak", "power"), [(0.5, None), (2.0, None), (6.0, None), (2.0, 1.0), (8.0, 1.0)])
def test_gaussian_bounds_are_certified_and_kept(peak: float, power: float | None) -> None:
    found = amplitude_capacity(peak, power=power)
    assert 0 <= found.gap <= 1e-6
    assert found.upper < mckellips_bound(peak) + 1e-9
    assert np.abs(found.inputs).max() <= peak
    assert found.probabilities.sum() == pytest.approx(1.0)
    if power is not None:
        assert found.lower < awgn_capacity(power)
        assert found.probabilities @ found.inputs**2 <= power * (1 + 1e-4)


def test_two_mass_points_are_best_up_to_the_known_peak() -> None:
    """Sharma and Shamai: two points up to A = 1.665, three up to about 2.786."""
    for peak, points in ((1.0, 2), (1.64, 2), (1.69, 3), (2.5, 3)):
        clusters = amplitude_capacity(peak, tolerance=1e-8)
        apart = np.diff(clusters.inputs) > 0.1 * peak
        assert 1 + apart.sum() == points


def test_two_mass_points_have_an_integral() -> None:
    """A = 1: the information of a fair bit, by quadrature."""
    y = np.linspace(-10, 10, 4001)
    mixture = (norm.pdf(y - 1) + norm.pdf(y + 1)) / 2
    expected = -float((mixture * np.log(mixture)).sum() * (y[1] - y[0])) - math.log(2 * math.pi * math.e) / 2
    assert amplitude_capacity(1.0).value == pytest.approx(expected, abs=1e-6)


def test_limits_and_scales() -> None:
    assert amplitude_capacity(8.0, power=1.0).value == pytest.approx(awgn_capacity(1.0), abs=2e-6)
    assert amplitude_capacity(2.0, power=4.0).value == pytest.approx(amplitude_capacity(2.0).value, abs=1e-6)
    assert amplitude_capacity(30.0, std=10.0).value == pytest.approx(amplitude_capacity(3.0).value, abs=1e-6)
    values = [amplitude_capacity(peak).value for peak in (0.5, 1.0, 2.0, 4.0)]
    assert all(a < b for a, b in pairwise(values))


@pytest.mark.parametrize(
    ("peak", "dark", "mean"), [(0.5, 2.0, None), (5.0, 0.1, None), (10.0, 1.0, 2.0), (60.0, 1.0, None)]
)
def test_photon_bounds(peak: float, dark: float, mean: float | None) -> None:
    found = poisson_capacity(peak, dark, mean)
    assert 0 <= found.gap <= 1e-6
    assert found.upper <= poisson_upper_bound(peak, dark, mean)
    if mean is None:
        assert poisson_lower_bound(peak, dark) < found.lower
    else:
        assert found.probabilities @ found.inputs <= mean * (1 + 1e-4)
        assert found.value < poisson_capacity(peak, dark).value - 0.05


def test_photons_without_dark_current_in_a_weak_slot_are_a_z_channel() -> None:
    """At a low peak nothing or everything is sent; nothing always gives no photon."""
    peak = 1.0
    p = math.exp(-peak)
    expected = math.log(1 + (1 - p) * p ** (p / (1 - p)))
    assert poisson_capacity(peak).value == pytest.approx(expected, abs=1e-6)


def test_bounds_close_in_at_low_and_high_peaks() -> None:
    assert poisson_upper_bound(0.01, 1.0) == pytest.approx(
        poisson_capacity(0.01, 1.0, tolerance=1e-9).value * 2, rel=0.01
    )
    gaps = [poisson_capacity(peak).value - poisson_lower_bound(peak) for peak in (5.0, 50.0, 200.0)]
    assert gaps[0] > gaps[1] > gaps[2] > 0
    assert gaps[2] < 0.2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: amplitude_capacity(0.0), "peak must be a finite number above 0"),
        (lambda: amplitude_capacity(1.0, std=0.0), "std must be"),
        (lambda: amplitude_capacity(1.0, power=0.0), "power must be"),
        (lambda: amplitude_capacity(1.0, tolerance=0.0), "tolerance must be"),
        (lambda: amplitude_capacity(51.0), "peak must be at most 50 noise standard deviations. Got 51"),
        (lambda: poisson_capacity(1.0, -0.5), "dark must be"),
        (lambda: poisson_capacity(1.0, 0.5, mean=-1.0), "mean must be"),
        (lambda: poisson_capacity(2000.0), "peak + dark must be at most 1000 photons. Got 2000"),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with pytest.raises(TreetError) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value).startswith(message)
