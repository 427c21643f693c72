"""Conditional densities of a recording's target, one for each time step that has its whole past."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

from treet.checks import check_whole
from treet.density.univariate import Floats, Mixtures, Rows, Univariate
from treet.errors import TreetError
from treet.windows import Windows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DRAWS = 100
"""Of the channels before it, to average a channel over."""

MOST_ROWS = 2**16
"""Steps times draws that are worked on at once."""


class Factors(Protocol):
    """``p(y) = prod_i p_i(y_i | y_0 .. y_{i-1})`` for each step: one factor for each target channel."""

    @property
    def channels(self) -> int:
        """How many target channels."""

    def __len__(self) -> int:
        """How many steps."""

    def __getitem__(self, steps: Rows) -> Factors:
        """The factors of these steps, which may repeat."""

    def factor(self, channel: int, before: Floats) -> Univariate:
        """The density of ``channel`` given the channels ``before`` it: (steps, channel)."""


@dataclass(frozen=True, eq=False)
class Alone:
    """The only factor of a target with one channel."""

    density: Univariate

    @property
    def channels(self) -> int:
        return 1

    def __len__(self) -> int:
        return len(self.density)

    def __getitem__(self, steps: Rows) -> Alone:
        return Alone(self.density[steps])

    def factor(self, channel: int, before: Floats) -> Univariate:
        return self.density


class ConditionalDensity:
    """``p(y_t | past)`` for each time step ``t`` of a recording, in the units of the target.

    A target of one channel: all values are (..., steps), where ``steps`` counts the time steps that have
    their whole past. ``y`` and ``q`` broadcast, so ``pdf(grid[:, None])`` is the density of every step on a
    grid. Everything is exact but the entropy (see ``Mixtures`` and ``OnGrid``).

    A target of several channels: values of ``y`` are (..., steps, channels). ``pdf``, ``logpdf`` and
    ``sample`` are those of the vector, exact by the chain rule over the channels. ``cdf`` gives for each
    channel the probability given the channels before it (Rosenblatt's transform): uniform and independent
    where the density is right. ``mean``, ``variance`` and ``quantile`` are those of each channel on its own:
    exact for the first, for the others an average over ``DRAWS`` exact draws of the channels before, with an
    error of about a tenth of the spread that these add. ``entropy`` averages the log density over draws too.

    ``observed`` is what came true, in the shape of ``y``: the default of ``pdf``, ``logpdf`` and ``cdf``.
    ``density[steps]`` are the densities of some steps, by a slice or by their numbers; ``positions`` are the
    time steps with all trials one after another; ``on_time_axis`` puts values back into trials.

    >>> from treet.processes.hidden_markov import HiddenMarkov
    >>> process = HiddenMarkov()
    >>> density = process.density(process.sample(100, random_state=0).select("y"), memory=3)
    >>> len(density), density.quantile([0.1, 0.9]).shape, density.sample(5, random_state=0).shape
    (97, (2, 97), (5, 97))
    """

    def __init__(self, factors: Factors, windows: Windows, positions: Rows | None = None) -> None:
        self.factors, self.windows = factors, windows
        self.positions = windows.positions if positions is None else positions
        if len(factors) != len(self.positions):
            raise TreetError(
                f"There must be one density for each of {len(self.positions)} time steps. Got {len(factors)}."
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The target channels."""
        return self.windows.names["target"]

    @property
    def observed(self) -> Floats:
        """(steps,) or (steps, channels): what the target was."""
        values = self.windows.values[self.positions, self.windows.columns("target")]
        return values if self.factors.channels > 1 else values[:, 0]

    @property
    def _first(self) -> Univariate:
        """The density of the first channel."""
        return self.factors.factor(0, np.zeros((len(self), 0)))

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, steps: slice | Rows) -> ConditionalDensity:
        rows = np.arange(len(self))[steps]
        return ConditionalDensity(self.factors[rows], self.windows, self.positions[rows])

    def __repr__(self) -> str:
        return f"ConditionalDensity({len(self)} time steps of {', '.join(self.names)})"

    def logpdf(self, y: Floats | float | None = None) -> Floats:
        """The log density of the target at ``y``, in nats."""
        return np.asarray(self._of_channels(y, lambda factor, values: factor.logpdf(values)).sum(axis=-1))

    def pdf(self, y: Floats | float | None = None) -> Floats:
        """The density of the target at ``y``."""
        return np.exp(self.logpdf(y))

    def cdf(self, y: Floats | float | None = None) -> Floats:
        """The probability of at most ``y``; of several channels each given those before it."""
        found = self._of_channels(y, lambda factor, values: factor.cdf(values))
        return found if self.factors.channels > 1 else found[..., 0]

    def _of_channels(
        self, y: Floats | float | None, function: Callable[[Univariate, Floats], Floats]
    ) -> Floats:
        """(..., steps, channels): ``function`` of each channel's factor and values."""
        values = self._checked(self.observed if y is None else y)
        found = [function(self._first, values[..., 0])]
        if self.factors.channels > 1:
            # A factor depends on the channels before it, so every value needs one of its own.
            rows = np.broadcast_to(np.arange(len(self)), values.shape[:-1]).ravel()
            factors, flat = self.factors[rows], values.reshape(len(rows), -1)
            for channel in range(1, self.factors.channels):
                part = function(factors.factor(channel, flat[:, :channel]), flat[:, channel])
                found.append(part.reshape(values.shape[:-1]))
        return np.stack(found, axis=-1)

    def _checked(self, y: Floats | float) -> Floats:
        """``y`` as (..., steps, channels)."""
        values, channels = np.asarray(y, np.float64), self.factors.channels
        expected = (len(self),) if channels == 1 else (len(self), channels)
        try:
            values = np.broadcast_to(values, np.broadcast_shapes(values.shape, expected))
        except ValueError as error:
            raise TreetError(
                f"y must broadcast to (.., {', '.join(map(str, expected))}): one value for each time step"
                f"{'' if channels == 1 else ' and channel'}. Got the shape {values.shape} instead."
            ) from error
        return values[..., None] if channels == 1 else values

    def sample(self, size: int = 1, random_state: int | np.random.Generator | None = None) -> Floats:
        """(size, steps) or (size, steps, channels): independent draws for each time step."""
        size, generator = check_whole("size", size, 1), _generator(random_state)
        drawn = self._first.sample(size, generator)[..., None]
        if self.factors.channels == 1:
            return drawn[..., 0]
        factors = self.factors[np.tile(np.arange(len(self)), size)]
        flat = drawn.reshape(-1, 1)
        for channel in range(1, self.factors.channels):
            new = factors.factor(channel, flat).sample(1, generator)
            flat = np.concatenate([flat, new.T], axis=1)
        return flat.reshape(size, len(self), -1)

    def mean(self) -> Floats:
        """(steps,) or (steps, channels)."""
        return self._of_marginals(lambda marginal: marginal.mean)

    def variance(self) -> Floats:
        """(steps,) or (steps, channels)."""
        return self._of_marginals(lambda marginal: marginal.variance)

    def quantile(self, q: Floats | float) -> Floats:
        """Where the target stays below with probability ``q``: shape of ``q`` and (steps[, channels]).

        >>> from treet.processes.hidden_markov import HiddenMarkov
        >>> process = HiddenMarkov()
        >>> density = process.density(process.sample(50, random_state=0).select("y"), memory=1)
        >>> bool(np.allclose(density.cdf(density.quantile(0.9)), 0.9))
        True
        """
        levels = np.asarray(q, np.float64)
        if not ((levels >= 0) & (levels <= 1)).all():
            raise TreetError(f"q must lie between 0 and 1. Got {q!r} instead.")
        return self._of_marginals(lambda marginal: marginal.quantile(levels[..., None]))

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """The central interval that holds the target with probability ``level``: its two ends."""
        low, high = self.quantile(np.array([0.5 - level / 2, 0.5 + level / 2]))
        return low, high

    def entropy(self) -> Floats:
        """(steps,): the differential entropy in nats."""
        if self.factors.channels == 1:
            return self._first.entropy()
        parts = [-part.logpdf(part.sample(DRAWS, 0)).mean(axis=0) for part in self._parts()]
        return np.concatenate(parts)

    def _of_marginals(self, function: Callable[[Univariate], Floats]) -> Floats:
        """(.., steps) or (.., steps, channels): ``function`` of the density of each channel on its own."""
        if self.factors.channels == 1:
            return function(self._first)
        parts = [
            np.stack([function(part._marginal(channel)) for channel in range(self.factors.channels)], axis=-1)
            for part in self._parts()
        ]
        return np.concatenate(parts, axis=-2)

    def _parts(self) -> list[ConditionalDensity]:
        """Stretches of steps that are small enough to be drawn from."""
        size = max(1, MOST_ROWS // DRAWS)
        return [self[start : start + size] for start in range(0, len(self), size)]

    def _marginal(self, channel: int) -> Univariate:
        """The density of one channel: the mean of its factor over draws of the channels before it."""
        if channel == 0:
            return self._first
        before = self.sample(DRAWS, 0)[..., :channel]
        factors = self.factors[np.tile(np.arange(len(self)), DRAWS)]
        found = cast("Mixtures", factors.factor(channel, before.reshape(-1, channel)))
        parts = [found[start : start + len(self)] for start in range(0, len(found), len(self))]
        return Mixtures.pooled(parts, np.full((DRAWS, len(self)), -math.log(DRAWS)))

    def anomaly(self) -> tuple[Floats, ...]:
        """``-log p(y_t | past)``, one array a trial: large where the recording surprises."""
        return self.on_time_axis(-self.logpdf())

    def on_time_axis(self, values: Floats) -> tuple[Floats, ...]:
        """(steps,) as one array a trial, (time,), with NaN where a time step has no density."""
        line = np.full(len(self.windows), np.nan)
        line[np.searchsorted(self.windows.positions, self.positions)] = values
        return self.windows.on_time_axis(line)

    def plot(self, ax: Axes | None = None) -> Axes:
        """A fan chart of the first time steps."""
        from treet.density.plots import plot_density

        return plot_density(self, ax)


def _generator(random_state: int | np.random.Generator | None) -> np.random.Generator:
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    return np.random.default_rng(check_whole("random_state", random_state, 0))
