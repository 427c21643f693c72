"""The long-run variance against a double loop and known series, and how often the interval covers."""

import doctest
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter

import treet.statistics.intervals
from treet.statistics.intervals import long_run_variance, normal_interval, standard_error


def autoregression(rng, coefficient, n):
    """Stationary, with unit innovations and the long-run variance 1 / (1 - coefficient)^2."""
    return lfilter([1.0], [1.0, -coefficient], rng.normal(size=n + 500))[500:]


def naive_long_run_variance(trials):
    """A sum over all pairs of values of one trial, the bandwidth from the two published rules."""
    values = np.concatenate(trials)
    values = values[~np.isnan(values)]
    n, mean = len(values), values.mean()
    square, neighbours, pairs = 0.0, 0.0, 0
    for trial in trials:
        for now in range(len(trial)):
            square += 0.0 if np.isnan(trial[now]) else (trial[now] - mean) ** 2
            if now > 0 and not np.isnan(trial[now] * trial[now - 1]):
                neighbours += (trial[now] - mean) * (trial[now - 1] - mean)
                pairs += 1
    r = neighbours / pairs / (square / n) if pairs else 0.0
    r = math.copysign(min(abs(r), 0.97), r)
    andrews = 1.1447 * (4 * r**2 / ((1 - r) ** 2 * (1 + r) ** 2) * n) ** (1 / 3)
    bandwidth = max(1, min(int(max(andrews, 4 * (n / 100) ** (2 / 9))), n // 2))
    total = 0.0
    for trial in trials:
        for s in range(len(trial)):
            for t in range(len(trial)):
                weight = max(0.0, 1 - abs(s - t) / (bandwidth + 1))
                product = (trial[s] - mean) * (trial[t] - mean)
                total += 0.0 if np.isnan(product) else weight * product
    return total / (n - 1)


@st.composite
def trials_with_gaps(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    coefficient = draw(st.sampled_from([-0.8, 0.0, 0.5, 0.99]))
    trials = [autoregression(rng, coefficient, n) for n in draw(st.lists(st.integers(0, 40), max_size=4))]
    trials.append(3.0 + autoregression(rng, coefficient, draw(st.integers(2, 40))))
    share = draw(st.sampled_from([0.0, 0.1, 0.5]))
    for trial in trials:
        trial[rng.random(len(trial)) < share] = np.nan
    trials[-1][:2] = [1.0, 2.0]
    return trials


@settings(deadline=None, max_examples=60)
@given(trials_with_gaps())
def test_the_long_run_variance_equals_the_double_loop(trials):
    expected = naive_long_run_variance(trials)
    assert long_run_variance(trials) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    n = sum((~np.isnan(trial)).sum() for trial in trials)
    assert standard_error(trials) == pytest.approx(math.sqrt(max(expected, 0) / n), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("coefficient", [-0.5, 0.0, 0.3, 0.5, 0.8])
def test_an_autoregression_has_its_known_long_run_variance(coefficient):
    series = autoregression(np.random.default_rng(0), coefficient, 400_000)
    assert long_run_variance([series]) == pytest.approx(1 / (1 - coefficient) ** 2, rel=0.1)


def test_white_noise_has_its_variance():
    white = 3.0 * np.random.default_rng(1).normal(size=100_000)
    assert long_run_variance([white]) == pytest.approx(9.0, rel=0.05)
    assert standard_error([white]) == pytest.approx(3.0 / math.sqrt(100_000), rel=0.03)


def test_a_series_whose_neighbours_are_uncorrelated_is_not_taken_for_white_noise():
    noise = np.random.default_rng(2).normal(size=100_002)
    assert long_run_variance([noise[2:] + noise[:-2]]) == pytest.approx(4.0, rel=0.1)


def test_trials_are_independent_of_each_other():
    """Constant within each trial: the trials' means decide, not the number of values."""
    rng = np.random.default_rng(3)
    levels = rng.normal(size=4000)
    trials = [np.full(5, level) for level in levels]
    assert standard_error(trials) == pytest.approx(1 / math.sqrt(4000), rel=0.1)
    assert long_run_variance(list(rng.normal(size=(2000, 5)))) == pytest.approx(1.0, rel=0.1)


def test_missing_values_widen_the_error_as_if_there_were_fewer():
    """Every other value of an AR(1) with coefficient a is an AR(1) with coefficient a^2."""
    series = autoregression(np.random.default_rng(4), 0.7, 200_000)
    thinned = series.copy()
    thinned[1::2] = np.nan
    assert standard_error([thinned]) == pytest.approx(standard_error([series[::2]]), rel=0.1)


def test_shift_and_scale():
    series = autoregression(np.random.default_rng(5), 0.4, 500)
    assert long_run_variance([7.0 - 3.0 * series]) == pytest.approx(9 * long_run_variance([series]))


def covered(coefficient, n, simulations=600):
    """How often the 95 % interval of the mean of an AR(1) holds its mean, zero."""
    rng = np.random.default_rng(6)
    hits = 0
    for _ in range(simulations):
        series = autoregression(rng, coefficient, n)
        low, high = normal_interval(series.mean(), standard_error([series]), 0.95)
        hits += low <= 0.0 <= high
    return hits / simulations


@pytest.mark.parametrize("coefficient", [-0.5, 0.0, 0.3, 0.5, 0.8])
def test_the_interval_of_a_mean_covers_about_as_often_as_it_says(coefficient):
    # At 0.8 the Newey-West bandwidth alone covers 83 %.
    least = 0.9 if coefficient < 0.8 else 0.88
    assert least <= covered(coefficient, 2000) <= 0.98


def test_degenerate_series():
    assert math.isnan(long_run_variance([]))
    assert math.isnan(long_run_variance([np.array([1.0]), np.array([np.nan])]))
    assert math.isnan(standard_error([np.array([1.0, np.nan])]))
    assert long_run_variance([np.full(50, 2.5)]) == 0.0
    assert standard_error([np.full(50, 2.5), np.array([])]) == 0.0
    # no two values are neighbours
    assert long_run_variance([np.array([1.0]), np.array([3.0, np.nan])]) == pytest.approx(2.0)


@pytest.mark.parametrize("values", [[1.0, np.inf, 2.0], [1.0, -np.inf, np.inf]])
def test_an_infinite_value_leaves_the_error_undefined(values):
    assert math.isnan(long_run_variance([np.array(values)]))
    assert math.isnan(standard_error([np.array(values)]))


def test_the_arrays_are_left_as_they_were():
    trial = np.array([1.0, np.nan, 3.0, 2.0])
    trial.flags.writeable = False
    long_run_variance([trial])
    np.testing.assert_array_equal(trial, [1.0, np.nan, 3.0, 2.0])


def test_the_normal_interval():
    assert normal_interval(2.0, 0.5, 0.95) == pytest.approx((2 - 0.97998, 2 + 0.97998), abs=1e-4)
    assert normal_interval(-1.0, 1.0, 0.6826894921) == pytest.approx((-2.0, 0.0), abs=1e-8)
    assert normal_interval(1.0, 0.0, 0.99) == (1.0, 1.0)
    assert all(math.isnan(end) for end in normal_interval(1.0, math.nan, 0.95))


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.statistics.intervals).failed == 0
