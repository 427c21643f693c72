"""Channels with a bounded real input, whose best input takes finitely many values: certified capacities.

References: Smith, The information capacity of amplitude- and variance-constrained scalar Gaussian channels,
Information and Control 18 (1971); Shamai, Capacity of a pulse amplitude modulated direct detection photon
channel, IEE Proc. I 137 (1990).
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from scipy.optimize import linprog
from scipy.special import gammaln, xlogy
from scipy.stats import poisson

from treet.capacity.blahut_arimoto import CertifiedCapacity
from treet.capacity.noise import Floats
from treet.checks import check_number
from treet.errors import TreetError

COARSE, FINE = 100, 4001
"""How many input values the search begins with, and on how many it looks for the maximum of its bound."""

ROUNDS = 20
"""Each round moves the mass points by a Newton step towards the best ones: a few suffice."""

NEWTON_STEPS = 100
"""More than any barrier problem needs: the steps are damped and the problem is concave."""


LARGEST_PEAK, LARGEST_RATE = 50, 1000
"""Where the search takes some ten seconds: beyond, the bounds with a formula are close."""


class Law(Protocol):
    """A channel with a real input: its outputs are integrated by nodes and weights."""

    lowest: float
    peak: float
    weights: Floats

    def log_density(self, x: Floats) -> Floats:
        """(inputs, nodes): the log density of the outputs given inputs (inputs,)."""

    def cost(self, x: Floats) -> Floats:
        """(inputs,): what the average constraint counts."""


class GaussianLaw:
    """``Y = x + N(0, std^2)``, ``|x| <= peak``, with the cost ``x^2``."""

    def __init__(self, peak: float, std: float) -> None:
        self.lowest, self.peak, self.std = -peak, peak, std
        # The trapezoidal rule is exact to rounding for Gaussian mixtures at this step.
        reach = peak + 9 * std
        self.nodes = np.linspace(-reach, reach, 2 * math.ceil(4 * reach / std) + 1)
        self.weights = np.full_like(self.nodes, self.nodes[1] - self.nodes[0])

    def log_density(self, x: Floats) -> Floats:
        error = (self.nodes - x[:, None]) / self.std
        return np.asarray(-(error**2) / 2 - math.log(self.std * math.sqrt(2 * math.pi)))

    def cost(self, x: Floats) -> Floats:
        return x**2


class PoissonLaw:
    """``Y ~ Poisson(x + dark)``, ``0 <= x <= peak``, with the cost ``x``."""

    def __init__(self, peak: float, dark: float) -> None:
        self.lowest, self.peak, self.dark = 0.0, peak, dark
        self.nodes = np.arange(poisson.isf(1e-16, peak + dark) + 2)
        self.weights = np.ones_like(self.nodes)

    def log_density(self, x: Floats) -> Floats:
        rate = (x + self.dark)[:, None]
        log_density = xlogy(self.nodes, rate) - rate - gammaln(self.nodes + 1)
        # What a rate of 0 makes impossible gets a finite log, so that its product with 0 is 0.
        return np.asarray(np.maximum(log_density, -700.0))

    def cost(self, x: Floats) -> Floats:
        return x


def amplitude_capacity(
    peak: float, std: float = 1.0, power: float | None = None, tolerance: float = 1e-6
) -> CertifiedCapacity:
    """White Gaussian noise with ``|x| <= peak`` and, if given, ``E[x^2] <= power``.

    >>> found = amplitude_capacity(1.0)
    >>> round(found.value, 5), found.inputs.round(3).tolist()
    (0.33683, [-1.0, 1.0])
    """
    check_number("peak", peak, above=0)
    check_number("std", std, above=0)
    if peak > LARGEST_PEAK * std:
        raise TreetError(
            f"peak must be at most {LARGEST_PEAK} noise standard deviations. Got {peak / std:.4g} of them: "
            "mckellips_bound is within 0.002 nats there."
        )
    return best_mass_points(GaussianLaw(peak, std), power, "power", tolerance)


def poisson_capacity(
    peak: float, dark: float = 0.0, mean: float | None = None, tolerance: float = 1e-6
) -> CertifiedCapacity:
    """The optical channel ``Y ~ Poisson(x + dark)`` with ``0 <= x <= peak`` and, if given, ``E[x] <= mean``.

    >>> found = poisson_capacity(peak=2.0, dark=0.5)
    >>> round(found.value, 4), found.inputs.round(3).tolist()
    (0.2781, [0.0, 2.0])
    """
    check_number("peak", peak, above=0)
    check_number("dark", dark, above=-math.ulp(0.0))
    if peak + dark > LARGEST_RATE:
        raise TreetError(
            f"peak + dark must be at most {LARGEST_RATE} photons. Got {peak + dark:.4g}: "
            "count in shorter slots, or use poisson_lower_bound."
        )
    return best_mass_points(PoissonLaw(peak, dark), mean, "mean", tolerance)


def best_mass_points(law: Law, budget: float | None, name: str, tolerance: float) -> CertifiedCapacity:
    """The capacity of ``law`` over inputs on ``[lowest, peak]`` with ``E[cost] <= budget``.

    The best probabilities on a grid of input values are a concave problem. With its multiplier ``m`` of the
    budget no input has more than ``max_x D(x) - m (cost(x) - budget)``, ``D(x) = KL(p(.|x) || p(.))``: while
    this is above the information reached, the values with no probability leave and the local maxima of the
    bound join.
    """
    check_number("tolerance", tolerance, above=0)
    if budget is not None:
        check_number(name, budget, above=0)
    grid = np.linspace(law.lowest, law.peak, FINE)
    points, upper = np.union1d(grid[:: FINE // COARSE], 0.0), math.inf
    for _ in range(ROUNDS):
        problem = _Probabilities(law, points, budget)
        weights = problem.solve(tolerance / 10)
        lower = problem.information(weights)
        multiplier = problem.multiplier(grid, weights)
        bound = problem.bound(grid, weights, multiplier)
        peaks = _local_maxima(grid, bound)
        upper = min(upper, float(problem.bound(peaks, weights, multiplier).max()))
        if upper - lower <= tolerance:
            return CertifiedCapacity(lower, upper, *_tidy(points, weights, grid[1] - grid[0]))
        points = np.unique(np.concatenate([[0.0], points[weights > tolerance / 100], peaks]))
    raise TreetError(
        f"The bounds on the capacity, {lower:.9g} and {upper:.9g}, are not within {tolerance:.1g} "
        f"after {ROUNDS} rounds. Raise tolerance."
    )


class _Probabilities:
    """The information of an input with fixed values in its probabilities ``w``, and its maximum.

    An interior point method: Newton's steps on ``I(w) + mu (sum_i log w_i + log(budget - E[cost]))`` with
    ``sum_i w_i = 1``, whose maximum is within ``mu (points + 1)`` of that of ``I``, for falling ``mu``.
    """

    def __init__(self, law: Law, points: Floats, budget: float | None) -> None:
        self.law = law
        self.budget = 1.0 if budget is None else budget
        # Without a budget the input costs nothing.
        self.free = budget is None
        self.cost = self._cost(points)
        self.log_density = law.log_density(points)
        self.density = np.exp(self.log_density)
        self.start = self._affordable(points)

    def _cost(self, x: Floats) -> Floats:
        return np.zeros_like(x) if self.free else self.law.cost(x)

    def _affordable(self, points: Floats) -> Floats:
        """Equal probabilities, moved to the value 0, which costs nothing, as far as the budget demands."""
        equal = np.full(len(points), 1 / len(points))
        kept = min(1.0, self.budget / 2 / max(float(equal @ self.cost), 1e-300))
        return np.asarray(kept * equal + (1 - kept) * (points == 0))

    def _mixture(self, weights: Floats) -> Floats:
        """(nodes,): the density of the output."""
        return np.asarray(np.maximum(weights @ self.density, 1e-300))

    def _divergence(self, log_density: Floats, weights: Floats) -> Floats:
        excess = log_density - np.log(self._mixture(weights))
        return np.asarray((np.exp(log_density) * excess) @ self.law.weights)

    def information(self, weights: Floats) -> float:
        return float(weights @ self._divergence(self.log_density, weights))

    def bound(self, x: Floats, weights: Floats, multiplier: float) -> Floats:
        """``D(x) - m (cost(x) - budget)``: (inputs,)."""
        penalty = multiplier * (self._cost(x) - self.budget)
        return self._divergence(self.law.log_density(x), weights) - penalty

    def multiplier(self, grid: Floats, weights: Floats) -> float:
        """The ``m >= 0`` with the least bound on ``grid``: a linear program in the bound and ``m``."""
        if self.free:
            return 0.0
        rows = np.column_stack([-np.ones_like(grid), self.budget - self._cost(grid)])
        divergence = self.bound(grid, weights, 0.0)
        return float(linprog([1, 0], A_ub=rows, b_ub=-divergence, bounds=[(None, None), (0, None)]).x[1])

    def solve(self, gap: float) -> Floats:
        """The best probabilities to ``gap`` nats."""
        weights, mu = self.start, 0.1
        while True:
            weights = self._maximise(weights, mu)
            if mu * (len(weights) + 1) <= gap:
                return weights
            mu /= 10

    def _value(self, weights: Floats, mu: float) -> float:
        left = self.budget - float(weights @ self.cost)
        if weights.min() <= 0 or left <= 0:
            return -math.inf
        return self.information(weights) + mu * float(np.log(weights).sum() + math.log(left))

    def _maximise(self, weights: Floats, mu: float) -> Floats:
        for _ in range(NEWTON_STEPS):
            step, rise = self._newton(weights, mu)
            if rise < mu / 100:
                break
            start, share = self._value(weights, mu), 1.0
            while share > 1e-10 and self._value(weights + share * step, mu) < start + 0.1 * share * rise:
                share /= 2
            weights = weights + share * step
            weights /= weights.sum()
        return weights

    def _newton(self, weights: Floats, mu: float) -> tuple[Floats, float]:
        """Newton's step within ``sum_i w_i = 1`` and the rise that it promises."""
        left = self.budget - float(weights @ self.cost)
        gradient = self._divergence(self.log_density, weights) + mu / weights - mu * self.cost / left
        overlap = (self.density * (self.law.weights / self._mixture(weights))) @ self.density.T
        curvature = overlap + np.diag(mu / weights**2) + mu * np.outer(self.cost, self.cost) / left**2
        # In units of the weights the matrix stays well conditioned while some of them vanish.
        scaled = weights[:, None] * curvature * weights
        along, across = np.linalg.solve(scaled, np.column_stack([weights * gradient, weights])).T * weights
        step = along - across * (along.sum() / across.sum())
        return step, float(gradient @ step)


def _local_maxima(grid: Floats, values: Floats) -> Floats:
    """Where a function with ``values`` on an even ``grid`` has its local maxima, by parabolas."""
    inner = np.flatnonzero((values[1:-1] >= values[:-2]) & (values[1:-1] >= values[2:])) + 1
    before, after = values[inner - 1] - values[inner], values[inner + 1] - values[inner]
    bend = np.minimum(before + after, -1e-300)
    inside = grid[inner] + (grid[1] - grid[0]) * np.clip((before - after) / (2 * bend), -0.5, 0.5)
    return np.concatenate([grid[:1], inside, grid[-1:]])


def _tidy(points: Floats, weights: Floats, apart: float) -> tuple[Floats, Floats]:
    """The points that have a weight; neighbours closer than ``apart``, which tell nothing new, become one."""
    kept = weights > 1e-6
    points, weights = points[kept], weights[kept]
    group = np.concatenate([[0], np.cumsum(np.diff(points) > apart)])
    mass = np.bincount(group, weights)
    # A mean is rounded: it must not leave the range of the points.
    means = np.clip(np.bincount(group, weights * points) / mass, points[0], points[-1])
    return means, mass / mass.sum()
