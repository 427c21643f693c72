"""What every process owes: shapes, seeds, a stationary start, zero the other way, local values that agree."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.stats import ks_2samp

from treet.data import Recording
from treet.errors import TreetError
from treet.lags import Lags
from treet.processes import PROCESSES, VAR, DelayedLinear, HeavyTailed, Process, SineMap, Threshold

DEFAULTS = [process() for process in PROCESSES.values()]
OTHERS: list[Process] = [
    Threshold(rho=-0.6, threshold=0.7, copies=3, redundant=2),
    SineMap(gain=3.0, coupling=1.0, noise_std=0.4),
    DelayedLinear(delay=3, copies=2),
    VAR(
        [[0.5, 0, 0.2], [0.3, -0.4, 0], [0, 0.4, 0.6]],
        channels=("a", "b", "c"),
        source=("a", "c"),
        target="b",
    ),
]
ALL = DEFAULTS + OTHERS
WITH_LOCAL = [process for process in ALL if not isinstance(process, HeavyTailed)]
LAGS = [Lags(1, 1), Lags(2, 3, delay=0), Lags(3, 24), Lags(2, 2, delay=2)]


def by_type(process: Process) -> str:
    return type(process).__name__


@pytest.mark.parametrize("process", ALL, ids=by_type)
def test_shapes_names_and_seeds(process: Process) -> None:
    recording = process.sample(131, random_state=3, n_trials=2)
    assert recording.names == process.names
    assert [trial.shape for trial in recording.trials] == [(131, len(process.names))] * 2
    assert all(trial.dtype == np.float64 and np.isfinite(trial).all() for trial in recording.trials)
    assert not np.array_equal(*recording.trials)
    again = process.sample(131, random_state=np.random.default_rng(3), n_trials=2)
    other = process.sample(131, random_state=4)
    np.testing.assert_array_equal(recording.trials, again.trials)
    assert not np.array_equal(recording.trials[0], other.trials[0])
    assert process.sample(1).trials[0].shape == (1, len(process.names))


@pytest.mark.parametrize("process", ALL, ids=by_type)
def test_starts_in_the_stationary_law(process: Process) -> None:
    """First values of many trials against values far into one trial: each channel, and the target's steps."""
    starts = np.array(process.sample(2, random_state=5, n_trials=1500).trials)
    late = process.sample(200_000, random_state=6).trials[0]
    late = np.stack([late[50::100], late[51::100]], axis=1)
    for channel in range(len(process.names)):
        assert ks_2samp(starts[:, 0, channel], late[:, 0, channel]).pvalue > 1e-3
        steps = starts[:, 1, channel] - starts[:, 0, channel], late[:, 1, channel] - late[:, 0, channel]
        assert ks_2samp(*steps).pvalue > 1e-3


@pytest.mark.parametrize("lags", [Lags(2, 1), Lags(2, 3, delay=0), Lags(3, 24), Lags(2, 1, delay=2)], ids=str)
@pytest.mark.parametrize("process", DEFAULTS, ids=by_type)
def test_the_other_direction_is_zero(process: Process, lags: Lags) -> None:
    value = process.transfer_entropy(lags, process.target_names, process.source_names)
    assert value == pytest.approx(0, abs=1e-13)
    assert value >= 0


@pytest.mark.parametrize("lags", LAGS, ids=str)
@pytest.mark.parametrize("process", WITH_LOCAL, ids=by_type)
def test_local_values_agree_with_the_exact_value_and_variance(process: Process, lags: Lags) -> None:
    recording = process.sample(10_000, random_state=7, n_trials=4)
    local = process.local_transfer_entropy(recording, lags)
    value, variance = process.transfer_entropy(lags), process.local_variance(lags)
    assert local is not None and value is not None and variance is not None
    assert [len(trial) for trial in local] == [10_000] * 4
    for trial in local:
        assert np.isnan(trial[: lags.span]).all()
        assert np.isfinite(trial[lags.span :]).all()
    line = np.concatenate([trial[lags.span :] for trial in local])
    # Means of blocks carry the autocorrelation of the local values.
    blocks = line[: len(line) // 100 * 100].reshape(100, -1).mean(axis=1)
    assert abs(line.mean() - value) < 4 * blocks.std(ddof=1) / 10 + 1e-12
    assert line.var() == pytest.approx(variance, rel=0.05, abs=1e-12)


def test_local_values_keep_clear_of_gaps_and_other_channels() -> None:
    process, lags = Threshold(copies=2, redundant=1), Lags(2, 3)
    whole = process.sample(60, random_state=1)
    values = whole.trials[0].copy()
    values[20, process.names.index("x2")] = np.nan
    order = np.random.default_rng(0).permutation(len(whole.names))
    shuffled = Recording(trials=(values[:, order],), names=tuple(whole.names[i] for i in order))
    (expected,) = process.local_transfer_entropy(whole, lags) or ()
    (local,) = process.local_transfer_entropy(shuffled, lags) or ()
    assert np.flatnonzero(np.isnan(local)).tolist() == [0, 1, 2, 21, 22, 23]
    there = np.isfinite(local)
    np.testing.assert_array_equal(local[there], expected[there])


def test_processes_without_local_values_say_so() -> None:
    process = HeavyTailed()
    assert process.local_variance(Lags(1, 1)) is None
    assert process.local_transfer_entropy(process.sample(10, 0), Lags(1, 1)) is None
    assert process.local_variance(Lags(1, 1, delay=2)) == 0


@pytest.mark.parametrize("process", ALL, ids=by_type)
def test_frozen_comparable_and_hashable(process: Process) -> None:
    twin = dataclasses.replace(process)  # type: ignore[type-var]
    assert twin == process
    assert hash(twin) == hash(process)
    with pytest.raises(dataclasses.FrozenInstanceError):
        process.rho = 0.5  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "nobody"}, "source must name one or more of the channels x, y. Got 'nobody' instead"),
        ({"target": ()}, "target must name one or more of the channels x, y. Got none instead"),
        ({"source": "x", "target": "x"}, "one role only. Got x more than once"),
        ({"condition": "y"}, "one role only. Got y more than once"),
    ],
)
def test_directions_that_make_no_sense(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(TreetError, match=message):
        Threshold().transfer_entropy(Lags(1, 1), **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 0}, "n_samples must be a whole number of at least 1. Got 0"),
        ({"n_samples": 10.5}, "n_samples must be a whole number"),
        ({"n_samples": 5, "n_trials": 0}, "n_trials must be a whole number of at least 1"),
        ({"n_samples": 5, "random_state": -1}, "random_state must be a whole number of at least 0"),
        ({"n_samples": 5, "random_state": "seed"}, "random_state must be a whole number"),
    ],
)
def test_samples_that_make_no_sense(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(TreetError, match=message):
        Threshold().sample(**arguments)


def test_a_recording_of_something_else() -> None:
    recording = Recording(trials=(np.zeros((10, 1)),), names=("y",))
    with pytest.raises(TreetError, match="x"):
        Threshold().local_transfer_entropy(recording, Lags(1, 1))
