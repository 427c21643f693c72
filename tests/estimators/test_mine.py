"""The estimator ``mine`` and the mutual informations it shares with ``tene``."""

import doctest
import math
import warnings

import numpy as np
import pytest
import torch

import treet.estimators.information
import treet.estimators.mine
import treet.nn.statistics_network
from treet.data import as_recording
from treet.errors import NotConvergedWarning, TreetError, UnreliableEstimateWarning
from treet.estimators.information import SCHEDULE, Information, Trained, doubts, minus_cross_entropy
from treet.estimators.mine import MINE
from treet.lags import Lags, PastlessLags
from treet.nn.statistics_network import StatisticsNetwork
from treet.series import Scaler, Series
from treet.statistics.cross_fitting import blocked_folds
from treet.training import History
from treet.windows import Windows

SMALL = {"folds": 2, "epochs": 10, "random_state": 0}


def gaussian(rho, n_samples, seed=1):
    x, z = np.random.default_rng(seed).normal(size=(2, n_samples))
    return x, rho * x + math.sqrt(1 - rho**2) * z


def fit(source, target, **parameters):
    """A fit whose doubts do not matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        warnings.simplefilter("ignore", UnreliableEstimateWarning)
        return MINE(**(SMALL | parameters)).fit(source, target)


# Exact values


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_value_is_that_of_two_normal_series(rho, seed):
    found = fit(*gaussian(rho, 6000, seed), folds=4, epochs=None)
    assert found.te_ == pytest.approx(-math.log(1 - rho**2) / 2, abs=3 * found.std_error_ + 0.015)


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_a_short_training_is_near_already(rho):
    found = fit(*gaussian(rho, 3000), epochs=60)
    assert found.te_ == pytest.approx(-math.log(1 - rho**2) / 2, abs=0.1)


@pytest.mark.slow
def test_a_dependence_without_correlation_is_found():
    """y = x^2 + noise; the exact value by quadrature over y of the mixture."""
    x, noise = np.random.default_rng(0).normal(size=(2, 6000))
    grid = np.linspace(-6, 40, 20_001)
    nodes = np.linspace(-8, 8, 4001)
    weights = np.exp(-(nodes**2) / 2)
    density = np.array([(weights * np.exp(-((g - nodes**2) ** 2) / 2)).sum() for g in grid])
    step = grid[1] - grid[0]
    density /= density.sum() * step
    entropy = -(density * np.log(np.maximum(density, 1e-300))).sum() * step
    exact = entropy - 0.5 * math.log(2 * math.pi * math.e)
    found = fit(x, x**2 + noise, folds=4, epochs=None)
    assert found.te_ == pytest.approx(exact, abs=3 * found.std_error_ + 0.02)


@pytest.mark.slow
def test_the_past_block_of_the_source_holds_its_lags():
    """y_t = x_{t-2} + noise: seen at delay 2, or by a history that reaches it."""
    x, noise = np.random.default_rng(0).normal(size=(2, 3000))
    y = np.roll(x, 2) + noise
    exact = math.log(2) / 2
    assert fit(x, y, delay=2, epochs=126).te_ == pytest.approx(exact, abs=0.08)
    assert fit(x, y, source_history=3, epochs=126).te_ == pytest.approx(exact, abs=0.08)
    assert abs(fit(x, y, source_history=2, epochs=126).te_) < 0.03


# What a result says


def test_the_lags_of_the_result_have_no_past_of_the_target():
    result = fit(*gaussian(0.5, 400)).result_
    assert result.lags == PastlessLags(target_history=0, source_history=1, delay=0)
    assert "(target without its past, source lag 0; 400 windows; mine)" in str(result)
    assert result.to_dict()["target_history"] == 0
    assert list(result.lags.target_lags) == []
    assert (result.d_y, result.d_xy) == (None, None)


def test_gaps_and_trials_are_respected():
    x, y = gaussian(0.5, 300)
    x[40] = y[50] = np.nan
    found = fit([x[:120], x[120:]], [y[:120], y[120:]], source_history=2, delay=1)
    first, second = (np.flatnonzero(np.isnan(trial)).tolist() for trial in found.local_te_)
    assert (first, second) == ([0, 1, 41, 42, 50], [0, 1])
    assert found.te_ == pytest.approx(np.nanmean(np.concatenate(found.local_te_)), abs=1e-12)


def test_a_seed_gives_the_same_result_and_nothing_outside_changes():
    x, y = gaussian(0.5, 300)
    before = x.copy(), y.copy()
    one = fit(x, y)
    torch.manual_seed(7)
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    same, other = fit(x, y), fit(x, y, random_state=1)
    assert one.te_ == same.te_ != other.te_
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
    assert all(map(np.array_equal, (x, y), before))


def test_the_units_of_the_data_do_not_matter():
    """Powers of two are exact, so that every number stays the same."""
    x, y = gaussian(0.5, 300)
    assert fit(1024 * x, y / 64).te_ == fit(x, y).te_


# Doubts


def found(value=0.5, variance=1e-4, remembered=0.0, n_windows=100):
    history = History("information of source, fold 1 of 2", (1,), (0.0,), (0.0,), 1, True)
    return Information(np.full(n_windows, value), variance, remembered, history)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ({"value": 500.0}, r"diverged: no more than log n = 5.30 nats .* one of the networks says 500"),
        ({"variance": 0.2}, "hangs on a few shuffled pairs, by 0.45 nats"),
        ({"remembered": 0.5}, "0.75 nats on the windows that the networks were trained on and 0.5 on the"),
    ],
)
def test_what_makes_a_value_doubtful_is_said(bad, words):
    assert doubts([found(), found()]) == ()
    (note,) = doubts([found(), found(**bad)])
    with pytest.raises(AssertionError, match=words):
        raise AssertionError(note)
    assert note.startswith("The information of source ")
    assert note.endswith("Use shorter histories, a longer recording or another estimator.")


def test_a_doubt_is_a_warning_and_no_convergence():
    """A copy of the source with hardly any noise: far more than so few windows can tell."""
    x, noise = np.random.default_rng(0).normal(size=(2, 300))
    with (
        warnings.catch_warnings(),
        pytest.warns(UnreliableEstimateWarning, match="information of source"),
    ):
        warnings.simplefilter("ignore", NotConvergedWarning)
        estimator = MINE(folds=2, epochs=60, random_state=0).fit(x, x + 1e-3 * noise)
    assert estimator.converged_ is False
    assert "NOT CONVERGED" in str(estimator.result_)


# The parts


def fold_of(n_samples=200):
    x, y = gaussian(0.5, n_samples)
    lags = PastlessLags(target_history=0, source_history=2, delay=0)
    windows = Windows.of(as_recording(x, "source"), as_recording(y, "target"), None, lags)
    fold = blocked_folds(windows, 2)[0]
    return Series(windows, Scaler.of(windows, fold.train)), fold


def test_local_values_are_the_scores_less_the_log_mean_exp_of_shuffled_ones():
    series, fold = fold_of()
    trained = Trained(series, fold, ("source",), "dv")
    trained.network.reset(torch.Generator().manual_seed(0))
    local, variance = trained._read(trained.test, torch.Generator().manual_seed(1), 2)
    generator, weights = torch.Generator().manual_seed(1), []
    x, y = series.values["source"][:, 0], series.values["target"][:, 0]

    def score(t, other):
        return trained.network(torch.stack([x[t - 1], x[t]])[None], y[other].reshape(1, 1)).item()

    for _ in range(2):
        order = trained.test[torch.randperm(len(fold.test), generator=generator)]
        weights += [math.exp(score(t, other)) for t, other in zip(trained.test, order, strict=True)]
    real = [score(t, t) for t in trained.test]
    np.testing.assert_allclose(local, np.array(real) - math.log(np.mean(weights)), atol=1e-5)
    relative = np.mean(np.square(weights)) / np.mean(weights) ** 2 - 1
    assert variance == pytest.approx(relative / len(fold.test), rel=1e-3)


@pytest.mark.parametrize("method", ["dv", "classifier"])
def test_a_training_raises_what_is_maximised(method):
    series, fold = fold_of(1000)
    trained = Trained(series, fold, ("source",), method)
    trained.network.reset(torch.Generator().manual_seed(0))
    before = trained._validation_loss()
    trained.fit(SCHEDULE, torch.Generator().manual_seed(0), "fold", lambda share: None)
    assert trained._validation_loss() < before - 0.03


def test_a_classifier_gains_most_by_the_true_log_ratio():
    x, y = gaussian(0.6, 20_000)
    other = np.roll(y, 1)

    def log_ratio(y, slope):
        return torch.tensor(-(0.6**2 * (x**2 + y**2) - 2 * slope * x * y) / (2 * 0.64) - math.log(0.64) / 2)

    gains = [minus_cross_entropy(log_ratio(y, s), log_ratio(other, s)).item() for s in (0.5, 0.6, 0.7)]
    assert gains[1] == max(gains) > 0


def test_the_network_is_drawn_from_its_generator_alone():
    weights = []
    for outside in (1, 2):
        torch.manual_seed(outside)
        network = StatisticsNetwork(3, 2, 8)
        network.reset(torch.Generator().manual_seed(0))
        weights.append(torch.cat([part.flatten() for part in network.parameters()]))
    assert torch.equal(*weights)
    assert weights[0].abs().max() <= 5**-0.5


# Refusals


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"memory": 3}, "no past of the target and no condition. Got memory=3: leave it out"),
        ({"target_history": 2}, "Got target_history=2"),
        ({"condition_history": 1}, "Got condition_history=1"),
        ({"source_history": 0}, "source_history must be a whole number of at least 1"),
        ({"delay": -1}, "delay must be a whole number of at least 0"),
        ({"unit": "bans"}, "unit must be one of"),
        ({"confidence": 2}, "confidence must be"),
        ({"random_state": -1}, "random_state must be a whole number"),
        ({"folds": 1}, "folds must be a whole number of at least 2"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"batch_size": 1}, "batch_size must be a whole number of at least 2"),
        ({"learning_rate": 0}, "learning_rate must be a finite number above 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_the_data_are_looked_at(parameters, message):
    with pytest.raises(TreetError, match=message):
        MINE(**parameters).fit("not", "looked at")


def test_a_condition_is_refused():
    x, y = gaussian(0.5, 100)
    with pytest.raises(TreetError, match="Got a condition: leave it out, or use another estimator"):
        MINE().fit(x, y, x + y)


def test_a_target_history_of_none_may_be_said():
    """As the call that a result's report gives."""
    x, y = gaussian(0.5, 200)
    assert fit(x, y, target_history=0, source_history=1, delay=0).te_ == fit(x, y).te_


def test_lags_of_a_transfer_entropy_still_need_a_past_of_the_target():
    with pytest.raises(TreetError, match="target_history must be a whole number of at least 1"):
        Lags(target_history=0)
    with pytest.raises(TreetError, match="target_history must be a whole number of at least 0"):
        PastlessLags(target_history=-1)
    assert PastlessLags(0, 3, 2).span == 4


@pytest.mark.parametrize(
    "module", [treet.estimators.information, treet.estimators.mine, treet.nn.statistics_network]
)
def test_the_examples_in_the_docstrings_hold(module):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        assert doctest.testmod(module).failed == 0
