"""The estimator ``symbolic``: patterns against naive ones, exact values, and what must change nothing."""

import itertools
import math
import warnings
from collections import Counter

import numpy as np
import pytest
from scipy.signal import lfilter

from treet.errors import TreetError, UnreliableEstimateWarning
from treet.estimators.discrete import DiscreteTE
from treet.estimators.symbolic import LONGEST_PATTERN, SymbolicTE, ordinal_patterns
from treet.processes import BivariateLinear, Threshold


def fit(source, target, condition=None, **parameters):
    """A fit at history 1 without a p-value, whatever it notes."""
    given = {"target_history": 1, "source_history": 1, "permutations": 0} | parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableEstimateWarning)
        return SymbolicTE(**given).fit(source, target, condition)


def coupled(n_samples=2000, seed=0):
    """Source and target, (time,) each."""
    x, y = BivariateLinear(c=0.8).sample(n_samples, seed).trials[0].T
    return x, y


def naive_pattern(values):
    """The times in the order of the values, the older of equal ones first."""
    return tuple(sorted(range(len(values)), key=lambda index: (values[index], index)))


# Patterns


@pytest.mark.parametrize(("order", "step"), [(2, 1), (3, 1), (3, 4), (5, 2)])
def test_codes_are_those_of_naive_patterns(order, step):
    values = np.random.default_rng(0).integers(0, 6, (500, 2)).astype(float)  # with many ties
    reach = (order - 1) * step
    codes = ordinal_patterns(values, order, step)
    assert np.isnan(codes[:reach]).all()
    for channel in range(2):
        naive = [naive_pattern(values[t - reach : t + 1 : step, channel]) for t in range(reach, 500)]
        pairs = set(zip(codes[reach:, channel], naive, strict=True))
        assert len(pairs) == len(set(naive)) == len({code for code, _ in pairs})


@pytest.mark.parametrize("order", [2, 3, 4, LONGEST_PATTERN])
def test_codes_count_the_patterns(order):
    values = np.random.default_rng(0).normal(size=(20_000, 1))
    codes = ordinal_patterns(values, order)[order - 1 :, 0]
    assert codes.min() >= 0
    assert codes.max() < math.factorial(order)
    if order < 5:
        assert set(codes) == set(range(math.factorial(order)))


def test_rising_values_have_the_first_code_and_falling_ones_the_last():
    rising = np.arange(10.0)[:, None]
    assert set(ordinal_patterns(rising, 4)[3:, 0]) == {0}
    assert set(ordinal_patterns(-rising, 4)[3:, 0]) == {math.factorial(4) - 1}
    assert set(ordinal_patterns(0 * rising, 4)[3:, 0]) == {0}


def test_a_gap_takes_all_patterns_it_is_in():
    values = np.random.default_rng(0).normal(size=(20, 1))
    values[10] = np.nan
    np.testing.assert_array_equal(
        np.flatnonzero(np.isnan(ordinal_patterns(values, 3, 2)[:, 0])), [0, 1, 2, 3, 10, 12, 14]
    )


def test_a_trial_shorter_than_a_pattern_has_none():
    assert np.isnan(ordinal_patterns(np.arange(4.0)[:, None], 3, 2)).all()


# Exact values


def entropy_of_the_next_pattern(order):
    """H(Y_t | Y_{t-1}) of white noise: all orders of ``order + 1`` values are equally likely."""
    both, last = Counter(), Counter()
    for values in itertools.permutations(range(order + 1)):
        before, now = naive_pattern(values[:-1]), naive_pattern(values[1:])
        both[before, now] += 1
        last[before] += 1
    total = sum(both.values())
    return sum(n / total * math.log(last[before] / n) for (before, _), n in both.items())


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("order", [2, 3])
def test_a_copy_of_noise_has_the_entropy_of_the_next_pattern(order, seed):
    x = np.random.default_rng(seed).normal(size=20_000)
    fitted = fit(x, np.roll(x, 1), order=order)
    exact = entropy_of_the_next_pattern(order)
    assert exact < math.log(order)
    assert fitted.te_ == pytest.approx(exact, abs=3 * fitted.std_error_)
    assert fitted.std_error_ < 0.01


@pytest.mark.parametrize("parameters", [{}, {"step": 3}, {"order": 4}, {"target_history": 2, "delay": 0}])
def test_it_is_the_discrete_estimator_on_patterns(parameters):
    x, y = coupled()
    lags = {key: value for key, value in parameters.items() if key not in ("order", "step")}
    given = {"target_history": 1, "source_history": 1, "permutations": 30, "random_state": 0}
    symbolic = fit(x, y, **given | parameters).result_
    codes = [
        ordinal_patterns(series[:, None], parameters.get("order", 3), parameters.get("step", 1))
        for series in (x, y)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableEstimateWarning)
        discrete = DiscreteTE(**given | lags).fit(*codes).result_
    assert (symbolic.te, symbolic.std_error, symbolic.p_value) == (
        discrete.te,
        discrete.std_error,
        discrete.p_value,
    )
    np.testing.assert_array_equal(symbolic.local[0], discrete.local[0])


@pytest.mark.parametrize("correction", ["none", "miller-madow"])
def test_the_correction_reaches_the_counts(correction):
    x, y = coupled()
    assert fit(x, y, correction=correction).te_ > fit(x, y).te_


@pytest.mark.parametrize("process", [BivariateLinear(c=0.8), Threshold()])
def test_coupling_is_found_and_its_direction(process):
    # Against the coupling patterns have a value of their own, which is smaller: see the class.
    recording = process.sample(5000, random_state=0)
    source, target = recording.select(process.source_names), recording.select(process.target_names)
    there, back = fit(source, target, permutations=99), fit(target, source, permutations=99)
    assert there.te_ > 0.05
    assert there.te_ > 4 * abs(back.te_)
    assert there.result_.p_value == pytest.approx(0.01)


@pytest.mark.parametrize("seed", range(3))
def test_independent_series_have_none(seed):
    x, y = lfilter([1], [1, -0.7], np.random.default_rng(seed).normal(size=(2, 2000)))
    fitted = fit(x, y)
    assert abs(fitted.te_) < 3 * fitted.std_error_ < 0.03


def test_a_late_coupling_is_clearest_at_its_own_delay():
    generator = np.random.default_rng(0)
    x = generator.normal(size=5000)
    y = 0.8 * np.roll(x, 5) + 0.6 * generator.normal(size=5000)
    values = {delay: fit(x, y, delay=delay).te_ for delay in range(1, 9)}
    assert max(values, key=values.get) == 5
    assert values[4] > values[3] > 0.05 > 0.01 > abs(values[1])


def test_a_common_driver_as_condition_lowers_the_value():
    generator = np.random.default_rng(0)
    driver = generator.normal(size=10_000)
    x = driver + 0.3 * generator.normal(size=10_000)
    y = np.roll(driver, 1) + 0.3 * generator.normal(size=10_000)
    assert fit(x, y, driver).te_ < 0.2 * fit(x, y).te_


# What must change nothing


@pytest.mark.parametrize(
    "change", [np.exp, lambda values: 3 * values - 7, lambda values: values**3, np.arctan, np.argsort]
)
def test_increasing_functions_change_nothing(change):
    x, y = coupled()
    if change is np.argsort:
        change = lambda values: np.argsort(np.argsort(values))  # noqa: E731  ranks
    plain, changed = fit(x, y), fit(change(x), change(y))
    assert plain.te_ == changed.te_
    assert plain.std_error_ == changed.std_error_


def test_the_order_of_channels_changes_nothing():
    series = np.random.default_rng(0).normal(size=(2, 500, 2))
    values = [fit(*series, order=2).te_, fit(series[0][:, ::-1], series[1][:, ::-1], order=2).te_]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_seed_and_arrays():
    x, y = coupled(300)
    before = x.copy(), y.copy()
    first, again = (fit(x, y, permutations=50, random_state=4).result_ for _ in range(2))
    assert {**first.to_dict(), "seconds": 0} == {**again.to_dict(), "seconds": 0}
    np.testing.assert_array_equal(before, (x, y))


def test_patterns_never_span_trials():
    x, y = coupled(300)
    parts = fit([x[:100], x[100:]], [y[:100], y[100:]], step=2)
    # Four values before the first pattern, one pattern before the first window, in both trials.
    assert parts.n_windows_ == 300 - 2 * 5
    assert [np.isnan(trial).sum() for trial in parts.local_te_] == [5, 5]


# Bad input


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"order": 1}, "order must be a whole number of at least 2. Got 1"),
        ({"order": 11}, "order must be at most 10.*Got 11"),
        ({"order": True}, "order must be a whole number"),
        ({"step": 0}, "step must be a whole number of at least 1. Got 0"),
        ({"correction": "best"}, "correction must be one of"),
        ({"permutations": -1}, "permutations must be a whole number of at least 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(parameters, message):
    with pytest.raises(TreetError, match=message):
        SymbolicTE(**parameters).fit(*coupled(100))


def test_a_series_that_only_rises_is_refused():
    x, y = coupled(100)
    with pytest.raises(TreetError, match=r"Channel 'source' \(source\) has fewer than two ordinal patterns"):
        fit(np.cumsum(np.exp(x)), y)


def test_a_series_too_short_for_a_pattern_is_refused():
    x, y = coupled(5)
    with pytest.raises(TreetError, match="no stretch of 7 values"):
        fit(x, y, step=3)


def test_constant_channels_are_refused_by_name():
    with pytest.raises(TreetError, match=r"'condition' \(condition\) is constant"):
        fit(*coupled(100), np.zeros(100))


def test_too_many_patterns_are_noted():
    with pytest.warns(UnreliableEstimateWarning, match="combinations of past symbols"):
        SymbolicTE(memory=2, permutations=0).fit(*coupled(500))
