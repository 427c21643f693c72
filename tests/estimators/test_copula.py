"""The estimator ``copula``: exact values, the published formula, invariants and refusals."""

import doctest
import warnings

import numpy as np
import pytest
from scipy.special import digamma

import treet.estimators.copula
import treet.estimators.neighbours
from treet.data import as_recording
from treet.errors import TreetError, UnreliableEstimateWarning
from treet.estimators.copula import CopulaTE, _Found, _ranked, _search_trees, _sweep_pairs
from treet.lags import Lags
from treet.processes import BivariateLinear, Threshold
from treet.windows import Windows

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


def step_ranks(column):
    """Over the time steps that are there; NaN elsewhere."""
    there = np.isfinite(column)
    ranks = np.full(len(column), np.nan)
    ranks[there] = (column[there].argsort().argsort() + 0.5) / there.sum()
    return ranks


def test_in_many_dimensions_the_ranks_are_those_among_the_time_steps():
    x, y = coupled(150)
    x[60] = np.nan
    lag = 7
    windows = [t for t in range(lag, len(x)) if not t - lag <= 60 <= t]
    ranks = {name: step_ranks(series) for name, series in {"x": x, "y": y}.items()}
    past, source, now = (
        [[ranks[name][t - back] for t in windows] for back in backs]
        for name, backs in (("y", range(1, lag + 1)), ("x", range(lag + 1)), ("y", range(1)))
    )
    signs = {1: (now + past, source + past), -1: (now + source + past, past)}
    naive = 0.0
    for sign, spaces in signs.items():
        for columns in spaces:
            points = np.array(columns).T
            distances = np.sort(np.abs(points[:, None] - points[None]).max(axis=2))[:, 3]
            naive += sign * len(columns) * np.log(2 * distances).mean()
    found = fit(x, y, memory=lag, target_history=None, source_history=None, corrected=False)
    assert found.n_windows_ == len(windows)
    assert found.te_ == pytest.approx(naive, abs=1e-5)


def several():
    """Source of two channels, target and condition over unequal trials, with gaps."""
    rng = np.random.default_rng(0)
    sources, targets, conditions = (
        [rng.normal(size=(length, width)).cumsum(axis=0) for length in (90, 41, 70)] for width in (2, 1, 1)
    )
    sources[0][20, 1] = targets[1][12, 0] = conditions[2][9, 0] = np.nan
    parts = {"source": sources, "target": targets, "condition": conditions}
    return Windows.of(*(as_recording(part, role) for role, part in parts.items()), Lags(3, 2, 1, 4))


@pytest.mark.parametrize("search", [_search_trees, _sweep_pairs])
@pytest.mark.parametrize("neighbours", [1, 4])
def test_the_neighbours_in_each_space_are_those_of_a_loop(search, neighbours, monkeypatch):
    # Pieces so small that there are several of them, for several threads.
    for name, size in {"SEGMENT": 50, "BLOCK": 13, "STEPS_PER_THREAD": 70}.items():
        monkeypatch.setattr(treet.estimators.neighbours, name, size)
    ranked = _ranked(several(), np.random.default_rng(0))
    widths = []
    for found in search(ranked, neighbours):
        distances = np.abs(found.ranks[:, None] - found.ranks[None]).max(axis=2)
        np.testing.assert_allclose(found.reach, np.sort(distances)[:, neighbours], rtol=1e-5)
        assert found.reach.min() >= 0.99 * found.step
        widths.append(found.ranks.shape)
    assert widths == [(len(ranked), columns) for columns in (7, 8, 11, 12)]


@pytest.mark.parametrize("memory", [1, 5, 8])
def test_both_searches_agree_up_to_the_ends_of_the_recording(memory, monkeypatch):
    x, y = coupled(2000)
    found = []
    for most in (0, 100):
        monkeypatch.setattr(treet.estimators.copula, "MOST_BY_TREE", most)
        found.append(fit(x, y, memory=memory, target_history=None, source_history=None))
    assert found[0].te_ == pytest.approx(found[1].te_, abs=3e-3)
    assert found[0].te_ != found[1].te_
    assert np.corrcoef(*(one.local_te_[0][memory:] for one in found))[0, 1] > 0.99


def test_ranks_leave_out_what_is_missing():
    ranked = _ranked(several(), np.random.default_rng(0)).values
    for channel, original in zip(ranked.T, several().values.T, strict=True):
        np.testing.assert_array_equal(channel, step_ranks(original))


def test_the_corrected_volume_is_that_of_a_loop():
    rng = np.random.default_rng(0)
    ranks = (np.stack([rng.permutation(50) for _ in range(3)], axis=1) + 0.5) / 50
    reach, naive = rng.uniform(0.05, 0.6, size=50), []
    for point, radius in zip(ranks, reach, strict=True):
        radius -= 0.5 / 50
        sides = [min(1, value + radius) - max(0, value - radius) for value in point]
        naive.append(digamma(50) - digamma(3) + np.log(sides).sum())
    found = CopulaTE()._local_entropy(_Found(ranks, reach, 1 / 50))
    np.testing.assert_allclose(found, naive, rtol=1e-12)


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
