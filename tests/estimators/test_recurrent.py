"""The estimator ``dine``: its contract on small recordings, and exact values in the slow tests."""

import doctest
import math
import warnings
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

import treet.estimators.recurrent
from treet.errors import NotConvergedWarning, TreetError
from treet.estimators.neural import TREET
from treet.estimators.presets import RECURRENT
from treet.estimators.recurrent import DINE
from treet.lags import Lags
from treet.processes import BivariateLinear, DelayedLinear, Threshold

SMALL = {"memory": 1, "folds": 2, "learning_rate": 0.02, "random_state": 0}
N_SAMPLES = 300


def least(steps):
    """The settings for two short cycles, of ``steps`` or one epoch and of twice that."""
    return replace(RECURRENT, schedule=replace(RECURRENT.schedule, least_steps=steps, tolerance=10.0))


def fit(source, target, condition=None, steps=1, **changes):
    """A fit at the least cost, whether it converges or not."""
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore", NotConvergedWarning)
        patch.setattr("treet.estimators.recurrent.RECURRENT", least(steps))
        return DINE(**SMALL | changes).fit(source, target, condition)


def coupled(n_samples=N_SAMPLES, seed=0):
    """Source and target of the threshold process, (time,) each, in numbers that float32 holds too."""
    x, y = Threshold().sample(n_samples, seed).trials[0].astype(np.float32).T.astype(np.float64)
    return x.copy(), y.copy()


def drawn(lags, source, target, condition=None):
    """A fit whose critics are random: enough to see which values reach the local values."""
    return fit(source, target, condition, memory=None, learning_rate=1e-6, **lags)


@pytest.fixture(scope="module")
def fitted():
    return fit(*coupled())


# What the value may depend on

LAGS = [
    {"target_history": 3, "source_history": 3},
    {"target_history": 1, "source_history": 4, "delay": 2},
    {"target_history": 4, "source_history": 1, "delay": 0},
    {"target_history": 2, "source_history": 2, "delay": 3, "condition_history": 4},
]


@pytest.mark.parametrize("lags", LAGS, ids=str)
def test_local_values_depend_on_the_stated_lags_and_on_nothing_else(lags):
    """Only local values within reach of a changed sample move, but for what all share: the normaliser."""
    x, y = coupled()
    z = np.random.default_rng(5).normal(size=N_SAMPLES) if "condition_history" in lags else None
    series = {"source": x, "target": y} | ({} if z is None else {"condition": z})
    estimator = drawn(lags, **series)
    before = estimator.local_te(**series)[0]
    at = 150
    for role, values in series.items():
        changed = values.copy()
        # Inside the range of the target: the box that the draws come from stays as it was.
        changed[at] = 0.5 * values[at] + 0.1
        moved = estimator.local_te(**series | {role: changed})[0] - before
        moved -= np.nanmedian(moved)
        reach = {*estimator.lags_.of(role), *([0] if role == "target" else [])}
        seen = {time - at for time in np.flatnonzero(np.abs(moved) > 1e-6)}
        assert seen == reach, role


def test_the_result_says_how_it_was_found(fitted):
    result = fitted.result_
    assert (result.estimator, result.seed, result.n_windows) == ("dine", 0, N_SAMPLES - 1)
    assert str(result.lags) == "target lag 1, source lags 0..1"
    assert set(result.settings) == {
        "reference",
        "objective",
        "folds",
        "epochs",
        "batch_size",
        "learning_rate",
        "device",
    }
    assert len(fitted.history_) == 2


def test_transfer_entropy_is_the_difference_of_the_divergences_and_the_mean_of_the_local_values(fitted):
    (local,) = fitted.local_te_
    assert fitted.te_ == pytest.approx(fitted.d_xy_ - fitted.d_y_, abs=1e-12)
    assert np.flatnonzero(np.isnan(local)).tolist() == [0]
    assert fitted.te_ == pytest.approx(local[1:].mean(), abs=1e-12)


# Randomness, units, state


def test_a_seed_decides_everything_and_nothing_outside_changes(fitted):
    arrays = coupled()
    before = [array.copy() for array in arrays]
    torch.manual_seed(123)
    state = torch.get_rng_state()
    again = fit(*arrays)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(map(np.array_equal, arrays, before))
    assert again.te_ == fitted.te_
    assert fit(*arrays, random_state=1).te_ != fitted.te_


def test_the_units_of_the_data_do_not_matter(fitted):
    """Powers of two are exact, so that every number stays the same."""
    x, y = coupled()
    assert fit(1024 * x, y / 64).te_ == fitted.te_


def test_a_time_shift_moves_the_local_values_of_new_data(fitted):
    x, y = coupled(200, seed=5)
    whole, later = fitted.local_te(x, y)[0], fitted.local_te(x[50:], y[50:])[0]
    moved = (later - whole[50:])[1:]
    # The draws differ, so that the normalisers do; nothing else does.
    assert np.ptp(moved) < 1e-5


def test_bits_are_nats_over_log_two(fitted):
    assert fit(*coupled(), unit="bits").te_ == pytest.approx(fitted.te_ / math.log(2))


def test_trials_and_gaps_are_respected():
    rng = np.random.default_rng(0)
    source = [rng.normal(size=(length, 2)) for length in (170, 60, 90)]
    target = [np.roll(x, 1, axis=0) + rng.normal(size=x.shape) for x in source]
    source[0][30, 1] = target[1][20, 0] = np.nan
    estimator = fit(source, target, memory=2)
    missing = [[0, 1, 30, 31, 32], [0, 1, 20, 21, 22], [0, 1]]
    assert [np.flatnonzero(np.isnan(local)).tolist() for local in estimator.local_te_] == missing


def test_a_fitted_estimator_is_saved_and_loaded(fitted, tmp_path):
    path = tmp_path / "dine.safetensors"
    fitted.save(path)
    loaded = DINE.load(path)
    new = coupled(150, seed=5)
    assert loaded.result_.to_dict() == fitted.result_.to_dict()
    assert loaded.score(*new) == fitted.score(*new)
    with pytest.raises(TreetError, match=r"must hold the estimator 'treet'\. Got 'dine'"):
        TREET.load(path)


@pytest.mark.parametrize(
    ("reference", "objective"),
    [
        ("gaussian", "dv"),
        ("gaussian given past", "dv"),
        ("gaussian given past", "per context"),
        (None, "ranking"),
    ],
)
def test_references_go_with_objectives(reference, objective):
    estimator = fit(*coupled(), reference=reference, objective=objective)
    assert np.isfinite([estimator.te_, *estimator.interval_]).all()
    assert estimator.settings_.draws == (4 if objective == "dv" else 16)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"memory": 0}, "memory must be a whole number of at least 1. Got 0"),
        ({"memory": 3, "source_history": 2}, "memory=3 already sets"),
        ({"objective": "likelihood"}, "objective='likelihood' does not apply to the estimator 'dine'"),
        ({"objective": "mine"}, "objective must be one of .* Got 'mine'"),
        ({"reference": "box"}, "reference must be one of .* Got 'box'"),
        ({"folds": 1}, "folds must be a whole number of at least 2. Got 1"),
        ({"device": "toaster"}, "device='toaster' cannot be used here"),
    ],
    ids=repr,
)
def test_bad_parameters_are_refused_before_the_data_are_looked_at(parameters, message):
    with pytest.raises(TreetError, match=message):
        DINE(**parameters).fit("not", "looked at")


def test_what_needs_a_fit_says_so(tmp_path):
    with pytest.raises(TreetError, match=r"not fitted\. Call fit first"):
        DINE().score(*coupled())
    with pytest.raises(TreetError, match="not fitted, so there is nothing to save"):
        DINE().save(tmp_path / "nothing")


# Values

EXACT = {
    "threshold": (Threshold(), Lags.from_memory(3), 0.15),
    "linear": (BivariateLinear(), Lags(5, 5), 0.15),
    "delayed": (DelayedLinear(delay=20, source_decay=0.0), Lags(5, 3, 19), 0.2),
}
# Beside the share of the value that the critics miss.
SLACK = 0.01


@cache
def estimate(name, seed, back=False):
    """A fit in full of the coupled direction, or of the other one."""
    process, lags, _ = EXACT[name]
    recording = process.sample(5000, random_state=seed)
    source, target = process.source_names, process.target_names
    source, target = (target, source) if back else (source, target)
    histories = {name: getattr(lags, name) for name in ("target_history", "source_history", "delay")}
    return DINE(**histories, random_state=seed).fit(recording.select(source), recording.select(target))


def test_a_coupling_is_seen_in_its_direction_alone():
    """A short training: far from exact, and far from nothing."""
    x, y = coupled(1500)
    assert 0.25 < fit(x, y, steps=200, batch_size=128).te_ < 0.5
    assert abs(fit(y, x, steps=50, batch_size=128).te_) < 0.06


def test_a_condition_that_is_the_driver_leaves_nothing_to_tell():
    """z drives y; x is z with noise."""
    z, added, own = np.random.default_rng(2).normal(size=(3, 1500))
    y = np.roll(z, 1) + 0.5 * own
    x = z + 0.3 * added
    changes = {"memory": None, "target_history": 1, "source_history": 1, "steps": 50, "batch_size": 128}
    assert fit(x, y, **changes).te_ > 0.3
    assert abs(fit(x, y, z, **changes).te_) < 0.1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::treet.errors.NotConvergedWarning")
@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("seed", [0, 1])
def test_the_value_is_near_the_exact_one(name, seed):
    process, lags, share = EXACT[name]
    exact, fitted = process.transfer_entropy(lags), estimate(name, seed)
    assert fitted.te_ == pytest.approx(exact, abs=3 * fitted.std_error_ + share * exact)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::treet.errors.NotConvergedWarning")
@pytest.mark.parametrize("name", EXACT)
def test_nothing_flows_back(name):
    fitted = estimate(name, 0, back=True)
    assert abs(fitted.te_) < max(3 * fitted.std_error_, SLACK)


@pytest.mark.slow
def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.estimators.recurrent).failed == 0
