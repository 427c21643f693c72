"""The estimator ``treet`` by its public contract, on recordings so small that the value hardly matters."""

import inspect
import math
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone

from treet.api import transfer_entropy
from treet.errors import NotConvergedWarning, TreetError
from treet.estimators.neural import TREET
from treet.estimators.registry import make
from treet.processes import Threshold
from treet.statistics.intervals import standard_error

PRESETS = ("default", "paper")
SMALL = {
    "default": {"memory": 1, "folds": 2, "batch_size": 64, "random_state": 0},
    "paper": {"preset": "paper", "memory": 1, "epochs": 2, "random_state": 0},
}
N_SAMPLES = 300


def quiet_fit(preset, source, target, condition=None, **changes):
    """A fit at the least cost, whether it converges or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        return TREET(**SMALL[preset] | changes).fit(source, target, condition)


def coupled(n_samples=N_SAMPLES, seed=0):
    """Source and target of the threshold process, (time,) each, in numbers that float32 holds too."""
    x, y = Threshold().sample(n_samples, seed).trials[0].astype(np.float32).T.astype(np.float64)
    return x.copy(), y.copy()


def same(one, other):
    """Whether two results agree in every number, but for the time they took."""
    numbers = [{**result.to_dict(), "seconds": 0.0} for result in (one, other)]
    local = zip(one.local, other.local, strict=True)
    return (
        numbers[0] == numbers[1]
        and all(np.array_equal(*trials, equal_nan=True) for trials in local)
        and one.history == other.history
    )


@pytest.fixture(scope="module", params=PRESETS)
def preset(request):
    return request.param


@pytest.fixture(scope="module")
def fitted_default():
    return quiet_fit("default", *coupled())


@pytest.fixture(scope="module")
def fitted_paper():
    return quiet_fit("paper", *coupled())


@pytest.fixture(scope="module")
def fitted(preset, request):
    return request.getfixturevalue(f"fitted_{preset}")


# The scikit-learn contract


def test_the_constructor_only_stores():
    given = {name: object() for name in TREET.parameters()}
    estimator = TREET(**given)
    assert {name: value for name, value in vars(estimator).items() if name in given} == given
    assert set(vars(estimator)) == set(given)


def test_parameters_are_those_of_the_constructor():
    names = [name for name in inspect.signature(TREET.__init__).parameters if name != "self"]
    estimator = TREET(memory=3, preset="paper", epochs=7)
    assert sorted(estimator.get_params()) == sorted(names) == sorted(TREET.parameters())
    assert {"memory": 3, "preset": "paper", "epochs": 7}.items() <= estimator.get_params().items()
    assert estimator.set_params(memory=5, unit="bits") is estimator
    assert (estimator.memory, estimator.unit) == (5, "bits")


def test_a_clone_has_the_parameters_and_nothing_that_was_fitted(fitted):
    copied = clone(fitted)
    assert copied.get_params() == fitted.get_params()
    assert not [name for name in vars(copied) if name.endswith("_")]


def test_repr_shows_what_was_changed():
    assert repr(TREET()) == "TREET()"
    assert repr(TREET(memory=3, random_state=1)) == "TREET(memory=3, random_state=1)"


def test_fit_leaves_the_parameters_alone_and_returns_the_estimator(preset):
    estimator = TREET(**SMALL[preset])
    before = estimator.get_params()
    with pytest.raises(TreetError, match="Too few windows"):
        estimator.fit(*coupled(60))
    assert estimator.get_params() == before
    paper = quiet_fit("paper", *coupled(), epochs=1)
    assert paper.fit.__self__ is paper
    assert isinstance(paper, TREET)


@pytest.mark.parametrize("method", ["score", "local_te"])
def test_what_needs_a_fit_says_so(method):
    with pytest.raises(TreetError, match=r"not fitted\. Call fit first"):
        getattr(TREET(), method)(*coupled())
    assert not hasattr(TREET(), "te_")


def test_the_one_call_form_and_the_registry_give_the_same_result(fitted_paper):
    with pytest.warns(NotConvergedWarning):
        result = transfer_entropy(*coupled(), **SMALL["paper"])
    assert same(result, fitted_paper.result_)
    assert make("treet", **SMALL["paper"]).get_params() == fitted_paper.get_params()


# What is validated, and when

BAD_PARAMETERS = [
    ({"memory": 0}, "memory must be a whole number of at least 1. Got 0"),
    ({"memory": 1.5}, "memory must be a whole number"),
    ({"memory": True}, "memory must be a whole number"),
    ({"memory": "3"}, "memory must be a whole number"),
    ({"memory": 3, "delay": 1}, "memory=3 already sets"),
    ({"target_history": 0}, "target_history must be a whole number of at least 1"),
    ({"source_history": -1}, "source_history must be a whole number of at least 1"),
    ({"delay": -1}, "delay must be a whole number of at least 0"),
    ({"condition_history": 0}, "condition_history must be a whole number of at least 1"),
    ({"preset": "best"}, "preset must be one of 'default', 'paper'. Got 'best'"),
    ({"preset": None}, "preset must be one of 'default', 'paper'"),
    (
        {"reference": "box"},
        "reference must be one of 'uniform', 'gaussian', 'gaussian given past'. Got 'box'",
    ),
    ({"reference": ["uniform"]}, "reference must be one of"),
    ({"objective": "mine"}, "objective must be one of .* Got 'mine'"),
    ({"objective": "dv"}, "objective='dv' does not apply to preset='default'"),
    (
        {"preset": "paper", "objective": "likelihood"},
        "objective='likelihood' does not apply to preset='paper'",
    ),
    ({"folds": 1}, "folds must be a whole number of at least 2. Got 1"),
    ({"folds": 2.0}, "folds must be a whole number"),
    ({"epochs": 0}, "epochs must be a whole number of at least 1"),
    ({"epochs": True}, "epochs must be a whole number"),
    ({"batch_size": 0}, "batch_size must be a whole number of at least 1"),
    ({"batch_size": "64"}, "batch_size must be a whole number"),
    ({"learning_rate": 0.0}, "learning_rate must be a finite number above 0 and below 1"),
    ({"learning_rate": 1.0}, "learning_rate must be a finite number above 0 and below 1"),
    ({"learning_rate": math.nan}, "learning_rate must be a finite number above 0 and below 1"),
    ({"learning_rate": "fast"}, "learning_rate must be a finite number above 0 and below 1"),
    ({"device": "toaster"}, "device='toaster' cannot be used here"),
    ({"unit": "hartleys"}, "unit must be one of 'nats', 'bits'. Got 'hartleys'"),
    ({"unit": None}, "unit must be one of 'nats', 'bits'"),
    ({"confidence": 0.0}, "confidence must be a finite number above 0 and below 1"),
    ({"confidence": 95}, "confidence must be a finite number above 0 and below 1.* Got 95"),
    ({"confidence": math.nan}, "confidence must be a finite number above 0 and below 1"),
    ({"random_state": 1.5}, "random_state must be a whole number of at least 0. Got 1.5"),
    ({"random_state": "0"}, "random_state must be a whole number"),
    ({"random_state": np.random.default_rng(0)}, "random_state must be a whole number"),
]
WRONG_TYPES = [
    ({"confidence": "0.95"}, "confidence"),
    ({"confidence": None}, "confidence"),
    ({"unit": ["nats"]}, "unit"),
    ({"preset": ["paper"]}, "preset"),
    ({"device": None}, "device"),
    ({"device": "meta"}, "device"),
    ({"random_state": -1}, "random_state"),
    ({"random_state": True}, "random_state"),
]


@pytest.mark.parametrize(("parameters", "message"), BAD_PARAMETERS + WRONG_TYPES, ids=repr)
def test_bad_parameters_are_refused_before_the_data_are_looked_at(parameters, message):
    with pytest.raises(TreetError, match=message):
        TREET(**parameters).fit("not", "looked at")


def test_an_option_that_does_not_exist_is_an_error():
    with pytest.raises(TreetError, match="neighbours does not apply to the estimator 'treet'"):
        transfer_entropy(*coupled(), neighbours=3)


def test_a_condition_history_needs_a_condition():
    with pytest.raises(TreetError, match="condition_history=3 was given without a condition"):
        TREET(condition_history=3).fit(*coupled())


def test_a_recording_that_is_too_short_says_what_is_needed():
    with pytest.raises(TreetError, match=r"too short .* need at least 32 samples in a row. Got 20"):
        TREET(memory=30).fit(*coupled(20))
    with pytest.raises(TreetError, match=r"Too few windows .* At least 200 are needed"):
        TREET(memory=2, folds=5).fit(*coupled(150))


# What a fit gives


def test_fitted_attributes_are_those_of_the_result(fitted):
    result = fitted.result_
    for name in ("te", "std_error", "interval", "d_y", "d_xy", "lags", "n_windows", "converged", "seconds"):
        assert getattr(fitted, f"{name}_") == getattr(result, name)
    assert fitted.local_te_ is result.local
    assert fitted.history_ is result.history


def test_the_result_says_how_it_was_found(fitted, preset):
    result = fitted.result_
    assert (result.source, result.target, result.condition) == (("source",), ("target",), ())
    assert (result.unit, result.confidence, result.seed, result.estimator) == ("nats", 0.95, 0, "treet")
    assert str(result.lags) == "target lag 1, source lags 0..1"
    assert result.n_windows == N_SAMPLES - 1
    assert result.settings["preset"] == preset
    assert result.seconds > 0
    assert ("NOT CONVERGED" in str(result)) is not result.converged


def test_transfer_entropy_is_the_difference_of_the_divergences(fitted):
    assert fitted.te_ == pytest.approx(fitted.d_xy_ - fitted.d_y_, abs=1e-12)


def test_transfer_entropy_is_the_mean_of_the_local_values(fitted):
    (local,) = fitted.local_te_
    assert local.shape == (N_SAMPLES,)
    assert np.isnan(local[0])
    assert np.isfinite(local[1:]).all()
    assert fitted.te_ == pytest.approx(local[1:].mean(), abs=1e-12)


def test_the_interval_follows_from_the_local_values(fitted):
    spread = standard_error(fitted.local_te_)
    assert spread <= fitted.std_error_ <= spread + 0.01
    low, high = fitted.interval_
    assert (low + high) / 2 == pytest.approx(fitted.te_, abs=1e-12)
    assert high - low == pytest.approx(2 * 1.959964 * fitted.std_error_, rel=1e-6)


def test_every_training_has_its_history(fitted, preset):
    assert len(fitted.history_) == (4 if preset == "default" else 2)
    assert fitted.converged_ is all(history.converged for history in fitted.history_)
    for history in fitted.history_:
        assert "fold" in history.label
        assert len(history.step) == len(history.train) == len(history.validation) > 0
        assert np.isfinite(history.validation).all()


def test_a_training_cut_short_says_that_it_has_not_converged():
    with pytest.warns(NotConvergedWarning, match="Raise epochs before using the value") as caught:
        estimator = TREET(preset="paper", memory=1, epochs=1, random_state=0).fit(*coupled())
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert estimator.converged_ is estimator.result_.converged is False
    assert "NOT CONVERGED" in str(estimator.result_)


# Randomness and state


@pytest.fixture(scope="module")
def repeated(preset):
    """The same fit again under other global seeds; what became of them, and of the caller's arrays."""
    arrays = coupled()
    before = [array.copy() for array in arrays]
    torch.manual_seed(123)
    np.random.seed(123)  # noqa: NPY002
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    threads = torch.get_num_threads()
    estimator = quiet_fit(preset, *arrays)
    return {
        "estimator": estimator,
        "arrays": all(map(np.array_equal, arrays, before)),
        "writeable": all(array.flags.writeable for array in arrays),
        "torch": torch.equal(torch.get_rng_state(), states[0]),
        "numpy": np.array_equal(np.random.get_state()[1], states[1]),  # noqa: NPY002
        "threads": torch.get_num_threads() == threads,
    }


def test_a_seed_gives_the_same_result_whatever_the_global_seeds(fitted, repeated):
    assert same(fitted.result_, repeated["estimator"].result_)


@pytest.mark.parametrize("what", ["arrays", "writeable", "torch", "numpy", "threads"])
def test_a_fit_changes_nothing_outside(repeated, what):
    assert repeated[what]


def test_another_seed_gives_another_result():
    one, other, unseeded = (quiet_fit("paper", *coupled(), random_state=seed) for seed in (0, 1, None))
    assert one.te_ != other.te_
    assert unseeded.te_ not in (one.te_, other.te_)
    assert unseeded.result_.seed is None


def test_a_seed_of_numpy_is_a_seed():
    one, other = (quiet_fit("paper", *coupled(), random_state=seed) for seed in (7, np.int64(7)))
    assert same(one.result_, other.result_)
    assert one.result_.to_json() == other.result_.to_json().replace(
        str(other.result_.seconds), str(one.result_.seconds)
    )


def test_a_second_fit_forgets_the_first(fitted_paper):
    estimator = quiet_fit("paper", *coupled(400, seed=9))
    with pytest.warns(NotConvergedWarning):
        estimator.fit(*coupled())
    assert same(estimator.result_, fitted_paper.result_)


def test_a_fit_that_fails_keeps_the_result_before(fitted):
    before = fitted.result_
    with pytest.raises(TreetError, match="constant"):
        fitted.fit(coupled()[0], np.ones(N_SAMPLES))
    assert fitted.result_ is before


# Input of every kind


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64, np.float16, np.float32, bool])
def test_every_number_type_gives_what_its_float64_values_give(kind):
    counts = [np.round(4 * series + 20).clip(0, 99) for series in coupled()]
    typed = [(series > 20 if kind is bool else series).astype(kind) for series in counts]
    before = [series.copy() for series in typed]
    found = quiet_fit("paper", *typed)
    assert same(found.result_, quiet_fit("paper", *(series.astype(np.float64) for series in typed)).result_)
    assert all(map(np.array_equal, typed, before))


def test_a_target_of_two_values_is_estimated():
    x, y = coupled()
    assert np.isfinite(quiet_fit("default", x, y > 0.3).te_)


def test_one_channel_may_have_one_dimension_or_two_or_a_name():
    x, y = coupled()
    results = [
        quiet_fit("paper", x, y).result_,
        quiet_fit("paper", x[:, None], y[None, :, None]).result_,
        quiet_fit("paper", x.tolist(), [y]).result_,
    ]
    assert same(results[0], results[1])
    assert same(results[0], results[2])
    frame = pd.DataFrame({"heart": x, "breath": y})
    named = quiet_fit("paper", frame[["heart"]], frame["breath"]).result_
    assert named.direction == "heart -> breath"
    assert named.te == results[0].te


def several(seed=0, lengths=(170, 60, 90)):
    """Source and target of two channels and a condition over unequal trials, with gaps in each of them."""
    rng = np.random.default_rng(seed)
    sources, targets, conditions = [], [], []
    for length in lengths:
        x, z = rng.normal(size=(length, 2)), rng.normal(size=length)
        y = 0.5 * rng.normal(size=(length, 2)) + np.roll(x, 1, axis=0) + 0.3 * np.roll(z, 1)[:, None]
        sources.append(x)
        targets.append(y)
        conditions.append(z)
    sources[0][30, 1] = targets[1][20, 0] = conditions[2][[40, 41]] = np.nan
    return sources, targets, conditions


HISTORY = {"memory": None, "target_history": 2, "source_history": 1, "delay": 1, "condition_history": 3}


def undefined(sources, targets, conditions):
    """For each trial, where the past under ``HISTORY`` is not whole: a loop over time steps."""
    found = []
    for x, y, z in zip(sources, targets, conditions, strict=True):
        whole = [
            t >= 3 and np.isfinite([*y[t - 2 : t + 1].ravel(), *x[t - 1], *z[t - 3 : t]]).all()
            for t in range(len(y))
        ]
        found.append(~np.array(whole))
    return found


@pytest.fixture(scope="module")
def fitted_on_trials(preset):
    return quiet_fit(preset, *several(), **HISTORY)


def test_local_values_are_nan_exactly_where_the_past_is_not_whole(fitted_on_trials):
    missing = undefined(*several())
    assert [np.isnan(local).tolist() for local in fitted_on_trials.local_te_] == [m.tolist() for m in missing]
    assert fitted_on_trials.n_windows_ == sum((~m).sum() for m in missing)
    assert fitted_on_trials.te_ == pytest.approx(np.nanmean(np.concatenate(fitted_on_trials.local_te_)))


def test_vectors_a_condition_and_their_lags_are_in_the_result(fitted_on_trials):
    result = fitted_on_trials.result_
    assert result.direction == "source[0], source[1] -> target[0], target[1] | condition"
    assert str(result.lags) == "target lags 1..2, source lag 1, condition lags 1..3"


def test_local_values_of_new_trials_are_nan_where_their_past_is_not_whole(fitted_on_trials):
    new = several(seed=1, lengths=(90, 70, 80))
    local = fitted_on_trials.local_te(*new)
    assert [np.isnan(trial).tolist() for trial in local] == [missing.tolist() for missing in undefined(*new)]


def test_new_data_may_have_stretches_of_a_single_window(fitted_default):
    """Shorter ones than any in the training."""
    x, y = coupled(100, seed=4)
    y[::3] = np.nan
    for fitted in (fitted_default, quiet_fit("paper", *coupled(600), epochs=1)):
        (local,) = fitted.local_te(x, y)
        assert np.isfinite(local[2::3]).all()
        assert np.isnan(local[[*range(0, 100, 3), *range(1, 100, 3)]]).all()


def test_a_local_value_depends_on_its_lags_and_on_nothing_else(fitted):
    """Change one value of one series: the local values that move are those whose window holds it.

    The mean in the objective of Donsker and Varadhan moves all of the paper's by one and the same number.
    """
    x, y = coupled(120, seed=6)
    (before,) = fitted.local_te(x, y)
    lags, place = fitted.lags_, 60
    for series, visible in ((x, lags.source_lags), (y, range(lags.target_history + 1))):
        original, series[place] = series[place], series[place] + 0.5
        (after,) = fitted.local_te(x, y)
        series[place] = original
        change = after - before
        moved = np.flatnonzero(np.abs(change - np.nanmedian(change)) > 1e-6) - place
        assert set(moved) <= set(visible)
        assert len(moved) > 0


# New data


def test_the_score_is_the_mean_of_the_local_values_of_new_data(fitted):
    new = coupled(150, seed=5)
    (local,) = fitted.local_te(*new)
    assert local.shape == (150,)
    assert np.isnan(local[0])
    assert fitted.score(*new) == pytest.approx(local[1:].mean(), abs=1e-12)
    assert fitted.score(*new) == fitted.score(*new)


def test_scoring_changes_nothing(fitted):
    new = coupled(150, seed=5)
    before, result = [series.copy() for series in new], fitted.result_
    states = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    fitted.score(*new)
    assert all(map(np.array_equal, new, before))
    assert fitted.result_ is result
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002


def test_new_data_must_have_the_channels_of_the_fit(fitted):
    x, y = coupled(150, seed=5)
    with pytest.raises(TreetError, match=r"source must have 1 channels, as in the fit\. Got 2"):
        fitted.score(np.column_stack([x, x**2]), y)
    with pytest.raises(TreetError, match=r"condition must have 0 channels, as in the fit\. Got 1"):
        fitted.local_te(x, y, x**2)
    with pytest.raises(TreetError, match="equally long"):
        fitted.score(x[:-1], y)


# Invariants


def test_bits_are_nats_over_log_two(fitted_paper):
    nats, bits = fitted_paper, quiet_fit("paper", *coupled(), unit="bits")
    assert bits.result_.unit == "bits"
    for name in ("te", "std_error", "d_y", "d_xy"):
        assert getattr(bits.result_, name) == pytest.approx(getattr(nats.result_, name) / math.log(2))
    np.testing.assert_allclose(bits.interval_, np.divide(nats.interval_, math.log(2)), rtol=1e-12)
    np.testing.assert_allclose(bits.local_te_[0], nats.local_te_[0] / math.log(2), rtol=1e-12)
    new = coupled(150, seed=5)
    assert bits.score(*new) == pytest.approx(nats.score(*new) / math.log(2), rel=1e-12)


def test_the_units_of_the_data_do_not_matter(fitted, preset):
    """Powers of two are exact, so that every number stays the same."""
    x, y = coupled()
    assert same(quiet_fit(preset, 1024 * x, y / 64).result_, fitted.result_)


def test_an_offset_does_not_matter(fitted_paper):
    x, y = coupled()
    moved = quiet_fit("paper", 0.001 * x - 7, 300 * y + 1e5)
    np.testing.assert_allclose(moved.local_te_[0], fitted_paper.local_te_[0], atol=0.01)
    assert moved.te_ == pytest.approx(fitted_paper.te_, abs=1e-3)


@pytest.mark.parametrize("reference", ["uniform", "gaussian given past"])
def test_the_reference_moves_the_divergences_of_densities_and_not_their_difference(fitted_default, reference):
    other = quiet_fit("default", *coupled(), reference=reference)
    assert other.te_ == pytest.approx(fitted_default.te_, abs=1e-5)
    assert abs(other.d_y_ - fitted_default.d_y_) > 1e-3


def test_the_order_of_the_source_channels_does_not_matter_much(fitted_on_trials, preset):
    sources, targets, conditions = several()
    turned = quiet_fit(preset, [x[:, ::-1] for x in sources], targets, conditions, **HISTORY)
    assert turned.te_ == pytest.approx(fitted_on_trials.te_, abs=4 * fitted_on_trials.std_error_)


def test_a_condition_that_is_the_driver_leaves_nothing_to_tell():
    """z drives y; x is a copy of z with noise."""
    rng = np.random.default_rng(2)
    z, added, own = rng.normal(size=(3, 400))
    y = 0.9 * np.roll(z, 1) + 0.4 * own
    x = z + 0.3 * added
    lags = {"memory": None, "target_history": 1, "source_history": 1}
    plain = quiet_fit("default", x, y, **lags)
    given = quiet_fit("default", x, y, z, **lags)
    assert plain.te_ > 0.4
    assert abs(given.te_) < 0.1


# The paper's network


@pytest.mark.parametrize("delay", [0, 1, 3])
@pytest.mark.parametrize("channels", [(1, 1, 0), (2, 1, 0), (1, 2, 1), (3, 2, 2)])
def test_the_paper_preset_takes_any_lags_and_channels(delay, channels):
    sources, targets, conditions = channels
    rng = np.random.default_rng(0)
    source, target = rng.normal(size=(200, sources)), rng.normal(size=(200, targets))
    condition = rng.normal(size=(200, conditions)) if conditions else None
    lags = {"memory": None, "target_history": 2, "source_history": 3, "delay": delay}
    estimator = quiet_fit("paper", source, target, condition, **lags)
    assert estimator.n_windows_ == 200 - max(2, delay + 2)
    assert np.isfinite(np.concatenate(estimator.local_te_)[max(2, delay + 2) :]).all()
    assert estimator.te_ == pytest.approx(estimator.d_xy_ - estimator.d_y_, abs=1e-12)


@pytest.mark.parametrize("reference", ["uniform", "gaussian", "gaussian given past"])
@pytest.mark.parametrize("objective", ["dv", "per context", "ranking"])
def test_the_paper_preset_takes_every_reference_with_every_objective(reference, objective):
    estimator = quiet_fit("paper", *coupled(), reference=reference, objective=objective)
    assert np.isfinite([estimator.te_, *estimator.interval_]).all()
    assert estimator.te_ == pytest.approx(estimator.d_xy_ - estimator.d_y_, abs=1e-12)
    settings = estimator.result_.settings
    assert (settings["reference"], settings["objective"]) == (reference, objective)
    assert np.isfinite(estimator.score(*coupled(150, seed=5)))
