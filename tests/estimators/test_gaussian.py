"""Transfer entropy by regression against closed forms, statsmodels, exact processes and plain loops."""

import math
import warnings
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, kstest, multivariate_normal
from statsmodels.multivariate.multivariate_ols import _MultivariateOLS
from statsmodels.tsa.stattools import grangercausalitytests

from treet.errors import TreetError, UnreliableEstimateWarning
from treet.estimators.gaussian import GaussianTE
from treet.lags import Lags
from treet.processes import VAR, BivariateLinear, DelayedLinear

LAGS = {"target_history": 3, "source_history": 2, "delay": 2, "condition_history": 4}
COMMON_DRIVER = VAR(
    [[0.5, 0, 0], [0.6, 0.3, 0], [0.7, 0, 0.2]], channels=("z", "x", "y"), source="x", target="y"
)


def fit(source, target, condition=None, **parameters):
    return GaussianTE(**parameters).fit(source, target, condition)


def fit_process(process, n_samples, seed, source=None, target=None, **parameters):
    """The fit of one direction of a process, the coupled one by default."""
    recording = process.sample(n_samples, random_state=seed)
    names = source or process.source_names, target or process.target_names
    return fit(*(recording.select(name) for name in names), **parameters)


def quiet(*args, **parameters):
    """A fit of which doubts are expected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableEstimateWarning)
        return fit(*args, **parameters)


def trials(seed=0, lengths=(70, 40, 55)):
    """Source and target of two channels and a condition of three over unequal trials, with gaps in each."""
    rng = np.random.default_rng(seed)
    parts = []
    for length in lengths:
        x, y, z = (rng.normal(size=(length, width)) for width in (2, 2, 3))
        y[2:] += 0.4 * x[:-2] + 0.3 * z[1:-1, :2]
        parts.append((x, y, z))
    sources, targets, conditions = (list(part) for part in zip(*parts, strict=True))
    sources[0][30, 1] = targets[1][20, 0] = conditions[2][[40, 41], 2] = np.nan
    return sources, targets, conditions


def naive_windows(sources, targets, conditions):
    """Present, past without the source and the source's past under ``LAGS``, by a loop over time steps."""
    rows = []
    for x, y, z in zip(sources, targets, conditions, strict=True):
        for t in range(5, len(y)):
            row = y[t], np.r_[y[t - 3 : t].ravel(), z[t - 5 : t - 1].ravel()], x[t - 3 : t - 1].ravel()
            if np.isfinite(np.concatenate(row)).all():
                rows.append(row)
    return tuple(map(np.array, zip(*rows, strict=True)))


def residuals(present, past):
    design = np.column_stack([np.ones(len(past)), past])
    return present - design @ np.linalg.lstsq(design, present, rcond=None)[0]


# Exact values


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("history", [1, 2, 5])
def test_p_values_are_those_of_statsmodels(seed, history):
    y, x = BivariateLinear(c=0.1).sample(150, random_state=seed).trials[0].T
    lags = {"target_history": history, "source_history": history}
    expected = grangercausalitytests(np.column_stack([y, x]), [history])[history][0]
    assert fit(x, y, **lags).result_.p_value == pytest.approx(expected["ssr_ftest"][1], rel=1e-9)
    chi2 = fit(x, y, test="chi2", **lags)
    assert chi2.result_.p_value == pytest.approx(expected["lrtest"][1], rel=1e-9)
    assert 2 * chi2.n_windows_ * chi2.te_ == pytest.approx(expected["lrtest"][0], rel=1e-9)


def test_everything_follows_from_the_residuals_of_plain_least_squares():
    """Vectors, a condition, trials, gaps, a delay and different histories at once."""
    data = trials()
    result = fit(*data, **LAGS).result_
    present, without, source = naive_windows(*data)
    n = len(present)
    errors = residuals(present, without), residuals(present, np.hstack([without, source]))
    s_y, s_xy = (error.T @ error / n for error in errors)
    own = np.cov(present.T, bias=True)
    determinants = [np.linalg.slogdet(s)[1] for s in (own, s_y, s_xy)]
    assert result.n_windows == n
    assert result.te == pytest.approx((determinants[1] - determinants[2]) / 2, abs=1e-10)
    assert result.d_y == pytest.approx((determinants[0] - determinants[1]) / 2, abs=1e-10)
    assert result.d_xy == pytest.approx((determinants[0] - determinants[2]) / 2, abs=1e-10)
    log_densities = [multivariate_normal(cov=s).logpdf(e) for s, e in zip((s_y, s_xy), errors, strict=True)]
    local = np.concatenate(result.local)
    np.testing.assert_allclose(local[np.isfinite(local)], log_densities[1] - log_densities[0], atol=1e-9)


def test_the_p_value_of_a_vector_is_that_of_statsmodels():
    data = trials()
    present, without, source = naive_windows(*data)
    design = np.column_stack([np.ones(len(present)), without, source])
    contrast = np.eye(design.shape[1])[-source.shape[1] :]
    tests = _MultivariateOLS(present, design).fit().mv_test([("source", contrast)]).results
    expected = tests["source"]["stat"].loc["Wilks' lambda"]
    result = fit(*data, **LAGS).result_
    assert result.p_value == pytest.approx(float(expected["Pr > F"]), rel=1e-9)
    assert np.exp(-2 * result.te) == pytest.approx(float(expected["Value"]), rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("process", "lags"),
    [
        (BivariateLinear(), Lags(5, 5)),
        (BivariateLinear(c=1.5), Lags.from_memory(3)),
        (DelayedLinear(delay=4, copies=2), Lags(3, 2, delay=3)),
        (VAR([[0.5, 0.3], [0.4, 0.2]], [[1.0, 0.7], [0.7, 2.0]]), Lags(2, 2, delay=0)),
    ],
)
def test_value_and_error_are_those_of_the_exact_process(process, lags, seed):
    lag = {name: getattr(lags, name) for name in ("target_history", "source_history", "delay")}
    fitted = fit_process(process, 20_000, seed, **lag)
    oracle = math.sqrt(process.local_variance(lags) / 20_000)
    assert fitted.te_ == pytest.approx(process.transfer_entropy(lags), abs=4 * fitted.std_error_)
    assert 0.8 * oracle < fitted.std_error_ < 1.3 * oracle


def test_local_values_are_those_of_the_exact_process():
    process = BivariateLinear()
    exact = process.local_transfer_entropy(process.sample(20_000, random_state=0), Lags(2, 3))
    fitted = fit_process(process, 20_000, 0, target_history=2, source_history=3)
    np.testing.assert_allclose(fitted.local_te_[0], exact[0], atol=0.4)
    assert np.nanstd(fitted.local_te_[0] - exact[0]) < 0.1 * np.nanstd(exact[0])


# The test and the interval


@cache
def p_values(test, n_samples, copies, repeats=200):
    """Of the direction that is not coupled."""
    process = DelayedLinear(delay=1, copies=copies)
    back = {"source": process.target_names, "target": process.source_names}
    fits = (fit_process(process, n_samples, seed, **back, test=test, memory=4) for seed in range(repeats))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableEstimateWarning)
        return np.array([fitted.result_.p_value for fitted in fits])


@pytest.mark.parametrize(("test", "n_samples", "copies"), [("f", 60, 1), ("f", 80, 2), ("chi2", 2000, 1)])
def test_p_values_are_uniform_where_nothing_is_coupled(test, n_samples, copies):
    assert kstest(p_values(test, n_samples, copies), "uniform").pvalue > 0.01


def test_the_f_test_keeps_its_level_in_short_recordings_and_the_chi_square_does_not():
    highest = binom.ppf(0.999, 200, 0.05)
    assert (p_values("f", 80, 2) < 0.05).sum() <= highest
    assert (p_values("chi2", 80, 2) < 0.05).sum() > highest


@pytest.mark.parametrize(
    ("coupling", "history", "n_samples"), [(0.0, 1, 300), (0.0, 20, 500), (0.15, 5, 300), (1.5, 5, 300)]
)
def test_the_interval_covers_the_exact_value(coupling, history, n_samples):
    """Of no, of weak and of strong coupling, also where the normal interval would cover one in five."""
    process, lags = BivariateLinear(c=coupling), Lags(history, history)
    truth, repeats, covered = process.transfer_entropy(lags), 200, 0
    for seed in range(repeats):
        recording = process.sample(n_samples, random_state=seed)
        pair = recording.select("y"), recording.select("x")
        low, high = quiet(*pair, target_history=history, source_history=history).interval_
        covered += low <= truth <= high
    assert 0.90 <= covered / repeats <= 0.995


def test_the_interval_holds_where_the_noise_is_not_even():
    """The source sets the size of the noise and not its mean: the p-value is wrong, the interval is not."""
    repeats, covered, rejected = 200, 0, 0
    for seed in range(repeats):
        x, noise = np.random.default_rng(seed).normal(size=(2, 1000))
        fitted = fit(x, np.roll(x, 1) * noise, target_history=1, source_history=1)
        covered += fitted.interval_[0] == 0
        rejected += fitted.result_.p_value < 0.05
    assert rejected > 0.15 * repeats
    assert covered >= 0.93 * repeats


def test_where_windows_abound_the_interval_is_the_normal_one():
    fitted = fit_process(BivariateLinear(), 100_000, 0, target_history=1, source_history=1)
    half = 1.959964 * fitted.std_error_
    assert fitted.interval_ == pytest.approx((fitted.te_ - half, fitted.te_ + half), abs=0.03 * half)


def test_the_interval_follows_the_confidence_and_the_unit():
    recording = BivariateLinear().sample(500, random_state=0)
    pair = recording.select("y"), recording.select("x")
    wide, narrow = (fit(*pair, memory=1, confidence=level).interval_ for level in (0.99, 0.5))
    assert 0 < wide[0] < narrow[0] < fit(*pair, memory=1).te_ < narrow[1] < wide[1]
    bits = fit(*pair, memory=1, confidence=0.5, unit="bits").interval_
    assert bits == pytest.approx(tuple(end / math.log(2) for end in narrow))


def test_a_value_that_many_coefficients_have_raised_comes_with_a_note():
    x, y = np.random.default_rng(0).normal(size=(2, 400))
    with pytest.warns(UnreliableEstimateWarning, match="the 40 coefficients of the source raise it by about"):
        fitted = fit(x, y, target_history=1, source_history=40)
    assert fitted.te_ > fitted.interval_[1]
    assert fitted.interval_[0] == 0


@pytest.mark.parametrize("seed", range(3))
def test_a_condition_that_drives_both_leaves_nothing_to_tell(seed):
    z, x, y = COMMON_DRIVER.sample(5000, random_state=seed).trials[0].T
    lags = {"target_history": 1, "source_history": 2}
    assert fit(x, y, **lags).result_.p_value < 1e-9
    given = fit(x, y, z, **lags)
    assert given.result_.p_value > 0.001
    assert given.te_ < 0.002


# The order


def naive_bic(data, most):
    """Histories with the least criterion, by least squares anew for each on the windows of the largest."""
    x, y = data
    times = np.arange(most, len(y))
    present, n = y[times], len(times)

    def criterion(target_history, source_history):
        past = [y[times - lag] for lag in range(1, target_history + 1)]
        past += [x[times - lag] for lag in range(1, source_history + 1)]
        return n * np.log(np.mean(residuals(present, np.array(past).T) ** 2)) + np.log(n) * len(past)

    target = min(range(1, most + 1), key=lambda history: criterion(history, 0))
    return target, min(range(1, most + 1), key=lambda history: criterion(target, history))


@pytest.mark.parametrize("seed", range(5))
def test_the_order_is_that_of_least_squares_for_every_order(seed):
    y, x = DelayedLinear(delay=3, coupling=0.4).sample(300, random_state=seed).trials[0].T[::-1]
    fitted = fit(x, y, target_history=8, source_history=8, order="bic")
    lags = fitted.result_.lags
    assert (lags.target_history, lags.source_history) == naive_bic((x, y), 8)
    plain = fit(x, y, target_history=lags.target_history, source_history=lags.source_history)
    assert (fitted.te_, fitted.result_.p_value) == (plain.te_, plain.result_.p_value)
    assert fitted.n_windows_ == 300 - lags.span


def test_the_order_of_a_process_is_found():
    """The source acts after three steps."""
    fitted = fit_process(DelayedLinear(delay=3), 5000, 0, target_history=10, source_history=12, order="bic")
    assert fitted.result_.lags.source_history == 3
    assert "source lags 1..3" in str(fitted.result_)
    assert fitted.result_.settings["order"] == "bic"


def test_white_noise_has_the_least_order():
    x, y = np.random.default_rng(0).normal(size=(2, 2000))
    assert fit(x, y, memory=9, order="bic").lags_ == Lags(1, 1, delay=0)


@pytest.mark.parametrize(("given", "kept"), [(None, 6), (4, 4)])
def test_the_condition_keeps_its_history_whatever_the_order(given, kept):
    x, y, z = np.random.default_rng(0).normal(size=(3, 500))
    lags = {"target_history": 5, "source_history": 6, "condition_history": given}
    assert fit(x, y, z, order="bic", **lags).lags_ == Lags(1, 1, condition_history=kept)


# Invariants


def test_offsets_units_and_linear_mixing_do_not_matter():
    sources, targets, conditions = trials()
    turn = np.array([[1e-3, 2e-3], [0.0, 5e-4]])
    expected, found = (
        fit(*data, **LAGS).result_
        for data in (
            (sources, targets, conditions),
            (
                [1e6 * x[:, ::-1] - 3e6 for x in sources],
                [y @ turn + 0.7 for y in targets],
                [z[:, [2, 0, 1]] * [1e-5, 1, 1e5] for z in conditions],
            ),
        )
    )
    for name in ("te", "d_y", "d_xy", "std_error", "interval", "p_value"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-6)
    np.testing.assert_allclose(np.concatenate(found.local), np.concatenate(expected.local), atol=1e-7)


def test_leading_gaps_only_move_the_local_values():
    recording = BivariateLinear().sample(200, random_state=0)
    x, y = recording.trials[0].T
    plain = fit(y, x, memory=2)
    moved = fit(*(np.r_[[np.nan] * 7, values] for values in (y, x)), memory=2)
    assert moved.te_ == plain.te_
    np.testing.assert_array_equal(moved.local_te_[0][7:], plain.local_te_[0])


def test_the_data_stay_as_they_are():
    data = trials()
    before = [[trial.copy() for trial in part] for part in data]
    fit(*data, **LAGS, order="bic")
    for part, copies in zip(data, before, strict=True):
        assert all(np.array_equal(*pair, equal_nan=True) for pair in zip(part, copies, strict=True))


# Degenerate and bad input


def test_a_redundant_channel_changes_neither_value_nor_test():
    z, x, y = COMMON_DRIVER.sample(500, random_state=1).trials[0].T
    expected = fit(x, y, z, memory=2).result_
    with pytest.warns(
        UnreliableEstimateWarning, match="3 of the 11 columns of the past are linear functions"
    ):
        result = fit(np.column_stack([x, 3 * x - 2 * z]), y, z, memory=2).result_
    assert result.te == pytest.approx(expected.te, abs=1e-10)
    assert result.p_value == pytest.approx(expected.p_value, rel=1e-9)
    assert result.interval == pytest.approx(expected.interval, abs=1e-9)


def test_a_source_that_repeats_the_past_of_the_target_tells_nothing():
    y = np.random.default_rng(0).normal(size=300)
    result = quiet(np.roll(y, 1)[1:], y[1:], target_history=3, source_history=2).result_
    assert result.te == pytest.approx(0, abs=1e-12)
    assert (result.p_value, result.interval) == (1.0, (0.0, 0.0))


def test_a_target_without_noise_is_an_error():
    x, y = np.random.default_rng(0).normal(size=(2, 300))
    with pytest.raises(TreetError, match="predicted without any error"):
        fit(x, np.roll(x, 1), memory=1)
    with pytest.raises(TreetError, match="predicted without any error"):
        fit(x, np.column_stack([y, 0.1 * y]), memory=1)


@pytest.mark.parametrize("order", ["given", "bic"])
def test_fewer_windows_than_coefficients_are_an_error(order):
    x, y = np.random.default_rng(0).normal(size=(2, 30))
    with pytest.raises(TreetError, match=r"10 columns of the past .* need at least 13 windows\. Got 12"):
        fit(x[:17], y[:17], target_history=5, source_history=5, order=order)
    assert np.isfinite(quiet(x[:18], y[:18], target_history=5, source_history=5, order=order).te_)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"order": "aic"}, "order must be one of 'given', 'bic'. Got 'aic'"),
        ({"test": "t"}, "test must be one of 'f', 'chi2'. Got 't'"),
        ({"memory": 0}, "memory must be a whole number"),
    ],
)
def test_settings_that_make_no_sense_are_refused(parameters, message):
    with pytest.raises(TreetError, match=message):
        fit(None, None, **parameters)
