"""Transfer entropy by kernel densities against plain loops and against what smoothing makes of a process."""

import math
import warnings

import numpy as np
import pytest

from treet.errors import TreetError, UnreliableEstimateWarning
from treet.estimators import kernel as module
from treet.estimators.kernel import KernelTE
from treet.lags import Lags
from treet.processes import VAR, BivariateLinear, Threshold
from treet.processes.linear import Linear

KERNELS = ("box", "gaussian")
ONE = {"target_history": 1, "source_history": 1}
LAGS = {"target_history": 2, "source_history": 1, "delay": 2, "condition_history": 2}

each_kernel = pytest.mark.parametrize("kernel", KERNELS)


def fit(source, target, condition=None, **parameters):
    return KernelTE(**parameters).fit(source, target, condition)


def quiet(*args, **parameters):
    """A fit of which doubts are expected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableEstimateWarning)
        return fit(*args, **parameters)


def fit_process(process, n_samples, seed, back=False, **parameters):
    """The fit of the coupled direction of a process, or of the other one."""
    recording = process.sample(n_samples, random_state=seed)
    names = process.source_names, process.target_names
    return fit(*(recording.select(name) for name in (names[::-1] if back else names)), **parameters)


def trials(seed=0, lengths=(70, 40, 55)):
    """Source and target of two channels and a condition over unequal trials, with gaps in each of them."""
    rng = np.random.default_rng(seed)
    sources, targets, conditions = (
        [rng.normal(size=(length, width)) for length in lengths] for width in (2, 2, 1)
    )
    sources[0][30, 1] = targets[1][20, 0] = conditions[2][[40, 41], 0] = np.nan
    return sources, targets, conditions


def naive_windows(sources, targets, conditions):
    """Where a window ends, its present, its past with the condition's and the source's past: a loop.

    Under ``LAGS``, and scaled by the standard deviations over the time steps that windows reach over.
    """
    ends = [
        (number, t)
        for number, (x, y, z) in enumerate(zip(sources, targets, conditions, strict=True))
        for t in range(3, len(y))
        if np.isfinite([*y[t - 2 : t + 1].ravel(), *x[t - 2], *z[t - 3 : t - 1, 0]]).all()
    ]
    reached = sorted({(number, t - back) for number, t in ends for back in range(4)})
    x, y, z = (
        [trial / np.nanstd([part[number][t] for number, t in reached], axis=0) for trial in part]
        for part in (sources, targets, conditions)
    )
    present = np.array([y[number][t] for number, t in ends])
    past = np.array(
        [np.r_[y[number][t - 2 : t].ravel(), z[number][t - 3 : t - 1].ravel()] for number, t in ends]
    )
    return ends, present, past, np.array([x[number][t - 2] for number, t in ends])


def weight(kernel, differences, bandwidth):
    if kernel == "box":
        return float(np.abs(differences).max() <= bandwidth)
    return math.exp(-float(differences @ differences) / (2 * bandwidth**2))


def naive_local(kernel, bandwidth, y, z, x):
    """Local values with every density a loop over all pairs."""

    def densities(*parts):
        points = np.hstack(parts)
        return [
            sum(weight(kernel, one - other, bandwidth) for j, other in enumerate(points) if j != i)
            for i, one in enumerate(points)
        ]

    sums = zip(densities(y, z, x), densities(z), densities(y, z), densities(z, x), strict=True)
    return [math.log(yzx * past / yz / zx) if yzx else math.nan for yzx, past, yz, zx in sums]


# Against loops


@pytest.mark.parametrize(("kernel", "bandwidth"), [("box", 0.8), ("box", 1.7), ("gaussian", 0.6)])
@pytest.mark.parametrize("seed", [0, 1])
def test_local_values_are_those_of_a_loop_over_all_pairs(kernel, bandwidth, seed):
    """Vectors, a condition, trials, gaps, a delay and different histories at once."""
    data = trials(seed)
    fitted = quiet(*data, kernel=kernel, bandwidth=bandwidth, **LAGS)
    ends, *windows = naive_windows(*data)
    expected = naive_local(kernel, bandwidth, *windows)
    assert fitted.n_windows_ == len(expected)
    np.testing.assert_allclose([fitted.local_te_[number][t] for number, t in ends], expected, atol=1e-9)
    assert np.isfinite(np.concatenate(fitted.local_te_)).sum() == np.isfinite(expected).sum()
    assert fitted.te_ == pytest.approx(np.nanmean(expected), abs=1e-10)


def test_silvermans_rule_is_the_default_of_the_gaussian_kernel():
    x, y = np.random.default_rng(0).normal(size=(2, 301))
    rule = (4 / (5 * 300)) ** (1 / 7)
    default = fit(x, y, kernel="gaussian", **ONE)
    assert default.te_ == fit(x, y, kernel="gaussian", bandwidth=rule, **ONE).te_
    assert default.te_ != fit(x, y, kernel="gaussian", bandwidth=1.01 * rule, **ONE).te_


def test_half_a_standard_deviation_is_the_default_of_the_box():
    x, y = np.random.default_rng(0).normal(size=(2, 1000))
    assert fit(x, y, **ONE).te_ == fit(x, y, bandwidth=0.5, **ONE).te_


def test_blocks_of_pairs_leave_the_value_as_it_is(monkeypatch):
    x, y = np.random.default_rng(0).normal(size=(2, 300))
    whole = fit(x, y, kernel="gaussian", **ONE)
    monkeypatch.setattr(module, "_PAIRS_AT_ONCE", 700)
    np.testing.assert_allclose(
        fit(x, y, kernel="gaussian", **ONE).local_te_[0][1:], whole.local_te_[0][1:], rtol=1e-10
    )


# Exact values


def smoothed(process: Linear, bandwidth):
    """The value at history 1 that endless data would give under a Gaussian kernel.

    A density of covariance ``S`` becomes one of ``S + h^2``, whose mean logarithm over the data is
    ``-(log det(S + h^2) + tr((S + h^2)^{-1} S)) / 2`` up to a constant.
    """
    index = process.names.index
    target, source = index(process.target_names[0]), index(process.source_names[0])
    seen = [(target, 0), (target, 1), (source, 1)]
    covariance = process.dynamics.covariance(seen, seen)
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(scale, scale)

    def log_density(*which):
        own = correlation[np.ix_(which, which)]
        wide = own + bandwidth**2 * np.eye(len(own))
        return -(np.linalg.slogdet(wide)[1] + np.trace(np.linalg.solve(wide, own))) / 2

    return log_density(0, 1, 2) + log_density(1) - log_density(0, 1) - log_density(1, 2)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("coupling", [0.5, 1.5])
@pytest.mark.parametrize(
    ("kernel", "bandwidth"), [("gaussian", 0.3), ("gaussian", 0.5), ("gaussian", 1.0), ("box", 0.5)]
)
def test_the_value_is_that_of_the_smoothed_process(kernel, bandwidth, coupling, seed):
    """A narrow box of radius r does what a Gaussian kernel of bandwidth r / sqrt(3) does."""
    process = BivariateLinear(c=coupling)
    fitted = fit_process(process, 4000, seed, kernel=kernel, bandwidth=bandwidth, **ONE)
    limit = smoothed(process, bandwidth / (math.sqrt(3) if kernel == "box" else 1))
    assert fitted.te_ == pytest.approx(limit, abs=4 * fitted.std_error_ + 0.01)


@pytest.mark.slow
@each_kernel
def test_the_value_of_the_threshold_process_is_near_the_exact_one(kernel):
    """Smoothing may take a fifth of it."""
    exact = Threshold().transfer_entropy(Lags(1, 1))
    fitted = fit_process(Threshold(), 10_000, 0, kernel=kernel, **ONE)
    assert 0.78 * exact < fitted.te_ < 1.02 * exact


@each_kernel
@pytest.mark.parametrize("seed", range(3))
def test_independent_series_give_about_zero(kernel, seed):
    """With the tails of a thin neighbourhood, a little below it."""
    x, y = np.random.default_rng(seed).normal(size=(2, 3000))
    assert abs(fit(x, y, kernel=kernel, **ONE).te_) < 0.03
    assert abs(fit_process(BivariateLinear(), 3000, seed, back=True, kernel=kernel, **ONE).te_) < 0.04


@each_kernel
def test_a_condition_that_drives_both_leaves_little_to_tell(kernel):
    coefficients = [[0.0, 0, 0], [0.9, 0.0, 0], [0, 0, 0.0]]
    driver = VAR([coefficients, [[0, 0, 0], [0, 0, 0], [0.9, 0, 0]]], channels=("z", "x", "y"))
    z, x, y = driver.sample(3000, random_state=0).trials[0].T
    lags = {"kernel": kernel, "target_history": 1, "source_history": 1}
    plain = fit(x, y, **lags)
    # The condition is seen two steps back: where it drives the target.
    given = quiet(x, y, z, condition_history=2, **lags)
    assert plain.te_ > 0.08
    assert given.te_ < 0.4 * plain.te_


# Invariants


@each_kernel
def test_units_offsets_and_the_order_of_channels_do_not_matter(kernel):
    sources, targets, conditions = trials()
    plain, moved = (
        quiet(*data, kernel=kernel, bandwidth=0.9, **LAGS)
        for data in (
            (sources, targets, conditions),
            (
                [1e4 * x[:, ::-1] + 1e3 for x in sources],
                [1e-3 * y - 2 for y in targets],
                [3 * z for z in conditions],
            ),
        )
    )
    np.testing.assert_allclose(
        np.concatenate(moved.local_te_), np.concatenate(plain.local_te_), rtol=1e-7, atol=1e-9
    )
    assert moved.te_ == pytest.approx(plain.te_, rel=1e-9)


@each_kernel
def test_the_data_stay_as_they_are_and_give_the_same_again(kernel):
    data = trials()
    before = [[trial.copy() for trial in part] for part in data]
    first, second = (quiet(*data, kernel=kernel, bandwidth=0.9, **LAGS) for _ in range(2))
    assert (first.te_, first.interval_) == (second.te_, second.interval_)
    for part, copies in zip(data, before, strict=True):
        assert all(np.array_equal(*pair, equal_nan=True) for pair in zip(part, copies, strict=True))


@each_kernel
def test_a_far_outlier_is_no_division_by_zero(kernel):
    x, y = np.random.default_rng(0).normal(size=(2, 500))
    x[100] = 1e6
    fitted = quiet(x, y, kernel=kernel, bandwidth=0.01, **ONE)
    assert math.isfinite(fitted.te_)
    assert np.isnan(fitted.local_te_[0][101]) == (kernel == "box")


# Doubts and bad input


@each_kernel
def test_lonely_windows_come_with_a_note(kernel):
    x, y = np.random.default_rng(0).normal(size=(2, 500))
    with pytest.warns(UnreliableEstimateWarning, match=r"8\d% of the windows have less than one neighbour"):
        fit(x, y, kernel=kernel, bandwidth=0.45, target_history=3, source_history=2)


def test_windows_without_a_neighbour_are_left_out_and_their_share_is_told():
    x, y = np.random.default_rng(0).normal(size=(2, 500))
    with pytest.warns(UnreliableEstimateWarning) as caught:
        fitted = fit(x, y, bandwidth=0.2, **ONE)
    local = fitted.local_te_[0][1:]
    share = np.isnan(local).mean()
    assert 0.1 < share < 0.9
    assert str(caught[0].message).startswith(f"{share:.0%} of the windows")
    assert fitted.te_ == np.nanmean(local)
    assert fitted.result_.warnings == (str(caught[0].message),)


def test_no_neighbours_at_all_are_an_error():
    x, y = np.random.default_rng(0).normal(size=(2, 200))
    with pytest.raises(
        TreetError, match=r"No window of the 199 has another one within the bandwidth of 1e-05"
    ):
        fit(x, y, bandwidth=1e-5, **ONE)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "tophat"}, "kernel must be one of 'box', 'gaussian'. Got 'tophat'"),
        ({"bandwidth": 0}, "bandwidth must be a finite number above 0. Got 0 instead"),
        ({"bandwidth": "wide"}, "bandwidth must be a finite number above 0. Got 'wide' instead"),
    ],
)
def test_settings_that_make_no_sense_are_refused(parameters, message):
    with pytest.raises(TreetError, match=message):
        fit(None, None, **parameters)
