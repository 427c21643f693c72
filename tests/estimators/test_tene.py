"""The estimator ``tene``: near the truth at short histories, honest at long ones."""

import doctest
import warnings

import numpy as np
import pytest

import treet.estimators.tene
from treet.errors import NotConvergedWarning, TreetError, UnreliableEstimateWarning
from treet.estimators.mine import MINE
from treet.estimators.tene import TENE
from treet.lags import Lags
from treet.processes import BivariateLinear, Threshold

SMALL = {"memory": 1, "folds": 2, "epochs": 10, "random_state": 0}
FULL = {"memory": 1, "folds": 4, "random_state": 0}


def quiet(estimator, *series):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        warnings.simplefilter("ignore", UnreliableEstimateWarning)
        return estimator.fit(*series)


def fit(*series, **parameters):
    return quiet(TENE(**(SMALL | parameters)), *series)


def coupled(n_samples=400, seed=0):
    return Threshold().sample(n_samples, seed).trials[0].T.copy()


# Exact values


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dv", "classifier"])
@pytest.mark.parametrize("process", [Threshold(), BivariateLinear()])
def test_the_value_is_near_the_exact_one_at_history_one(process, method):
    recording = process.sample(6000, random_state=0)
    series = recording.select(process.source_names), recording.select(process.target_names)
    found = fit(*series, method=method, **FULL | {"epochs": None})
    exact = process.transfer_entropy(Lags.from_memory(1))
    assert found.te_ == pytest.approx(exact, abs=3 * found.std_error_ + 0.015)
    assert found.result_.warnings == ()


@pytest.mark.slow
def test_nothing_flows_back():
    x, y = coupled(6000)
    found = fit(y, x, **FULL | {"epochs": None})
    assert abs(found.te_) < 0.005
    assert found.result_.warnings == ()


@pytest.mark.slow
def test_a_condition_takes_away_what_it_explains():
    rng = np.random.default_rng(2)
    z, added, own = rng.normal(size=(3, 3000))
    y, x = 0.9 * np.roll(z, 1) + 0.4 * own, z + 0.3 * added
    lags = {"memory": None, "target_history": 1, "source_history": 1, "epochs": 126}
    assert fit(x, y, **lags).te_ > 0.4
    assert abs(fit(x, y, z, **lags).te_) < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dv", "classifier"])
def test_a_long_memory_fails_and_says_so(method):
    """No divergence: the value held out is too low, since the networks remember their training data."""
    x, y = coupled(3000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        with pytest.warns(UnreliableEstimateWarning, match="they remember what does not come again"):
            found = TENE(memory=60, method=method, folds=2, random_state=0).fit(x, y)
    assert 0 < found.te_ < 0.3
    assert found.converged_ is False
    assert "information of target and source is" in found.result_.warnings[0]


def test_a_short_training_tells_the_directions_apart():
    x, y = coupled(2000)
    assert fit(x, y, epochs=126).te_ > 0.15
    assert abs(fit(y, x, epochs=126).te_) < 0.03


# What a result says


@pytest.mark.parametrize("method", ["dv", "classifier"])
def test_the_value_is_the_difference_of_two_mutual_informations(method):
    found = fit(*coupled(), method=method)
    (local,) = found.local_te_
    assert found.te_ == pytest.approx(found.d_xy_ - found.d_y_, abs=1e-12)
    assert found.te_ == pytest.approx(local[1:].mean(), abs=1e-12)
    assert np.isnan(local[0])
    assert [history.label for history in found.history_] == [
        f"information of {what}, fold {fold} of 2"
        for fold in (1, 2)
        for what in ("target", "target and source")
    ]
    assert found.result_.settings["method"] == method


def test_the_shared_noise_of_a_block_is_in_the_error():
    """The logarithm of a mean moves all local values of a block at once."""
    from treet.statistics.intervals import standard_error

    found = fit(*coupled(2000), epochs=126)
    assert found.std_error_ > 1.05 * standard_error(found.local_te_)


def test_the_methods_differ_and_a_seed_repeats():
    x, y = coupled()
    before = x.copy(), y.copy()
    assert fit(x, y).te_ == fit(x, y).te_
    assert len({fit(x, y).te_, fit(x, y, random_state=1).te_, fit(x, y, method="classifier").te_}) == 3
    assert all(map(np.array_equal, (x, y), before))


def test_the_units_of_the_data_do_not_matter():
    x, y = coupled()
    assert fit(1024 * x, y / 64).te_ == fit(x, y).te_


def test_vectors_conditions_trials_and_gaps_are_taken():
    rng = np.random.default_rng(0)
    x, y, z = (list(rng.normal(size=(2, 120, channels))) for channels in (2, 2, 1))
    y[1][50, 0] = np.nan
    lags = {"memory": None, "target_history": 2, "source_history": 1, "condition_history": 3}
    found = fit(x, y, z, **lags)
    first, second = (np.flatnonzero(np.isnan(trial)).tolist() for trial in found.local_te_)
    assert first == [0, 1, 2]
    assert second == [0, 1, 2, 50, 51, 52]
    assert str(found.lags_) == "target lags 1..2, source lag 1, condition lags 1..3"
    assert found.history_[0].label.startswith("information of target and condition, ")


def test_an_unfinished_training_is_a_warning_at_the_callers_line():
    with pytest.warns(NotConvergedWarning, match="Raise epochs before using the value") as caught:
        found = TENE(memory=1, folds=2, epochs=8, random_state=0).fit(*coupled(2000))
    assert caught[0].filename == __file__
    assert found.converged_ is False


# Refusals


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "knn"}, "method must be one of 'dv', 'classifier'. Got 'knn' instead"),
        ({"target_history": 0}, "target_history must be a whole number of at least 1"),
        ({"batch_size": 1}, "batch_size must be a whole number of at least 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_the_data_are_looked_at(parameters, message):
    with pytest.raises(TreetError, match=message):
        TENE(**parameters).fit("not", "looked at")


def test_method_is_an_option_of_tene_alone():
    assert "method" in TENE.parameters()
    assert "method" not in MINE.parameters()


def test_too_short_a_recording_says_what_is_needed():
    with pytest.raises(TreetError, match=r"Too few windows .* At least 80 are needed"):
        fit(*coupled(60))


def test_the_examples_in_the_docstrings_hold():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        assert doctest.testmod(treet.estimators.tene).failed == 0
