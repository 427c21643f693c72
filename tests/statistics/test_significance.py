"""Tests of significance with a cheap estimator whose size and power can be counted, and corrections."""

import doctest
import json
import warnings

import numpy as np
import pytest
from scipy.stats import false_discovery_control

import treet.statistics.significance
from treet.errors import TreetError, UnreliableEstimateWarning
from treet.estimators.base import Estimate, TransferEntropyEstimator
from treet.estimators.density_pair import _Training
from treet.estimators.neural import TREET
from treet.lag_scan import scan
from treet.processes import BivariateLinear, Threshold
from treet.statistics import significance
from treet.statistics.significance import correct, fit_and_test, paired_test, surrogate_test
from treet.statistics.surrogates import half_shift


class Regression(TransferEntropyEstimator):
    """Least squares on all windows, Gaussian residuals."""

    name, summary, assumes, cost, use_when = "regression", "", "", "", ""

    def __init__(
        self,
        memory=None,
        target_history=None,
        source_history=None,
        delay=None,
        condition_history=None,
        *,
        local=True,
        doubt=False,
        unit="nats",
        confidence=0.95,
        random_state=None,
    ):
        self.memory, self.target_history, self.source_history = memory, target_history, source_history
        self.delay, self.condition_history, self.local, self.doubt = delay, condition_history, local, doubt
        self.unit, self.confidence, self.random_state = unit, confidence, random_state

    def _estimate(self, windows):
        y = [windows.flat_past(role) for role in ("target", "condition")]
        log_densities = [self._log_density(windows, past) for past in (y, [*y, windows.flat_past("source")])]
        local = log_densities[1] - log_densities[0]
        notes = ("a doubt",) if self.doubt else ()
        return Estimate(float(local.mean()), local if self.local else None, notes=notes)

    @staticmethod
    def _log_density(windows, past):
        known = np.hstack([np.ones((len(windows), 1)), *past])
        present = windows.present()[:, 0]
        residual = present - known @ np.linalg.lstsq(known, present, rcond=None)[0]
        variance = residual.var()
        return -0.5 * (residual**2 / variance + np.log(variance))


def pair(process, n, seed, back=False):
    recording = process.sample(n, random_state=seed)
    parts = recording.select(process.source_names), recording.select(process.target_names)
    return parts[::-1] if back else parts


def test_a_surrogate_test_counts_values_at_or_above_the_value():
    x, y = pair(BivariateLinear(), 300, 0)
    found = surrogate_test(Regression(memory=2, random_state=0), x, y, n_surrogates=19)
    assert found.p_value == 1 / 20
    assert (len(found.surrogate_te), found.method, found.parts) == (19, "circular_shift", {})
    assert found.effective_te == pytest.approx(found.result.te - np.mean(found.surrogate_te))
    assert found.result.te == Regression(memory=2).fit(x, y).te_
    x, y = pair(BivariateLinear(), 300, 1, back=True)
    found = surrogate_test(Regression(memory=2, random_state=0), x, y, n_surrogates=19)
    count = sum(value >= found.result.te for value in found.surrogate_te)
    assert found.p_value == (1 + count) / 20 > 0.05


def test_ties_count_against_the_value():
    x, y = pair(Threshold(), 200, 0)

    def same(recording, generator):
        return recording

    assert surrogate_test(Regression(memory=1), x, y, n_surrogates=4, method=same).p_value == 1.0


@pytest.mark.parametrize("method", ["circular_shift", "block_permutation", "iaaft"])
def test_a_surrogate_test_errs_as_often_as_it_says(method):
    p_values = [
        surrogate_test(
            Regression(memory=2, random_state=seed),
            *pair(BivariateLinear(), 250, seed, back=True),
            n_surrogates=9,
            method=method,
        ).p_value
        for seed in range(60)
    ]
    assert 0.02 <= np.mean(np.array(p_values) <= 0.1) <= 0.22


def test_the_effective_value_is_without_the_bias():
    estimates = [
        surrogate_test(Regression(10, random_state=seed), *pair(Threshold(), 200, seed, True), n_surrogates=9)
        for seed in range(8)
    ]
    assert np.mean([found.result.te for found in estimates]) > 0.015
    assert abs(np.mean([found.effective_te for found in estimates])) < 0.006


def test_seeds_decide_and_nothing_of_the_caller_s_is_changed():
    x, y = pair(Threshold(), 200, 0)
    estimator = Regression(memory=1)
    before = estimator.get_params()
    first, again = (surrogate_test(Regression(1, random_state=3), x, y, n_surrogates=5) for _ in range(2))
    assert first.surrogate_te == again.surrogate_te
    surrogate_test(estimator, x, y, n_surrogates=2)
    paired_test(estimator, x, y)
    assert estimator.get_params() == before
    assert not hasattr(estimator, "te_")


def test_the_unit_is_the_estimator_s():
    x, y = pair(BivariateLinear(), 300, 0)
    nats, bits = (
        surrogate_test(Regression(1, unit=unit, random_state=0), x, y, n_surrogates=3)
        for unit in ("nats", "bits")
    )
    assert bits.effective_te == pytest.approx(nats.effective_te / np.log(2))
    assert bits.result.unit == "bits"


def test_doubts_about_surrogates_are_not_repeated():
    x, y = pair(Threshold(), 200, 0)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        found = surrogate_test(Regression(1, doubt=True, random_state=0), x, y, n_surrogates=5)
    assert [warning.category for warning in seen] == [UnreliableEstimateWarning]
    assert found.result.warnings == ("a doubt",)


def test_as_text_and_as_json():
    x, y = pair(Threshold(), 400, 0)
    found = surrogate_test(Regression(1, random_state=0), x, y, n_surrogates=3)
    values = json.loads(json.dumps(found.to_dict()))
    assert (values["test"], values["p_value"], len(values["surrogate_te"])) == ("circular_shift", 0.25, 3)
    assert "x -> y" in str(found)
    assert "p = 0.25" in str(found)
    assert f"circular_shift test against 3 surrogates: effective TE = {found.effective_te:.4g}" in str(found)


def test_a_paired_test_puts_both_p_values_together():
    x, y = pair(BivariateLinear(), 600, 0)
    found = paired_test(Regression(memory=2, random_state=0), x, y)
    expected = min(1, found.parts["score"] / 0.9, found.parts["difference"] / 0.1)
    assert found.p_value == pytest.approx(expected)
    assert found.p_value < 0.01
    assert found.method == "paired"
    assert len(found.surrogate_te) == 1


def test_a_paired_test_errs_as_often_as_it_says_and_finds_what_is_there():
    null, coupled = (
        [
            paired_test(Regression(2, random_state=seed), *pair(Threshold(threshold=1.0), 500, seed, back))
            for seed in range(25)
        ]
        for back in (True, False)
    )
    assert np.mean([found.p_value <= 0.05 for found in null]) <= 0.15
    assert np.mean([found.p_value <= 0.2 for found in null]) >= 0.05
    assert np.mean([found.p_value <= 0.05 for found in coupled]) >= 0.95


@pytest.fixture
def trained(monkeypatch):
    """The critics that are trained from now on: Y and XY, but for further ones."""
    names, run = [], _Training.run

    def counted(self, schedule, generator, label, *rest):
        names.append(label.split()[2].strip(",") if label.startswith("critic of") else "further")
        return run(self, schedule, generator, label, *rest)

    monkeypatch.setattr(_Training, "run", counted)
    return names


def counts(names):
    return names.count("Y"), names.count("XY")


@pytest.mark.filterwarnings("ignore::treet.errors.NotConvergedWarning")
def test_what_does_not_see_the_source_is_trained_once(trained):
    x, y = pair(Threshold(), 300, 0)
    estimator = TREET(1, epochs=1, folds=2, random_state=0)
    alone = [estimator.fresh().fit(source, y).result_ for source in (x, half_shift(x))]
    trained.clear()
    found = paired_test(estimator, x, y)
    assert counts(trained) == (2, 4)
    assert (found.result.te, found.result.d_y) == (alone[0].te, alone[0].d_y)
    assert found.surrogate_te == (alone[1].te,)
    assert alone[0].d_y == alone[1].d_y


@pytest.mark.filterwarnings("ignore::treet.errors.NotConvergedWarning")
def test_a_scan_over_delays_trains_the_critic_of_the_target_once(trained):
    x, y = pair(Threshold(), 300, 0)
    estimator = TREET(epochs=1, folds=2, random_state=0)
    lags = {"target_history": 2, "source_history": 1}
    found = scan(x, y, delay=[0, 1, 3], estimator=estimator, **lags)
    assert counts(trained) == (2, 6)
    for cell in found.cells:
        alone = estimator.fresh(delay=cell.lags.delay, **lags).fit(x, y, least_span=3).result_
        assert (cell.te, cell.interval) == (alone.te, alone.interval)


@pytest.mark.parametrize("test", ["paired", "surrogate"])
def test_one_call_gives_the_test_of_its_name(test):
    x, y = pair(BivariateLinear(), 300, 0)
    settings = {"n_surrogates": 9} if test == "surrogate" else {}
    found = fit_and_test(Regression(memory=1, random_state=0), x, y, test=test, **settings).result_
    expected = significance.TESTS[test](Regression(memory=1, random_state=0), x, y, **settings)
    assert found.p_value == expected.p_value
    assert found.effective_te == pytest.approx(found.te - np.mean(expected.surrogate_te))
    assert json.loads(found.to_json())["test"] == ("paired" if test == "paired" else "circular_shift")
    assert found.to_unit("bits").effective_te == pytest.approx(found.effective_te / np.log(2))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"test": "t"}, "test must be one of 'paired', 'surrogate'. Got 't'"),
        ({"n_surrogates": 9}, "n_surrogates does not apply without a test"),
        ({"test": "paired", "n_surrogates": 9}, "n_surrogates does not apply to the paired test"),
    ],
)
def test_settings_of_a_test_that_do_not_apply(settings, message):
    with pytest.raises(TreetError, match=message):
        fit_and_test(Regression(memory=1), *pair(Threshold(), 100, 0), **settings)


def test_the_mean_of_nothing_but_zeros_is_no_evidence():
    assert significance._p_of_mean(np.zeros(100)) == 1.0
    assert significance._p_of_mean(np.arange(100.0) + 50) < 0.001
    assert significance._p_of_mean(-np.arange(100.0)) > 0.99


def test_the_t_test_of_means_holds_for_correlated_values():
    rng = np.random.default_rng(0)
    walks = [np.convolve(rng.normal(size=1010), np.ones(11), "valid") for _ in range(600)]
    share = np.mean([significance._p_of_mean(walk) <= 0.05 for walk in walks])
    assert 0.03 <= share <= 0.08


def test_bad_input_is_refused_before_the_work():
    x, y = pair(Threshold(), 200, 0)
    with pytest.raises(TreetError, match=r"n_surrogates must be a whole number of at least 1. Got 0"):
        surrogate_test(Regression(1), x, y, n_surrogates=0)
    with pytest.raises(TreetError, match="at least two trials"):
        surrogate_test(Regression(1), x, y, method="trial_shuffle")
    with pytest.raises(TreetError, match="method must be one of"):
        surrogate_test(Regression(1), x, y, method="shuffle")
    with pytest.raises(TreetError, match="same channel"):
        paired_test(Regression(1), x, x)
    with pytest.raises(TreetError, match="needs local values, which 'regression' has not"):
        paired_test(Regression(1, local=False), x, y)


@pytest.mark.slow
def test_processes_give_the_same_as_one():
    x, y = pair(Threshold(), 200, 0)
    one, two = (
        surrogate_test(Regression(1, random_state=0), x, y, n_surrogates=4, n_jobs=jobs) for jobs in (1, 2)
    )
    assert one.surrogate_te == two.surrogate_te


def test_corrections_against_their_definitions():
    rng = np.random.default_rng(0)
    p_values = rng.random((3, 5)) ** 2
    np.testing.assert_allclose(
        correct(p_values, "benjamini-hochberg").ravel(), false_discovery_control(p_values.ravel())
    )
    ordered = np.sort(p_values.ravel())
    stepped = [min(1, max((15 - j) * ordered[j] for j in range(rank + 1))) for rank in range(15)]
    np.testing.assert_allclose(np.sort(correct(p_values, "holm").ravel()), stepped)


def test_what_was_not_tested_does_not_count():
    given = [0.01, np.nan, 0.04]
    np.testing.assert_allclose(correct(given, "holm"), [0.02, np.nan, 0.04])
    np.testing.assert_allclose(correct(given, "benjamini-hochberg"), [0.02, np.nan, 0.04])
    assert correct([], "holm").shape == (0,)
    assert given[0] == 0.01


def test_corrections_of_nonsense():
    with pytest.raises(TreetError, match=r"must lie between 0 and 1. Got -0.1 .. 0.5"):
        correct([0.5, -0.1], "holm")
    with pytest.raises(TreetError, match="method must be one of 'benjamini-hochberg', 'holm'"):
        correct([0.5], "bonferroni")


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.statistics.significance).failed == 0
