"""The one-call form, from every kind of data to a result."""

import math

import mne
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import treet
from treet import TreetError, transfer_entropy
from treet.processes import make_process

N = 300
VALUES = make_process("threshold").sample(N, 0).trials[0]  # (time, channels): x drives y
THIRD = np.random.default_rng(1).normal(size=N)
# Training that is too short for a good value, but does all that a long one does.
QUICK = {"preset": "paper", "epochs": 1, "folds": 2, "random_state": 0}

pytestmark = pytest.mark.filterwarnings("ignore::treet.errors.NotConvergedWarning")


def quickly(source, target, condition=None, **parameters):
    return transfer_entropy(source, target, condition, **{"memory": 1, **QUICK, **parameters})


def same_numbers(result, expected):
    assert (result.te, result.d_y, result.d_xy) == (expected.te, expected.d_y, expected.d_xy)
    assert result.interval == expected.interval
    assert result.n_windows == expected.n_windows
    for trial, other in zip(result.local, expected.local, strict=True):
        np.testing.assert_array_equal(trial, other)


@pytest.fixture(scope="module")
def one_trial():
    """The result from plain arrays (time,)."""
    with pytest.warns(treet.NotConvergedWarning):
        return quickly(VALUES[:, 0], VALUES[:, 1])


@pytest.fixture(scope="module")
def three_trials():
    """The result from a list of arrays (time,)."""
    with pytest.warns(treet.NotConvergedWarning):
        return quickly(list(VALUES[:, 0].reshape(3, -1)), list(VALUES[:, 1].reshape(3, -1)))


def mne_info():
    return mne.create_info(["x", "y"], 100.0, "eeg", verbose=False)


ONE_TRIAL = {
    "(time, channels)": lambda: (VALUES[:, [0]], VALUES[:, [1]]),
    "(trials, time, channels)": lambda: (VALUES[None, :, [0]], VALUES[None, :, [1]]),
    "list of numbers": lambda: (VALUES[:, 0].tolist(), VALUES[:, 1].tolist()),
    "list of one trial": lambda: ([VALUES[:, 0]], [VALUES[:, 1]]),
    "pandas Series": lambda: (pd.Series(VALUES[:, 0], name="x"), pd.Series(VALUES[:, 1], name="y")),
    "pandas DataFrame": lambda: tuple(pd.DataFrame(VALUES, columns=["x", "y"])[[name]] for name in "xy"),
    "xarray": lambda: tuple(xr.DataArray(VALUES, {"c": ["x", "y"]}, ("time", "c")).sel(c=[c]) for c in "xy"),
    "xarray, one channel": lambda: tuple(
        xr.DataArray(VALUES[:, i], dims="time", name=c) for i, c in enumerate("xy")
    ),
    "MNE Raw": lambda: tuple(
        mne.io.RawArray(VALUES.T, mne_info(), copy="both", verbose=False).pick([name]) for name in "xy"
    ),
    "Recording": lambda: tuple(make_process("threshold").sample(N, 0).select(name) for name in "xy"),
}
NAMELESS = ("(time, channels)", "(trials, time, channels)", "list of numbers", "list of one trial")
CUBE = VALUES.reshape(3, -1, 2)
THREE_TRIALS = {
    "(trials, time, channels)": lambda: (CUBE[:, :, [0]], CUBE[:, :, [1]]),
    "list of DataFrames": lambda: tuple(
        [pd.DataFrame(trial, columns=["x", "y"])[[name]] for trial in CUBE] for name in "xy"
    ),
    "xarray": lambda: tuple(
        xr.DataArray(CUBE, {"c": ["x", "y"]}, ("trial", "time", "c")).sel(c=[name]) for name in "xy"
    ),
    "MNE Epochs": lambda: tuple(
        mne.EpochsArray(CUBE.transpose(0, 2, 1), mne_info(), verbose=False).pick([name]) for name in "xy"
    ),
}


@pytest.mark.parametrize("kind", ONE_TRIAL)
def test_every_kind_of_data_gives_the_numbers_of_plain_arrays(one_trial, kind):
    result = quickly(*ONE_TRIAL[kind]())
    same_numbers(result, one_trial)
    assert result.direction == ("source -> target" if kind in NAMELESS else "x -> y")


@pytest.mark.parametrize("kind", THREE_TRIALS)
def test_every_kind_of_trials_gives_the_numbers_of_a_list(three_trials, kind):
    same_numbers(quickly(*THREE_TRIALS[kind]()), three_trials)


def test_windows_do_not_span_trials(one_trial, three_trials):
    assert one_trial.n_windows == N - 1
    assert three_trials.n_windows == N - 3
    assert [len(trial) for trial in three_trials.local] == [100, 100, 100]
    assert all(np.isnan(trial[0]) and np.isfinite(trial[1:]).all() for trial in three_trials.local)


def test_trials_may_be_of_different_lengths():
    source, target = ([VALUES[:120, i], VALUES[120:, i]] for i in (0, 1))
    result = quickly(source, target)
    assert result.n_windows == N - 2
    assert [len(trial) for trial in result.local] == [120, 180]


def test_a_bad_span_of_a_recording_is_a_gap():
    raw = mne.io.RawArray(VALUES.T, mne_info(), copy="both", verbose=False)
    raw.set_annotations(mne.Annotations([1.0], [0.2], ["BAD_blink"]), verbose=False)
    result = quickly(raw.copy().pick(["x"]), raw.copy().pick(["y"]))
    missing = np.flatnonzero(np.isnan(result.local[0]))
    np.testing.assert_array_equal(missing, [0, *range(100, 121)])
    assert result.n_windows == N - 22


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.longdouble, int, np.int8, np.uint16])
def test_numbers_of_any_type_are_taken_as_they_are(dtype):
    values = np.random.default_rng(0).integers(0, 100, (2, N))
    same_numbers(quickly(*values.astype(dtype)), quickly(*values.astype(float)))


def test_truth_values_are_numbers():
    values = VALUES > 0
    same_numbers(quickly(values[:, 0], values[:, 1]), quickly(*values.T.astype(float)))


def test_the_data_are_not_written_to():
    frame = pd.DataFrame(VALUES, columns=["x", "y"])
    array, third = VALUES.copy(), THIRD.copy()
    array[7], third[9] = np.nan, np.nan
    before = array.copy(), third.copy(), frame.copy()
    quickly(array[:, 0], array[:, 1], third)
    quickly(frame[["x"]], frame[["y"]])
    for now, then in zip((array, third, frame), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_the_same_seed_gives_the_same_numbers_and_another_one_others(one_trial):
    same_numbers(quickly(VALUES[:, 0], VALUES[:, 1]), one_trial)
    assert quickly(VALUES[:, 0], VALUES[:, 1], random_state=1).te != one_trial.te


def test_the_callers_random_numbers_are_left_alone(one_trial):
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    quickly(VALUES[:, 0], VALUES[:, 1])
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_a_condition_and_every_lag_are_part_of_the_result():
    lags = {"target_history": 2, "source_history": 3, "delay": 4, "condition_history": 1}
    result = quickly(VALUES[:, 0], VALUES[:, 1], THIRD, memory=None, **lags)
    assert result.direction == "source -> target | condition"
    assert {name: getattr(result.lags, name) for name in lags} == lags
    assert result.n_windows == N - 6
    assert "(target lags 1..2, source lags 4..6, condition lag 4; 294 windows; treet)" in str(result)


def test_memory_is_the_shorthand_of_the_paper(one_trial):
    lags = {"target_history": 1, "source_history": 2, "delay": 0}
    same_numbers(quickly(VALUES[:, 0], VALUES[:, 1], memory=None, **lags), one_trial)


def test_several_channels_on_every_side():
    noise = np.random.default_rng(2).normal(size=(N, 6))
    result = quickly(noise[:, :2], noise[:, 2:5], noise[:, 5])
    assert result.source == ("source[0]", "source[1]")
    assert result.target == ("target[0]", "target[1]", "target[2]")
    assert result.condition == ("condition",)


def test_bits_are_nats_over_the_logarithm_of_two(one_trial):
    bits = quickly(VALUES[:, 0], VALUES[:, 1], unit="bits")
    assert bits.unit == "bits"
    assert bits.te == pytest.approx(one_trial.te / math.log(2), rel=1e-12)


def test_a_higher_confidence_is_a_wider_interval(one_trial):
    low, high = quickly(VALUES[:, 0], VALUES[:, 1], confidence=0.99).interval
    assert low < one_trial.interval[0] < one_trial.te < one_trial.interval[1] < high


def test_a_value_that_has_not_settled_says_so():
    with pytest.warns(treet.NotConvergedWarning, match="Raise epochs"):
        result = quickly(VALUES[:, 0], VALUES[:, 1])
    assert not result.converged
    assert str(result).endswith("NOT CONVERGED")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"estimator": "crystal ball"}, "There is no estimator 'crystal ball'. Choose one of"),
        ({"flavour": 3}, "flavour does not apply to the estimator 'treet'. It has: "),
        ({"delay": 0}, "memory=1 already sets target_history, source_history and delay. Got delay as well"),
        ({"memory": 0}, "memory must be a whole number of at least 1. Got 0 instead."),
        ({"memory": None, "source_history": 0}, "source_history must be a whole number of at least 1."),
        ({"memory": None, "target_history": 1.5}, "target_history must be a whole number of at least 1."),
        ({"memory": None, "delay": -1}, "delay must be a whole number of at least 0. Got -1 instead."),
        ({"condition_history": 2}, "condition_history=2 was given without a condition."),
        ({"unit": "bans"}, "unit must be one of 'nats', 'bits'. Got 'bans' instead."),
        ({"unit": ["nats"]}, "unit must be one of 'nats', 'bits'. Got ['nats'] instead."),
        ({"confidence": 95}, "confidence must be a finite number above 0 and below 1. Got 95 instead."),
        (
            {"random_state": "seven"},
            "random_state must be a whole number of at least 0. Got 'seven' instead.",
        ),
        ({"preset": "best"}, "preset must be one of 'default', 'paper'. Got 'best' instead."),
        ({"device": "abacus"}, "device='abacus' cannot be used here"),
        ({"memory": 400}, "they need at least 402 samples in a row. Got 300."),
    ],
)
def test_a_parameter_that_makes_no_sense_is_one_clear_line(parameters, words):
    with pytest.raises(TreetError) as caught:
        quickly(VALUES[:, 0], VALUES[:, 1], **parameters)
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (VALUES[:-1, 0], "target and source must be equally long. Got 300 and 299 samples."),
        ([VALUES[:, 0], VALUES[:, 0]], "the same number of trials. Got 1 and 2."),
        (VALUES[:, 1], "are the same channel: their values are identical."),
        (np.ones(N), "Channel 'source' (source) is constant, always 1."),
        (np.full(N, np.nan), "Channel 'source' (source) is all NaN"),
        (np.where(np.arange(N) == 5, np.inf, VALUES[:, 0]), "has an infinite value at time index 5."),
        (np.where(np.arange(N) % 2, np.nan, VALUES[:, 0]), "No stretch without a gap is long enough"),
        (pd.DataFrame({"a": ["x"] * N}), "Column 'a' of source is not numeric: row 0"),
        ([], "source is empty: it has no samples."),
    ],
)
def test_data_that_cannot_be_used_are_one_clear_line(source, words):
    with pytest.raises(TreetError) as caught:
        quickly(source, VALUES[:, 1])
    assert words in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("name", treet.__all__)
def test_every_public_name_is_there(name):
    assert getattr(treet, name) is not None
    assert name in dir(treet)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="module 'treet' has no attribute 'transfer_entropie'"):
        treet.transfer_entropie  # noqa: B018
