"""The hidden Markov process against plain loops, closed forms and a filter of another kind."""

import math

import numpy as np
import pytest
from scipy.stats import kstest

from treet.data import Recording
from treet.errors import TreetError
from treet.processes.hidden_markov import HiddenMarkov


def second_case(state_delay):
    return HiddenMarkov(decay=0.001, delayed=0.9, state_delay=state_delay, gain=0.9)


PROCESSES = [
    HiddenMarkov(),
    HiddenMarkov(noise="uniform"),
    HiddenMarkov(decay=-0.6, gain=-0.8, noise="uniform", state_variance=0.2, noise_variance=0.7),
    HiddenMarkov(decay=0.3, delayed=-0.5, state_delay=3, gain=2.0),
]


@pytest.mark.parametrize(
    ("memory", "kl", "tv"),
    [(0, 0.41988, 0.34291), (1, 0.26831, None), (3, 0.21894, 0.23414), (None, 0.21293, 0.23044)],
)
def test_known_values_of_the_first_case(memory, kl, tv):
    process = HiddenMarkov()
    assert process.exact_kl(memory) == pytest.approx(kl, abs=1.1e-5)
    if tv is not None:
        assert process.exact_tv(memory) == pytest.approx(tv, abs=1e-5)


@pytest.mark.parametrize(
    ("state_delay", "kl", "tv"),
    [(2, 0.40912, 0.33765), (5, 0.41461, 0.34034), (10, 0.45132, 0.35801), (50, 0.45132, 0.35801)],
)
def test_known_values_of_the_second_case(state_delay, kl, tv):
    process = second_case(state_delay)
    assert process.exact_kl(state_delay + 5) == pytest.approx(kl, abs=1e-5)
    assert process.exact_tv(state_delay + 5) == pytest.approx(tv, abs=1e-5)
    assert process.exact_kl(0) == pytest.approx(0.83039, abs=3e-5)


def test_more_memory_tells_more_and_the_whole_past_is_its_limit():
    for process in (HiddenMarkov(), second_case(3)):
        values = [process.exact_kl(memory) for memory in range(8)]
        assert (np.diff(values) <= 1e-13).all()
        assert process.exact_kl(None) == pytest.approx(process.exact_kl(300), abs=1e-10)


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_samples_follow_the_equation(process):
    recording = process.sample(3000, random_state=1, n_trials=2)
    assert recording.names == ("x", "y")
    for trial in recording.trials:
        x, y = trial.T
        k = process.state_delay
        driving = x[k:] - process.decay * x[k - 1 : -1] - process.delayed * x[: len(x) - k]
        for noise, variance in zip((driving, y - process.gain * x), process.variances, strict=True):
            std = math.sqrt(variance)
            law = (
                ("norm", (0, std))
                if process.noise == "gaussian"
                else ("uniform", (-math.sqrt(3) * std, 2 * math.sqrt(3) * std))
            )
            assert kstest(noise, *law).pvalue > 1e-3
            assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 0.08
    again = process.sample(3000, random_state=1, n_trials=2)
    np.testing.assert_array_equal(recording.trials, again.trials)
    assert not np.array_equal(*recording.trials)


@pytest.mark.parametrize("process", PROCESSES, ids=str)
def test_trials_start_in_the_stationary_law(process):
    starts = np.array(process.sample(1, random_state=2, n_trials=400).trials)[:, 0, 0]
    late = process.sample(40_000, random_state=3).trials[0][:, 0]
    assert starts.std() == pytest.approx(late.std(), rel=0.15)
    assert abs(starts.mean()) < 5 * late.std() / 20


@pytest.mark.parametrize("process", [PROCESSES[0], PROCESSES[3]], ids=str)
def test_gaussian_predictions_are_the_conditional_normal_law(process):
    """By the covariance matrix of (y_t, .., y_{t-4}) instead of the filter."""
    memory = 4
    seen = process.sample(50, random_state=4).select("y")
    autocovariance = process._state.autocovariances(memory)[:, 0, 0] * process.gain**2
    autocovariance[0] += process.variances[1]
    covariance = autocovariance[np.abs(np.subtract.outer(range(memory + 1), range(memory + 1)))]
    weights = np.linalg.solve(covariance[1:, 1:], covariance[1:, 0])
    density = process.density(seen, memory)
    past = density.windows.past("target")[:, :, 0]
    np.testing.assert_allclose(density.mean(), past @ weights, atol=1e-12)
    np.testing.assert_allclose(density.variance(), covariance[0, 0] - weights @ covariance[1:, 0], rtol=1e-12)


def weighted_states(process, past, n_draws=400_000):
    """p(y | past) at some values by importance sampling of the hidden path: no grid and no filter."""
    generator = np.random.default_rng(5)
    width, noise_width = process.half_widths
    x = process.sample(n_draws, random_state=6).trials[0][:, 0].copy()
    generator.shuffle(x)
    alive = np.ones(n_draws, bool)
    for value in past:
        alive &= np.abs(value - process.gain * x) <= noise_width
        x = process.decay * x + generator.uniform(-width, width, n_draws)
    return x[alive]


@pytest.mark.parametrize("process", [PROCESSES[1], PROCESSES[2]], ids=str)
def test_uniform_predictions_are_those_of_paths_that_fit_the_past(process):
    seen = process.sample(5, random_state=7).select("y")
    density = process.density(seen, memory=3)
    paths = weighted_states(process, seen.trials[0][:3, 0])
    width = process.half_widths[1]
    grid = np.linspace(*(side[0] for side in density.interval(0.9)), 9)
    near = np.abs(grid[:, None] - process.gain * paths) <= width
    expected, error = near.mean(axis=1) / (2 * width), near.std(axis=1) / (2 * width) / math.sqrt(len(paths))
    assert len(paths) > 2000
    np.testing.assert_array_less(np.abs(density.pdf(grid[:, None])[:, 0] - expected), 4.5 * error + 2e-4)


def test_the_whole_past_of_a_short_trial_is_its_memory():
    for process in (HiddenMarkov(), HiddenMarkov(noise="uniform")):
        seen = process.sample(7, random_state=8).select("y")
        whole, last = process.density(seen), process.density(seen, memory=5)
        y = np.linspace(-2, 2, 5)[:, None]
        np.testing.assert_allclose(whole[4:5].pdf(y), last[:1].pdf(y), atol=1e-12)


@pytest.mark.parametrize("noise", ["gaussian", "uniform"])
def test_gaps_and_trials(noise):
    process = HiddenMarkov(noise=noise)
    values = [trial[:, 1].copy() for trial in process.sample(30, random_state=9, n_trials=2).trials]
    values[0][10] = np.nan
    density = process.density(values, memory=2)
    assert density.positions.tolist() == [*range(2, 10), *range(13, 30), *range(32, 60)]
    alone = process.density(values[1], memory=2)
    np.testing.assert_allclose(density[25:].logpdf(), alone.logpdf(), atol=1e-12)
    whole = process.density(values)
    # The values before the gap still tell something after it.
    short = process.density(values[0][12:])
    after = whole[np.flatnonzero((whole.positions > 12) & (whole.positions < 30))]
    assert not np.allclose(after.logpdf(), short.logpdf(), atol=1e-6)
    np.testing.assert_allclose(after.logpdf()[-3:], short.logpdf()[-3:], atol=1e-2)


def test_no_memory_is_the_stationary_density():
    process = HiddenMarkov()
    seen = process.sample(20, random_state=10).select("y")
    density = process.density(seen, memory=0)
    assert len(density) == 19
    np.testing.assert_allclose(density.variance(), 0.25 * 0.5 / (1 - 0.81) + 0.5, rtol=1e-12)
    np.testing.assert_allclose(density.mean(), 0.0, atol=1e-14)


def test_the_exact_density_is_calibrated_and_the_kl_is_what_a_recording_shows():
    for process in (HiddenMarkov(), HiddenMarkov(noise="uniform")):
        recording = process.sample(8000, random_state=11)
        density = process.density(recording.select("y"), memory=3)
        assert kstest(density.cdf()[::5], "uniform").pvalue > 1e-3
        true = np.concatenate(process.given_state(recording))[density.positions]
        difference = true - density.logpdf()
        error = difference.std() / math.sqrt(len(difference))
        assert difference.mean() == pytest.approx(process.exact_kl(3, n_samples=3000), abs=5 * error + 0.01)


def test_uniform_distances_are_bounded_by_memory():
    process = HiddenMarkov(noise="uniform")
    kl = [process.exact_kl(memory, n_samples=2000) for memory in (0, 1, 3)]
    tv = [process.exact_tv(memory, n_samples=2000) for memory in (0, 1, 3)]
    assert kl[0] > kl[1] > kl[2] > 0.3
    assert tv[0] > tv[1] > tv[2] > 0.2


def test_uniform_stationary_density_by_convolution():
    """Y is a sum of independent uniform variables: its variance and its kurtosis are known."""
    process = HiddenMarkov(noise="uniform")
    density = process.density(process.sample(3, random_state=0).select("y"), memory=0)
    variance = 0.25 / 3 / (1 - 0.81) + 1 / 3
    assert density.variance()[0] == pytest.approx(variance, rel=2e-4)
    fourth = -(2 / 15) * (0.5**4 / (1 - 0.9**4) + 1)  # fourth cumulant
    grid = np.linspace(-7, 7, 4001)
    found = (density.pdf(grid[:, None])[:, 0] * grid**4).sum() * (grid[1] - grid[0])
    assert found == pytest.approx(3 * variance**2 + fourth, rel=1e-3)


def test_finer_grids_change_nothing(monkeypatch):
    process, finer = (HiddenMarkov(noise="uniform") for _ in range(2))
    seen = process.sample(300, random_state=12).select("y")
    coarse = process.density(seen, memory=3).logpdf()
    monkeypatch.setattr("treet.processes.hidden_markov.STATE_NODES", 8193)
    monkeypatch.setattr("treet.processes.hidden_markov.TARGET_NODES", 2049)
    difference = finer.density(seen, memory=3).logpdf() - coarse
    assert np.abs(np.mean(difference)) < 2e-5
    assert np.quantile(np.abs(difference), 0.95) < 4e-4


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"decay": 1.0}, "The state must be stable. With decay=1.0"),
        ({"delayed": 0.2}, "The state must be stable"),
        ({"noise": "cauchy"}, "noise must be one of 'gaussian', 'uniform'. Got 'cauchy'"),
        ({"state_variance": 0.0}, "state_variance must be a finite number above 0"),
        ({"state_delay": 0}, "state_delay must be a whole number of at least 1"),
        ({"gain": math.nan}, "gain must be a finite number"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(TreetError, match=message):
        HiddenMarkov(**parameters)


def test_what_cannot_be_asked_for():
    process = HiddenMarkov(noise="uniform")
    with pytest.raises(TreetError, match="one number for noise='gaussian' only"):
        process.predictive_variance(3)
    delayed = HiddenMarkov(decay=0.001, delayed=0.5, noise="uniform")
    with pytest.raises(TreetError, match="known for delayed=0"):
        delayed.density(delayed.sample(20, 0).select("y"), memory=2)
    with pytest.raises(TreetError, match="target must be y alone"):
        process.density(process.sample(20, 0), memory=2)
    with pytest.raises(TreetError, match="memory must be a whole number of at least 0"):
        process.density(process.sample(20, 0).select("y"), memory=-1)
    nameless = Recording((np.zeros((5, 2)),), ("a", "b"))
    with pytest.raises(TreetError, match="no channel"):
        process.given_state(nameless)
