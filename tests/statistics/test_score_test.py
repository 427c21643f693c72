"""The score test against its definition, on data with and without coupling, and how often it errs."""

import doctest
from itertools import pairwise

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import norm, rankdata

import treet.statistics.score_test
from treet.data import Recording, as_recording
from treet.lags import Lags
from treet.processes import BivariateLinear, Threshold
from treet.statistics.score_test import TAILS, normal_scores, score_test

LAGS = Lags.from_memory(3)


def p_value(x, y, z=None, lags=LAGS, seed=0, n_shifts=99):
    parts = [None if part is None else as_recording(part, "part") for part in (x, y, z)]
    return score_test(*parts, lags, np.random.default_rng(seed), n_shifts).p_value


def statistic(x, y, z=None, lags=LAGS):
    parts = [None if part is None else as_recording(part, "part") for part in (x, y, z)]
    return score_test(*parts, lags, np.random.default_rng(0), n_shifts=1).statistic


def autoregression(rng, coefficient, n=600):
    return lfilter([1.0], [1.0, -coefficient], rng.normal(size=n + 200))[200:]


def driven(rng, n=600):
    """x and y follow z, which is given, and know nothing of each other."""
    z = autoregression(rng, 0.6, n + 2)
    x = 0.8 * z[1:-1] + 0.6 * rng.normal(size=n)
    return x, 0.8 * z[:-2] + 0.6 * rng.normal(size=n), z[2:]


def naive_statistic(x, y, lags):
    """One term and one regression at a time, by least squares."""
    x, y = (norm.ppf((rankdata(part) - 0.5) / len(part)) for part in (x, y))
    times = np.arange(lags.span, len(y))
    newest = y[times - 1]
    tails = []
    for share in TAILS:
        tails += [newest <= np.quantile(newest, share), newest >= np.quantile(newest, 1 - share)]

    def terms(series, past):
        columns = []
        for lag in past:
            a = series[times - lag]
            columns += [a, a**2, *(a * tail for tail in tails)]
        return columns

    known = np.column_stack([np.ones(len(times)), *tails, *terms(y, lags.target_lags)])

    def rest(column):
        return column - known @ np.linalg.lstsq(known, column, rcond=None)[0]

    residual = rest(y[times])
    scores = []
    for g in (residual, rest(residual**2)):
        for term in terms(x, lags.source_lags):
            h = rest(term)
            scores.append((g @ h) ** 2 / (2 * (g**2 @ h**2)))
    return max(scores)


@pytest.mark.parametrize("lags", [LAGS, Lags(2, 1, 4)])
def test_the_statistic_is_what_the_definition_says(lags):
    rng = np.random.default_rng(0)
    x, y = autoregression(rng, 0.5), autoregression(rng, 0.7)
    assert statistic(x, y, lags=lags) == pytest.approx(naive_statistic(x, y, lags), rel=1e-8)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_coupling_is_found_and_its_absence_is_not_by_chance_alone(seed):
    for process in (Threshold(threshold=1.0), BivariateLinear()):
        recording = process.sample(1000, random_state=seed)
        x, y = recording.select(process.source_names), recording.select(process.target_names)
        assert p_value(x, y) == 0.01


def test_a_change_of_the_spread_alone_is_found():
    rng = np.random.default_rng(0)
    x = rng.normal(size=1001)
    assert p_value(x[1:], np.sqrt(0.5 + x[:-1] ** 2) * rng.normal(size=1000)) == 0.01


@pytest.mark.slow
@pytest.mark.parametrize("case", ["smooth", "back", "driver", "short history"])
def test_the_size_is_right(case):
    rng = np.random.default_rng(1)
    p_values = []
    for seed in range(200):
        z, lags = None, LAGS
        if case == "smooth":
            x, y = autoregression(rng, 0.95), autoregression(rng, 0.95)
        elif case == "back":
            y, x = Threshold().sample(600, rng).trials[0].T
        elif case == "driver":
            x, y, z = driven(rng)
        else:
            x, y, lags = autoregression(rng, 0.8), autoregression(rng, 0.8), Lags(1, 1)
            y = y + np.roll(y, 5)
        p_values.append(p_value(x, y, z, lags, seed))
    assert 0.02 <= np.mean(np.array(p_values) <= 0.05) <= 0.085
    assert 0.12 <= np.mean(np.array(p_values) <= 0.2) <= 0.28


def test_a_driver_that_is_not_given_shows_and_one_that_is_given_does_not():
    x, y, z = driven(np.random.default_rng(2), 2000)
    assert p_value(x, y) == 0.01
    assert p_value(x, y, z) > 0.05


def test_increasing_changes_of_any_channel_and_the_order_of_channels_do_not_matter():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(400, 2)), autoregression(rng, 0.5, 400)
    first = statistic(x, y)
    assert statistic(np.exp(x), y**3) == pytest.approx(first, rel=1e-9)
    assert statistic(x[:, ::-1], -7 + 1e6 * y) == pytest.approx(first, rel=1e-9)


def test_trials_and_gaps_are_respected():
    """A target driven across the seam of two trials only, and values beside gaps."""
    rng = np.random.default_rng(4)
    trials = tuple(rng.normal(size=(4, 2)) for _ in range(200))
    for before, after in pairwise(trials):
        after[0, 1] = before[-1, 0]
    recording = Recording(trials, ("x", "y"))
    inside = Recording(tuple(np.vstack([np.full(2, np.nan), trial]) for trial in trials), ("x", "y"))
    lags = Lags(1, 1)
    scores = [
        score_test(part.select("x"), part.select("y"), None, lags, np.random.default_rng(0), 49)
        for part in (recording, Recording((np.concatenate(inside.trials),), ("x", "y")))
    ]
    assert scores[0].statistic == pytest.approx(scores[1].statistic, rel=1e-9)
    assert scores[0].p_value > 0.05


def test_long_pasts_and_channels_that_repeat_each_other_are_no_obstacle():
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=300), rng.normal(size=300)
    assert 0 < p_value(x, y, np.column_stack([x, x]), Lags(40, 3), n_shifts=19) <= 1
    # What the condition holds already tells nothing new.
    assert statistic(x, y, np.column_stack([x + 0.0, np.roll(x, 1)]), Lags(1, 1)) < 8


def test_many_windows_are_thinned_out(monkeypatch):
    rng = np.random.default_rng(6)
    x = rng.normal(size=5001)
    y = x[:-1] + rng.normal(size=5000)
    everything = statistic(x[1:], y)
    monkeypatch.setattr(treet.statistics.score_test, "MOST_VALUES", 1000 * 24)
    assert statistic(x[1:], y) == pytest.approx(everything / 5, rel=0.2)


def test_normal_scores():
    scored = normal_scores(Recording((np.array([[3.0], [np.nan], [1.0]]), np.array([[2.0]])), ("x",)))
    expected = norm.ppf([5 / 6, 1 / 6, 1 / 2])
    np.testing.assert_allclose(scored.trials[0].ravel(), [expected[0], np.nan, expected[1]])
    np.testing.assert_allclose(scored.trials[1].ravel(), [expected[2]], atol=1e-12)


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.statistics.score_test).failed == 0
