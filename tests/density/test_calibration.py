"""Calibration sees what is right and what is wrong, and distances are those of the closed forms."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import kstest

from treet.data import as_recording
from treet.density.calibration import BINS, calibrate, distances
from treet.density.conditional import Alone, ConditionalDensity
from treet.density.univariate import Mixtures
from treet.errors import TreetError
from treet.lags import Lags
from treet.processes.hidden_markov import HiddenMarkov
from treet.windows import Windows

SEEDS = range(3)


def changed(density, shift=0.0, stretch=1.0):
    """A Gaussian density with another mean and another scale."""
    parts = density.factors.density
    wrong = Mixtures.of(parts.log_weights, parts.means + shift, parts.stds * stretch)
    return ConditionalDensity(Alone(wrong), density.windows)


def exact(seed, memory=3, n_samples=4000):
    process = HiddenMarkov()
    return process.density(process.sample(n_samples, seed).select("y"), memory)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_exact_density_is_calibrated(seed):
    found = calibrate(exact(seed))
    assert found.p_value > 1e-3
    assert found.counts.sum() == len(found.pit) and len(found.counts) == BINS
    for level, share in found.coverage.items():
        assert abs(share - level) < 4 * np.sqrt(level * (1 - level) / len(found.pit))
    assert found.log_score == pytest.approx(-1.29130, abs=4 * found.std_error)
    assert (found.gain, found.gain_std_error) == (None, None)


@pytest.mark.parametrize(("shift", "stretch"), [(0.1, 1.0), (0.0, 1.15), (0.0, 0.87)])
def test_a_wrong_density_is_seen(shift, stretch):
    right = exact(0)
    found = calibrate(changed(right, shift, stretch), against=right)
    assert found.p_value < 1e-3
    assert found.gain < -2 * found.gain_std_error
    if stretch != 1.0:
        assert (found.coverage[0.9] > 0.9) == (stretch > 1)


def test_the_transform_of_a_density_without_memory_is_thinned():
    """Its values are uniform but correlated: without thinning the test would reject."""
    process = HiddenMarkov(decay=0.95, gain=2.0)
    thinned, whole = [], []
    for seed in range(8):
        found = calibrate(process.density(process.sample(6000, seed).select("y"), memory=0))
        assert found.spacing > 10
        thinned.append(found.p_value < 0.01)
        whole.append(kstest(found.pit, "uniform").pvalue < 0.01)
    assert sum(thinned) <= 1
    assert sum(whole) >= 4


@dataclass(frozen=True)
class Pair:
    """y0 ~ N(0, 1), y1 | y0 ~ N(slope y0, 1): the same at each of ``count`` steps."""

    count: int
    slope: float
    channels: int = 2

    def __len__(self):
        return self.count

    def __getitem__(self, steps):
        return Pair(len(steps), self.slope)

    def factor(self, channel, before):
        means = self.slope * before[:, 0] if channel else np.zeros(self.count)
        return Mixtures.of(np.zeros((1, self.count)), means[None], np.ones((1, self.count)))


def test_vectors_are_calibrated_channel_by_channel():
    noise = np.random.default_rng(0).normal(size=(2000, 2))
    values = as_recording(noise @ np.array([[1.0, 0.7], [0.0, 1.0]]), "target")
    windows = Windows.of(as_recording(noise[:, 0], "source"), values, None, Lags(1, 1))
    right, wrong = (calibrate(ConditionalDensity(Pair(1999, slope), windows)) for slope in (0.7, 0.0))
    assert right.pit.shape == (1999, 2)
    assert right.counts.sum() == 2 * 1999
    assert right.p_value > 1e-3 > wrong.p_value
    assert right.log_score > wrong.log_score


def test_distances_are_the_exact_ones():
    process = HiddenMarkov()
    recording = process.sample(20_000, random_state=4)
    for memory in (1, 3):
        density = process.density(recording.select("y"), memory)
        found = distances(np.concatenate(process.given_state(recording))[density.positions], density)
        assert found.kl == pytest.approx(process.exact_kl(memory), abs=4 * found.kl_std_error)
        assert found.tv == pytest.approx(process.exact_tv(memory), abs=4 * found.tv_std_error)
        assert found.kl_std_error < 0.01


def test_words_say_what_was_found():
    right = exact(0)
    assert "against the other" not in str(calibrate(right))
    words = str(calibrate(right, against=changed(right, 0.3), levels=(0.9,)))
    assert words.startswith("log score -1.") and "90%: " in words and "nats against the other" in words


def test_densities_of_other_steps_are_not_compared():
    with pytest.raises(TreetError, match=r"must be of the same time steps\. Got 3997 and 3998 steps"):
        calibrate(exact(0, 3), against=exact(0, 2))
