"""The estimator ``ksg`` against exact values, and both of its searches against a loop over all windows."""

import doctest
import inspect
import math
import warnings

import numpy as np
import pytest
from scipy.special import digamma
from sklearn.base import clone

from treet.errors import TreetError, UnreliableEstimateWarning
from treet.estimators import nearest, neighbours
from treet.estimators.nearest import KSG
from treet.lags import Lags
from treet.processes import VAR, BivariateLinear, DelayedLinear, Threshold
from treet.statistics.intervals import standard_error

LAG_ONE = {"target_history": 1, "source_history": 1, "random_state": 0}


@pytest.fixture(params=["tree", "pairs"])
def search(request, monkeypatch):
    """Each of the two searches, whatever the rule says."""
    monkeypatch.setattr(nearest, "tree_is_cheaper", lambda windows: request.param == "tree")
    return request.param


def quiet_fit(source, target, condition=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableEstimateWarning)
        return KSG(**parameters).fit(source, target, condition)


def coupled(n_samples=300, seed=0):
    """Source and target of the threshold process, (time,) each."""
    return tuple(series.copy() for series in Threshold().sample(n_samples, seed).trials[0].T)


def fit_process(process, n_samples, seed, source=None, target=None, **parameters):
    recording = process.sample(n_samples, seed)
    source, target = source or process.source_names, target or process.target_names
    return KSG(random_state=0, **parameters).fit(recording.select(source), recording.select(target))


# Exact values

CASES = {
    "threshold": (Threshold(), Lags(1, 1)),
    "linear": (BivariateLinear(), Lags(1, 1)),
    "strong": (BivariateLinear(b_x=0.3, b_y=-0.6, c=1.5), Lags(1, 1)),
    "var": (VAR([[0.4, 0.0], [0.5, 0.8]]), Lags(1, 2)),
    "delayed": (DelayedLinear(delay=4), Lags(1, 1, 4)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_value_is_within_its_error_of_the_exact_one(name, seed):
    process, lags = CASES[name]
    lengths = {key: getattr(lags, key) for key in ("target_history", "source_history", "delay")}
    fitted = fit_process(process, 4000, seed, **lengths)
    # The slack is the bias, which shrinks with the number of samples.
    assert fitted.te_ == pytest.approx(process.transfer_entropy(lags), abs=3 * fitted.std_error_ + 0.01)
    assert fitted.std_error_ < 0.02


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_other_direction_is_zero(seed):
    process = BivariateLinear()
    fitted = fit_process(
        process, 4000, seed, process.target_names, process.source_names, target_history=1, source_history=1
    )
    assert abs(fitted.te_) < 3 * fitted.std_error_


def test_local_values_follow_the_exact_ones():
    process, lags = BivariateLinear(c=1.0), Lags(1, 1)
    (local,) = fit_process(process, 4000, 0, target_history=1, source_history=1).local_te_
    (exact,) = process.local_transfer_entropy(process.sample(4000, 0), lags)
    assert np.corrcoef(local[1:], exact[1:])[0, 1] > 0.7


def common_driver(seed, n_samples=3000):
    """Two series that a third drives at lag one, and that have nothing to do with each other."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n_samples + 2)
    x = z[1:-1] + 0.5 * rng.normal(size=n_samples)
    y = z[:-2] + 0.5 * rng.normal(size=n_samples)
    return x, y, z[1:-1]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_common_driver_explains_what_it_drives(seed):
    x, y, z = common_driver(seed)
    alone, given = KSG(**LAG_ONE).fit(x, y), KSG(**LAG_ONE).fit(x, y, z)
    assert alone.te_ > 0.3
    assert abs(given.te_) < 3 * given.std_error_ + 0.01


@pytest.mark.parametrize("history", [5, 20])
def test_long_histories_are_biased_towards_zero_and_say_so(history):
    with pytest.warns(UnreliableEstimateWarning, match=r"biased towards zero. Use shorter histories"):
        fitted = fit_process(Threshold(), 1000, 0, target_history=history, source_history=history)
    assert fitted.te_ < 0.2
    assert f"{2 * history + 1} dimensions, {1000 - history} windows" in fitted.result_.warnings[0]


# Both searches against loops

TRIALS = (57, 24, 38)
DIFFERENTIAL = {
    "lag one": ((1, 1, 1, None), {}),
    "long": ((7, 4, 1, None), {}),
    "source present": ((2, 3, 0, None), {}),
    "delay": ((1, 2, 5, None), {"neighbours": 1}),
    "condition": ((3, 2, 1, 4), {"neighbours": 7}),
    "theiler": ((2, 2, 1, None), {"theiler": 3}),
    "theiler beyond the gaps": ((2, 1, 1, 1), {"theiler": 11, "neighbours": 2}),
}


def several(seed=0, conditioned=True, extra=0):
    """Source of two channels, target of two and a condition over unequal trials, with a gap in each."""
    rng = np.random.default_rng(seed)
    lengths = (TRIALS[0] + extra, *TRIALS[1:])
    sources = [rng.normal(size=(length, 2)).cumsum(axis=0) for length in lengths]
    targets = [rng.normal(size=(len(x), 2)) + 0.3 * np.roll(x, 1, axis=0) for x in sources]
    conditions = [rng.normal(size=(len(x), 1)) for x in sources]
    sources[0][20, 1] = targets[1][12, 0] = conditions[2][9, 0] = np.nan
    return sources, targets, conditions if conditioned else None


def reached(lags, series):
    """For each window (trial, time) its samples at each lag: a loop over trials, time steps and lags."""
    found = {}
    for trial in range(len(series["target"])):
        for t in range(lags.span, len(series["target"][trial])):
            past = {role: [part[trial][t - lag] for lag in lags.of(role)] for role, part in series.items()}
            window = {"present": series["target"][trial][t], **{r: np.ravel(v) for r, v in past.items()}}
            if all(np.isfinite(values).all() for values in window.values()):
                found[trial, t] = window
    return found


def standardised(lags, series):
    """The series less the mean over all samples from the oldest to the newest of any window, over the std."""
    steps = {(trial, t - back) for trial, t in reached(lags, series) for back in range(lags.span + 1)}
    scaled = {}
    for role, trials in series.items():
        seen = np.array([trials[trial][t] for trial, t in steps])
        scaled[role] = [(x - np.nanmean(seen, axis=0)) / np.nanstd(seen, axis=0) for x in trials]
    return scaled


def brute_force(lags, source, target, condition=None, neighbours=4, theiler=0):
    """Local values (windows,) by comparing every window with every other one."""
    series = {"source": source, "target": target} | ({} if condition is None else {"condition": condition})
    windows = reached(lags, standardised(lags, series))
    local = []
    for (trial, t), one in windows.items():
        distances = []
        for (other_trial, other_t), other in windows.items():
            if trial == other_trial and abs(t - other_t) <= theiler:
                continue
            gap = {role: np.abs(one[role] - other[role]).max() for role in one}
            z = max(gap["target"], gap.get("condition", 0.0))
            distances.append((z, max(gap["present"], z), max(gap["source"], z)))
        z, yz, xz = np.array(distances).T
        radius = np.sort(np.maximum(yz, xz))[neighbours - 1]
        n_z, n_yz, n_xz = ((part < radius).sum() for part in (z, yz, xz))
        local.append(digamma(neighbours) + digamma(n_z + 1) - digamma(n_yz + 1) - digamma(n_xz + 1))
    return np.array(local)


def all_local(fitted):
    local = np.concatenate(fitted.local_te_)
    return local[~np.isnan(local)]


@pytest.mark.parametrize("name", DIFFERENTIAL)
@pytest.mark.parametrize("extra", [0, 1])
def test_local_values_are_those_of_a_loop_over_all_pairs(name, extra, search, monkeypatch):
    # Pieces so small that there are several of them, one shorter than the others, and several threads for
    # them; an even and an odd length.
    monkeypatch.setattr(neighbours, "STEPS_PER_THREAD", 70)
    monkeypatch.setattr(neighbours, "SEGMENT", 50)
    monkeypatch.setattr(neighbours, "BLOCK", 13)
    monkeypatch.setattr(nearest, "LARGEST_ANSWER", 500)
    (target, source, delay, condition), settings = DIFFERENTIAL[name]
    lags = Lags(target, source, delay, condition)
    data = several(conditioned=condition is not None, extra=extra)
    fitted = quiet_fit(
        *data,
        target_history=target,
        source_history=source,
        delay=delay,
        condition_history=condition,
        noise=0.0,
        **settings,
    )
    np.testing.assert_allclose(all_local(fitted), brute_force(lags, *data, **settings), rtol=0, atol=1e-12)
    assert fitted.te_ == pytest.approx(all_local(fitted).mean(), abs=1e-12)


def test_both_searches_count_hundreds_of_neighbours_alike(monkeypatch):
    x, y = coupled(1500)
    found = []
    for tree in (True, False):
        monkeypatch.setattr(nearest, "tree_is_cheaper", lambda windows, tree=tree: tree)
        found.append(all_local(quiet_fit(x, y, memory=2, theiler=30, random_state=0)))
    np.testing.assert_array_equal(*found)


def test_short_numbers_change_next_to_nothing(monkeypatch):
    """Single precision keeps apart what double precision does, but for a window here and there."""
    monkeypatch.setattr(nearest, "tree_is_cheaper", lambda windows: False)
    x, y = coupled(1500)
    short = quiet_fit(x, y, memory=3, random_state=0)
    monkeypatch.setattr(neighbours, "LEAST_APART", 2.0)
    long = quiet_fit(x, y, memory=3, random_state=0)
    assert short.te_ == pytest.approx(long.te_, rel=1e-3)
    assert (all_local(short) != all_local(long)).mean() < 0.01


@pytest.mark.parametrize(("decimals", "precision"), [(15, np.float32), (2, np.float64)])
def test_noise_below_single_precision_breaks_ties(decimals, precision, monkeypatch):
    x, y = (np.round(series, decimals) for series in coupled(1500))
    used, sweep, found = [], neighbours.Sweep.over, []
    monkeypatch.setattr(neighbours.Sweep, "over", lambda *a: used.append(sweep(*a)) or used[-1])
    for tree in (True, False):
        monkeypatch.setattr(nearest, "tree_is_cheaper", lambda windows, tree=tree: tree)
        found.append(all_local(quiet_fit(x, y, memory=1, random_state=0)))
    assert [one.absent.dtype for one in used] == [precision]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("steps", [100, 700])
def test_the_number_of_threads_does_not_matter(steps, monkeypatch):
    monkeypatch.setattr(nearest, "tree_is_cheaper", lambda windows: False)
    x, y = coupled(1500)
    alone = quiet_fit(x, y, memory=3, random_state=0)
    monkeypatch.setattr(neighbours, "STEPS_PER_THREAD", steps)
    monkeypatch.setattr(neighbours, "cpu_count", lambda: 4)
    np.testing.assert_array_equal(all_local(quiet_fit(x, y, memory=3, random_state=0)), all_local(alone))


@pytest.mark.parametrize("neighbours", [3, 9])
def test_ties_are_counted_strictly(neighbours, search):
    rng = np.random.default_rng(0)
    # As many ones as minus ones: the scaled values are exactly these, and so are the ties.
    x, y = (rng.permutation(np.repeat([-1.0, 1.0], 30))[:, None] for _ in range(2))
    fitted = quiet_fit([x], [y], noise=0.0, neighbours=neighbours, target_history=1, source_history=1)
    expected = brute_force(Lags(1, 1), [x], [y], neighbours=neighbours)
    np.testing.assert_allclose(all_local(fitted), expected, atol=1e-12)


def test_the_rule_takes_the_tree_in_few_dimensions_and_pairs_in_many(monkeypatch):
    used = []
    for name in ("_search_tree", "_sweep_pairs"):
        kept = getattr(nearest, name)
        monkeypatch.setattr(nearest, name, lambda *a, kept=kept, name=name: used.append(name) or kept(*a))
    x, y = coupled(5000)
    for history in (1, 3):
        quiet_fit(x, y, target_history=history, source_history=history)
    assert used == ["_search_tree", "_sweep_pairs"]


# Invariants


@pytest.mark.parametrize("which", [0, 1, 2])
def test_scale_and_origin_of_a_channel_do_not_matter(which, search):
    data = [np.array(series) for series in common_driver(0, 400)]
    before = quiet_fit(*data, **LAG_ONE)
    data[which] = 1000.0 * data[which] - 5.0
    np.testing.assert_allclose(quiet_fit(*data, **LAG_ONE).te_, before.te_, atol=1e-3)
    data[which] = -data[which]
    np.testing.assert_allclose(quiet_fit(*data, **LAG_ONE).te_, before.te_, atol=1e-3)


def test_the_order_of_channels_does_not_matter(search):
    sources, targets, conditions = several()
    swapped = [x[:, ::-1] for x in sources], [y[:, ::-1] for y in targets], conditions
    one, other = (quiet_fit(*data, memory=2, noise=0.0) for data in ((sources, targets, conditions), swapped))
    np.testing.assert_allclose(all_local(one), all_local(other), atol=1e-12)


def test_what_lies_before_the_first_window_does_not_matter(search):
    x, y = coupled()
    lead = np.full(40, np.nan)
    one = quiet_fit(x, y, memory=2, noise=0.0)
    other = quiet_fit(np.r_[lead, x], np.r_[lead, y], memory=2, noise=0.0)
    np.testing.assert_allclose(all_local(one), all_local(other), atol=1e-12)


def test_a_shift_of_the_source_is_a_delay(search):
    x, y = coupled()
    shifted = quiet_fit(np.roll(x, 3)[3:], y[3:], delay=1, target_history=2, source_history=2, noise=0.0)
    delayed = quiet_fit(x, y, delay=4, target_history=2, source_history=2, noise=0.0)
    # The first windows differ, for the one recording is three samples shorter.
    assert shifted.te_ == pytest.approx(delayed.te_, abs=0.01)


def test_a_seed_gives_the_same_result_and_the_arrays_are_left_alone(search):
    x, y = (np.round(series) for series in coupled())
    before = x.copy(), y.copy()
    one, same, other = (quiet_fit(x, y, memory=1, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(all_local(one), all_local(same))
    assert one.te_ != other.te_
    np.testing.assert_array_equal((x, y), before)
    assert x.flags.writeable


def test_noise_changes_ties_and_nothing_else(search):
    x, y = coupled()
    silent, noisy = (quiet_fit(x, y, memory=1, noise=noise, random_state=0) for noise in (0.0, 1e-8))
    np.testing.assert_allclose(silent.te_, noisy.te_, atol=1e-3)
    assert quiet_fit(x, y, memory=1, noise=0.3, random_state=0).te_ < silent.te_ - 0.05


def test_more_neighbours_make_local_values_less_noisy():
    x, y = coupled(1000)
    spread = [np.std(all_local(quiet_fit(x, y, neighbours=k, **LAG_ONE))) for k in (1, 4, 20)]
    assert spread[0] > spread[1] > spread[2]


def test_neighbours_in_time_are_no_neighbours_in_space():
    rng = np.random.default_rng(0)
    # Two independent series, sampled so densely that neighbours in time are neighbours in space.
    x, y = rng.normal(size=(2, 1500)).cumsum(axis=1)
    near, far = (quiet_fit(x, y, theiler=theiler, memory=1, random_state=0).te_ for theiler in (0, 40))
    assert far < near


def test_local_values_are_nan_where_there_is_no_window():
    data = several()
    fitted = quiet_fit(*data, target_history=3, source_history=1, delay=2, condition_history=2)
    series = dict(zip(("source", "target", "condition"), data, strict=True))
    there = [(trial, t) for trial, t in reached(Lags(3, 1, 2, 2), series)]
    local = fitted.local_te_
    assert [len(trial) for trial in local] == list(TRIALS)
    assert there == [(i, t) for i, trial in enumerate(local) for t in np.flatnonzero(~np.isnan(trial))]
    assert fitted.n_windows_ == len(there)
    assert fitted.std_error_ == pytest.approx(standard_error(local))


# Contract and bad input


def test_the_constructor_only_stores():
    given = {name: object() for name in KSG.parameters()}
    assert vars(KSG(**given)) == given
    assert sorted(given) == sorted(set(inspect.signature(KSG.__init__).parameters) - {"self"})
    assert clone(KSG(memory=3, neighbours=7)).get_params() == KSG(memory=3, neighbours=7).get_params()


def test_the_unit_is_that_of_the_result():
    x, y = coupled()
    nats, bits = (quiet_fit(x, y, unit=unit, **LAG_ONE) for unit in ("nats", "bits"))
    assert bits.te_ == pytest.approx(nats.te_ / math.log(2))
    assert bits.result_.settings == {"neighbours": 4, "theiler": 0, "noise": 1e-8}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"neighbours": 0}, "neighbours must be a whole number of at least 1. Got 0"),
        ({"neighbours": 2.0}, "neighbours must be a whole number"),
        ({"neighbours": True}, "neighbours must be a whole number"),
        ({"theiler": -1}, "theiler must be a whole number of at least 0. Got -1"),
        ({"theiler": None}, "theiler must be a whole number"),
        ({"noise": -1e-8}, "noise must not be below 0. Got -1e-08"),
        ({"noise": math.inf}, "noise must be a finite number. Got inf"),
        ({"noise": math.nan}, "noise must be a finite number"),
        ({"noise": "none"}, "noise must be a finite number"),
        ({"memory": 2, "delay": 1}, "memory=2 already sets"),
    ],
    ids=repr,
)
def test_bad_parameters_are_refused_before_the_data_are_looked_at(parameters, message):
    with pytest.raises(TreetError, match=message):
        KSG(**parameters).fit("not", "looked at")


def test_too_few_windows_say_how_many_are_needed(search):
    x, y = coupled(22)
    with pytest.raises(TreetError, match=r"neighbours=4 and theiler=9: 21. At least 23 are needed"):
        KSG(theiler=9, **LAG_ONE).fit(x, y)
    assert np.isfinite(quiet_fit(x, y, theiler=8, **LAG_ONE).te_)


@pytest.mark.parametrize("noise", [0.0, 1e-8])
def test_repeated_values_are_pointed_out(noise, search):
    x, y = (np.sign(series) for series in coupled())
    with pytest.warns(UnreliableEstimateWarning, match="differ by no more than the noise"):
        KSG(noise=noise, **LAG_ONE).fit(x, y)


def test_continuous_values_in_few_dimensions_raise_no_doubt():
    x, y = coupled(1000)
    assert KSG(**LAG_ONE).fit(x, y).result_.warnings == ()


@pytest.mark.parametrize("module", [nearest, neighbours])
def test_the_examples_in_the_docstrings_hold(module):
    assert doctest.testmod(module).failed == 0
