"""The flow as a density: normalised, consistent with itself, near the exact one."""

import doctest
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import treet.density.flow
from treet.density.flow import NormalizingFlow
from treet.errors import MissingExtraError, TreetError
from treet.estimators.presets import PRESETS
from treet.processes.hidden_markov import HiddenMarkov

PROCESS = HiddenMarkov()
TRAINING, NEW = (PROCESS.sample(1500, seed).select("y") for seed in (0, 1))


def small(memory=2, **changes):
    return NormalizingFlow(memory, **{"bins": 4, "width": 16, "random_state": 0} | changes)


@pytest.fixture(scope="module")
def fitted():
    return small().fit(TRAINING)


def test_the_doctests():
    assert doctest.testmod(treet.density.flow).failed == 0


def test_near_the_exact_density_on_new_data(fitted):
    density, exact = fitted.density(NEW), PROCESS.density(NEW, 2)
    np.testing.assert_array_equal(density.positions, exact.positions)
    assert -0.003 < (exact.logpdf() - density.logpdf()).mean() < 0.04
    assert np.abs(density.mean() - exact.mean()).mean() < 0.15


def test_it_is_normalised_and_its_parts_agree(fitted):
    density = fitted.density(NEW)[:3]
    y = np.linspace(-15, 15, 200_001)
    pdf, step = density.pdf(y[:, None]), y[1] - y[0]
    np.testing.assert_allclose(np.trapezoid(pdf, dx=step, axis=0), 1.0, atol=1e-6)
    below = np.cumsum(pdf, axis=0)[100_000] * step
    np.testing.assert_allclose(density.cdf(y[100_000]), below, atol=1e-3)
    mean = np.trapezoid(y[:, None] * pdf, dx=step, axis=0)
    np.testing.assert_allclose(density.mean(), mean, atol=1e-3)
    variance = np.trapezoid((y[:, None] - mean) ** 2 * pdf, dx=step, axis=0)
    np.testing.assert_allclose(density.variance(), variance, rtol=2e-3)
    log = np.log(np.maximum(pdf, 1e-300))
    np.testing.assert_allclose(density.entropy(), -np.trapezoid(pdf * log, dx=step, axis=0), atol=1e-3)


def test_quantiles_and_samples(fitted):
    density = fitted.density(NEW)[:3]
    levels = np.array([0.01, 0.3, 0.5, 0.99])
    np.testing.assert_allclose(density.cdf(density.quantile(levels)), np.repeat(levels[:, None], 3, 1))
    drawn = density.sample(4000, random_state=0)
    assert drawn.shape == (4000, 3)
    np.testing.assert_allclose(density.cdf(drawn).mean(axis=0), 0.5, atol=0.02)


@pytest.mark.slow
def test_other_units_are_other_densities_of_the_same_thing(fitted):
    """Scaled by a power of two the training is the same to the last bits."""
    other = small().fit(4.0 * TRAINING.trials[0]).density(4.0 * NEW.trials[0][:200])
    expected = fitted.density(NEW.trials[0][:200])
    np.testing.assert_allclose(other.logpdf() + np.log(4.0), expected.logpdf(), atol=1e-4)
    np.testing.assert_allclose(other.quantile(0.9), 4.0 * expected.quantile(0.9), atol=1e-3)


def test_a_seed_gives_it_again_and_the_global_state_stays(monkeypatch):
    short = replace(PRESETS["default"], schedule=PRESETS["default"].schedule.changed(epochs=1))
    monkeypatch.setitem(PRESETS, "default", short)
    found = []
    for seed in (7, 8):
        torch.manual_seed(seed)
        before = torch.random.get_rng_state()
        found.append(small().fit(TRAINING).density(NEW).logpdf())
        assert torch.equal(torch.random.get_rng_state(), before)
    np.testing.assert_array_equal(*found)


def test_trials_stay_apart(fitted):
    trials = [NEW.trials[0][:40], NEW.trials[0][40:100]]
    density = fitted.density(trials)
    assert len(density) == 100 - 4
    np.testing.assert_allclose(density.logpdf()[38:], fitted.density(trials[1]).logpdf())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"memory": 0}, "memory must be a whole number of at least 1"),
        ({"bins": 1}, "bins must be a whole number of at least 2"),
        ({"width": 0}, "width must be a whole number of at least 1"),
    ],
)
def test_what_is_not_accepted(changes, message):
    with pytest.raises(TreetError, match=message):
        small(**changes).fit(TRAINING)
    with pytest.raises(TreetError, match="not fitted"):
        small().density(NEW)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "zuko.transforms", None)
    with pytest.raises(MissingExtraError, match=r"NormalizingFlow needs .*transfer-entropy\[flows\]"):
        small().fit(TRAINING)
