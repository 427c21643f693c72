"""Mixtures and densities on a grid against quadrature, against SciPy and against each other."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest, norm

from treet.density.univariate import Mixtures, OnGrid

STEPS, TERMS = 5, 3


def mixtures(steps=STEPS, terms=TERMS, seed=0):
    """Scales from 0.02 to 5, one term unused in the first step, one in all of them."""
    generator = np.random.default_rng(seed)
    log_weights = generator.normal(size=(terms + 1, steps))
    log_weights[1, 0] = log_weights[terms] = -np.inf
    stds = np.exp(generator.uniform(-4, 1.6, log_weights.shape))
    return Mixtures.of(log_weights, 2 * generator.normal(size=log_weights.shape), stds)


def on_grid(steps=STEPS, seed=0):
    """Uneven densities, with nodes where they are zero."""
    densities = np.maximum(np.random.default_rng(seed).normal(0.4, 1.0, (17, steps)), 0.0)
    return OnGrid.of(np.linspace(-2.0, 3.0, 17), densities)


BOTH = pytest.mark.parametrize("density", [mixtures(), on_grid()], ids=["mixtures", "on grid"])


def breaks(density, step):
    """Where quadrature has to look."""
    if isinstance(density, OnGrid):
        return density.nodes
    reach = np.array([-9, -3, -1, 0, 1, 3, 9])[:, None]
    return np.unique(density.means[:, step] + reach * density.stds[:, step])


def integral(function, density, step):
    edges = breaks(density, step)
    return sum(quad(function, *pair, epsabs=1e-11, epsrel=1e-11)[0] for pair in pairwise(edges))


def test_weights_add_up_and_unused_terms_are_dropped():
    density = mixtures()
    assert density.means.shape == (TERMS, STEPS)
    np.testing.assert_allclose(np.exp(density.log_weights).sum(axis=0), 1.0, rtol=1e-14)
    assert density.log_weights[1, 0] == -np.inf


def test_the_mixture_is_that_of_the_equation():
    density, y = mixtures(), np.linspace(-4, 4, 7)[:, None]
    weights, means, stds = np.exp(density.log_weights), density.means, density.stds
    pdf = sum(weights[k] * norm.pdf(y, means[k], stds[k]) for k in range(TERMS))
    cdf = sum(weights[k] * norm.cdf(y, means[k], stds[k]) for k in range(TERMS))
    np.testing.assert_allclose(np.exp(density.logpdf(y)), pdf, rtol=1e-12)
    np.testing.assert_allclose(density.cdf(y), cdf, rtol=1e-12)


@BOTH
def test_everything_agrees_with_quadrature(density):
    mean, variance, entropy = density.mean, density.variance, density.entropy()
    for step in range(STEPS):
        one = density[np.array([step])]

        def pdf(y, one=one):
            return float(np.exp(one.logpdf(np.array([y])))[0])

        assert integral(pdf, density, step) == pytest.approx(1.0, abs=1e-9)
        assert integral(lambda y: y * pdf(y), density, step) == pytest.approx(mean[step], abs=1e-8)
        centred = integral(lambda y, step=step: (y - mean[step]) ** 2 * pdf(y), density, step)
        assert centred == pytest.approx(variance[step], rel=1e-8)
        surprise = integral(lambda y: -pdf(y) * math.log(max(pdf(y), 1e-300)), density, step)
        assert entropy[step] == pytest.approx(surprise, abs=1e-7)


@BOTH
def test_the_distribution_function_is_the_integral_of_the_density(density):
    for step in range(STEPS):
        one, upper = density[np.array([step])], float(density.mean[step])
        lower = breaks(density, step)[0]
        inside = [edge for edge in breaks(density, step) if lower < edge < upper]
        edges = [lower, *inside, upper]
        total = sum(
            quad(lambda y, one=one: float(np.exp(one.logpdf(np.array([y])))[0]), *pair, epsabs=1e-11)[0]
            for pair in pairwise(edges)
        )
        assert density.cdf(np.array(upper))[step] == pytest.approx(total, abs=1e-9)


@BOTH
def test_quantiles_are_the_inverse_of_the_distribution_function(density):
    q = np.array([1e-9, 1e-3, 0.2, 0.5, 0.77, 1 - 1e-6])[:, None]
    found = density.quantile(q)
    assert found.shape == (6, STEPS)
    np.testing.assert_allclose(density.cdf(found), np.broadcast_to(q, found.shape), atol=1e-10, rtol=1e-6)
    assert (np.diff(found, axis=0) > 0).all()


def test_quantiles_of_one_gaussian_are_to_ten_digits():
    means, stds = np.array([[-3.0, 0.0, 1e4]]), np.array([[1e-3, 1.0, 50.0]])
    one = Mixtures.of(np.zeros((1, 3)), means, stds)
    for q in (1e-12, 0.1, 0.5, 0.999):
        np.testing.assert_allclose(one.quantile(np.array(q)), norm.ppf(q, means[0], stds[0]), rtol=1e-13)


def test_quantiles_in_the_gap_between_two_narrow_terms():
    """Newton's step leaves the bracket there: the density is all but zero."""
    two = Mixtures.of(np.log([[0.5], [0.5]]), np.array([[-100.0], [100.0]]), np.array([[1e-3], [1e-3]]))
    for q in (0.5 - 1e-9, 0.5 + 1e-9, 0.25, 0.9):
        assert two.cdf(two.quantile(np.array(q)))[0] == pytest.approx(q, abs=1e-10)


def test_the_ends_of_the_quantiles():
    np.testing.assert_array_equal(
        mixtures().quantile(np.array([[0.0], [1.0]])), [[-np.inf] * STEPS, [np.inf] * STEPS]
    )
    assert (on_grid().quantile(np.array([[0.0], [1.0]])) >= -2.0).all()


def test_outside_the_grid_there_is_nothing():
    density = on_grid()
    np.testing.assert_array_equal(density.logpdf(np.array([[-2.01], [3.01]])), np.full((2, STEPS), -np.inf))
    np.testing.assert_allclose(
        density.cdf(np.array([[-5.0], [5.0]])), [[0.0] * STEPS, [1.0] * STEPS], atol=1e-14
    )


@BOTH
def test_samples_are_drawn_from_the_density(density):
    drawn = density.sample(4000, np.random.default_rng(0))
    assert drawn.shape == (4000, STEPS)
    uniform = density.cdf(drawn)
    for step in range(STEPS):
        assert kstest(uniform[:, step], "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 4 / math.sqrt(4000)


@BOTH
def test_steps_are_taken_out(density):
    steps = np.array([3, 0, 3])
    y = np.array([0.1, 0.2, 0.3])
    whole = density.logpdf(np.broadcast_to(y[:, None], (3, STEPS)))
    np.testing.assert_array_equal(density[steps].logpdf(y), whole[np.arange(3), steps])
    assert len(density[1:3]) == 2


def test_pooled_is_the_mixture_of_the_densities():
    parts = [mixtures(seed=1), mixtures(seed=2)]
    shares = np.log(np.array([[0.3] * STEPS, [0.7] * STEPS]))
    y = np.linspace(-3, 3, 11)[:, None]
    expected = 0.3 * np.exp(parts[0].logpdf(y)) + 0.7 * np.exp(parts[1].logpdf(y))
    np.testing.assert_allclose(np.exp(Mixtures.pooled(parts, shares).logpdf(y)), expected, rtol=1e-12)


def test_far_away_the_log_density_stays_finite():
    assert np.isfinite(mixtures().logpdf(np.array(1e8))).all()
