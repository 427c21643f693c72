"""The process with Student noise against closed forms, adaptive quadrature and its own recursion."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import kstest
from scipy.stats import t as student

from treet.errors import TreetError
from treet.lags import Lags
from treet.processes import HeavyTailed

LAGS = Lags(2, 2)


@settings(max_examples=20, deadline=None)
@given(coupling=st.floats(-20, 20), noise_scale=st.floats(0.05, 20), decay=st.floats(-0.9, 0.9))
def test_cauchy_noise_has_a_closed_form(coupling: float, noise_scale: float, decay: float) -> None:
    process = HeavyTailed(1.0, coupling, decay, noise_scale)
    expected = math.log1p(abs(coupling) / noise_scale)
    assert process.transfer_entropy(LAGS) == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize(("coupling", "noise_scale"), [(0.8, 1.0), (-2.0, 0.5)])
def test_much_freedom_approaches_gaussian_noise(coupling: float, noise_scale: float) -> None:
    gaussian = math.log1p((coupling / noise_scale) ** 2) / 2
    distances = [
        abs(HeavyTailed(freedom, coupling, 0.5, noise_scale).transfer_entropy(LAGS) - gaussian)
        for freedom in (3, 30, 300, 99_999)
    ]
    assert sorted(distances, reverse=True) == distances
    assert distances[0] > 1e-2
    assert distances[-1] < 1e-8


def student_density(freedom: float) -> float:
    return math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)


@pytest.mark.parametrize(("freedom", "coupling"), [(3.0, 0.8), (2.0, -1.5), (6.5, 0.4)])
def test_value_by_convolution(freedom: float, coupling: float) -> None:
    """``h(coupling X + E) - h(E)`` with the density of the sum as the convolution integral."""
    top, power = student_density(freedom), -(freedom + 1) / 2

    def density(value: float) -> float:
        return top * (1 + value * value / freedom) ** power

    def of_sum(value: float) -> float:
        def integrand(x: float) -> float:
            return density(x) * density(value - coupling * x)

        middle = sorted((0.0, value / coupling))
        ends = [-math.inf, middle[0] - 3, *middle, middle[1] + 3, math.inf]
        pieces = pairwise(ends)
        return sum(
            quad(integrand, low, high, epsabs=0, epsrel=1e-9, full_output=1)[0]
            for low, high in pieces
            if low < high
        )

    u = np.arange(0, 14, 0.1)
    densities = np.array([of_sum(math.sinh(node)) for node in u])
    terms = -densities * np.log(densities) * np.cosh(u)
    entropy = 2 * 0.1 * (terms.sum() - terms[0] / 2)
    expected = entropy - student.entropy(freedom)
    value = HeavyTailed(freedom, coupling, noise_scale=1.0).transfer_entropy(LAGS)
    assert value == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("freedom", [0.7, 1.0, 2.0, 40.0])
def test_finer_steps_change_nothing(freedom: float) -> None:
    process = HeavyTailed(freedom)
    assert process._entropy_of_sum(refine=1) == pytest.approx(process._entropy_of_sum(refine=2), abs=1e-8)


def test_only_the_ratio_of_coupling_and_noise_matters() -> None:
    value = HeavyTailed(3, 0.8, 0.5, 1.0).transfer_entropy(LAGS)
    assert HeavyTailed(3, -0.8, 0.5, 1.0).transfer_entropy(LAGS) == pytest.approx(value, abs=1e-12)
    assert HeavyTailed(3, 80, -0.2, 100).transfer_entropy(LAGS) == pytest.approx(value, abs=1e-8)
    assert HeavyTailed(3, 0.8, 0.0, 0.5).transfer_entropy(LAGS) > value + 0.1


@pytest.mark.parametrize("freedom", [0.6, 1.0, 3.0, 50.0, 5e4])
def test_no_coupling_is_zero_and_never_below(freedom: float) -> None:
    value = HeavyTailed(freedom, coupling=0.0).transfer_entropy(LAGS)
    assert value == pytest.approx(0, abs=1e-9)
    assert value >= 0


def test_where_the_value_is_zero() -> None:
    process = HeavyTailed()
    assert process.transfer_entropy(Lags(2, 3, delay=2)) == 0
    assert process.transfer_entropy(Lags(2, 1, delay=0)) == 0
    assert process.transfer_entropy(Lags(2, 5, delay=0), "y", "x") == 0
    for lags in (Lags(1, 1), Lags(9, 1), Lags.from_memory(4)):
        assert process.transfer_entropy(lags) == process.transfer_entropy(LAGS) > 0.3


@pytest.mark.parametrize("decay", [0.5, 0.0, -0.9])
def test_samples_follow_the_recursion(decay: float) -> None:
    """What the recursion leaves is Student noise, and is independent of the source at every lag seen."""
    process = HeavyTailed(freedom=3, coupling=0.8, decay=decay, noise_scale=0.4)
    x, y = process.sample(20_000, random_state=3).trials[0].T
    noise = (y[1:] - decay * y[:-1] - 0.8 * x[:-1]) / 0.4
    assert kstest(x, student(3).cdf).pvalue > 1e-3
    assert kstest(noise, student(3).cdf).pvalue > 1e-3
    for lag in (0, 1, 2):
        signs = np.sign(noise[2:]) * np.sign(x[3 - lag : len(x) - lag])
        assert abs(signs.mean()) < 4 / math.sqrt(len(signs))


def test_the_first_value_has_seen_the_source_before_it() -> None:
    """Without decay the first target is drive and noise of the step before: wider than the noise alone."""
    process = HeavyTailed(freedom=1, coupling=3.0, decay=0.0, noise_scale=1.0)
    first = np.array([trial[0, 1] for trial in process.sample(1, random_state=1, n_trials=2000).trials])
    assert kstest(first, student(1, scale=4.0).cdf).pvalue > 1e-3


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"freedom": 0.5}, "freedom must be a finite number above 0.5 and below 100000. Got 0.5 instead"),
        ({"freedom": math.inf}, "freedom must be"),
        ({"freedom": 1e9}, "freedom must be a finite number above 0.5 and below 100000"),
        ({"coupling": math.nan}, "coupling must be a finite number. Got nan"),
        ({"decay": 1.0}, "decay must be a finite number above -1 and below 1. Got 1.0"),
        ({"noise_scale": 0}, "noise_scale must be a finite number above 0. Got 0"),
    ],
)
def test_bad_parameters(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(TreetError, match=message):
        HeavyTailed(**parameters)
