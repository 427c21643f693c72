"""The critic of Y alone is the one that the estimator trains, and nothing of a source is in it."""

import doctest
import warnings

import numpy as np
import pytest

import treet.density.own_past
from treet.density.own_past import OwnPast
from treet.errors import NotConvergedWarning, TreetError
from treet.estimators.neural import TREET

SETTINGS = {"folds": 2, "batch_size": 64, "epochs": 10, "random_state": 0}
GENERATOR = np.random.default_rng(0)
X, Z = GENERATOR.normal(size=(2, 300))
Y = np.convolve(GENERATOR.normal(size=300), [1.0, 0.8], "same") + 0.5 * np.roll(Z, 1)


def quiet(fit, *values):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        return fit(*values)


def test_the_doctests():
    assert doctest.testmod(treet.density.own_past).failed == 0


@pytest.mark.parametrize("condition", [None, Z])
@pytest.mark.parametrize("new", [False, True])
def test_it_is_the_critic_of_y_of_the_estimator(condition, new):
    """The same seeds draw the same weights and batches."""
    lags = {"target_history": 2, "delay": 1, "condition_history": 1 if condition is not None else None}
    whole = TREET(source_history=1, **lags, **SETTINGS)
    quiet(whole.fit, X, Y, condition)
    if condition is None:
        lags["delay"] = None
    own = quiet(OwnPast(TREET(**lags, **SETTINGS)).fit, Y, condition)
    step = 50 if new else 0
    y, z = Y[step:], None if condition is None else condition[step:]
    for linear, at in ((False, "target"), (True, "linear")):
        expected, found = whole.density(X[step:], y, z, at), own.density(y, z, linear)
        assert found.windows.width("source") == 0
        np.testing.assert_allclose(found.logpdf(), expected.logpdf(), rtol=1e-6, atol=1e-6)


def test_memory_is_the_targets_history_and_that_of_the_condition():
    own = quiet(OwnPast(TREET(memory=2, **SETTINGS)).fit, Y)
    assert str(own.lags_) == "target lags 1..2"
    assert own.n_windows_ == len(Y) - 2
    own = quiet(OwnPast(TREET(memory=2, **SETTINGS)).fit, Y, Z)
    assert str(own.lags_) == "target lags 1..2, condition lags 0..2"
    own = quiet(OwnPast(TREET(**SETTINGS)).fit, Y, Z)
    assert str(own.lags_) == "target lags 1..5, condition lags 1..5"


def test_a_vector_target():
    target = np.stack([Y, X], axis=1)
    density = quiet(OwnPast(TREET(memory=1, **SETTINGS)).fit, target).density(target)
    assert density.mean().shape == (299, 2)
    assert density.sample(2, 0).shape == (2, 299, 2)


def test_training_that_did_not_end_is_said():
    with pytest.warns(NotConvergedWarning, match="step limit"):
        own = OwnPast(TREET(memory=1, **SETTINGS | {"epochs": 1})).fit(Y)
    assert own.converged_ is False


@pytest.mark.parametrize(
    ("settings", "condition", "message"),
    [
        ({"source_history": 2}, None, r"source_history was given without a source or a condition\."),
        ({"source_history": 2}, Z, r"source_history was given without a source\. Leave it out or give one"),
        ({"delay": 2, "condition_history": 1}, None, r"delay, condition_history was given without"),
        ({"memory": 2, "target_history": 2}, None, r"memory=2 already sets target_history"),
        ({"preset": "paper"}, None, r"preset='paper' trains its critics together and needs a source"),
        ({"memory": 0}, None, r"memory must be a whole number of at least 1"),
        ({"epochs": 0}, None, r"epochs must be a whole number"),
    ],
)
def test_what_is_not_accepted(settings, condition, message):
    with pytest.raises(TreetError, match=message):
        OwnPast(TREET(**settings)).fit(Y, condition)


def test_density_before_fit_and_other_channels():
    with pytest.raises(TreetError, match=r"not fitted\. Call fit first"):
        OwnPast(TREET()).density(Y)
    own = quiet(OwnPast(TREET(memory=1, **SETTINGS)).fit, Y)
    with pytest.raises(TreetError, match="as many channels as in the fit"):
        own.density(np.stack([Y, X], axis=1))
    with pytest.raises(TreetError, match="as many channels as in the fit"):
        own.density(Y, Z)
    with pytest.raises(TreetError, match="constant"):
        OwnPast(TREET()).fit(np.ones(300))
