"""Linear processes against impulse responses, a Kalman filter, closed forms and least squares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from treet.errors import TreetError
from treet.lags import Lags
from treet.processes import VAR, BivariateLinear, DelayedLinear
from treet.processes.linear import Linear

Floats = NDArray[np.float64]
Seen = Sequence[tuple[int, int]]
CASES: list[tuple[Linear, Lags]] = [
    (BivariateLinear(), Lags(1, 1)),
    (BivariateLinear(), Lags(5, 3, delay=2)),
    (BivariateLinear(b_x=-0.6, b_y=0.9, c=-1.5, std_x=0.3, std_y=4.0), Lags.from_memory(3)),
    (DelayedLinear(delay=4), Lags(2, 5)),
    (DelayedLinear(delay=4, copies=2), Lags(3, 2, delay=3)),
    (VAR(), Lags(3, 2)),
    (VAR([[0.5, 0.3], [0.4, 0.2]], [[1.0, 0.7], [0.7, 2.0]]), Lags(2, 2, delay=0)),
    (VAR([[0.5, 0, 0.2], [0.3, -0.4, 0.1], [0, 0.4, 0.6]], source=("v1", "v3"), target="v2"), Lags(2, 4)),
]


def covariance_of(process: Linear, seen: Seen) -> Floats:
    """The covariance of values by (channel, lag), from the responses to 2000 past impulses."""
    coefficients, noise = process.dynamics.coefficients, process.dynamics.noise_covariance
    responses = [np.eye(len(noise))]
    for step in range(1, 2000):
        before = zip(coefficients, reversed(responses[max(0, step - len(coefficients)) :]), strict=False)
        responses.append(sum(matrix @ response for matrix, response in before))
    psi = np.array(responses)
    largest = max(lag for _, lag in seen)
    gamma = [
        np.einsum("kab,bc,kdc->ad", psi[lag:], noise, psi[: len(psi) - lag]) for lag in range(largest + 1)
    ]

    def entry(a: tuple[int, int], b: tuple[int, int]) -> float:
        # E[v_{t-i} v_{t-j}'] is gamma_{j-i} for i <= j.
        (first, i), (second, j) = sorted((a, b), key=lambda one: one[1])
        return float(gamma[j - i][first, second])

    return np.array([[entry(a, b) for b in seen] for a in seen])


def values_seen(process: Linear, lags: Lags, condition: Sequence[str] = ()) -> tuple[Seen, Seen, Seen]:
    """(channel, lag) of the present, of the past without the source, and of the source's past."""
    index = process.names.index
    present = [(index(name), 0) for name in process.target_names]
    without = [(index(name), lag) for name in process.target_names for lag in lags.target_lags]
    without += [(index(name), lag) for name in condition for lag in lags.condition_lags]
    return present, without, [(index(name), lag) for name in process.source_names for lag in lags.source_lags]


def by_determinants(process: Linear, lags: Lags, condition: Sequence[str] = ()) -> float:
    """``I(present; source past | rest)`` from four determinants."""
    present, without, source = values_seen(process, lags, condition)

    def log_det(seen: Seen) -> float:
        return float(np.linalg.slogdet(covariance_of(process, seen))[1])

    both = [*without, *source]
    return (log_det([*present, *without]) + log_det(both) - log_det(without) - log_det([*present, *both])) / 2


def filtered(process: Linear, present: Seen, past: Seen) -> float:
    """``log det`` of the error that a Kalman filter makes which meets ``past`` value by value."""
    coefficients, noise = process.dynamics.coefficients, process.dynamics.noise_covariance
    order, d = len(coefficients), len(noise)
    move, added = np.eye(order * d, k=-d), np.zeros((order * d, order * d))
    move[:d], added[:d, :d] = np.hstack(list(coefficients)), noise
    state = np.zeros_like(added)
    for _ in range(2000):
        state = move @ state @ move.T + added
    for lag in range(max(lag for _, lag in past), -1, -1):
        for channel in [channel for channel, seen_lag in past if seen_lag == lag]:
            gain = state[:, channel] / state[channel, channel]
            state = state - np.outer(gain, state[channel])
        if lag:
            state = move @ state @ move.T + added
    channels = [channel for channel, _ in present]
    return float(np.linalg.slogdet(state[np.ix_(channels, channels)])[1])


def by_kalman_filter(process: Linear, lags: Lags, condition: Sequence[str] = ()) -> float:
    present, without, source = values_seen(process, lags, condition)
    return (filtered(process, present, without) - filtered(process, present, [*without, *source])) / 2


@pytest.mark.parametrize(("process", "lags"), CASES)
def test_value_by_two_other_routes(process: Linear, lags: Lags) -> None:
    value = process.transfer_entropy(lags)
    assert value == pytest.approx(by_determinants(process, lags), abs=1e-10)
    assert value == pytest.approx(by_kalman_filter(process, lags), abs=1e-10)
    assert value > 1e-3


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    order=st.integers(1, 3),
    histories=st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)),
    delay=st.integers(0, 2),
)
def test_conditional_value_of_any_process(
    seed: int, order: int, histories: tuple[int, int, int], delay: int
) -> None:
    generator = np.random.default_rng(seed)
    coefficients = generator.standard_normal((order, 3, 3))
    coefficients *= 0.9 / np.abs(coefficients).sum(axis=(0, 2)).max()  # then the process is stable
    root = generator.standard_normal((3, 3))
    process = VAR(coefficients, root @ root.T + 0.1 * np.eye(3), "abc", source="a", target="b")
    lags = Lags(histories[0], histories[1], delay, histories[2])
    value = process.transfer_entropy(lags, "a", "b", "c")
    assert value == pytest.approx(by_determinants(process, lags, "c"), abs=1e-9)
    assert value == pytest.approx(by_kalman_filter(process, lags, "c"), abs=1e-9)


def test_the_known_value() -> None:
    """``x`` alone is an ARMA(2, 1), whose innovation variance solves a quadratic equation."""
    variance = (1.41 + math.sqrt(1.41**2 - 4 * 0.4**2)) / 2
    expected = math.log(variance) / 2
    assert expected == pytest.approx(0.1256, abs=5e-5)
    assert BivariateLinear().transfer_entropy(Lags(40, 40)) == pytest.approx(expected, abs=1e-12)
    assert BivariateLinear().transfer_entropy(Lags(5, 5)) == pytest.approx(0.1256, abs=5e-5)
    same = VAR([[0.8, 0.5], [0.0, 0.4]], channels=("x", "y"), source="y", target="x")
    assert same.transfer_entropy(Lags(2, 3)) == pytest.approx(BivariateLinear().transfer_entropy(Lags(2, 3)))


def errors_of_least_squares(present: Floats, past: list[Floats]) -> Floats:
    design = np.column_stack(past)
    return present - design @ np.linalg.lstsq(design, present, rcond=None)[0]


def test_value_by_least_squares() -> None:
    process, lags, n_samples = BivariateLinear(), Lags(3, 2), 200_000
    x, y = process.sample(n_samples, random_state=1).trials[0].T
    own = [x[3 - lag : n_samples - lag] for lag in (1, 2, 3)]
    other = [y[3 - lag : n_samples - lag] for lag in (1, 2)]
    without, both = errors_of_least_squares(x[3:], own), errors_of_least_squares(x[3:], own + other)
    standard_error = math.sqrt(process.local_variance(lags) / n_samples)
    assert standard_error < 0.002
    assert math.log(without.var() / both.var()) / 2 == pytest.approx(
        process.transfer_entropy(lags), abs=4 * standard_error
    )


def test_a_long_delay_shows_only_where_the_lag_is_seen() -> None:
    process = DelayedLinear(coupling=0.7, delay=20, source_decay=0.0)
    expected = math.log(1 + 0.7**2) / 2
    for lags in (Lags(5, 20), Lags(1, 1, delay=20), Lags(3, 40), Lags.from_memory(20)):
        assert process.transfer_entropy(lags) == pytest.approx(expected, abs=1e-12)
    for lags in (Lags(5, 19), Lags(30, 5), Lags(3, 4, delay=21), Lags.from_memory(19)):
        assert process.transfer_entropy(lags) == pytest.approx(0, abs=1e-12)
    assert process.transfer_entropy(Lags(25, 25), "y", "x") == pytest.approx(0, abs=1e-12)


def test_a_coloured_source_shows_earlier_and_grows_to_the_whole_value() -> None:
    process = DelayedLinear(delay=20)
    values = [process.transfer_entropy(Lags(2, history)) for history in (10, 15, 19, 20, 25)]
    assert all(first < second for first, second in pairwise(values[:-1]))
    assert values[0] > 0
    assert values[-1] == pytest.approx(values[-2], abs=1e-3)


def test_copies_add_up() -> None:
    one, three = DelayedLinear(delay=2), DelayedLinear(delay=2, copies=3)
    assert three.names == ("x1", "x2", "x3", "y1", "y2", "y3")
    lags = Lags(3, 3)
    assert three.transfer_entropy(lags) == pytest.approx(3 * one.transfer_entropy(lags))
    assert three.local_variance(lags) == pytest.approx(3 * one.local_variance(lags))
    assert three.transfer_entropy(lags, "x1", "y2") == pytest.approx(0, abs=1e-12)


def test_a_common_driver_explains_it_all() -> None:
    """``z`` drives ``x`` after one step and ``y`` after two: ``x`` seems to drive ``y``."""
    coefficients = np.zeros((2, 3, 3))
    coefficients[0] = np.diag([0.3, 0.4, 0.0])
    coefficients[0, 0, 2] = coefficients[1, 1, 2] = 0.9
    process = VAR(coefficients, channels=("x", "y", "z"), source="x", target="y")
    assert process.transfer_entropy(Lags(3, 3)) > 0.05
    assert process.transfer_entropy(Lags(3, 3), condition="z") == pytest.approx(0, abs=1e-12)
    seen_too_late = Lags(3, 3, condition_history=1)
    assert process.transfer_entropy(seen_too_late, condition="z") > 0.05


def test_a_source_without_noise_of_its_own() -> None:
    """A copy of the source among the condition leaves nothing to tell; both pasts are then singular."""
    coefficients = [[0.5, 0, 0], [0.5, 0, 0], [0.4, 0, 0.3]]
    noise = [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    process = VAR(coefficients, noise, ("x", "copy", "y"))
    assert process.transfer_entropy(Lags(2, 2)) > 0.05
    assert process.transfer_entropy(Lags(2, 2), ("x", "copy"), "y") == pytest.approx(
        process.transfer_entropy(Lags(2, 2))
    )
    assert process.transfer_entropy(Lags(2, 2), condition="copy") == pytest.approx(0, abs=1e-12)


def test_a_target_without_noise_is_refused_everywhere() -> None:
    process = VAR([[0.5, 0.0], [0.3, 0.4]], [[1, 0], [0, 0]], ("x", "y"))
    recording = process.sample(50, random_state=0)
    calls = (process.transfer_entropy, process.local_variance)
    for call in (*calls, lambda lags: process.local_transfer_entropy(recording, lags)):
        with pytest.raises(TreetError, match="deterministic function of what is seen"):
            call(Lags(2, 2))


def test_local_values_by_joint_densities() -> None:
    process, lags = VAR([[0.5, 0.3], [0.4, 0.2]], [[1.0, 0.7], [0.7, 2.0]]), Lags(2, 2, delay=0)
    recording = process.sample(30, random_state=5)
    values = recording.trials[0]
    present, without, source = values_seen(process, lags)
    both = [*without, *source]

    def log_density(seen: Seen, time: int) -> float:
        point = [values[time - lag, channel] for channel, lag in seen]
        return float(multivariate_normal.logpdf(point, cov=covariance_of(process, seen)))

    (local,) = process.local_transfer_entropy(recording, lags) or ()
    for time in (2, 7, 29):
        with_source = log_density([*present, *both], time) - log_density(both, time)
        without_source = log_density([*present, *without], time) - log_density(without, time)
        assert local[time] == pytest.approx(with_source - without_source, abs=1e-10)


@pytest.mark.parametrize("n_samples", [1, 2, 63, 64, 65, 300])
@pytest.mark.parametrize("order", [1, 3, 70])
def test_samples_equal_a_plain_loop(order: int, n_samples: int) -> None:
    """From their own first values on, they follow the recursion with the generator's first normal values."""
    coefficients = np.zeros((order, 2, 2))
    coefficients[0] += [[0.5, 0.0], [0.0, 0.3]]
    coefficients[-1] += [[0.0, 0.2], [0.4, -0.1]]
    values = VAR(coefficients).sample(n_samples, random_state=9).trials[0]
    noise = np.random.default_rng(9).standard_normal((n_samples, 2))
    expected = values.copy()
    for t in range(order, n_samples):
        expected[t] = noise[t]
        for lag in range(1, order + 1):
            expected[t] += coefficients[lag - 1] @ expected[t - lag]
    np.testing.assert_allclose(values, expected, atol=1e-12)


def test_samples_have_the_covariance_from_their_first_values_on() -> None:
    process = VAR([[[0.5, 0.3], [0.4, 0.2]], [[0, -0.2], [0.1, 0]]], [[1.0, 0.7], [0.7, 2.0]])
    starts = np.array([trial.ravel() for trial in process.sample(3, 2, n_trials=6000).trials])
    seen = [(channel, lag) for lag in (2, 1, 0) for channel in (0, 1)]
    expected = covariance_of(process, seen)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs((np.cov(starts.T) - expected) / scale).max() < 5 * math.sqrt(2 / 6000)
    assert np.abs(starts.mean(axis=0) / np.sqrt(np.diag(expected))).max() < 4 / math.sqrt(6000)


def test_given_arrays_are_copied() -> None:
    coefficients = np.array([[0.4, 0.0], [0.5, 0.8]])
    process = VAR(coefficients)
    before = process.transfer_entropy(Lags(1, 1))
    coefficients[:] = 0
    assert process == VAR([[0.4, 0.0], [0.5, 0.8]])
    assert process.transfer_entropy(Lags(1, 1)) == before


@pytest.mark.parametrize(
    ("make", "parameters", "message"),
    [
        (VAR, {"coefficients": [[1.0, 0], [0, 0.5]]}, "not stable: .* must be below 1. Got 1: make the"),
        (VAR, {"coefficients": [[[0.5, 0], [0, 0.5]]] * 3}, "not stable"),
        (VAR, {"coefficients": [[0.5]]}, "at least two channels"),
        (VAR, {"coefficients": [0.5, 0.2]}, r"coefficients must have the shape .* Got \(2,\) instead"),
        (VAR, {"coefficients": [[0.5, 0, 0], [0, 0, 0.1]]}, r"Got \(1, 2, 3\) instead"),
        (VAR, {"coefficients": []}, "coefficients must have the shape"),
        (VAR, {"coefficients": [[0.5, 0], [0.5]]}, "coefficients must be numbers in a rectangular array"),
        (VAR, {"coefficients": np.full((9, 9), "a")}, "coefficients must be numbers"),
        (VAR, {"coefficients": [[math.nan, 0], [0, 0]]}, "coefficients must be finite"),
        (
            VAR,
            {"noise_covariance": np.eye(3)},
            r"noise_covariance must have the shape \(2, 2\). Got \(3, 3\)",
        ),
        (VAR, {"noise_covariance": [[1, 0.5], [0, 1]]}, "noise_covariance must be symmetric"),
        (VAR, {"noise_covariance": [[1, 2], [2, 1]]}, "no negative eigenvalue. Got one of -1"),
        (VAR, {"noise_covariance": [[1, math.inf], [math.inf, 1]]}, "noise_covariance must be finite"),
        (VAR, {"channels": ("a",)}, "channels must be 2 different names. Got a"),
        (VAR, {"channels": ("a", "a")}, "channels must be 2 different names. Got a, a"),
        (VAR, {"source": "nobody"}, "source must name one or more of the channels v1, v2. Got 'nobody'"),
        (VAR, {"source": "v2"}, "one role only. Got v2 more than once"),
        (BivariateLinear, {"b_x": 1.0}, "b_x must be a finite number above -1 and below 1. Got 1.0"),
        (BivariateLinear, {"b_y": -1.5}, "b_y must be"),
        (BivariateLinear, {"c": math.nan}, "c must be a finite number. Got nan"),
        (BivariateLinear, {"std_x": 0}, "std_x must be a finite number above 0. Got 0"),
        (BivariateLinear, {"std_y": True}, "std_y must be a finite number above 0. Got True"),
        (DelayedLinear, {"delay": 0}, "delay must be a whole number of at least 1. Got 0"),
        (DelayedLinear, {"copies": 1.5}, "copies must be a whole number"),
        (DelayedLinear, {"source_decay": 1}, "source_decay must be"),
        (DelayedLinear, {"target_decay": -1}, "target_decay must be"),
        (DelayedLinear, {"coupling": "strong"}, "coupling must be a finite number. Got 'strong'"),
    ],
)
def test_bad_parameters(make: type[Linear], parameters: dict[str, object], message: str) -> None:
    with pytest.raises(TreetError, match=message) as caught:
        make(**parameters)
    assert "\n" not in str(caught.value)
