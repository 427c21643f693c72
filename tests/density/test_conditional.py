"""Densities on the time axis: of one channel, and of several by the chain rule."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import kstest, multivariate_normal, norm

from treet.data import as_recording
from treet.density.conditional import DRAWS, Alone, ConditionalDensity
from treet.density.univariate import Mixtures
from treet.errors import TreetError
from treet.lags import Lags
from treet.windows import Windows

STEPS = 7


def windows_of(values, memory=2):
    target = as_recording(values, "target")
    source = as_recording([np.zeros(len(trial)) for trial in target.trials], "source")
    return Windows.of(source, target, None, Lags(memory, 1))


def gaussian(mean, std):
    mean = np.asarray(mean, float)
    return Mixtures.of(np.zeros((1, len(mean))), mean[None], np.broadcast_to(std, mean.shape)[None])


@dataclass(frozen=True)
class Chain:
    """y0 ~ N(centre, 2^2), y1 | y0 ~ N(0.8 y0 + 1, 0.5^2), y2 | y0, y1 ~ N(y1 - y0, 1)."""

    centre: np.ndarray
    channels: int = 3

    def __len__(self):
        return len(self.centre)

    def __getitem__(self, steps):
        return Chain(self.centre[steps])

    def factor(self, channel, before):
        assert before.shape == (len(self), channel)
        if channel == 0:
            return gaussian(self.centre, 2.0)
        return (
            gaussian(0.8 * before[:, 0] + 1, 0.5)
            if channel == 1
            else gaussian(before[:, 1] - before[:, 0], 1.0)
        )


FACTOR = np.array([[2.0, 0, 0], [1.6, 0.5, 0], [-0.4, 0.5, 1.0]])
COVARIANCE = FACTOR @ FACTOR.T


def vectors(steps=STEPS):
    values = np.random.default_rng(0).normal(size=(steps + 2, 3))
    centre = np.linspace(-3, 3, steps)
    means = np.stack([centre, 0.8 * centre + 1, 1 - 0.2 * centre], axis=1)
    return ConditionalDensity(Chain(centre), windows_of(values)), means


def scalars(steps=STEPS):
    values = np.random.default_rng(1).normal(size=steps + 2)
    return ConditionalDensity(Alone(gaussian(np.linspace(-1, 1, steps), 0.5)), windows_of(values))


def test_one_channel_is_its_factor():
    density = scalars()
    mean = np.linspace(-1, 1, STEPS)
    np.testing.assert_allclose(density.logpdf(), norm.logpdf(density.observed, mean, 0.5), rtol=1e-12)
    grid = np.linspace(-2, 2, 11)[:, None]
    np.testing.assert_allclose(density.pdf(grid), norm.pdf(grid, mean, 0.5), rtol=1e-12)
    np.testing.assert_allclose(density.cdf(0.3), norm.cdf(0.3, mean, 0.5), rtol=1e-12)
    np.testing.assert_allclose(density.quantile([0.1, 0.7]), norm.ppf([[0.1], [0.7]], mean, 0.5), rtol=1e-10)
    np.testing.assert_allclose(density.mean(), mean)
    np.testing.assert_allclose(density.variance(), 0.25)
    np.testing.assert_allclose(density.entropy(), norm.entropy(0, 0.5), atol=1e-9)
    low, high = density.interval(0.9)
    np.testing.assert_allclose(density.cdf(high) - density.cdf(low), 0.9, atol=1e-10)


def test_a_vector_has_the_density_of_the_chain_rule():
    density, means = vectors()
    expected = [
        multivariate_normal.logpdf(y, mean, COVARIANCE)
        for y, mean in zip(density.observed, means, strict=True)
    ]
    np.testing.assert_allclose(density.logpdf(), expected, rtol=1e-12)
    y = np.random.default_rng(2).normal(size=(4, 1, 3))
    found = density.logpdf(y)
    assert found.shape == (4, STEPS)
    expected = [[multivariate_normal.logpdf(row[0], mean, COVARIANCE) for mean in means] for row in y]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_samples_of_a_vector_have_its_law():
    density, means = vectors()
    drawn = density.sample(20_000, random_state=0)
    assert drawn.shape == (20_000, STEPS, 3)
    for step in range(STEPS):
        np.testing.assert_allclose(drawn[:, step].mean(axis=0), means[step], atol=0.08)
        np.testing.assert_allclose(np.cov(drawn[:, step].T), COVARIANCE, atol=0.25)
    np.testing.assert_array_equal(drawn, density.sample(20_000, random_state=np.random.default_rng(0)))
    assert not np.array_equal(drawn[:5], density.sample(5, random_state=1))


def test_the_transform_of_what_was_drawn_is_uniform_and_independent():
    density, _ = vectors()
    uniform = density.cdf(density.sample(4000, random_state=3))
    assert uniform.shape == (4000, STEPS, 3)
    for channel in range(3):
        assert kstest(uniform[:, 2, channel], "uniform").pvalue > 1e-3
    assert np.abs(np.corrcoef(uniform[:, 2].T) - np.eye(3)).max() < 0.07


def test_marginals_of_a_vector():
    density, means = vectors()
    std = np.sqrt(np.diag(COVARIANCE))
    added = np.sqrt(np.diag(COVARIANCE) - np.array([4.0, 0.25, 1.0]))  # by the channels before
    error = 5 * added / math.sqrt(DRAWS)
    assert (np.abs(density.mean() - means) <= error + 1e-12).all()
    np.testing.assert_allclose(density.variance(), np.broadcast_to(std**2, (STEPS, 3)), rtol=0.45)
    np.testing.assert_allclose(density.mean()[:, 0], means[:, 0], rtol=1e-12)
    quantiles = density.quantile([0.1, 0.9])
    assert quantiles.shape == (2, STEPS, 3)
    expected = means + norm.ppf([0.1, 0.9])[:, None, None] * std
    np.testing.assert_allclose(quantiles[..., 0], expected[..., 0], rtol=1e-10)
    assert (np.abs(quantiles - expected) < 0.35 * std).all()
    assert density.quantile(0.5).shape == (STEPS, 3)
    true = multivariate_normal.entropy(np.zeros(3), COVARIANCE)
    np.testing.assert_allclose(density.entropy(), true, atol=5 * math.sqrt(1.5 / DRAWS))


def test_steps_are_taken_out_and_put_back_into_trials():
    trials = [np.arange(6.0), np.arange(10.0, 15.0)]
    trials[0][2] = np.nan
    windows = windows_of(trials, memory=1)
    density = ConditionalDensity(Alone(gaussian(np.zeros(len(windows)), 20.0)), windows)
    assert density.positions.tolist() == [1, 4, 5, 7, 8, 9, 10]
    first, second = density.anomaly()
    np.testing.assert_array_equal(np.isnan(first), [True, False, True, True, False, False])
    np.testing.assert_allclose(second[1:], -norm.logpdf([11.0, 12, 13, 14], 0, 20.0))
    part = density[2:4]
    assert (len(part), part.positions.tolist(), part.observed.tolist()) == (2, [5, 7], [5.0, 11.0])
    assert np.flatnonzero(np.isfinite(np.concatenate(part.anomaly()))).tolist() == [5, 7]
    chosen = density[np.array([6, 0])]
    np.testing.assert_array_equal(chosen.logpdf(), density.logpdf()[[6, 0]])


def test_what_is_not_accepted():
    density, (vector, _) = scalars(), vectors()
    with pytest.raises(
        TreetError, match=r"broadcast to \(.., 7\): one value for each time step. Got the shape \(3,\)"
    ):
        density.pdf(np.zeros(3))
    with pytest.raises(TreetError, match=r"\(.., 7, 3\): one value for each time step and channel"):
        vector.pdf(np.zeros(7))
    for q in (-0.1, 1.1, math.nan):
        with pytest.raises(TreetError, match="q must lie between 0 and 1"):
            density.quantile(q)
    with pytest.raises(TreetError, match="size must be a whole number of at least 1"):
        density.sample(0)
    with pytest.raises(TreetError, match="random_state must be a whole number"):
        density.sample(1, random_state=-1)
    with pytest.raises(TreetError, match="one density for each of 7 time steps"):
        ConditionalDensity(Alone(gaussian(np.zeros(3), 1.0)), density.windows)
    assert repr(vector) == "ConditionalDensity(7 time steps of target[0], target[1], target[2])"
