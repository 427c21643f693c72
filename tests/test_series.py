"""What the critics read: standardised tensors and gathered pasts, against loops over single windows."""

import doctest

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import treet.series
from treet.data import Recording
from treet.errors import TreetError
from treet.lags import Lags
from treet.series import Scaler, Series
from treet.windows import ROLES, Windows

WIDTHS = {"target": 2, "source": 3, "condition": 1}
AS_IT_IS = Scaler(np.zeros(6), np.ones(6))


def recording_of(role, values):
    """One trial (time, channels), or a list of them, with a name for each channel."""
    trials = tuple(values) if isinstance(values, list) else (values,)
    return Recording(trials, tuple(f"{role}{index}" for index in range(trials[0].shape[1])))


def windows_of(values, lags, widths=WIDTHS):
    """``values`` (time, channels), or a list of trials, in the order of the roles."""
    trials = values if isinstance(values, list) else [values]
    edges = np.cumsum(list(widths.values()))[:-1]
    parts = {
        role: recording_of(role, [np.split(trial, edges, axis=1)[index] for trial in trials])
        for index, role in enumerate(widths)
    }
    return Windows.of(parts["source"], parts["target"], parts.get("condition"), lags)


def noise(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def whole(windows):
    return Series(windows, Scaler.of(windows, windows.positions))


@st.composite
def problems(draw):
    """Windows over trials with gaps, any lags, with or without a condition."""
    lengths = draw(st.lists(st.integers(1, 40), min_size=1, max_size=3))
    widths = {role: draw(st.integers(1, 3)) for role in draw(st.sampled_from([ROLES, ROLES[:2]]))}
    history = st.integers(1, 6)
    condition_history = draw(st.none() | history) if "condition" in widths else None
    lags = Lags(draw(history), draw(history), draw(st.integers(0, 8)), condition_history)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    trials = [rng.normal(size=(length, sum(widths.values()))) for length in lengths]
    for trial in trials:
        trial[rng.random(trial.shape) < draw(st.sampled_from([0.0, 0.05]))] = np.nan
    try:
        return windows_of(trials, lags, widths)
    except TreetError:
        return assume(False)


@settings(deadline=None, max_examples=150)
@given(problems(), st.randoms(use_true_random=False))
def test_pasts_equal_a_loop_over_windows_and_lags(windows, shuffled):
    values = [[0.0 if np.isnan(value) else np.float32(value) for value in row] for row in windows.values]
    series = Series(windows, Scaler(np.zeros(len(values[0])), np.ones(len(values[0]))))
    positions = windows.positions.tolist()
    shuffled.shuffle(positions)
    pasts = series.pasts(torch.tensor(positions), ROLES)
    assert list(pasts) == [role for role in ROLES if windows.width(role)]
    for role, past in pasts.items():
        columns, lags = range(*windows.columns(role).indices(len(values[0]))), windows.lags.of(role)
        expected = [[[values[t - lag][c] for c in columns] for lag in reversed(lags)] for t in positions]
        np.testing.assert_array_equal(past.numpy(), np.array(expected, np.float32))
        assert series.shapes(ROLES)[role] == tuple(past.shape[1:])
    present = [values[t][: windows.width("target")] for t in positions]
    np.testing.assert_array_equal(series.present(torch.tensor(positions)).numpy(), present)


@settings(deadline=None, max_examples=80)
@given(problems())
def test_what_is_gathered_at_windows_equals_the_windows_themselves(windows):
    series = whole(windows)
    scaler = Scaler.of(windows, windows.positions)
    positions = torch.from_numpy(windows.positions)
    for role, past in series.pasts(positions, ROLES).items():
        columns = windows.columns(role)
        scaled = (windows.past(role)[:, ::-1] - scaler.mean[columns]) / scaler.std[columns]
        np.testing.assert_allclose(past.numpy(), scaled, rtol=1e-5, atol=1e-5)


def test_segments_are_stretches_of_every_series_that_is_asked_for():
    windows = windows_of(noise(50, 6), Lags(2, 3))
    series = Series(windows, AS_IT_IS)
    starts = torch.tensor([0, 7, 40])
    target, source, condition = series.segments(starts, 10, ROLES)
    for found, role in ((target, "target"), (source, "source"), (condition, "condition")):
        expected = [windows.values[start : start + 10, windows.columns(role)] for start in starts]
        np.testing.assert_array_equal(found.numpy(), np.array(expected, np.float32))
    assert [part.shape[2] for part in series.segments(starts, 1, ("source", "target"))] == [3, 2]


def test_a_role_that_is_not_there_is_left_out():
    windows = windows_of(noise(50, 2), Lags(2, 3), {"target": 1, "source": 1})
    series = whole(windows)
    assert set(series.values) == {"target", "source"}
    assert list(series.pasts(torch.tensor([5]), ("target", "condition"))) == ["target"]
    assert len(series.segments(torch.tensor([5]), 4, ROLES)) == 2
    assert series.shapes(("target", "condition")) == {"target": (2, 1)}


def test_gaps_are_zero_and_every_other_value_is_standardised():
    values = 5.0 + 3.0 * noise(200, 6)
    values[[20, 21, 90], 0] = np.nan
    values[100, 3] = np.nan
    series = whole(windows_of(values, Lags(2, 2)))
    gathered = np.concatenate([series.values[role].numpy() for role in ROLES], axis=1)
    assert (gathered[[20, 21, 90], 0] == 0).all()
    assert gathered[100, 3] == 0
    assert np.isfinite(gathered).all()
    np.testing.assert_allclose(gathered.mean(axis=0), 0, atol=0.05)
    np.testing.assert_allclose(gathered.std(axis=0), 1, atol=0.05)


def test_tensors_are_contiguous_float32_on_the_device():
    series = whole(windows_of(noise(50, 6), Lags(2, 2)))
    assert series.device == torch.device("cpu")
    for tensor in series.values.values():
        assert tensor.dtype == torch.float32
        assert tensor.is_contiguous()


def test_the_scaler_knows_only_what_the_training_windows_see():
    windows = windows_of(noise(300, 6), Lags(3, 3))
    positions = windows.positions[:100]
    before = Scaler.of(windows, positions)
    changed = windows.values.copy()
    changed[positions[-1] + 1 :] = 1e6
    after = Scaler.of(windows_of(changed, Lags(3, 3)), positions)
    np.testing.assert_array_equal(before.mean, after.mean)
    np.testing.assert_array_equal(before.std, after.std)


def test_the_scaler_holds_mean_and_standard_deviation_of_each_channel():
    values = noise(5000, 6) * [1, 2, 3, 4, 5, 6] + [0, 10, -20, 30, 1e3, -1e3]
    windows = windows_of(values, Lags(1, 1))
    scaler = Scaler.of(windows, windows.positions)
    np.testing.assert_allclose(scaler.mean, values.mean(axis=0), rtol=1e-3, atol=1e-2)
    np.testing.assert_allclose(scaler.std, values.std(axis=0), rtol=1e-2)


@pytest.mark.parametrize("level", [0.0, 1.0, -3e-7, 0.1, 1e8])
def test_a_channel_that_stands_still_in_the_training_data_is_shifted_and_not_blown_up(level):
    values = noise(400, 6)
    values[:200, 4] = level
    windows = windows_of(values, Lags(2, 2))
    scaler = Scaler.of(windows, windows.positions[:150])
    assert scaler.std[4] == 1.0
    assert scaler.mean[4] == pytest.approx(level, rel=1e-12)
    gathered = Series(windows, scaler).values["source"].numpy()
    np.testing.assert_allclose(gathered[:200, 2], 0, atol=1e-7 * max(1.0, abs(level)))
    np.testing.assert_allclose(gathered[200:, 2], values[200:, 4] - level, rtol=1e-4, atol=1e-6)


def test_a_small_signal_on_a_large_offset_is_still_a_signal():
    values = noise(400, 6)
    values[:, 0] = 1e6 + 1e-2 * values[:, 0]
    scaled = whole(windows_of(values, Lags(2, 2))).values["target"][:, 0]
    assert scaled.std().item() == pytest.approx(1.0, abs=0.05)


def test_a_source_that_is_measured_every_other_time_step_is_standardised_too():
    """Its value is missing at the present of every window, but not in its past."""
    values = 50.0 + 9.0 * noise(400, 2)
    values[::2, 1] = np.nan
    windows = windows_of(values, Lags(1, 1), {"target": 1, "source": 1})
    assert (windows.positions % 2 == 0).all()
    past = whole(windows).pasts(torch.from_numpy(windows.positions), ("source",))["source"]
    assert past.mean().item() == pytest.approx(0.0, abs=0.05)
    assert past.std().item() == pytest.approx(1.0, abs=0.05)


def test_the_windows_are_not_written_to():
    values = noise(50, 6)
    before = values.copy()
    series = whole(windows_of(values, Lags(2, 2)))
    for tensor in series.values.values():
        tensor.zero_()
    np.testing.assert_array_equal(values, before)


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.series).failed == 0
