"""The estimator ``copula``: exact values, the published formula, invariants and refusals."""

import doctest
import warnings

import numpy as np
import pytest
from scipy.special import digamma

import treet.estimators.copula
from treet.errors import TreetError, UnreliableEstimateWarning
from treet.estimators.copula import CopulaTE
from treet.lags import Lags
from treet.processes import BivariateLinear, Threshold

ONE = {"target_history": 1, "source_history": 1}


def fit(source, target, condition=None, **parameters):
    """A fit whose doubts do not matter."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableEstimateWarning)
        return CopulaTE(**({"random_state": 0} | ONE | parameters)).fit(source, target, condition)


def coupled(n_samples=400, seed=0):
    return Threshold().sample(n_samples, seed).trials[0].T.copy()


# Exact values


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("process", [Threshold(), Threshold(threshold=1.0), BivariateLinear()])
def test_the_value_is_within_its_error_of_the_exact_one(process, seed):
    recording = process.sample(8000, random_state=seed)
    found = fit(recording.select(process.source_names), recording.select(process.target_names))
    exact = process.transfer_entropy(Lags(1, 1))
    assert found.te_ == pytest.approx(exact, abs=3 * found.std_error_ + 0.012)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_independent_series_have_none_and_the_published_estimate_is_too_low(seed):
    x, y = np.random.default_rng(seed).normal(size=(2, 3000))
    corrected, published = (
        fit(x, y, memory=2, target_history=None, source_history=None, corrected=kind)
        for kind in (True, False)
    )
    assert abs(corrected.te_) < 0.07
    assert published.te_ < -0.1


def test_a_condition_that_is_the_driver_leaves_nothing_to_tell():
    rng = np.random.default_rng(2)
    z, added, own = rng.normal(size=(3, 4000))
    y, x = np.roll(z, 1) + 0.7 * own, z + 0.5 * added
    assert fit(x, y).te_ > 0.3
    assert abs(fit(x, y, z).te_) < 0.06


def test_local_values_follow_the_exact_ones():
    process = Threshold()
    recording = process.sample(8000, random_state=0)
    (local,) = fit(recording.select("x"), recording.select("y")).local_te_
    (exact,) = process.local_transfer_entropy(recording, Lags(1, 1))
    assert np.isnan(local[0])
    assert np.corrcoef(local[1:], exact[1:])[0, 1] > 0.5


# The published formula


def naive_copula_entropy(columns, neighbours):
    """From the definition: ranks over n, all distances in the max norm, Kozachenko and Leonenko."""
    ranks = np.stack([column.argsort().argsort() + 1.0 for column in columns], axis=1) / len(columns[0])
    distances = np.abs(ranks[:, None] - ranks[None]).max(axis=2)
    nearest = np.sort(distances, axis=1)[:, neighbours]
    return digamma(len(ranks)) - digamma(neighbours) + len(columns) * np.log(2 * nearest).mean()


@pytest.mark.parametrize("neighbours", [1, 3, 10])
def test_the_published_estimate_at_history_one_is_that_of_a_loop(neighbours):
    """There the copula entropy of the past, one column, is 0."""
    x, y = coupled()
    now, past, source = y[1:], y[:-1], x[:-1]
    naive = (
        naive_copula_entropy([now, past], neighbours)
        + naive_copula_entropy([source, past], neighbours)
        - naive_copula_entropy([now, source, past], neighbours)
    )
    assert fit(x, y, corrected=False, neighbours=neighbours).te_ == pytest.approx(naive, abs=1e-12)


def test_long_histories_take_off_the_entropy_of_the_past():
    x, y = coupled()
    z = np.random.default_rng(5).normal(size=len(x))
    pasts = [y[1:-1], y[:-2], z[1:-1], z[:-2]]
    sources = [x[1:-1], x[:-2]]
    naive = (
        naive_copula_entropy([y[2:], *pasts], 3)
        + naive_copula_entropy([*sources, *pasts], 3)
        - naive_copula_entropy([y[2:], *sources, *pasts], 3)
        - naive_copula_entropy(pasts, 3)
    )
    found = fit(x, y, z, target_history=2, source_history=2, corrected=False)
    assert found.te_ == pytest.approx(naive, abs=1e-12)


def test_the_corrected_volume_is_that_of_a_loop():
    rng = np.random.default_rng(0)
    ranks = (np.stack([rng.permutation(50) for _ in range(3)], axis=1) + 0.5) / 50
    estimator = CopulaTE()
    reach = estimator._reach(ranks)
    naive = []
    for point, radius in zip(ranks, reach, strict=True):
        radius -= 0.5 / 50
        sides = [min(1, value + radius) - max(0, value - radius) for value in point]
        naive.append(digamma(50) - digamma(3) + np.log(sides).sum())
    np.testing.assert_allclose(estimator._local_entropy(ranks, reach), naive, rtol=1e-12)


# Invariants


def test_only_the_order_of_values_matters():
    x, y = coupled()
    assert fit(np.exp(3 * x), -(y**3) + 7).te_ == pytest.approx(fit(x, -y).te_, abs=1e-12)


def test_the_order_of_the_channels_does_not_matter():
    rng = np.random.default_rng(0)
    x, y, z = rng.normal(size=(3, 300, 2))
    turned = fit(x[:, ::-1], y[:, ::-1], z[:, ::-1])
    assert turned.te_ == pytest.approx(fit(x, y, z).te_, abs=1e-12)


def test_ties_are_broken_by_the_seed_alone():
    x, y = (np.round(series) for series in coupled())
    before = x.copy(), y.copy()
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    one, same, other = (fit(x, y, random_state=seed).te_ for seed in (0, 0, 1))
    assert one == same != other
    assert np.isfinite(other)
    assert all(map(np.array_equal, (x, y), before))
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    x, y = coupled()
    assert fit(x, y, random_state=0).te_ == fit(x, y, random_state=1).te_


def test_a_target_of_two_values_is_estimated():
    """Drawn with the seed of the estimator, whose ties must not be broken by the same numbers."""
    rng = np.random.default_rng(0)
    x = rng.random(4000) > 0.5
    y = np.where(rng.random(4000) < 0.1, ~np.roll(x, 1), np.roll(x, 1))
    exact = np.log(2) + 0.1 * np.log(0.1) + 0.9 * np.log(0.9)
    assert fit(x, y).te_ == pytest.approx(exact, abs=0.06)


def test_gaps_and_trials_are_respected():
    x, y = coupled(300)
    y[40] = np.nan
    found = fit([x[:120], x[120:]], [y[:120], y[120:]])
    first, second = found.local_te_
    assert np.flatnonzero(np.isnan(first)).tolist() == [0, 40, 41]
    assert np.flatnonzero(np.isnan(second)).tolist() == [0]
    assert found.te_ == pytest.approx(np.nanmean(np.concatenate([first, second])), abs=1e-12)


# Doubts and refusals


def test_too_many_variables_are_a_note():
    x, y = coupled(2000)
    with pytest.warns(UnreliableEstimateWarning, match="of 12 variables: too few windows for so many"):
        found = CopulaTE(memory=5).fit(x, y)
    assert found.te_ < 0.3
    assert len(found.result_.warnings) == 1
    assert CopulaTE(**ONE).fit(x, y).result_.warnings == ()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"neighbours": 0}, "neighbours must be a whole number of at least 1. Got 0 instead"),
        ({"neighbours": 2.5}, "neighbours must be a whole number"),
        ({"corrected": "no"}, "corrected must be True or False. Got 'no' instead"),
    ],
)
def test_settings_that_make_no_sense_are_refused_before_the_data_are_looked_at(parameters, message):
    with pytest.raises(TreetError, match=message):
        CopulaTE(**parameters).fit("not", "looked at")


def test_more_neighbours_than_windows_are_refused():
    with pytest.raises(TreetError, match="neighbours=20 needs more windows than that"):
        fit(*coupled(20), neighbours=20)


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.estimators.copula).failed == 0
