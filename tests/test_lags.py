"""Lags: which past of which series the target may see, and which settings are refused."""

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import treet.lags
from treet.errors import TreetError
from treet.lags import Lags, SourcelessLags

histories = st.integers(1, 50)


def test_schreibers_convention_is_the_default():
    lags = Lags(target_history=2, source_history=3)
    assert list(lags.target_lags) == [1, 2]
    assert list(lags.source_lags) == [1, 2, 3]
    assert lags.delay == 1


def test_delay_zero_shows_the_present_of_the_source_and_never_of_the_target():
    lags = Lags(target_history=2, source_history=3, delay=0)
    assert list(lags.target_lags) == [1, 2]
    assert list(lags.source_lags) == [0, 1, 2]


def test_a_long_delay_shifts_the_source_and_the_condition_only():
    lags = Lags(target_history=2, source_history=3, delay=20, condition_history=5)
    assert list(lags.target_lags) == [1, 2]
    assert list(lags.source_lags) == [20, 21, 22]
    assert list(lags.condition_lags) == [20, 21, 22, 23, 24]
    assert lags.span == 24


def test_the_condition_has_the_history_of_the_source_unless_it_is_given():
    assert Lags(2, 7, 3).condition_lags == Lags(2, 7, 3).source_lags


@given(st.integers(1, 400))
def test_memory_is_the_papers_te_of_l(memory):
    lags = Lags.from_memory(memory)
    assert list(lags.target_lags) == list(range(1, memory + 1))
    assert list(lags.source_lags) == list(range(memory + 1))
    assert lags.memory == lags.span == memory
    assert lags == Lags.resolve(memory=memory)


@given(histories, histories, st.integers(0, 30), st.none() | histories)
def test_span_is_the_largest_lag_and_roles_are_looked_up_by_name(target, source, delay, condition):
    lags = Lags(target, source, delay, condition)
    every = [lag for role in ("target", "source", "condition") for lag in lags.of(role)]
    assert lags.span == max(every)
    assert min(every) == min(delay, 1)
    assert len(lags.of("target")) == target
    assert len(lags.of("source")) == source
    assert len(lags.of("condition")) == (source if condition is None else condition)


def test_memory_is_none_for_other_lags():
    assert Lags(30, 30, 1).memory is None
    assert Lags(30, 30, 0).memory is None
    assert Lags(30, 31, 1).memory is None


@pytest.mark.parametrize("setting", ["target_history", "source_history", "delay"])
def test_memory_with_another_setting_is_refused_by_name(setting):
    with pytest.raises(TreetError, match=f"memory=3 already sets .* Got {setting} as well"):
        Lags.resolve(memory=3, **{setting: 2})


def test_memory_goes_with_a_condition_history():
    assert Lags.resolve(memory=3, condition_history=2) == Lags(3, 4, 0, 2)


def test_settings_that_are_left_out_take_the_defaults():
    assert Lags.resolve() == Lags()
    assert Lags.resolve(delay=0, source_history=2) == Lags(source_history=2, delay=0)


@pytest.mark.parametrize("value", [0, -1, 1.5, 2.0, True, "3", None, np.float64(2)])
@pytest.mark.parametrize("name", ["target_history", "source_history"])
def test_histories_must_be_whole_and_positive(name, value):
    with pytest.raises(TreetError, match=f"{name} must be a whole number of at least 1. Got .* instead"):
        Lags(**{name: value})


@pytest.mark.parametrize("value", [0, -2, 1.5, False])
def test_memory_and_condition_history_must_be_whole_and_positive(value):
    with pytest.raises(TreetError, match="memory must be a whole number of at least 1"):
        Lags.from_memory(value)
    with pytest.raises(TreetError, match="condition_history must be a whole number of at least 1"):
        Lags(condition_history=value)


@pytest.mark.parametrize("value", [-1, 0.5, True])
def test_delay_must_be_whole_and_not_negative(value):
    with pytest.raises(TreetError, match="delay must be a whole number of at least 0"):
        Lags(delay=value)


def test_numpy_integers_become_plain_ones():
    lags = Lags(np.int64(2), np.int32(3), np.uint8(0), np.int16(4))
    assert lags == Lags(2, 3, 0, 4)
    assert type(lags.target_history) is type(lags.delay) is type(lags.condition_history) is int


@pytest.mark.parametrize(
    ("lags", "words"),
    [
        (Lags(1, 1, 1), "target lag 1, source lag 1"),
        (Lags.from_memory(30), "target lags 1..30, source lags 0..30"),
        (Lags(2, 3, 4, 1), "target lags 1..2, source lags 4..6, condition lag 4"),
        (SourcelessLags(3), "target lags 1..3"),
        (SourcelessLags(1, 0, 0, 2), "target lag 1, condition lags 0..1"),
    ],
)
def test_lags_are_stated_in_words(lags, words):
    assert str(lags) == words


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.lags).failed == 0
