"""Densities of one variable, one for each of many steps: mixtures of Gaussians, and densities on a grid."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import quad_vec
from scipy.special import entr, logsumexp, ndtr, ndtri

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

LOG_2_PI = math.log(2 * math.pi)
REACH = 9.0
"""Standard deviations of a component that an integral covers: beyond lie 2e-19 of it."""

PRECISION = 1e-12
"""Of a quantile, relative to the spread of the density."""

MOST_STEPS = 200
"""Of the search for a quantile; about ten are needed."""

ENTROPY_ERROR = 1e-8
CHUNK = 4096
"""Steps that are integrated together."""

FLAT = 1e-4
"""By less, relative to their sum, the two ends of a cell count as equal."""


class Univariate(ABC):
    """One density of a real variable for each step.

    Arguments ``y`` and ``q`` broadcast against (..., steps), so that ``y[:, None]`` is a grid for every step.
    """

    @abstractmethod
    def __len__(self) -> int:
        """How many steps."""

    @abstractmethod
    def __getitem__(self, steps: Rows | slice) -> Univariate:
        """The densities of these steps."""

    @abstractmethod
    def logpdf(self, y: Floats) -> Floats:
        """(..., steps): the log density, minus infinity where it is zero."""

    @abstractmethod
    def cdf(self, y: Floats) -> Floats:
        """(..., steps): the probability of at most ``y``."""

    @abstractmethod
    def quantile(self, q: Floats) -> Floats:
        """(..., steps): where ``cdf`` is ``q``."""

    @property
    @abstractmethod
    def mean(self) -> Floats:
        """(steps,)"""

    @property
    @abstractmethod
    def variance(self) -> Floats:
        """(steps,)"""

    @abstractmethod
    def entropy(self) -> Floats:
        """(steps,): the differential entropy in nats."""

    @abstractmethod
    def sample(self, size: int, generator: np.random.Generator) -> Floats:
        """(size, steps): independent draws."""


@dataclass(frozen=True, eq=False)
class Mixtures(Univariate):
    """``p(y) = sum_k exp(log_weights_k) N(y; means_k, stds_k^2)``: arrays (terms, steps).

    Density, distribution function, moments and samples are exact; quantiles to 1e-12 of the spread; the
    entropy by adaptive quadrature to 1e-8.

    >>> two = Mixtures.of(np.zeros((2, 1)), np.array([[-1.0], [1.0]]), np.ones((2, 1)))
    >>> float(two.mean[0]), float(two.variance[0]), float(two.cdf(np.zeros(1))[0])
    (0.0, 2.0, 0.5)
    """

    log_weights: Floats
    means: Floats
    stds: Floats

    @classmethod
    def of(cls, log_weights: Floats, means: Floats, stds: Floats) -> Mixtures:
        """With weights that add up to one, and without the terms that no step uses."""
        used = np.isfinite(log_weights).any(axis=1)
        parts = (log_weights, means, stds)
        log_weights, means, stds = (np.asarray(part, np.float64)[used] for part in parts)
        return cls(log_weights - logsumexp(log_weights, axis=0), means, stds)

    @classmethod
    def pooled(cls, parts: Sequence[Mixtures], log_shares: Floats) -> Mixtures:
        """The mixture of ``parts`` with the log weights ``log_shares`` (parts, steps)."""
        weighted = [part.log_weights + share for part, share in zip(parts, log_shares, strict=True)]
        means, stds = ([getattr(part, name) for part in parts] for name in ("means", "stds"))
        return cls.of(*map(np.concatenate, (weighted, means, stds)))

    def __len__(self) -> int:
        return len(self.means[0])

    def __getitem__(self, steps: Rows | slice) -> Mixtures:
        return Mixtures(self.log_weights[:, steps], self.means[:, steps], self.stds[:, steps])

    def logpdf(self, y: Floats) -> Floats:
        total = np.full(np.broadcast_shapes(np.shape(y), (len(self),)), -np.inf)
        # One term at a time: a grid of values for many steps and terms would not fit into memory.
        for log_weight, mean, std in zip(self.log_weights, self.means, self.stds, strict=True):
            term = log_weight - np.log(std) - 0.5 * (((y - mean) / std) ** 2 + LOG_2_PI)
            np.logaddexp(total, term, out=total)
        return total

    def cdf(self, y: Floats) -> Floats:
        terms = zip(self._weights, self.means, self.stds, strict=True)
        return np.asarray(sum(weight * ndtr((y - mean) / std) for weight, mean, std in terms))

    def quantile(self, q: Floats) -> Floats:
        levels = np.broadcast_to(q, np.broadcast_shapes(np.shape(q), (len(self),)))
        found = [self._quantile(level) for level in levels.reshape(-1, len(self))]
        return np.asarray(np.array(found).reshape(levels.shape))

    @cached_property
    def _weights(self) -> Floats:
        return np.exp(self.log_weights)

    @property
    def mean(self) -> Floats:
        return np.asarray((self._weights * self.means).sum(axis=0))

    @property
    def variance(self) -> Floats:
        return np.asarray((self._weights * (self.stds**2 + (self.means - self.mean) ** 2)).sum(axis=0))

    def _quantile(self, q: Floats) -> Floats:
        """Newton's method inside a bracket: a quantile lies between those of the terms."""
        spread = np.sqrt(self.variance)
        ends = self.means + self.stds * ndtri(q)
        low = np.where(self._weights > 0, ends, np.inf).min(axis=0)
        high = np.where(self._weights > 0, ends, -np.inf).max(axis=0)
        y: Floats = np.clip(self.mean + spread * ndtri(q), low, high)
        left = np.flatnonzero(high > low)  # not where q is 0 or 1
        before = np.zeros(len(self))
        before[left] = high[left] - low[left]
        for _ in range(MOST_STEPS):
            part = self[left]
            error = part.cdf(y[left]) - q[left]
            low[left] = np.where(error <= 0, y[left], low[left])
            high[left] = np.where(error >= 0, y[left], high[left])
            new = _next(y[left], error, part.logpdf(y[left]), low[left], high[left], before[left])
            before[left] = np.abs(new - y[left])
            y[left] = new
            left = left[before[left] > PRECISION * spread[left]]
            if not len(left):
                break
        return y

    def entropy(self) -> Floats:
        """(steps,): ``-sum_k w_k E_k[log p]``, each expectation over its own term, to 1e-8."""
        starts = range(0, len(self), CHUNK)
        return np.concatenate([self[start : start + CHUNK]._entropy() for start in starts])

    def _entropy(self) -> Floats:
        def integrand(z: float) -> Floats:
            values = self.logpdf(self.means + z * self.stds)
            return np.asarray(-math.exp(-(z**2) / 2) * (self._weights * values).sum(axis=0))

        found, _ = quad_vec(integrand, -REACH, REACH, epsabs=ENTROPY_ERROR, epsrel=0.0, norm="max")
        return np.asarray(found / math.sqrt(2 * math.pi))

    def sample(self, size: int, generator: np.random.Generator) -> Floats:
        chosen = np.zeros((size, len(self)), np.int64)
        level = generator.random(chosen.shape)
        for reached in np.cumsum(self._weights, axis=0)[:-1]:
            chosen += level >= reached
        steps = np.arange(len(self))
        noise = generator.standard_normal(chosen.shape)
        return np.asarray(self.means[chosen, steps] + self.stds[chosen, steps] * noise)


def _next(y: Floats, error: Floats, log_slope: Floats, low: Floats, high: Floats, before: Floats) -> Floats:
    """Newton's step where it stays in the bracket and halves the step before, else the middle."""
    with np.errstate(over="ignore", divide="ignore"):
        newton = y - error * np.exp(-log_slope)
    good = (newton >= low) & (newton <= high) & (np.abs(newton - y) <= before / 2)
    return np.where(good, newton, (low + high) / 2)


@dataclass(frozen=True, eq=False)
class OnGrid(Univariate):
    """A density that is linear between equally spaced ``nodes`` (nodes,) and zero outside.

    ``densities`` (nodes, steps). All of it is exact for this density. How well that stands for another one is
    a matter of the nodes: the error of linear interpolation falls with their distance squared.

    >>> triangle = OnGrid.of(np.linspace(-1, 1, 3), np.array([[0.0], [1.0], [0.0]]))
    >>> float(triangle.mean[0]), round(float(triangle.variance[0]), 6), float(triangle.quantile(0.5)[0])
    (0.0, 0.166667, 0.0)
    """

    nodes: Floats
    densities: Floats

    @classmethod
    def of(cls, nodes: Floats, densities: Floats) -> OnGrid:
        """From densities that need not be normalised."""
        raw = cls(nodes, densities)
        return cls(nodes, densities / raw._reached[-1])

    def __len__(self) -> int:
        return len(self.densities[0])

    def __getitem__(self, steps: Rows | slice) -> OnGrid:
        return OnGrid(self.nodes, self.densities[:, steps])

    @property
    def _width(self) -> float:
        return float(self.nodes[1] - self.nodes[0])

    @cached_property
    def _reached(self) -> Floats:
        """(nodes, steps): the distribution function at the nodes."""
        cells = (self.densities[1:] + self.densities[:-1]) * self._width / 2
        return np.concatenate([np.zeros((1, len(self))), np.cumsum(cells, axis=0)])

    def _place(self, y: Floats) -> tuple[Rows, Floats]:
        """(..., steps) twice: the cell and the place in it, between 0 and 1."""
        y = np.broadcast_to(y, np.broadcast_shapes(np.shape(y), (len(self),)))
        place = np.clip((y - self.nodes[0]) / self._width, 0, len(self.nodes) - 1)
        cell = np.minimum(place.astype(np.int64), len(self.nodes) - 2)
        return cell, place - cell

    def _ends(self, cell: Rows) -> tuple[Floats, Floats]:
        """The densities at both ends of the cells (..., steps)."""
        steps = np.arange(len(self))
        return self.densities[cell, steps], self.densities[cell + 1, steps]

    def logpdf(self, y: Floats) -> Floats:
        cell, place = self._place(y)
        low, high = self._ends(cell)
        inside = (y >= self.nodes[0]) & (y <= self.nodes[-1])
        with np.errstate(divide="ignore"):
            return np.log(np.where(inside, low + (high - low) * place, 0.0))

    def cdf(self, y: Floats) -> Floats:
        cell, place = self._place(y)
        low, high = self._ends(cell)
        within = self._width * place * (low + (high - low) * place / 2)
        return np.asarray(self._reached[cell, np.arange(len(self))] + within)

    def quantile(self, q: Floats) -> Floats:
        q = np.broadcast_to(q, np.broadcast_shapes(np.shape(q), (len(self),)))
        cell = self._cell_of(q)
        low, high = self._ends(cell)
        rest = (q - self._reached[cell, np.arange(len(self))]) / self._width
        # low t + (high - low) t^2 / 2 = rest, in the form that keeps its digits where low and high are close.
        root = low + np.sqrt(np.maximum(low**2 + 2 * (high - low) * rest, 0.0))
        place = np.divide(2 * rest, root, out=np.zeros_like(root), where=root > 0)
        return np.asarray(self.nodes[cell] + self._width * np.clip(place, 0, 1))

    def _cell_of(self, q: Floats) -> Rows:
        """The cell in which the probability ``q`` is reached, by bisection."""
        first, last = np.zeros(q.shape, np.int64), np.full(q.shape, len(self.nodes) - 1)
        steps = np.arange(len(self))
        for _ in range(len(self.nodes).bit_length()):
            middle = (first + last) // 2
            below = self._reached[middle, steps] <= q
            first, last = np.where(below, middle, first), np.where(below, last, middle)
        return np.minimum(first, len(self.nodes) - 2)

    @property
    def mean(self) -> Floats:
        return self._moment(self.nodes[:, None])

    @property
    def variance(self) -> Floats:
        return self._moment(self.nodes[:, None] - self.mean, power=2)

    def _moment(self, values: Floats, power: int = 1) -> Floats:
        """(steps,): Simpson's rule, exact for the cubic polynomials in each cell."""
        middles = ((values[1:] + values[:-1]) / 2) ** power * (self.densities[1:] + self.densities[:-1]) / 2
        ends = values**power * self.densities
        return np.asarray((ends[1:] + ends[:-1] + 4 * middles).sum(axis=0) * self._width / 6)

    def entropy(self) -> Floats:
        low, high = self.densities[:-1], self.densities[1:]
        rise = high - low
        steep = np.abs(rise) > FLAT * (low + high)
        # The integral of p log p over a cell by its antiderivative, or by the middle where p hardly changes.
        exact = (_primitive(high) - _primitive(low)) / np.where(steep, rise, 1.0)
        cells = np.where(steep, exact, -entr((low + high) / 2))
        return np.asarray(-cells.sum(axis=0) * self._width)

    def sample(self, size: int, generator: np.random.Generator) -> Floats:
        return self.quantile(generator.random((size, len(self))))


def _primitive(density: Floats) -> Floats:
    """The antiderivative of ``p log p``."""
    return np.asarray(-density * entr(density) / 2 - density**2 / 4)
