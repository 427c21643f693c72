"""The hidden Markov process of the paper's density experiments, and its exact predictive densities."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from scipy.linalg import solve_discrete_are, toeplitz
from scipy.signal import lfilter
from scipy.stats import norm

from treet.checks import check_choice, check_number, check_whole
from treet.data import Recording, as_recording
from treet.density.conditional import Alone, ConditionalDensity
from treet.density.univariate import Floats, Mixtures, OnGrid, Univariate
from treet.errors import TreetError
from treet.lags import SourcelessLags
from treet.processes.base import RandomState, check_random_state
from treet.processes.dynamics import Dynamics
from treet.windows import Windows

PAPER_VARIANCE = {"gaussian": 0.5, "uniform": 1 / 3}
FORGOTTEN = 1e-14
"""The weight of the arbitrary start that is left after the burn-in."""

STATE_NODES = 2049
TARGET_NODES = 513
ROWS = 1024
"""Windows that are filtered at once on the grid."""


@dataclass(frozen=True)
class HiddenMarkov:
    """``X_t = decay X_{t-1} + delayed X_{t-state_delay} + W_t``,  ``Y_t = gain X_t + V_t``; only Y is seen.

    ``W`` and ``V`` are independent and ``noise``: "gaussian" or "uniform", with mean zero. Variances that are
    None are the paper's (section V-D): 0.5, or 1/3 for uniform noise on [-1, 1]. The defaults are its case
    1; its case 2 is ``HiddenMarkov(decay=0.001, delayed=0.9, state_delay=k, gain=0.9)``.

    The density of ``Y_t`` given the last ``memory`` values is exact. Gaussian noise: Kalman's filter, started
    from the stationary law. Uniform noise without ``delayed``: Bayes' rule on a grid for the distribution
    function ``F`` of the state,

        F(x | y) = clip((F(x) - F(a)) / (F(b) - F(a)), 0, 1),   a, b = (y -+ half width) / gain

    and the density of the next state is a difference of ``F(. | y)`` at two points, so that no edge of a
    density is blurred. The grid's error in the log density is about 1e-4.

    No model of ``p(y_t | past)`` is nearer to ``p(y_t | x_t)`` in expectation than ``exact_kl``:
    ``KL = I(X_t; Y_t | past) = h(Y_t | past) - h(V)``. What a model has above it is its own error.

    The figures that the paper prints for this process are larger than those of a model without any memory
    under the variances that it states; they fit a reference density of a quarter of the variance.

    >>> [round(HiddenMarkov().exact_kl(memory), 4) for memory in (0, 1, 3, None)]
    [0.4199, 0.2683, 0.2189, 0.2129]
    """

    decay: float = 0.9
    delayed: float = 0.0
    state_delay: int = 2
    gain: float = 0.5
    noise: Literal["gaussian", "uniform"] = "gaussian"
    state_variance: float | None = None
    noise_variance: float | None = None

    def __post_init__(self) -> None:
        check_choice("noise", self.noise, PAPER_VARIANCE)
        for name in ("decay", "delayed", "gain"):
            check_number(name, getattr(self, name))
        check_whole("state_delay", self.state_delay, 1)
        for name in ("state_variance", "noise_variance"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), above=0)
        if self._state.spectral_radius >= 1:
            raise TreetError(
                f"The state must be stable. With decay={self.decay}, delayed={self.delayed} and "
                f"state_delay={self.state_delay} it grows without bound: make them smaller."
            )

    @property
    def names(self) -> tuple[str, str]:
        return ("x", "y")

    @property
    def variances(self) -> tuple[float, float]:
        """Of ``W`` and ``V``."""
        paper = PAPER_VARIANCE[self.noise]
        given = (self.state_variance, self.noise_variance)
        state, noise = (paper if variance is None else variance for variance in given)
        return state, noise

    @property
    def half_widths(self) -> tuple[float, float]:
        """Of uniform ``W`` and ``V``: they lie within plus or minus."""
        state, noise = (math.sqrt(3 * variance) for variance in self.variances)
        return state, noise

    @cached_property
    def _state(self) -> Dynamics:
        coefficients = np.zeros((self.state_delay if self.delayed else 1, 1, 1))
        coefficients[0] += self.decay
        coefficients[-1] += self.delayed
        return Dynamics(coefficients, np.array([[self.variances[0]]]))

    def sample(self, n_samples: int, random_state: RandomState = None, n_trials: int = 1) -> Recording:
        """Independent stationary trials with the channels x, hidden, and y, seen; a seed gives them again."""
        n_samples = check_whole("n_samples", n_samples, 1)
        n_trials = check_whole("n_trials", n_trials, 1)
        generator = check_random_state(random_state)
        return Recording(tuple(self._trial(n_samples, generator) for _ in range(n_trials)), self.names)

    def _trial(self, n_samples: int, generator: np.random.Generator) -> Floats:
        radius = max(self._state.spectral_radius, 1e-9)
        burn_in = math.ceil(math.log(FORGOTTEN) / math.log(radius)) + self._state.order
        driving, noise = (self._draw(variance, burn_in + n_samples, generator) for variance in self.variances)
        hidden = lfilter([1.0], [1.0, *-self._state.coefficients[:, 0, 0]], driving)
        return np.column_stack([hidden, self.gain * hidden + noise])[burn_in:]

    def _draw(self, variance: float, count: int, generator: np.random.Generator) -> Floats:
        if self.noise == "gaussian":
            return math.sqrt(variance) * generator.standard_normal(count)
        return math.sqrt(3 * variance) * generator.uniform(-1.0, 1.0, count)

    def given_state(self, recording: Recording) -> tuple[Floats, ...]:
        """The exact ``log p(y_t | x_t)`` of a sample, one array a trial, (time,)."""
        hidden, seen = (recording.select(name).trials for name in self.names)
        return tuple(self._log_noise((y - self.gain * x)[:, 0]) for x, y in zip(hidden, seen, strict=True))

    def _log_noise(self, error: Floats) -> Floats:
        variance, width = self.variances[1], self.half_widths[1]
        if self.noise == "gaussian":
            return -0.5 * (error**2 / variance + math.log(2 * math.pi * variance))
        # The difference y - gain x has rounding errors at the edges of the noise.
        return np.where(np.abs(error) <= width * (1 + 1e-12), -math.log(2 * width), -np.inf)

    def density(self, target: Any, memory: int | None = None) -> ConditionalDensity:
        """The exact ``p(y_t | y_{t-1} .. y_{t-memory})`` for a recording of ``y``; None is the whole past.

        ``memory=0`` is the stationary density. With the whole past a gap tells nothing, but does not hinder.

        >>> process = HiddenMarkov(noise="uniform")
        >>> process.density(process.sample(50, random_state=0).select("y"), memory=3)
        ConditionalDensity(47 time steps of y)
        """
        seen = as_recording(target, "target")
        if seen.n_channels != 1:
            raise TreetError(f"target must be y alone, one channel. Got {seen.n_channels} channels instead.")
        if memory is not None:
            memory = check_whole("memory", memory, 0)
        windows = Windows.of(None, seen, None, SourcelessLags(memory or 1))
        found = self._whole_past(windows) if memory is None else self._last_values(windows, memory)
        return ConditionalDensity(Alone(found), windows)

    def _filter(self, rows: int) -> _Filter:
        return _Kalman(self, rows) if self.noise == "gaussian" else _Grid(self, rows)

    def _last_values(self, windows: Windows, memory: int) -> Univariate:
        past = windows.past("target")[:, memory - 1 :: -1, 0] if memory else np.zeros((len(windows), 0))
        found = []
        for start in range(0, len(past), ROWS):
            part = past[start : start + ROWS]
            follow = self._filter(len(part))
            for values in part.T:
                follow.see(values)
            found.append(follow.predicted())
        return self._density(np.concatenate(found, axis=-1))

    def _whole_past(self, windows: Windows) -> Univariate:
        """All values of the trial before each window's present one."""
        found = []
        for number in range(windows.trial[-1] + 1):
            inside = windows.trial == number
            values = windows.values[inside, 0]
            follow = self._filter(1)
            for value, wanted in zip(values, windows.valid[inside], strict=True):
                if wanted:
                    found.append(follow.predicted())
                follow.see(value[None])
        return self._density(np.concatenate(found, axis=-1))

    def _density(self, predicted: Floats) -> Univariate:
        if self.noise == "uniform":
            return OnGrid.of(self._grid.target, predicted)
        mean, variance = predicted
        return Mixtures.of(np.zeros_like(mean)[None], mean[None], np.sqrt(variance)[None])

    @cached_property
    def _grid(self) -> _Nodes:
        return _Nodes.of(self)

    def predictive_variance(self, memory: int | None = None) -> float:
        """The variance of ``Y_t`` given the last ``memory`` values, or the whole past; Gaussian noise."""
        if self.noise != "gaussian":
            raise TreetError("The predictive variance is one number for noise='gaussian' only.")
        follow = _Kalman(self, 1)
        if memory is None:
            state, noise = self.variances
            driven = np.zeros_like(follow.covariance)
            driven[0, 0] = state
            seen = follow.loading[:, None]
            follow.covariance = solve_discrete_are(follow.transition.T, seen, driven, [[noise]])
        for _ in range(memory or 0):
            follow.see(np.zeros(1))
        return float(follow.predicted()[1, 0])

    def exact_kl(self, memory: int | None = None, n_samples: int = 2**15) -> float:
        """``E KL(p(y_t | x_t) || p(y_t | last memory values))``, the least that any model can have.

        Gaussian noise: in closed form. Uniform noise: the mean over ``n_samples`` pasts of the exact entropy,
        always the same pasts; its standard error is below 0.1 divided by the square root of their number.
        """
        if self.noise == "gaussian":
            return 0.5 * math.log(self.predictive_variance(memory) / self.variances[1])
        _, density = self._sampled(memory, n_samples)
        return float(density.entropy().mean()) - math.log(2 * self.half_widths[1])

    def exact_tv(self, memory: int | None = None, n_samples: int = 2**15) -> float:
        """``E TV(p(y_t | x_t), p(y_t | last memory values))``, computed as ``exact_kl`` is."""
        if self.noise == "gaussian":
            return _gaussian_tv(self.variances[1], self.predictive_variance(memory))
        hidden, density = self._sampled(memory, n_samples)
        width = self.half_widths[1]
        # p(y | x) is never below the prediction where it is not zero, so they share what lies within it.
        shared = density.cdf(self.gain * hidden + width) - density.cdf(self.gain * hidden - width)
        return 1 - float(shared.mean())

    def _sampled(self, memory: int | None, n_samples: int) -> tuple[Floats, ConditionalDensity]:
        """States and the exact predictions of what is seen, well after the start of a trial."""
        recording = self.sample(n_samples, random_state=0)
        density = self.density(recording.select("y"), memory)[min(100, n_samples // 2) :]
        return recording.trials[0][density.positions, 0], density


def _gaussian_tv(noise: float, total: float) -> float:
    """``E TV(N(D, noise), N(0, total))`` for ``D ~ N(0, total - noise)``: Gauss-Hermite over ``D``.

    The first density is the larger one between the two roots of a quadratic equation.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    distance = math.sqrt(total - noise) * nodes
    a, b = 1 / noise - 1 / total, -2 * distance / noise
    c = distance**2 / noise - math.log(total / noise)
    root = np.sqrt(b**2 - 4 * a * c)
    low, high = (-b - root) / (2 * a), (-b + root) / (2 * a)
    inside = [
        norm.cdf(high, centre, std) - norm.cdf(low, centre, std)
        for centre, std in ((distance, math.sqrt(noise)), (0.0, math.sqrt(total)))
    ]
    return float(weights @ (inside[0] - inside[1]) / weights.sum())


class _Filter(Protocol):
    """What is known of the state in each of several rows, before the next value is seen."""

    def predicted(self) -> Floats:
        """(numbers, rows): the density of the next value."""

    def see(self, values: Floats) -> None:
        """Take in the values (rows,), NaN for none, and go on to the next time step."""


class _Kalman:
    """Gaussian noise: the mean (rows, order) and the covariance (order, order) of the newest states."""

    def __init__(self, process: HiddenMarkov, rows: int) -> None:
        dynamics = process._state
        self.transition, order = dynamics.companion, dynamics.order
        self.loading = process.gain * np.eye(order)[0]
        self.variances = process.variances
        self.mean = np.zeros((rows, order))
        self.covariance = toeplitz(dynamics.autocovariances(order)[:order, 0, 0])

    def predicted(self) -> Floats:
        mean = self.mean @ self.loading
        variance = self.loading @ self.covariance @ self.loading + self.variances[1]
        return np.stack([mean, np.full_like(mean, variance)])

    def see(self, values: Floats) -> None:
        if not np.isnan(values).any():
            mean, variance = self.predicted()
            weight = self.covariance @ self.loading / variance[0]
            self.mean = self.mean + (values - mean)[:, None] * weight
            self.covariance = self.covariance - np.outer(weight, weight) * variance[0]
        self.mean = self.mean @ self.transition.T
        self.covariance = self.transition @ self.covariance @ self.transition.T
        self.covariance[0, 0] += self.variances[0]


@dataclass(frozen=True, eq=False)
class _Nodes:
    """Equally spaced values of the state and of the target, and the state's stationary distribution."""

    state: Floats
    target: Floats
    stationary: Floats

    @classmethod
    def of(cls, process: HiddenMarkov) -> _Nodes:
        if process.delayed or not process.decay or not process.gain:
            raise TreetError(
                "With noise='uniform' the exact density is known for delayed=0, and decay and gain that are "
                f"not 0. Got delayed={process.delayed}, decay={process.decay} and gain={process.gain}."
            )
        state_width, noise_width = process.half_widths
        std = math.sqrt(process.variances[0] / (1 - process.decay**2))
        reach = min(state_width / (1 - abs(process.decay)), 9 * std)
        state = np.linspace(-reach, reach, STATE_NODES)
        edge = abs(process.gain) * reach + noise_width
        start = np.clip((state + state_width) / (2 * state_width), 0, 1)[:, None]
        steps = math.ceil(math.log(FORGOTTEN) / math.log(abs(process.decay)))
        for _ in range(steps):
            start = _moved(state, start, process)
        return cls(state, np.linspace(-edge, edge, TARGET_NODES), start)


class _Grid:
    """Uniform noise: the distribution function of the state at the nodes, (nodes, rows)."""

    def __init__(self, process: HiddenMarkov, rows: int) -> None:
        self.process, self.nodes = process, process._grid
        self.reached = np.repeat(self.nodes.stationary, rows, axis=1)

    def predicted(self) -> Floats:
        """(target nodes, rows): the density of the next value, not normalised."""
        width, gain = self.process.half_widths[1], self.process.gain
        high, low = _around(self.nodes.state, self.reached, self.nodes.target, gain, width)
        return high - low

    def see(self, values: Floats) -> None:
        width, gain, state = self.process.half_widths[1], self.process.gain, self.nodes.state
        if not np.isnan(values).any():
            centre, half = values / gain, width / abs(gain)
            low, high = (_along(state, self.reached, centre + shift) for shift in (-half, half))
            self.reached = _moved(state, self.reached, self.process, low, np.maximum(high - low, 1e-300))
        else:
            self.reached = _moved(state, self.reached, self.process)


def _moved(
    state: Floats,
    reached: Floats,
    process: HiddenMarkov,
    low: Floats | float = 0.0,
    mass: Floats | float = 1.0,
) -> Floats:
    """The distribution function one time step later, of a state that was seen to lie in a range.

    ``low`` (rows,) is the probability below the range and ``mass`` that in it.
    """
    ends = _around(state, reached, state, process.decay, process.half_widths[0])
    after, before = (np.clip((end - low) / mass, 0, 1) for end in ends)
    density = after - before
    total = np.cumsum((density[1:] + density[:-1]) / 2, axis=0)
    return np.concatenate([np.zeros_like(total[:1]), total / total[-1]])


def _around(
    state: Floats, reached: Floats, points: Floats, slope: float, width: float
) -> tuple[Floats, Floats]:
    """The distribution function at both ends of where ``slope X`` lies within ``width`` of the points.

    Their difference is the density of ``slope X`` plus uniform noise, but for a factor.
    """
    centre, half = points / slope, width / abs(slope)
    return _at(state, reached, centre + half), _at(state, reached, centre - half)


def _at(nodes: Floats, values: Floats, points: Floats) -> Floats:
    """(points, rows): linear interpolation of all columns at the same points; flat outside."""
    cell, place = _cells(nodes, points)
    return np.asarray(values[cell] * (1 - place)[:, None] + values[cell + 1] * place[:, None])


def _along(nodes: Floats, values: Floats, points: Floats) -> Floats:
    """(rows,): linear interpolation of each column at its own point."""
    cell, place = _cells(nodes, points)
    rows = np.arange(values.shape[1])
    return np.asarray(values[cell, rows] * (1 - place) + values[cell + 1, rows] * place)


def _cells(nodes: Floats, points: Floats) -> tuple[Any, Floats]:
    place = np.clip((points - nodes[0]) / (nodes[1] - nodes[0]), 0, len(nodes) - 1)
    cell = np.minimum(place.astype(np.int64), len(nodes) - 2)
    return cell, place - cell
