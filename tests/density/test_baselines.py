"""Baselines near the exact density of a process that is known, and their contract."""

import sys

import numpy as np
import pytest
from scipy.special import logsumexp

from treet.density.baselines import ConditionalKernel, KalmanFilter, LinearGaussian, MixtureDensityNetwork
from treet.errors import MissingExtraError, TreetError
from treet.processes.hidden_markov import HiddenMarkov

MEMORY = 2
PROCESS = HiddenMarkov()
TRAINING, NEW = (PROCESS.sample(3000, seed).select("y") for seed in (0, 1))
MODELS = {
    "linear": lambda: LinearGaussian(MEMORY),
    "network": lambda: MixtureDensityNetwork(MEMORY, components=2, width=16, random_state=0),
    "kernel": lambda: ConditionalKernel(MEMORY),
    "kalman": KalmanFilter,
}
EVERY = pytest.mark.parametrize("name", MODELS)


@pytest.fixture(scope="module")
def fitted():
    return {name: make().fit(TRAINING) for name, make in MODELS.items()}


@EVERY
def test_near_the_exact_density_on_new_data(name, fitted):
    density = fitted[name].density(NEW)
    memory = None if name == "kalman" else MEMORY
    exact = PROCESS.density(NEW, memory)
    np.testing.assert_array_equal(density.positions, exact.positions)
    excess = exact.logpdf() - density.logpdf()
    # A kernel pays for three dimensions; the others have few parameters.
    assert -0.003 < excess.mean() < (0.05 if name == "kernel" else 0.015)
    assert np.abs(density.mean() - exact.mean()).mean() < (0.2 if name == "kernel" else 0.1)


@EVERY
def test_other_units_are_other_densities_of_the_same_thing(name, fitted):
    values = 1000.0 + 8.0 * TRAINING.trials[0]
    density = MODELS[name]().fit(values).density(1000.0 + 8.0 * NEW.trials[0][:200])
    expected = fitted[name].density(NEW.trials[0][:200])
    tolerance = 0.05 if name == "network" else 0.01
    np.testing.assert_allclose(density.logpdf() + np.log(8.0), expected.logpdf(), atol=tolerance)


def test_gaussian_baselines_are_the_predictors_of_the_closed_form(fitted):
    exact = PROCESS.density(NEW, MEMORY)
    linear = fitted["linear"].density(NEW)
    np.testing.assert_allclose(linear.variance(), exact.variance(), rtol=0.05)
    kalman = fitted["kalman"].density(NEW)
    np.testing.assert_allclose(kalman.variance()[-1], PROCESS.predictive_variance(), rtol=0.06)


@pytest.mark.parametrize(
    ("process", "order", "coefficients"),
    [
        (PROCESS, 1, [0.9]),
        (HiddenMarkov(decay=0.001, delayed=0.9, state_delay=4, gain=0.9), 4, [0.001, 0, 0, 0.9]),
    ],
)
def test_a_kalman_filter_with_given_parameters_is_the_closed_form(process, order, coefficients):
    new = process.sample(600, 1).select("y")
    parameters = [0.5, 0.5 * process.gain**2, *coefficients]
    found = KalmanFilter(order, parameters).fit(new).density(new)
    exact = process.density(new)
    np.testing.assert_allclose(found.mean(), exact.mean(), atol=1e-8)
    np.testing.assert_allclose(found.variance(), exact.variance(), atol=1e-8)
    assert 0.5 * np.log(found.variance()[-1] / 0.5) == pytest.approx(process.exact_kl(), abs=1e-8)


def test_the_kernel_is_the_sum_over_all_pasts():
    """With as many neighbours as pasts, against the plain double sum."""
    training, new = TRAINING.trials[0][:80], NEW.trials[0][:20]
    model = ConditionalKernel(MEMORY, neighbours=80).fit(training)
    scaler, _, _, (wide, width) = model.fitted_
    density = model.density(new)
    scaled, values = (((part - scaler.mean[0]) / scaler.std[0])[:, 0] for part in (new, training))
    for step in range(MEMORY, 20):
        distance = [
            sum((scaled[step - lag] - values[t - lag]) ** 2 for lag in (1, 2)) for t in range(MEMORY, 80)
        ]
        weights = -np.array(distance) / (2 * wide**2)
        normal = -((scaled[step] - values[MEMORY:]) ** 2) / (2 * width**2) - np.log(
            width * np.sqrt(2 * np.pi)
        )
        expected = logsumexp(weights + normal) - logsumexp(weights) - np.log(scaler.std[0])
        assert density.logpdf()[step - MEMORY] == pytest.approx(expected, rel=1e-9)


@EVERY
def test_seeds_trials_and_the_callers_data(name, fitted):
    trials = [NEW.trials[0][:40].copy(), NEW.trials[0][40:100].copy()]
    before = [trial.copy() for trial in trials]
    density = fitted[name].density(trials)
    span = 1 if name == "kalman" else MEMORY
    assert len(density) == 100 - 2 * span
    alone = fitted[name].density(trials[1])
    np.testing.assert_allclose(density.logpdf()[40 - span :], alone.logpdf(), atol=1e-6)
    np.testing.assert_array_equal(np.concatenate(trials), np.concatenate(before))
    if name == "network":
        again = MODELS[name]().fit(TRAINING)
        np.testing.assert_array_equal(again.density(NEW).logpdf(), fitted[name].density(NEW).logpdf())


@EVERY
def test_what_is_not_accepted(name):
    model = MODELS[name]()
    with pytest.raises(TreetError, match=f"This {type(model).__name__} is not fitted. Call fit first"):
        model.density(NEW)
    with pytest.raises(TreetError, match=r"takes a target of one channel\. Got 2 channels"):
        model.fit(np.zeros((50, 2)))
    for kind in (LinearGaussian, MixtureDensityNetwork, ConditionalKernel):
        with pytest.raises(TreetError, match=r"memory must be a whole number of at least 1\. Got 0"):
            kind(0).fit(NEW)
    with pytest.raises(TreetError, match="order must be a whole number of at least 1"):
        KalmanFilter(order=0).fit(NEW)
    for parameters in ([0.5, 0.5], [0.5, 0.0, 0.9], [0.5, 0.5, 0.9, 0.1]):
        with pytest.raises(TreetError, match="parameters must be two variances above 0 and order=1 coeff"):
            KalmanFilter(parameters=parameters).fit(NEW)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "statsmodels.tsa.statespace.structural", None)
    with pytest.raises(MissingExtraError, match="KalmanFilter needs an optional dependency"):
        KalmanFilter().fit(NEW)
