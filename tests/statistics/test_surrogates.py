"""What each surrogate keeps and what it loses, over trials, channels and gaps."""

import doctest

import numpy as np
import pytest
from scipy.signal import lfilter

import treet.statistics.surrogates
from treet.data import Recording, as_recording
from treet.errors import TreetError
from treet.statistics.surrogates import (
    SURROGATES,
    block_permutation,
    circular_shift,
    half_shift,
    iaaft,
    make_surrogate,
    trial_shuffle,
)

each_method = pytest.mark.parametrize("method", SURROGATES)
moved_in_time = pytest.mark.parametrize("method", [circular_shift, block_permutation, iaaft])


def generator(seed=0):
    return np.random.default_rng(seed)


def smooth(n, channels=2, seed=0):
    """Autocorrelated channels that share some of their noise, of unequal laws."""
    noise = generator(seed).normal(size=(n, channels))
    noise[:, 1:] += noise[:, :1]
    values = lfilter([1.0], [1.0, -0.8], noise, axis=0)
    return np.column_stack([np.exp(0.3 * values[:, 0]), values[:, 1:]])


def recording_of(*lengths, seed=0):
    return Recording(tuple(smooth(n, seed=seed + i) for i, n in enumerate(lengths)), ("a", "b"), 250.0)


def circular_covariances(values):
    """(lags, channels, channels)."""
    centred = values - values.mean(axis=0)
    return np.array([np.roll(centred, -lag, axis=0).T @ centred for lag in range(len(values))])


@each_method
def test_shape_names_rate_and_values_are_kept_and_the_caller_s_array_too(method):
    recording = recording_of(60, 60, 60)
    before = [trial.copy() for trial in recording.trials]
    surrogate = make_surrogate(method, recording, generator())
    assert (surrogate.names, surrogate.sampling_rate) == (("a", "b"), 250.0)
    assert [len(trial) for trial in surrogate.trials] == [60, 60, 60]
    everything = [np.sort(np.concatenate(part.trials), axis=0) for part in (recording, surrogate)]
    np.testing.assert_array_equal(*everything)
    for trial, old in zip(recording.trials, before, strict=True):
        np.testing.assert_array_equal(trial, old)


@each_method
def test_the_same_generator_gives_the_same_surrogate_and_another_one_another(method):
    recording = recording_of(*[40] * 8)
    first, again, other = (make_surrogate(method, recording, generator(seed)) for seed in (1, 1, 2))
    for one, two in zip(first.trials, again.trials, strict=True):
        np.testing.assert_array_equal(one, two)
    assert any((one != two).any() for one, two in zip(first.trials, other.trials, strict=True))


@moved_in_time
def test_every_trial_keeps_its_own_values_exactly(method):
    recording = recording_of(50, 31, 90)
    for trial, moved in zip(recording.trials, method(recording, generator()).trials, strict=True):
        np.testing.assert_array_equal(np.sort(moved, axis=0), np.sort(trial, axis=0))
        assert (moved != trial).any()


@pytest.mark.parametrize("method", [circular_shift, block_permutation])
def test_channels_move_together(method):
    recording = recording_of(70, 45)
    for trial, moved in zip(recording.trials, method(recording, generator()).trials, strict=True):
        assert {tuple(row) for row in moved} == {tuple(row) for row in trial}


def test_a_circular_shift_keeps_all_circular_covariances():
    recording = recording_of(64)
    trial, moved = recording.trials[0], circular_shift(recording, generator(3)).trials[0]
    np.testing.assert_allclose(circular_covariances(moved), circular_covariances(trial), atol=1e-9)


def test_circular_shifts_reach_every_offset_but_those_near_none():
    recording = as_recording(np.arange(100.0), "x")
    offsets = {circular_shift(recording, generator(seed)).trials[0][0, 0] for seed in range(2000)}
    assert offsets == set(range(5, 96))


def test_trials_are_shifted_by_offsets_of_their_own():
    recording = as_recording(np.tile(np.arange(200.0)[:, None], (6, 1, 1)), "x")
    assert len({trial[0, 0] for trial in circular_shift(recording, generator()).trials}) > 1


def test_half_a_shift():
    recording = as_recording([[0.0, 1, 2, 3, 4], [5.0, 6, 7, 8]], "x")
    assert [trial.ravel().tolist() for trial in half_shift(recording).trials] == [
        [3, 4, 0, 1, 2],
        [7, 8, 5, 6],
    ]


def test_blocks_keep_their_insides():
    n = 400
    moved = block_permutation(as_recording(np.arange(float(n)), "x"), generator()).trials[0].ravel()
    seams = np.flatnonzero(np.diff(moved) != 1)
    assert 10 <= len(seams) <= 19  # 20 blocks of 20
    assert set((seams + 1) % 20) == {0}


def test_iaaft_keeps_spectrum_and_cross_spectrum_closely():
    trial = smooth(1024)
    moved = iaaft(as_recording(trial, "x"), generator()).trials[0]
    kept, given = (np.fft.rfft(part - part.mean(axis=0), axis=0) for part in (moved, trial))
    errors = np.linalg.norm(np.abs(kept) - np.abs(given), axis=0) / np.linalg.norm(given, axis=0)
    assert errors.max() < 0.05
    cross = [np.vdot(part[:, 0], part[:, 1]).real for part in (kept, given)]
    assert cross[0] == pytest.approx(cross[1], rel=0.05)
    assert abs(np.corrcoef(moved[:, 1], trial[:, 1])[0, 1]) < 0.3


def test_iaaft_loses_what_is_not_linear():
    """A series that falls slowly and jumps up differs from its reverse; a surrogate does not."""
    saw = np.tile(np.linspace(1, -1, 25), 40) + 0.05 * generator().normal(size=1000)

    def skewness(values):
        return (np.diff(values) ** 3).mean() / (np.diff(values) ** 2).mean() ** 1.5

    moved = iaaft(as_recording(saw, "x"), generator()).trials[0].ravel()
    assert skewness(saw) > 3
    assert abs(skewness(moved)) < 1


def test_shuffled_trials_are_whole_and_in_any_order_alike():
    recording = as_recording(np.arange(30.0).reshape(3, 10, 1), "x")
    orders = [
        tuple(int(trial[0, 0]) // 10 for trial in trial_shuffle(recording, generator(seed)).trials)
        for seed in range(600)
    ]
    counts = [orders.count(order) for order in sorted(set(orders))]
    assert len(counts) == 6
    assert min(counts) > 60


@moved_in_time
def test_gaps_stay_and_the_rest_moves_or_the_method_refuses(method):
    values = smooth(80)
    values[10:14, 0], values[50, 1] = np.nan, np.nan
    recording = as_recording(values, "x")
    if method is iaaft:
        with pytest.raises(TreetError, match=r"without gaps. Trial 0 of x\[0\], x\[1\] has NaN"):
            iaaft(recording, generator())
        return
    moved = method(recording, generator()).trials[0]
    np.testing.assert_array_equal(np.isnan(moved), np.isnan(values))
    complete = np.isfinite(values).all(axis=1)
    assert {tuple(row) for row in moved[complete]} == {tuple(row) for row in values[complete]}
    assert (moved[complete] != values[complete]).any()


def test_a_trial_with_one_sample_stays_as_it_is():
    recording = Recording((np.ones((1, 1)), np.full((3, 1), np.nan)), ("x",))
    for method in (circular_shift, block_permutation):
        moved = method(recording, generator())
        np.testing.assert_array_equal(moved.trials[0], [[1.0]])
        assert np.isnan(moved.trials[1]).all()


def test_methods_that_do_not_apply():
    with pytest.raises(TreetError, match=r"at least two trials. Got one: use circular_shift"):
        trial_shuffle(recording_of(50), generator())
    with pytest.raises(TreetError, match=r"trials of one length. Got lengths from 40 to 50"):
        trial_shuffle(recording_of(50, 40), generator())
    with pytest.raises(TreetError, match=r"at least 8 samples in every trial. Got 5 in trial 1"):
        iaaft(recording_of(50, 5), generator())
    with pytest.raises(TreetError, match=r"method must be one of 'circular_shift', .* Got 'shuffle' instead"):
        make_surrogate("shuffle", recording_of(50), generator())


def test_a_callable_of_the_user_s():
    recording = recording_of(20, 30)

    def backwards(given, _):
        return [trial[::-1] for trial in given.trials]

    moved = make_surrogate(backwards, recording, generator())
    np.testing.assert_array_equal(moved.trials[1], recording.trials[1][::-1])
    assert moved.names == recording.names


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda given, _: given.select("a"), "must have the channels of the source, 2. Got 1"),
        (lambda given, _: given.trials[0], "same number of trials"),
        (lambda given, _: [trial[1:] for trial in given.trials], "must be equally long"),
    ],
)
def test_a_callable_must_keep_the_shape(wrong, message):
    with pytest.raises(TreetError, match=message):
        make_surrogate(wrong, recording_of(20, 30), generator())


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.statistics.surrogates).failed == 0
