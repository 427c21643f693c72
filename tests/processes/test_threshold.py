"""The threshold process against its closed forms, a plain loop and plug-in counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, norm

from treet.errors import TreetError
from treet.lags import Lags
from treet.processes import Threshold

EXACT = [
    (-3, 0.829245, 0.80984),
    (-2, 0.811475, 0.80690),
    (-1, 0.698624, 0.77353),
    (0, 0.415183, 0.57738),
    (1, 0.131742, 0.22055),
    (2, 0.018891, 0.03376),
    (3, 0.001121, 0.00202),
]


@pytest.mark.parametrize(("threshold", "value", "variance"), EXACT)
def test_known_values(threshold: float, value: float, variance: float) -> None:
    process = Threshold(threshold=threshold)
    for lags in (Lags(1, 1), Lags.from_memory(1), Lags.from_memory(30), Lags(7, 2)):
        assert process.transfer_entropy(lags) == pytest.approx(value, abs=5e-7)
        assert process.local_variance(lags) == pytest.approx(variance, abs=5e-6)


@pytest.mark.parametrize(("rho", "threshold"), [(0.9, 0.0), (-0.5, 1.2), (0.3, -0.7)])
def test_value_by_quadrature(rho: float, threshold: float) -> None:
    """``E[log p(y | x, high) / p(y)]`` by the densities as they are; and ``p(y)`` is standard normal."""
    std = math.sqrt(1 - rho**2)
    x, y = np.linspace(-9, 9, 1201)[:, None], np.linspace(-13, 13, 1601)
    cell = (x[1, 0] - x[0, 0]) * (y[1] - y[0])
    joint = norm.pdf(x) * norm.pdf(y, rho * x, std)
    information = cell * np.sum(joint * (norm.logpdf(y, rho * x, std) - norm.logpdf(y)))
    expected = information * norm.sf(threshold)
    assert Threshold(rho, threshold).transfer_entropy(Lags(1, 1)) == pytest.approx(expected, abs=1e-10)
    np.testing.assert_allclose(joint.sum(axis=0) * (x[1, 0] - x[0, 0]), norm.pdf(y), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    rho=st.floats(-0.99, 0.99),
    threshold=st.floats(-3, 3),
    copies=st.integers(1, 3),
    redundant=st.integers(0, 2),
    seed=st.integers(0, 10_000),
)
def test_samples_equal_a_plain_loop(
    rho: float, threshold: float, copies: int, redundant: int, seed: int
) -> None:
    n_samples = 70
    process = Threshold(rho, threshold, copies, redundant)
    values = process.sample(n_samples, random_state=seed).trials[0]
    generator = np.random.default_rng(seed)
    source = generator.standard_normal((n_samples, copies + redundant))
    noise = generator.standard_normal((n_samples, copies))
    target = noise.copy()
    for t in range(1, n_samples):
        for copy in range(copies):
            if target[t - 1, copy] >= threshold:
                drive = rho * source[t - 1, copy]
                target[t, copy] = drive + math.sqrt(1 - rho**2) * noise[t, copy]
    np.testing.assert_array_equal(values[:, : copies + redundant], source)
    np.testing.assert_allclose(values[:, copies + redundant :], target, rtol=1e-14)


def test_the_target_alone_is_white_and_standard_normal() -> None:
    target = Threshold().sample(100_000, random_state=2).trials[0][:, 1]
    assert kstest(target, "norm").pvalue > 0.01
    for function in (np.asarray, np.abs):
        values = function(target)
        assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 4 / math.sqrt(len(target))


def plug_in(source: np.ndarray, target: np.ndarray, lag: int) -> float:
    """``I(y_t; x_{t-lag} | y_{t-1})`` of the values in four classes each, from counts."""

    def classes(values: np.ndarray) -> np.ndarray:
        return np.digitize(values, [-0.7, 0.0, 0.7])

    x, y = classes(source), classes(target)
    present, past, seen = y[2:], y[1:-1], x[2 - lag : len(x) - lag]
    share = np.bincount(16 * seen + 4 * past + present, minlength=64).reshape(4, 4, 4) / len(present)
    given_both = share / share.sum(axis=2, keepdims=True)
    given_past = share.sum(axis=0) / share.sum(axis=(0, 2))[:, None]
    return float(np.sum(share * np.log(given_both / given_past)))


def test_zeros_show_in_counts() -> None:
    """Without source lag 1 the value is 0, and so is the other direction, at delay 0 as well."""
    x, y = Threshold().sample(400_000, random_state=1).trials[0].T
    bias = 36 / (2 * 400_000)
    assert plug_in(x, y, lag=1) > 0.2
    assert abs(plug_in(x, y, lag=2)) < 4 * bias
    assert abs(plug_in(x, y, lag=0)) < 4 * bias
    assert abs(plug_in(y, x, lag=0)) < 4 * bias
    assert abs(plug_in(y, x, lag=1)) < 4 * bias
    process = Threshold()
    assert process.transfer_entropy(Lags(3, 4, delay=2)) == 0
    assert process.transfer_entropy(Lags(3, 1, delay=0)) == 0
    assert process.transfer_entropy(Lags(3, 4, delay=0), "y", "x") == 0


def test_copies_add_up_and_noise_adds_nothing() -> None:
    lags, one = Lags(2, 2), Threshold(0.7, 0.3).transfer_entropy(Lags(2, 2))
    process = Threshold(0.7, 0.3, copies=3, redundant=2)
    assert process.source_names == ("x1", "x2", "x3", "noise1", "noise2")
    assert process.transfer_entropy(lags) == pytest.approx(3 * one)
    assert process.transfer_entropy(lags, ("x3", "noise1", "y2"), ("y1", "y3")) == pytest.approx(one)
    assert process.transfer_entropy(lags, "x1", "y2", condition="x2") == 0
    assert process.transfer_entropy(lags, "x1", "y1", condition=("x2", "y2")) == pytest.approx(one)
    assert process.transfer_entropy(lags, "noise1", "y1") == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rho": 1.0}, "rho must be a finite number above -1 and below 1. Got 1.0 instead"),
        ({"rho": "high"}, "rho must be"),
        ({"threshold": math.nan}, "threshold must be a finite number"),
        ({"threshold": math.inf}, "threshold must be a finite number"),
        ({"copies": 0}, "copies must be a whole number of at least 1"),
        ({"copies": True}, "copies must be a whole number"),
        ({"redundant": -1}, "redundant must be a whole number of at least 0"),
    ],
)
def test_bad_parameters(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(TreetError, match=message):
        Threshold(**parameters)
