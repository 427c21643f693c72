"""The estimator ``discrete``: exact values of Markov chains, naive counting, and p-values under the null."""

import itertools
import math
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

from treet.errors import TreetError, UnreliableEstimateWarning
from treet.estimators.discrete import (
    CORRECTIONS,
    WINDOWS_A_CONTEXT,
    Counts,
    DiscreteTE,
    expected_by_chance,
    permutation_p_value,
)
from treet.estimators.symbols import joint_codes, symbol_recording

# A binary chain: p(x_t = 1 | x_{t-1}) and p(y_t = 1 | x_{t-1}, y_{t-1}).
X_STAYS = 0.7
COUPLED = {(0, 0): 0.15, (0, 1): 0.35, (1, 0): 0.75, (1, 1): 0.9}
ALONE = {(0, 0): 0.2, (0, 1): 0.8, (1, 0): 0.2, (1, 1): 0.8}


def step(before, after, y_is_one):
    """The probability of one step of the chain; states are (x, y)."""
    x = X_STAYS if before[0] == after[0] else 1 - X_STAYS
    y = y_is_one[before]
    return x * (y if after[1] else 1 - y)


def exact_te(y_is_one, history):
    """By enumeration of all paths, from a stationary law found by running the chain."""
    states = list(itertools.product((0, 1), repeat=2))
    law = dict.fromkeys(states, 0.25)
    for _ in range(500):
        law = {
            after: sum(law[before] * step(before, after, y_is_one) for before in states) for after in states
        }
    joint = Counter()
    for path in itertools.product(states, repeat=history + 1):
        weight = law[path[0]]
        for before, after in itertools.pairwise(path):
            weight *= step(before, after, y_is_one)
        y, past = path[-1][1], path[:-1]
        joint[y, tuple(x for x, _ in past), tuple(y for _, y in past)] += weight
    return information(joint)


def information(joint):
    """I(a; b | c) of a table {(a, b, c): weight}."""
    total = sum(joint.values())
    ac, bc, c = Counter(), Counter(), Counter()
    for (a, b, c_), weight in joint.items():
        ac[a, c_] += weight
        bc[b, c_] += weight
        c[c_] += weight
    return sum(
        weight / total * math.log(weight * c[c_] / (ac[a, c_] * bc[b, c_]))
        for (a, b, c_), weight in joint.items()
        if weight
    )


def chain(y_is_one, n_samples, seed):
    """Source and target, (time,) each."""
    generator = np.random.default_rng(seed)
    flips, draws = generator.random((2, n_samples + 100))
    x = np.cumsum(flips > X_STAYS) % 2
    y = np.zeros_like(x)
    for time in range(1, len(x)):
        y[time] = draws[time] < y_is_one[x[time - 1], y[time - 1]]
    return x[100:], y[100:]


def fit(source, target, condition=None, history=1, **parameters):
    """A fit without a p-value, whatever it notes."""
    given = {"target_history": history, "source_history": history, "permutations": 0} | parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableEstimateWarning)
        return DiscreteTE(**given).fit(source, target, condition)


def counts_of(*columns):
    """Counts of y, x, z given as whole numbers."""
    return Counts(*(joint_codes(np.asarray(column, float)[:, None]) for column in columns))


each_correction = pytest.mark.parametrize("correction", CORRECTIONS)


# Exact values


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("history", [1, 2, 3])
def test_the_value_is_within_its_error_of_the_exact_one(history, seed):
    fitted = fit(*chain(COUPLED, 5000, seed), history=history)
    assert fitted.te_ == pytest.approx(exact_te(COUPLED, history), abs=3 * fitted.std_error_)
    assert fitted.std_error_ < 0.02


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("history", [1, 3])
def test_independent_series_have_none(history, seed):
    fitted = fit(*chain(ALONE, 2000, seed), history=history)
    assert exact_te(ALONE, history) == pytest.approx(0, abs=1e-12)
    assert abs(fitted.te_) < 3 * fitted.std_error_ < 0.02


@each_correction
def test_a_copy_has_the_entropy_of_the_source(correction):
    x = np.random.default_rng(0).integers(0, 4, 20_000)
    fitted = fit(x, np.roll(x, 1), correction=correction)
    assert fitted.te_ == pytest.approx(math.log(4), abs=1e-3)


def test_a_common_driver_as_condition_removes_the_value():
    generator = np.random.default_rng(0)
    driver = generator.integers(0, 2, 5000)
    x, y = (np.roll(driver, 1) ^ (generator.random(5000) < 0.1) for _ in range(2))
    x, y = np.roll(x, -1), y  # x shows the driver one step before y does
    assert fit(x, y).te_ > 0.1
    assert abs(fit(x, y, driver).te_) < 0.005


def test_exclusive_or_of_two_channels_needs_both():
    x = np.random.default_rng(0).integers(0, 2, (5000, 2))
    y = np.roll(x[:, 0] ^ x[:, 1], 1)
    assert fit(x, y).te_ == pytest.approx(math.log(2), abs=1e-3)
    assert abs(fit(x[:, 0], y).te_) < 1e-3


@pytest.mark.parametrize("history", [2, 3])
def test_the_default_correction_has_the_least_bias_in_short_recordings(history):
    exact = exact_te(COUPLED, history)
    pairs = [chain(COUPLED, 150, seed) for seed in range(60)]
    bias = {
        correction: np.mean([fit(*pair, history=history, correction=correction).te_ for pair in pairs])
        - exact
        for correction in CORRECTIONS
    }
    assert DiscreteTE().correction == "adjusted"
    assert abs(bias["adjusted"]) < 0.6 * bias["miller-madow"] < 0.6 * bias["none"]
    assert bias["none"] > 0.03


def test_the_interval_covers_the_exact_value():
    exact = exact_te(COUPLED, 2)
    intervals = [fit(*chain(COUPLED, 1000, seed), history=2).interval_ for seed in range(100)]
    assert sum(low < exact < high for low, high in intervals) >= 88


# Against naive counting


def naive_te(source, target, condition, history, delay):
    """The plug-in value with dictionaries; all series (time, channels)."""
    joint = Counter()
    for time in range(max(history, delay + history - 1), len(target)):
        x = tuple(tuple(source[time - delay - lag]) for lag in range(history))
        y = tuple(tuple(target[time - 1 - lag]) for lag in range(history))
        z = tuple(tuple(condition[time - delay - lag]) for lag in range(history))
        joint[tuple(target[time]), x, (y, z)] += 1
    return information(joint)


@pytest.mark.parametrize(("history", "delay", "channels"), [(1, 1, 1), (2, 0, 1), (1, 3, 2), (3, 2, 2)])
def test_the_plug_in_value_is_that_of_naive_counting(history, delay, channels):
    series = np.random.default_rng(0).integers(-2, 2, (3, 400, channels))
    fitted = fit(*series, history=history, delay=delay, correction="none")
    assert fitted.te_ == pytest.approx(naive_te(*series, history, delay), rel=1e-9)


def test_miller_madow_counts_the_symbols_seen():
    x, y = chain(COUPLED, 200, 0)
    y_, x_, z_ = y[1:], x[:-1], y[:-1]
    seen = [len(set(zip(*columns, strict=True))) for columns in ((y_, x_, z_), (x_, z_), (y_, z_), (z_,))]
    extra = (seen[0] - seen[1] - seen[2] + seen[3]) / (2 * len(y_))
    values = [fit(x, y, correction=correction).te_ for correction in ("none", "miller-madow")]
    assert values[0] - values[1] == pytest.approx(extra, rel=1e-9)
    assert extra > 0


@pytest.mark.parametrize("symbols", [2, 5, 40])
def test_the_value_by_chance_is_the_mean_over_shuffles(symbols):
    generator = np.random.default_rng(0)
    y, x = generator.integers(0, symbols, (2, 300))
    z = generator.integers(0, 3, 300)
    shuffled = np.zeros((400, 300))
    for row in shuffled:
        moved = x.copy()
        for stratum in range(3):
            moved[z == stratum] = generator.permutation(x[z == stratum])
        row[:] = CORRECTIONS["none"](counts_of(y, moved, z)).local
    chance = expected_by_chance(counts_of(y, x, z))
    for stratum in range(3):
        means = shuffled[:, z == stratum].mean(axis=1)
        error = means.std() / 20
        assert chance[z == stratum] == pytest.approx(
            np.full((z == stratum).sum(), means.mean()), abs=4 * error
        )


def test_the_value_by_chance_is_that_of_all_orders_of_a_tiny_table():
    y, x = [0, 0, 1, 1, 2, 0], [0, 1, 1, 0, 0, 2]
    values = [
        information(Counter(zip(y, order, [0] * 6, strict=True))) for order in itertools.permutations(x)
    ]
    chance = expected_by_chance(counts_of(y, x, [0] * 6))
    assert chance == pytest.approx(np.full(6, np.mean(values)), rel=1e-12)


def test_large_counts_lose_nothing_of_the_value_by_chance():
    # The asymptotic value is (2 - 1) (2 - 1) / (2 n) for two independent fair coins.
    y, x = np.random.default_rng(0).integers(0, 2, (2, 1_000_000))
    chance = expected_by_chance(counts_of(y, x, np.zeros(1_000_000)))
    assert chance[0] * 2e6 == pytest.approx(1, abs=1e-3)


# The p-value


def test_the_p_value_counts_the_shuffles_with_at_least_the_value():
    # Of the six orders of x in each stratum two give the largest value: a copy, and one with names swapped.
    counts = counts_of([0, 0, 1] * 2, [0, 0, 1] * 2, [0, 0, 0, 1, 1, 1])
    p_value = permutation_p_value(counts, 5000, np.random.default_rng(0))
    assert p_value == pytest.approx(1 / 9, abs=4 * math.sqrt(8 / 81 / 5000))


def test_the_p_value_is_one_where_no_shuffle_changes_anything():
    x, y = chain(ALONE, 60, 0)
    assert fit(x, y, history=25, permutations=50).result_.p_value == 1


def test_the_p_value_of_a_coupled_pair_is_the_smallest_there_is():
    fitted = fit(*chain(COUPLED, 500, 0), permutations=99, random_state=0)
    assert fitted.result_.p_value == pytest.approx(1 / 100)


def test_no_permutations_no_p_value():
    assert fit(*chain(COUPLED, 500, 0)).result_.p_value is None


@pytest.mark.parametrize("history", [1, 2])
def test_the_p_value_is_uniform_under_the_null(history):
    # The target has a memory of its own, and so has the source.
    p_values = [
        fit(*chain(ALONE, 200, seed), history=history, permutations=99, random_state=seed).result_.p_value
        for seed in range(100)
    ]
    assert kstest(p_values, "uniform").pvalue > 0.01
    assert np.mean(np.array(p_values) <= 0.1) < 0.2


# Symbols of any kind


@pytest.fixture(scope="module")
def bits():
    return chain(COUPLED, 400, 0)


def numbers_of(fitted):
    return {**fitted.result_.to_dict(), "seconds": 0.0, "source": None, "target": None}


WORDS = np.array(["no", "yes"])


@pytest.mark.parametrize(
    "kind",
    [
        lambda bits: bits.astype(bool),
        lambda bits: bits.astype(float),
        lambda bits: 7 - 3 * bits.astype(np.int8),
        lambda bits: WORDS[bits],
        lambda bits: WORDS[bits].astype("S"),
        lambda bits: WORDS[bits].astype(object),
        lambda bits: list(WORDS[bits]),
        lambda bits: WORDS[bits][:, None],
        lambda bits: pd.Series(WORDS[bits]),
        lambda bits: pd.Series(WORDS[bits]).astype("category"),
        lambda bits: pd.Series(bits.astype(bool)).astype("boolean"),
        lambda bits: pd.DataFrame(WORDS[bits]),
        lambda bits: np.array([{0: 1, 1: "one"}[bit] for bit in bits], object),
    ],
)
def test_symbols_of_every_kind_give_the_same(bits, kind):
    parameters = {"history": 2, "permutations": 20, "random_state": 0}
    plain, other = fit(*bits, **parameters), fit(*map(kind, bits), **parameters)
    assert numbers_of(plain) == numbers_of(other)
    np.testing.assert_array_equal(plain.local_te_[0], other.local_te_[0])


def test_a_symbol_is_the_same_in_all_trials():
    words = [np.array(["b", "a", "c"]), np.array(["c", "b"])]
    trials = symbol_recording(words, "source").trials
    codes = np.concatenate(trials)[:, 0]
    assert [len(trial) for trial in trials] == [3, 2]
    assert len(set(codes)) == 3
    assert (codes[0], codes[2]) == (codes[4], codes[3])


def test_lists_of_words_in_a_list_are_trials():
    trials = symbol_recording([["b", "a", "c"], ["c", "b"]], "source").trials
    assert [len(trial) for trial in trials] == [3, 2]


def test_three_dimensional_words_are_trials_with_channels():
    words = np.array([[["a", "u"], ["b", "v"]], [["b", "u"], ["a", "u"]], [["a", "a"], ["b", "b"]]])
    recording = symbol_recording(words, "source")
    assert recording.names == ("source[0]", "source[1]")
    assert [trial.shape for trial in recording.trials] == [(2, 2)] * 3


def test_names_of_columns_stay():
    frame = pd.DataFrame({"state": ["a", "b", "a", None], "count": [1, 2, 3, 4]})
    recording = symbol_recording([frame, frame], "source")
    assert recording.names == ("state", "count")
    np.testing.assert_array_equal(recording.trials[1][:, 1], [1, 2, 3, 4])
    assert np.isnan(recording.trials[1][3, 0])


@pytest.mark.parametrize(
    "values",
    [
        [1, None, 2],
        [1, math.nan, 2],
        np.array([1, None, 2], object),
        np.array([1.0, pd.NA, 2], object),
        ["a", None, "b"],
        ["a", math.nan, "b"],
        np.array(["a", pd.NA, "b"], object),
        pd.Series([1, None, 2], dtype="Int64"),
        pd.Series(["a", None, "b"]),
        pd.Series(["a", None, "b"], dtype="category"),
        np.ma.array(["a", "z", "b"], mask=[False, True, False]),
        np.ma.array([1, 9, 2], mask=[False, True, False]),
    ],
)
def test_missing_symbols_are_gaps(values):
    (trial,) = symbol_recording(values, "source").trials
    np.testing.assert_array_equal(np.isnan(trial[:, 0]), [False, True, False])
    assert trial[0, 0] != trial[2, 0]


def test_trials_with_other_channels_are_refused():
    trials = [pd.DataFrame({"a": ["u", "v"]}), pd.DataFrame({"b": ["u", "v"]})]
    with pytest.raises(TreetError, match="same channels"):
        symbol_recording(trials, "source")


# Invariants


@each_correction
def test_other_names_for_the_symbols_change_nothing(bits, correction):
    generator = np.random.default_rng(0)
    x, y = generator.integers(0, 5, (2, 500))
    names = generator.permutation(5) * 100 - 7
    parameters = {"correction": correction, "permutations": 20, "random_state": 3}
    assert numbers_of(fit(x, y, **parameters)) == numbers_of(fit(names[x], names[::-1][y], **parameters))


@each_correction
def test_local_values_have_the_value_as_their_mean(correction):
    generator = np.random.default_rng(0)
    fitted = fit(*generator.integers(0, 3, (2, 300)), history=2, correction=correction)
    (local,) = fitted.local_te_
    assert np.nanmean(local) == pytest.approx(fitted.te_, rel=1e-9)
    np.testing.assert_array_equal(np.isnan(local), np.arange(300) < 2)


def test_the_seed_sets_the_p_value_and_nothing_else(bits):
    x, y = bits[0][:60], np.random.default_rng(1).integers(0, 2, 60)
    first, again, other = (fit(x, y, permutations=200, random_state=seed) for seed in (1, 1, 2))
    assert numbers_of(first) == numbers_of(again)
    assert first.te_ == other.te_
    assert first.result_.p_value != other.result_.p_value


def test_the_order_of_trials_and_channels_does_not_matter():
    generator = np.random.default_rng(0)
    x, y = generator.integers(0, 2, (2, 6, 100, 2))
    values = [
        fit(list(x), list(y)).te_,
        fit(list(x[::-1]), list(y[::-1])).te_,
        fit(x[..., ::-1], y).te_,
    ]
    assert values == pytest.approx([values[0]] * 3, rel=1e-9)


def test_windows_never_span_trials_or_gaps():
    x, y = (series.astype(float) for series in chain(COUPLED, 300, 0))
    parts = fit([x[:100], x[100:]], [y[:100], y[100:]], history=2, correction="none")
    gap = x.copy(), y.copy()
    for series in gap:
        series[99] = np.nan
    cut = fit([gap[0][:99], x[100:]], [gap[1][:99], y[100:]], history=2, correction="none")
    assert parts.n_windows_ == 300 - 4
    assert fit(*gap, history=2, correction="none").te_ == pytest.approx(cut.te_, rel=1e-12)


def test_the_callers_arrays_stay_as_they_are():
    words = WORDS[np.array(chain(COUPLED, 200, 0))]
    before = words.copy()
    fit(*words)
    np.testing.assert_array_equal(words, before)


def test_long_histories_of_many_symbols_have_codes():
    values = np.random.default_rng(0).integers(0, 1000, (2, 3000))
    fitted = fit(*values, history=200)
    # Every past is seen once: nothing is known, and the interval says so.
    assert fitted.te_ == pytest.approx(0, abs=1e-9)
    assert fitted.std_error_ > 1


def test_joint_codes_tell_rows_apart_and_only_those():
    rows = np.random.default_rng(0).integers(0, 3, (500, 4)).astype(float)
    codes = joint_codes(rows)
    assert (
        len(set(zip(codes, map(tuple, rows), strict=True))) == len(set(map(tuple, rows))) == codes.max() + 1
    )


# Notes and bad input


def test_few_windows_for_each_past_are_noted():
    x, y = chain(COUPLED, 300, 0)
    with pytest.warns(UnreliableEstimateWarning, match=rf"below {WINDOWS_A_CONTEXT} the value"):
        fitted = DiscreteTE(target_history=4, source_history=4, permutations=0).fit(x, y)
    contexts = len({(tuple(x[t - 4 : t]), tuple(y[t - 4 : t])) for t in range(4, 300)})
    (note,) = fitted.result_.warnings
    assert note.startswith(f"{contexts} combinations of past symbols were seen in 296 windows")


def test_many_windows_are_not_noted():
    fitted = DiscreteTE(target_history=2, source_history=2, permutations=0).fit(*chain(COUPLED, 300, 0))
    assert fitted.result_.warnings == ()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.linspace(0, 1, 50), r"Channel 'source' \(source\) must hold symbols.*'symbolic'"),
        (np.array([0.5, 1, None, 2] * 10, object), "must hold symbols.*Got 0.5 instead"),
        (np.arange(50) * 2**55, "up to 2\\^53 in size"),
        (np.zeros(50, int), "constant"),
        (["a"] * 50, "constant"),
        (np.array([0, 1, np.inf] * 10), "infinite"),
        (pd.Series(pd.date_range("2020", periods=50)), "not numeric"),
        ([], "empty"),
        (np.array([], dtype=str), "empty"),
        ([[[1, 2], [3]]] * 50, "source cannot be read as symbols"),
        (np.array([1, "a", {}] * 20, object), "source cannot be read as symbols"),
    ],
)
def test_what_is_no_symbol_is_refused(values, message):
    with pytest.raises(TreetError, match=message):
        DiscreteTE(memory=1).fit(values, np.arange(len(values)) % 2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"correction": "best"}, "correction must be one of 'adjusted', 'miller-madow', 'none'. Got 'best'"),
        ({"permutations": -1}, "permutations must be a whole number of at least 0. Got -1"),
        ({"permutations": 10.5}, "permutations must be a whole number"),
    ],
)
def test_settings_that_make_no_sense_are_refused(parameters, message):
    with pytest.raises(TreetError, match=message):
        DiscreteTE(**parameters).fit([0, 1, 1, 0], [1, 1, 0, 0])
