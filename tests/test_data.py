"""Recordings from everything a caller may hand in, and the checks on their channels."""

import doctest

import mne
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st

import treet.data
from treet.data import Recording, as_recording, check_channels, check_same_shape, choose, find_channels
from treet.errors import TreetError

NAMES = ("heart", "breath", "heart", "0", "7")


def refused(function, *arguments):
    """The message of the error: one line, whatever was handed in."""
    with pytest.raises(TreetError) as caught:
        function(*arguments)
    message = str(caught.value)
    assert message.isprintable()
    return message


def same(recording, trials, names):
    assert recording.names == names
    assert len(recording.trials) == len(trials)
    for got, expected in zip(recording.trials, trials, strict=True):
        assert got.dtype == np.float64
        assert not got.flags.writeable
        np.testing.assert_array_equal(got, expected)


def series(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.int64, np.float16, np.float32, ">f8", float])
@pytest.mark.parametrize("shape", [(6,), (6, 1), (6, 3), (2, 6, 1), (2, 6, 3)])
def test_an_array_of_any_real_type_and_shape(dtype, shape):
    array = (np.arange(np.prod(shape)) % 2).astype(dtype).reshape(shape)
    before = array.copy()
    recording = as_recording(array, "source")
    trials = array.reshape(-1, 6, 1 if len(shape) == 1 else shape[-1])
    names = ("source[0]", "source[1]", "source[2]") if trials.shape[2] == 3 else ("source",)
    same(recording, trials.astype(float), names)
    assert recording.n_channels == len(names)
    assert recording.n_samples == 6 * len(trials)
    assert recording.sampling_rate is None
    np.testing.assert_array_equal(array, before)
    array[0] = 1


def test_float64_is_not_copied_and_the_callers_array_stays_writeable():
    array = series(50, 3)
    recording = as_recording(array, "source")
    assert np.shares_memory(recording.trials[0], array)
    with pytest.raises(ValueError, match="read-only"):
        recording.trials[0][0, 0] = 0
    array[0, 0] = 5.0
    direct = Recording((array,), ("a", "b", "c"))
    assert np.shares_memory(direct.trials[0], array)
    assert not direct.trials[0].flags.writeable
    assert array.flags.writeable


def test_a_read_only_array_and_a_view_with_strides_are_taken():
    array = series(50, 4)
    array.flags.writeable = False
    same(as_recording(array, "source").select(1), [array[:, [1]]], ("source[1]",))
    same(as_recording(array[::-3, ::2], "source"), [array[::-3, ::2]], ("source[0]", "source[1]"))


def test_lists_are_one_channel_or_trials_of_any_lengths():
    same(as_recording([1, True, 2.5], "target"), [[[1], [1], [2.5]]], ("target",))
    same(as_recording([[1, 2, 3], (4,)], "target"), [[[1], [2], [3]], [[4]]], ("target",))
    same(as_recording([series(5, 2), series(3, 2)], "x"), [series(5, 2), series(3, 2)], ("x[0]", "x[1]"))
    same(as_recording((series(5), series(1, 4, 1)), "x"), [series(5)[:, None], series(4, 1)], ("x",))
    same(as_recording([[[1, 2], [3, 4]], [[5, 6]]], "x"), [[[1, 2], [3, 4]], [[5, 6]]], ("x[0]", "x[1]"))
    same(as_recording(range(3), "x"), [[[0], [1], [2]]], ("x",))


def test_a_list_of_named_trials_keeps_the_names():
    frame = pd.DataFrame({"a": [1, 2], "b": [3, 4]})
    same(as_recording([frame, frame[:1]], "x"), [frame, frame[:1]], ("a", "b"))
    recordings = [Recording((series(4, 1),), ("a",), 250.0), Recording((series(3, 1),), ("a",), 250.0)]
    assert as_recording(recordings, "x").sampling_rate == 250.0


def test_a_recording_is_handed_through():
    recording = as_recording(series(9), "source")
    assert as_recording(recording, "target") is recording


def test_masked_values_are_gaps_and_the_mask_stays():
    for dtype in (int, bool, float):
        masked = np.ma.array(np.ones((3, 2), dtype), mask=[[0, 0], [1, 0], [0, 1]])
        before = masked.copy()
        same(as_recording(masked, "x"), [[[1, 1], [np.nan, 1], [1, np.nan]]], ("x[0]", "x[1]"))
        np.testing.assert_array_equal(masked.mask, before.mask)
        np.testing.assert_array_equal(masked.data, before.data)
    same(as_recording([np.ma.array([1, 2], mask=[0, 1])], "x"), [[[1], [np.nan]]], ("x",))
    same(as_recording(np.ma.array([1.0, 2.0]), "x"), [[[1], [2]]], ("x",))


def test_series_and_frames_are_named_by_their_columns():
    same(as_recording(pd.Series([1, 2], name="heart"), "x"), [[[1], [2]]], ("heart",))
    same(as_recording(pd.Series([1, 2]), "x"), [[[1], [2]]], ("x",))
    frame = pd.DataFrame({"a": [1, 2], 5: [True, False], "c": [np.nan, 0.5]}, index=[7, 7])
    before = frame.copy()
    same(as_recording(frame, "x"), [[[1, 1, np.nan], [2, 0, 0.5]]], ("a", "5", "c"))
    pd.testing.assert_frame_equal(frame, before)
    same(as_recording(pd.DataFrame(series(4, 2)), "x"), [series(4, 2)], ("x[0]", "x[1]"))
    same(as_recording(pd.DataFrame([[1, 2]], columns=["a", "a"]), "x"), [[[1, 2]]], ("a", "a"))


@pytest.mark.parametrize("dtype", ["Int64", "Float32", "boolean", "double[pyarrow]", "int8[pyarrow]"])
def test_missing_values_of_nullable_columns_are_gaps(dtype):
    same(as_recording(pd.Series([1, None, 0], dtype=dtype), "x"), [[[1], [np.nan], [0]]], ("x",))


def test_a_sparse_column_is_read_in_full():
    sparse = pd.Series(pd.arrays.SparseArray([0, 0, 1.5, np.nan]))
    same(as_recording(sparse, "x"), [[[0], [0], [1.5], [np.nan]]], ("x",))


@pytest.mark.parametrize(
    ("cells", "shown"),
    [
        (["1", "2", "oops"], "row 2 (counted from 0) holds 'oops'"),
        ([1.0, None, "x" * 1000], "row 2 (counted from 0) holds 'xxx"),
        ([1, "two\nlines", 3], r"row 1 (counted from 0) holds 'two\nlines'"),
        ([1, np.zeros((2, 2)), 3], "row 1 (counted from 0) holds '[[0. 0.]"),
        (pd.date_range("2020-01-01", periods=2), "row 0 (counted from 0) holds '2020-01-01 00:00:00'"),
        (pd.to_timedelta([1, 2], unit="D"), "row 0 (counted from 0) holds '1 days 00:00:00'"),
        ([2, 1j], "row 0 (counted from 0) holds '(2+0j)'"),
    ],
)
def test_a_column_that_is_not_numeric_is_named_with_its_first_bad_row(cells, shown):
    message = refused(as_recording, pd.DataFrame({"a": range(len(cells)), "comment": cells}), "source")
    assert message.startswith(f"Column 'comment' of source is not numeric: {shown}")
    assert len(message) < 300


@pytest.mark.parametrize(
    "cells", [["1", "2"], [None, None], pd.Categorical([1, 2]), np.array([1, 2], object)]
)
def test_a_column_of_numbers_in_another_type_is_named_with_its_type(cells):
    message = refused(as_recording, pd.DataFrame({"a": cells}), "source")
    assert "Column 'a' of source must hold numbers. Got values of type" in message


def test_data_arrays_put_time_first_and_take_names_from_the_coordinate():
    values = series(3, 2, 5)
    dims = ("epoch", "sensor", "time")
    array = xr.DataArray(values, dims=dims, coords={"sensor": ["Fz", "Cz"]})
    same(as_recording(array, "x"), values.transpose(0, 2, 1), ("Fz", "Cz"))
    same(as_recording(array[0], "x"), [values[0].T], ("Fz", "Cz"))
    same(as_recording(array[0].drop_vars("sensor"), "x"), [values[0].T], ("x[0]", "x[1]"))
    same(as_recording(array[0, 1].rename("v"), "x"), [values[0, 1][:, None]], ("v",))
    same(as_recording(array[:, 1].drop_vars("sensor"), "x"), values[:, 1][:, :, None], ("x",))
    np.testing.assert_array_equal(array.values, values)
    array.values[0] = 0


def test_data_arrays_with_unclear_dimensions_are_refused():
    array = xr.DataArray(np.zeros((2, 3)), dims=("sample", "channel"))
    assert refused(as_recording, array, "source") == (
        "source must have a dimension named 'time'. Got sample, channel instead."
    )
    for dims in [("trial", "epoch", "time"), ("channel", "sensor", "time")]:
        message = refused(as_recording, xr.DataArray(np.zeros((2, 2, 2)), dims=dims), "source")
        assert message.endswith(f"Got {', '.join(dims)} instead.")


def mne_raw():
    info = mne.create_info(["Fz", "Cz", "STI"], 100.0, ["eeg", "eeg", "stim"], verbose=False)
    info["bads"] = ["Cz"]
    return mne.io.RawArray(series(3, 200), info, copy="both", verbose=False)


def test_mne_raw_has_all_channels_and_a_bad_span_is_a_gap(capsys):
    raw = mne_raw()
    before = raw.get_data(verbose=False)
    recording = as_recording(raw, "x")
    same(recording, [before.T], ("Fz", "Cz", "STI"))
    assert recording.sampling_rate == 100.0
    raw.set_annotations(mne.Annotations([0.5], [0.2], ["BAD_blink"]), verbose=False)
    (trial,) = as_recording(raw, "x").trials
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(trial).all(axis=1)), np.arange(50, 70))
    np.testing.assert_array_equal(
        np.delete(trial, np.s_[50:70], axis=0), np.delete(before.T, np.s_[50:70], axis=0)
    )
    np.testing.assert_array_equal(raw.get_data(verbose=False), before)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("preload", [True, False])
def test_mne_epochs_are_trials(preload, capsys):
    events = np.array([[20, 0, 1], [80, 0, 1], [140, 0, 1]])
    settings = {
        "tmin": 0,
        "tmax": 0.3,
        "baseline": None,
        "picks": "all",
        "preload": preload,
        "verbose": False,
    }
    epochs = mne.Epochs(mne_raw(), events, **settings)
    recording = as_recording(epochs, "x")
    expected = [series(3, 200)[:, start : start + 31].T for start in (20, 80, 140)]
    same(recording, expected, ("Fz", "Cz", "STI"))
    assert recording.sampling_rate == 100.0
    same(as_recording(epochs, "x"), expected, ("Fz", "Cz", "STI"))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "source is empty: it has no samples."),
        (np.zeros((0, 3)), "source is empty: it has no samples."),
        (np.zeros((0, 5, 3)), "source is empty: it has no samples."),
        (np.zeros((2, 0, 3)), "trial 0 of source is empty: it has no samples."),
        (np.zeros((3, 0)), "source is empty: it has no channels."),
        (pd.DataFrame(), "source is empty: it has no"),
        (pd.DataFrame({"a": []}), "source is empty: it has no samples."),
        (pd.DataFrame(index=[1, 2]), "source is empty: it has no channels."),
        (pd.Series([], dtype=float), "source is empty: it has no samples."),
        ([[1, 2], []], "Trial 1: source is empty: it has no samples."),
        (np.float64(3), "Got a single value instead."),
        (3, "Got a single value instead."),
        ([[1, 2], 3], "Trial 1: source must be an array"),
        (np.zeros((1, 2, 3, 4)), "Got the shape (1, 2, 3, 4) instead."),
        ([1, [2, 3]], "source cannot be read as an array"),
        ([[1, 2], [3, [4]]], "Trial 1: source cannot be read as an array"),
        ([np.zeros((2, 2, 2))], "Trial 0 of source must be (time,) or (time, channels). Got 2 trials in it"),
        ("abc", "source must hold real numbers, with NaN for gaps. Got values of type <U3 instead."),
        (["1", "2"], "Got values of type <U1 instead."),
        ([1, None], "Got values of type object instead."),
        (None, "Got values of type object instead."),
        ({"a": [1]}, "Got values of type object instead."),
        (np.array([1j]), "Got values of type complex128 instead."),
        (np.array(["2020-01-01"], "M8[D]"), "Got values of type datetime64[D] instead."),
        (np.ma.array([None, 1]), "Got values of type object instead."),
        ([np.zeros(3), np.zeros((3, 2))], "Trial 0 has 1 (source), trial 1 has 2 (source[0], source[1])."),
        ([pd.Series([1], name="a"), pd.Series([1], name="b")], "Trial 0 has 1 (a), trial 1 has 1 (b)."),
    ],
)
def test_data_that_are_no_recording_say_so_in_one_line(data, words):
    assert words in refused(as_recording, data, "source")


def test_a_recording_checks_its_shape():
    message = refused(Recording, (np.zeros((4, 2)), np.zeros((4, 3))), ("a", "b"))
    assert message.startswith("Trial 1 must have the shape (time, 2): one column for each name. Got (4, 3)")
    assert "Got (4,) instead" in refused(Recording, (np.zeros(4),), ("a",))
    for trials, names in [((), ("a",)), ((np.zeros((4, 0)),), ()), ((np.zeros((0, 1)),), ("a",))]:
        assert "at least one channel and at least one sample" in refused(Recording, trials, names)


def test_a_recording_is_shown_short():
    assert repr(as_recording(series(2, 9, 30), "x")).endswith("x[18], x[19] and 10 more)")
    assert repr(Recording((series(9, 1),), ("two\nlines",))) == (
        r"Recording(1 trial, 9 samples, channels 'two\nlines')"
    )


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("breath", [1]),
        (2, [2]),
        (np.int64(2), [2]),
        (np.array([4, 1]), [4, 1]),
        (np.array(["breath", "7"]), [1, 4]),
        ("2", [2]),
        ("0", [3]),
        (0, [0]),
        ("7", [4]),
        ((1, "0", 0), [1, 3, 0]),
        (iter(["7"]), [4]),
    ],
)
def test_channels_are_found_by_name_or_index(wanted, found):
    assert find_channels(NAMES, wanted, "source") == found


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("heart", "source: 2 channels are named 'heart'. Give an index instead: 0 and 2."),
        (
            "breth",
            "source: there is no channel 'breth'. Did you mean 'breath'? There are: heart, breath, heart,",
        ),
        ("zzz", "source: there is no channel 'zzz'. There are: heart, breath, heart, 0, 7."),
        (5, "there is no channel 5."),
        ("5", "there is no channel '5'."),
        (-1, "there is no channel -1."),
        ("-1", "there is no channel '-1'."),
        ("²", "there is no channel '²'."),
        (1.0, "there is no channel 1.0."),
        (None, "there is no channel None."),
        (True, "there is no channel True."),
        (["breath", ["0"]], "there is no channel ['0']."),
        ([], "No channel is given for source. There are: heart, breath"),
        (["breath", 1], "source names the channel 'breath' twice."),
    ],
)
def test_channels_that_are_unknown_or_unclear_are_named(wanted, words):
    assert words in refused(find_channels, NAMES, wanted, "source")


def test_many_channels_and_odd_names_are_listed_in_one_short_line():
    names = ["two\nlines", *(f"c{index}" for index in range(50))]
    message = refused(find_channels, names, "?", "source")
    assert message.endswith(r"There are: 'two\nlines', " + ", ".join(names[1:20]) + " and 31 more.")


def test_chosen_channels_come_in_the_order_asked_for_with_their_trials():
    recording = Recording((series(4, 3), series(2, 3)), ("a", "b", "c"), 10.0)
    chosen = choose(recording, ["c", 0])
    same(chosen, [series(4, 3)[:, [2, 0]], series(2, 3)[:, [2, 0]]], ("c", "a"))
    assert chosen.sampling_rate == 10.0
    assert "recording: there is no channel 'd'" in refused(recording.select, "d")


def test_recordings_must_have_the_same_shape_and_rate():
    def part(*lengths, rate=None):
        return Recording(tuple(series(length, 1) for length in lengths), ("a",), rate)

    check_same_shape({"target": part(5, 6), "source": part(5, 6, rate=2.0), "condition": part(5, 6)})
    assert refused(check_same_shape, {"target": part(5), "source": part(6)}) == (
        "target and source must be equally long. Got 5 and 6 samples."
    )
    assert "Got 6 and 7 samples in trial 1." in refused(
        check_same_shape, {"target": part(5, 6), "source": part(5, 6), "condition": part(5, 7)}
    )
    assert "the same number of trials. Got 1 and 2." in refused(
        check_same_shape, {"target": part(11), "source": part(5, 6)}
    )
    assert refused(check_same_shape, {"target": part(5, rate=250.0), "source": part(5, rate=500.0)}) == (
        "target and source must be sampled at the same rate. Got 250 and 500 Hz."
    )


def checked(source, target=None, condition=None):
    target = (
        series(len(source[0]) if isinstance(source, list) else len(source), seed=9)
        if target is None
        else target
    )
    check_channels(
        as_recording(source, "source"),
        as_recording(target, "target"),
        None if condition is None else as_recording(condition, "condition"),
    )


def test_good_channels_with_gaps_pass():
    source = series(3000, 3)
    source[::7, 1] = np.nan
    source[:2900, 2] = np.nan
    checked(source, condition=series(3000, 2, seed=1))


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_an_infinite_value_is_named_with_its_place(value):
    source = series(100, 2)
    source[42, 1] = value
    source[3] = np.nan
    assert refused(checked, source) == (
        "Channel 'source[1]' (source) has an infinite value at time index 42. Mark missing values with NaN."
    )
    for trial, place in [(0, 9), (1, 0), (2, 3)]:
        trials = [series(10), series(5), series(8)]
        trials[trial][place] = value
        message = refused(checked, [series(10), series(5), series(8)], trials)
        assert f"'target' (target) has an infinite value at time index {place} of trial {trial}." in message


def test_a_channel_without_values_is_named():
    source = pd.DataFrame({"a": series(20), "b": np.nan})
    assert refused(checked, source) == "Channel 'b' (source) is all NaN: it has no values."


@pytest.mark.parametrize("value", [0.0, -2.5, 1e300])
def test_a_constant_channel_is_named(value):
    condition = series(20, 2, seed=3)
    condition[:, 0] = value
    condition[4, 0] = np.nan
    message = refused(checked, series(20), None, condition)
    assert message.startswith(f"Channel 'condition[0]' (condition) is constant, always {value:g}.")
    assert "constant" in refused(checked, [np.ones(5), np.ones(5)], [series(5), series(5)])


def test_a_channel_in_two_roles_is_named():
    values = series(5000, 3)
    values[7] = np.nan
    for other in (values[:, 2], values[:, 2].astype(np.longdouble)):
        assert refused(checked, values, other) == (
            "source 'source[2]' and target 'target' are the same channel: their values are identical. "
            "Choose different channels."
        )
    message = refused(checked, values, series(5000, seed=1), values[:, 1])
    assert message.startswith("source 'source[1]' and condition 'condition' are the same channel")
    message = refused(checked, series(9), series(9, seed=1), series(9, seed=1))
    assert message.startswith("target 'target' and condition 'condition' are the same channel")


@given(st.integers(0, 2999))
def test_channels_that_differ_in_one_value_are_different(place):
    source = np.arange(3000.0)
    target = source.copy()
    target[place] = -1.0
    checked(source, target)
    assert "the same channel" in refused(checked, source, source.copy())


def test_equal_names_in_two_roles_are_refused():
    source, target = pd.Series(series(9), name="a"), pd.Series(series(9, seed=1), name="a")
    assert refused(checked, source, target).startswith("source and target both have a channel named 'a'.")


def test_the_checks_leave_the_data_as_they_are():
    source, target = series(30, 2), series(30, seed=1)
    source[4] = np.nan
    before = source.copy(), target.copy()
    checked(source, target)
    np.testing.assert_array_equal(source, before[0])
    np.testing.assert_array_equal(target, before[1])
    source[0] = target[0] = 1.0


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.data, extraglobs={"np": np}).failed == 0
