"""Folds against the definition: every window held out once, and no sample shared with what is held out."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from treet.data import Recording, as_recording
from treet.errors import TreetError
from treet.lags import Lags
from treet.statistics.cross_fitting import LEAST_WINDOWS, blocked_folds, default_folds
from treet.windows import Windows


def windows_of(*lengths, lags=None, gaps=()):
    """Windows of white noise over trials of these lengths; ``gaps`` are time steps without a target."""
    rng = np.random.default_rng(0)
    trials = [rng.normal(size=(length, 2)) for length in lengths]
    line = np.concatenate(trials)
    line[list(gaps), 1] = np.nan
    trials = np.split(line, np.cumsum(lengths)[:-1])
    recording = Recording(tuple(trials), ("x", "y"))
    return Windows.of(recording.select("x"), recording.select("y"), None, lags or Lags(3, 3))


def apart_from(windows, held_out):
    """The positions of all windows that share no sample with those held out."""
    covered = np.zeros(len(windows.values), bool)
    for position in held_out:
        covered[position - windows.span : position + 1] = True
    free = [not covered[position - windows.span : position + 1].any() for position in windows.positions]
    return windows.positions[free]


@st.composite
def problems(draw):
    """Windows over trials with gaps, at least 40 for each fold, and a number of folds."""
    n_folds = draw(st.integers(2, 6))
    history = st.integers(1, 8)
    lags = Lags(draw(history), draw(history), draw(st.integers(0, 30)))
    lengths = draw(st.lists(st.integers(1, 150), min_size=1, max_size=4))
    lengths.append(LEAST_WINDOWS * n_folds + 100 + draw(st.integers(0, 200)))
    where = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    gaps = np.flatnonzero(where.random(sum(lengths)) < draw(st.sampled_from([0.0, 0.002, 0.02])))
    windows = windows_of(*draw(st.permutations(lengths)), lags=lags, gaps=gaps)
    assume(len(windows) >= LEAST_WINDOWS * n_folds)
    return windows, n_folds


@settings(deadline=None, max_examples=200)
@given(problems())
def test_folds_are_what_the_definition_says(problem):
    windows, n_folds = problem
    blocks = np.array_split(windows.positions, n_folds)
    if min(len(apart_from(windows, block)) for block in blocks) < LEAST_WINDOWS:
        with pytest.raises(TreetError, match="memory is too long"):
            blocked_folds(windows, n_folds)
        return
    for fold, block in zip(blocked_folds(windows, n_folds), blocks, strict=True):
        np.testing.assert_array_equal(fold.test, block)
        assert len(fold.train) > len(fold.validation) > 0
        # Nothing that shares a sample is used, nothing is used twice, and nothing else is wasted.
        used = np.sort(np.concatenate([fold.train, fold.validation]))
        np.testing.assert_array_equal(used, apart_from(windows, block))


@pytest.mark.parametrize("left", [*range(LEAST_WINDOWS, 72), 1000])
def test_however_few_windows_are_left_each_eighth_is_validated(left):
    windows = windows_of(left + 3, left + 3)
    for fold in blocked_folds(windows, 2):
        assert len(fold.train) + len(fold.validation) == left
        assert np.count_nonzero(np.diff(fold.validation) > 1) == 7
        assert 8 <= len(fold.validation) <= 0.2 * left


def test_blocks_are_consecutive_and_of_nearly_equal_size():
    windows = windows_of(503)
    folds = blocked_folds(windows, 5)
    assert [len(fold.test) for fold in folds] == [100] * 5
    for fold in folds:
        assert (np.diff(fold.test) == 1).all()
    assert [len(fold.test) for fold in blocked_folds(windows_of(505), 5)] == [101, 101, 100, 100, 100]


def test_the_gap_is_the_memory_on_both_sides():
    windows = windows_of(303, lags=Lags(3, 2, 2))
    middle = blocked_folds(windows, 3)[1]
    assert (middle.test[0], middle.test[-1]) == (103, 202)
    used = np.sort(np.concatenate([middle.train, middle.validation]))
    np.testing.assert_array_equal(used, [*range(3, 100), *range(206, 303)])


def test_the_gap_ends_with_the_trial():
    windows = windows_of(103, 103, 103)
    middle = blocked_folds(windows, 3)[1]
    assert (middle.test[0], middle.test[-1]) == (106, 205)
    used = np.sort(np.concatenate([middle.train, middle.validation]))
    np.testing.assert_array_equal(used, [*range(3, 103), *range(209, 309)])


def test_a_block_may_span_trials_and_gaps():
    windows = windows_of(60, 60, 60, gaps=[20, 100])
    folds = blocked_folds(windows, 2)
    np.testing.assert_array_equal(np.concatenate([fold.test for fold in folds]), windows.positions)
    assert set(windows.trial[folds[0].test]) == {0, 1}
    assert not {20, 21, 22, 23} & set(folds[0].test.tolist())


def test_validation_is_spread_over_the_recording_and_takes_about_an_eighth():
    fold = blocked_folds(windows_of(10_003), 5)[0]
    share = len(fold.validation) / (len(fold.validation) + len(fold.train))
    assert 0.11 < share < 0.13
    stretches = np.split(fold.validation, np.flatnonzero(np.diff(fold.validation) > 1) + 1)
    assert len(stretches) == 8
    # Each eighth of what is not held out has its stretch in the middle.
    centres = [np.mean(stretch) for stretch in stretches]
    np.testing.assert_allclose(centres, 2003 + 3 + (np.arange(8) + 0.5) * 1000, atol=10)


def test_folds_are_the_same_every_time_and_leave_the_windows_alone():
    windows = windows_of(300)
    before = windows.values.copy()
    for one, other in zip(blocked_folds(windows, 3), blocked_folds(windows, 3), strict=True):
        for name in ("train", "validation", "test"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(windows.values, before)


@pytest.mark.parametrize("n_folds", [3, 5])
def test_too_few_windows_say_how_many_are_needed_and_that_many_are_enough(n_folds):
    needed = LEAST_WINDOWS * n_folds
    with pytest.raises(TreetError, match=rf"{needed - 1} for {n_folds} folds. At least {needed} are needed"):
        blocked_folds(windows_of(needed + 2), n_folds)
    assert len(blocked_folds(windows_of(needed + 3), n_folds)) == n_folds


def test_a_memory_that_leaves_nothing_to_train_on_is_refused():
    windows = windows_of(300, lags=Lags(100, 100))
    with pytest.raises(TreetError, match=r"memory is too long .* gap of 100 time steps on both sides"):
        blocked_folds(windows, 2)


def test_independent_trials_need_no_gap_between_them():
    windows = windows_of(150, 150, lags=Lags(100, 100))
    folds = blocked_folds(windows, 2)
    assert [len(fold.train) + len(fold.validation) for fold in folds] == [50, 50]


def test_more_folds_where_windows_are_few():
    counts = [100, 29_999, 30_000, 299_999, 300_000, 10**9]
    assert [default_folds(count) for count in counts] == [6, 6, 4, 4, 2, 2]


def test_a_recording_of_many_short_trials_is_folded():
    rng = np.random.default_rng(0)
    x, y = (as_recording(rng.normal(size=(400, 5, 1)), role) for role in ("source", "target"))
    folds = blocked_folds(Windows.of(x, y, None, Lags(3, 3)), 4)
    assert [len(fold.test) for fold in folds] == [200] * 4
