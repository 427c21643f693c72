"""Estimates against exact values: trained in full, three seeds each."""

from functools import cache

import numpy as np
import pytest

from treet.estimators.neural import TREET
from treet.lags import Lags
from treet.processes import BivariateLinear, SineMap, Threshold

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::treet.errors.NotConvergedWarning")]

N_SAMPLES = 3000
CASES = {
    "threshold": (Threshold(), Lags.from_memory(2)),
    "linear": (BivariateLinear(), Lags(5, 5)),
    "map": (SineMap(), Lags(1, 1)),
}
# Beside the statistical error: what is missed for want of training and of data.
SLACK = 0.01

each_case = pytest.mark.parametrize("name", CASES)
each_seed = pytest.mark.parametrize("seed", [0, 1, 2])


@cache
def estimate(name, seed, back=False):
    """A fit in full of the coupled direction, or of the other one."""
    process, lags = CASES[name]
    recording = process.sample(N_SAMPLES, random_state=seed)
    source, target = process.source_names, process.target_names
    source, target = (target, source) if back else (source, target)
    estimator = TREET(
        target_history=lags.target_history,
        source_history=lags.source_history,
        delay=lags.delay,
        random_state=seed,
    )
    return estimator.fit(recording.select(source), recording.select(target))


@each_case
@each_seed
def test_the_value_is_within_its_error_of_the_exact_one(name, seed):
    process, lags = CASES[name]
    fitted = estimate(name, seed)
    assert fitted.te_ == pytest.approx(process.transfer_entropy(lags), abs=3 * fitted.std_error_ + SLACK)


@each_case
@each_seed
def test_the_stated_error_is_that_of_the_exact_local_values_and_not_much_more(name, seed):
    process, lags = CASES[name]
    oracle = np.sqrt(process.local_variance(lags) / N_SAMPLES)
    assert 0.6 * oracle < estimate(name, seed).std_error_ < 1.7 * oracle


@each_case
@each_seed
def test_local_values_follow_the_exact_ones(name, seed):
    process, lags = CASES[name]
    (local,) = estimate(name, seed).local_te_
    (exact,) = process.local_transfer_entropy(process.sample(N_SAMPLES, random_state=seed), lags)
    there = ~np.isnan(local)
    np.testing.assert_array_equal(there, ~np.isnan(exact))
    assert np.corrcoef(local[there], exact[there])[0, 1] > 0.75


@each_case
@each_seed
def test_new_data_of_the_same_process_have_about_the_same_score(name, seed):
    process, lags = CASES[name]
    fitted, new = estimate(name, seed), process.sample(N_SAMPLES, random_state=100 + seed)
    score = fitted.score(new.select(process.source_names), new.select(process.target_names))
    assert score == pytest.approx(process.transfer_entropy(lags), abs=3 * fitted.std_error_ + SLACK)


@each_case
@each_seed
def test_nothing_flows_back(name, seed):
    fitted = estimate(name, seed, back=True)
    assert abs(fitted.te_) < max(3 * fitted.std_error_, 0.003)


def test_a_condition_takes_away_what_it_explains():
    """x drives y; what is x with noise tells nothing once x is given."""
    recording = Threshold(redundant=1).sample(N_SAMPLES, random_state=0)
    x, noise, y = (recording.select(name).trials[0] for name in recording.names)
    fitted = TREET(target_history=1, source_history=1, random_state=0).fit(x + 0.5 * noise, y, x)
    assert abs(fitted.te_) < max(3 * fitted.std_error_, 0.003)
