"""Windows against a loop over every time step, written from the definition alone."""

import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from treet.data import Recording, as_recording
from treet.errors import TreetError
from treet.lags import Lags, SourcelessLags
from treet.windows import ROLES, Windows


def naive_windows(parts, lags):
    """For each trial and time step: None, or the present value and each role's past."""
    trials = []
    for trial in range(len(parts["target"].trials)):
        length = len(parts["target"].trials[trial])
        trials.append([naive_window(parts, trial, t, lags) for t in range(length)])
    return trials


def naive_window(parts, trial, t, lags):
    present = parts["target"].trials[trial][t]
    pasts = {role: [] for role in parts}
    for role, part in parts.items():
        for lag in lags.of(role):
            if t - lag < 0:
                return None
            pasts[role].append(part.trials[trial][t - lag])
    everything = np.concatenate([present, *(np.ravel(past) for past in pasts.values())])
    return None if np.isnan(everything).any() else (present, pasts)


@st.composite
def problems(draw):
    """Recordings of 1-3 channels over trials of any lengths, with gaps, and lags for them."""
    lengths = draw(st.lists(st.integers(1, 25), min_size=1, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    share_of_gaps = draw(st.sampled_from([0.0, 0.03, 0.2]))
    roles = ["target", "source", "condition"] if draw(st.booleans()) else ["target", "source"]
    parts = {}
    for role in roles:
        channels = draw(st.integers(1, 3))
        trials = [rng.normal(size=(length, channels)) for length in lengths]
        for trial in trials:
            trial[rng.random(trial.shape) < share_of_gaps] = np.nan
        parts[role] = Recording(tuple(trials), tuple(f"{role}{index}" for index in range(channels)))
    history = st.integers(1, 6)
    condition_history = draw(st.none() | history) if "condition" in parts else None
    return parts, Lags(draw(history), draw(history), draw(st.integers(0, 8)), condition_history)


def windows_of(parts, lags):
    return Windows.of(parts["source"], parts["target"], parts.get("condition"), lags)


@settings(deadline=None, max_examples=300)
@given(problems())
def test_windows_equal_the_naive_loop(problem):
    parts, lags = problem
    expected = naive_windows(parts, lags)
    found = [window for trial in expected for window in trial if window is not None]
    if len(found) < 2:
        with pytest.raises(TreetError, match=f"at least {lags.span + 2} samples"):
            windows_of(parts, lags)
        return
    windows = windows_of(parts, lags)
    assert windows.valid.tolist() == [window is not None for trial in expected for window in trial]
    assert len(windows) == len(found) == len(windows.positions)
    np.testing.assert_array_equal(windows.present(), [present for present, _ in found])
    for role in parts:
        past = np.array([pasts[role] for _, pasts in found])
        assert windows.past(role).shape == (len(found), len(lags.of(role)), parts[role].n_channels)
        np.testing.assert_array_equal(windows.past(role), past)
        np.testing.assert_array_equal(windows.flat_past(role), past.reshape(len(found), -1))


@settings(deadline=None)
@given(problems(), st.integers(1, 12))
def test_with_a_least_span_every_window_reaches_so_far_in_every_channel(problem, least_span):
    parts, lags = problem
    span = max(lags.span, least_span)
    complete = [
        [
            t >= span
            and all(np.isfinite(part.trials[number][t - span : t + 1]).all() for part in parts.values())
            for t in range(len(trial))
        ]
        for number, trial in enumerate(parts["target"].trials)
    ]
    expected = [value for trial in complete for value in trial]
    assume(sum(expected) >= 2)
    windows = Windows.of(parts["source"], parts["target"], parts.get("condition"), lags, least_span)
    assert windows.span == span
    assert windows.valid.tolist() == expected


@settings(deadline=None)
@given(problems())
def test_the_time_axis_puts_each_window_back_where_it_came_from(problem):
    parts, lags = problem
    expected = naive_windows(parts, lags)
    assume(sum(window is not None for trial in expected for window in trial) >= 2)
    windows = windows_of(parts, lags)
    lines = windows.on_time_axis(windows.present()[:, 0])
    assert [len(line) for line in lines] == [len(trial) for trial in parts["target"].trials]
    for line, trial in zip(lines, expected, strict=True):
        np.testing.assert_array_equal(line, [np.nan if window is None else window[0][0] for window in trial])


def ramp(*lengths, start=0.0):
    """Trials whose value says the trial and the time step."""
    return as_recording(
        [start + 1000.0 * i + np.arange(length) for i, length in enumerate(lengths)], "target"
    )


def test_no_window_reaches_into_the_trial_before():
    windows = Windows.of(ramp(5, 6, start=0.5), ramp(5, 6), None, Lags(2, 3, 1))
    assert windows.positions.tolist() == [3, 4, 8, 9, 10]
    np.testing.assert_array_equal(windows.past("source")[2, :, 0], [1002.5, 1001.5, 1000.5])
    np.testing.assert_array_equal(windows.past("target")[2, :, 0], [1002, 1001])


def test_a_gap_takes_away_the_windows_that_need_it_and_no_others():
    source, target = np.arange(20.0), np.arange(20.0) + 0.5
    source[10] = np.nan
    windows = Windows.of(as_recording(source, "source"), as_recording(target, "target"), None, Lags(1, 2, 3))
    # source lags 3 and 4 of the time steps 13 and 14 meet the gap
    assert windows.positions.tolist() == [*range(4, 13), *range(15, 20)]
    target[10] = np.nan
    windows = Windows.of(as_recording(source, "source"), as_recording(target, "target"), None, Lags(1, 2, 3))
    assert windows.positions.tolist() == [*range(4, 10), 12, *range(15, 20)]


def test_the_present_of_the_source_is_needed_only_at_delay_zero():
    source, target = np.arange(9.0), np.arange(9.0) + 0.5
    source[8] = np.nan
    parts = as_recording(source, "source"), as_recording(target, "target"), None
    assert 8 in Windows.of(*parts, Lags(1, 1, 1)).positions
    assert 8 not in Windows.of(*parts, Lags(1, 1, 0)).positions


def test_trials_of_one_window_each_are_enough():
    windows = Windows.of(ramp(4, 4, start=0.5), ramp(4, 4), None, Lags(3, 3, 1))
    assert windows.positions.tolist() == [3, 7]


def test_channels_stand_in_the_order_of_the_roles():
    rng = np.random.default_rng(0)
    source, target, condition = (
        as_recording(rng.normal(size=(11, channels)), role)
        for role, channels in (("source", 2), ("target", 3), ("condition", 1))
    )
    windows = Windows.of(source, target, condition, Lags())
    for role, part in (("source", source), ("target", target), ("condition", condition)):
        np.testing.assert_array_equal(windows.values[:, windows.columns(role)], part.trials[0])
        assert windows.names[role] == part.names
        assert windows.width(role) == part.n_channels
    assert [windows.columns(role) for role in ROLES] == [slice(0, 3), slice(3, 5), slice(5, 6)]


def test_a_role_that_is_not_there_has_no_past():
    windows = Windows.of(ramp(9, start=0.5), ramp(9), None, Lags(2, 2))
    assert windows.width("condition") == 0
    assert windows.past("condition").shape == (7, 0, 0)
    assert windows.flat_past("condition").shape == (7, 0)


def test_the_arrays_cannot_be_written_to_and_the_callers_can():
    source, target = np.arange(30.0), np.arange(30.0) + 0.5
    before = source.copy(), target.copy()
    windows = Windows.of(as_recording(source, "source"), as_recording(target, "target"), None, Lags())
    for array in (windows.values, windows.trial, windows.valid):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    windows.past("source")[:] = 0
    windows.present()[:] = 0
    np.testing.assert_array_equal(source, before[0])
    np.testing.assert_array_equal(target, before[1])
    source[0] = target[0] = 7.0


@pytest.mark.parametrize(
    ("lags", "needed"), [(Lags(3, 5, 1), 7), (Lags.from_memory(6), 8), (Lags(2, 2, 9), 12)]
)
def test_too_short_says_how_many_samples_are_needed_and_that_many_are_enough(lags, needed):
    with pytest.raises(
        TreetError, match=rf"too short .*at least {needed} samples in a row. Got {needed - 1}\."
    ):
        Windows.of(ramp(needed - 1, start=0.5), ramp(needed - 1), None, lags)
    assert len(Windows.of(ramp(needed, start=0.5), ramp(needed), None, lags)) == 2


@pytest.mark.parametrize("delay", [1, 3, 4, 5, 6, 40])
def test_lags_beyond_the_end_of_the_recording_are_too_long(delay):
    with pytest.raises(TreetError, match="too short"):
        Windows.of(ramp(3, start=0.5), ramp(3), None, Lags(3, 2, delay))


def test_gaps_everywhere_are_not_called_too_short():
    target = np.where(np.arange(100) % 4 == 0, np.nan, np.arange(100.0))
    with pytest.raises(
        TreetError, match=r"No stretch without a gap .* at least 7 samples in a row without NaN"
    ):
        Windows.of(ramp(100), as_recording(target, "target"), None, Lags(5, 5))


def test_unequal_lengths_name_the_lengths_and_the_trial():
    with pytest.raises(TreetError, match=r"target and source must be equally long\. Got 10 and 9 samples\."):
        Windows.of(ramp(9), ramp(10), None, Lags(1, 1))
    with pytest.raises(TreetError, match="Got 10 and 9 samples in trial 1"):
        Windows.of(ramp(8, 9), ramp(8, 10), None, Lags(1, 1))
    with pytest.raises(
        TreetError, match=r"target and condition must have the same number of trials\. Got 2 and 1"
    ):
        Windows.of(ramp(8, 9), ramp(8, 9), ramp(17), Lags(1, 1))


def test_a_condition_history_without_a_condition_is_refused():
    with pytest.raises(TreetError, match="condition_history=3 was given without a condition"):
        Windows.of(ramp(50, start=0.5), ramp(50), None, Lags(1, 1, 1, 3))


def test_without_a_source_only_the_other_pasts_are_needed():
    target, condition = ramp(12), ramp(12, start=0.5)
    windows = Windows.of(None, target, None, SourcelessLags(3))
    assert (windows.span, len(windows), windows.names["source"]) == (3, 9, ())
    assert windows.past("source").shape[1:] == (0, 0)
    np.testing.assert_array_equal(
        windows.past("target"), Windows.of(condition, target, None, Lags(3, 1)).past("target")
    )
    given = Windows.of(None, target, condition, SourcelessLags(1, 0, 0, 4))
    assert (given.span, given.columns("condition")) == (3, slice(1, 2))


def test_a_million_samples_take_the_same_short_time_at_any_memory():
    rng = np.random.default_rng(0)
    source = as_recording(rng.normal(size=(1_000_000, 3)), "source")
    target = as_recording(rng.normal(size=1_000_000), "target")
    started = time.perf_counter()
    windows = Windows.of(source, target, None, Lags.from_memory(400))
    assert time.perf_counter() - started < 5.0
    assert len(windows) == 999_600
