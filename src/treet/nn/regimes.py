"""Piecewise linear densities: regimes that begin where one value of the past passes a threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from treet.nn.anchor import LEAST_STD, LinearAnchor
from treet.nn.linear import moments, sparse

MOST_REGIMES = 8
LEAST_ROWS = 25
"""In a regime: fewer do not give a regression and its variance."""

MOST_SPLITTERS = 128
"""Inputs that may decide the regime: evenly many of each series, the newest, where there are more."""

ROWS_AT_ONCE = 8192
"""In the searches: what they work on stays in the cache, and memory does not grow with the rows."""

REFINEMENTS = 4

MOST_EDGES = 16
"""Thresholds of one split that are kept: where values are dense, more than one explains the data."""

LOG_2_PI = math.log(2 * math.pi)


class Regimes(nn.Module):
    """A density of each target channel, linear and Gaussian in the past within each of a few regimes.

        p(y_i | past) = sum_s w_{i,s}(past) N(y_i; coefficients_{i,s} . (1, past, y), std_{i,s}^2)

    The regimes s are the leaves of a tree: one becomes two where an input passes a threshold. This is Tong's
    threshold autoregression with the regimes searched for. A network blurs such an edge, and misses a regime
    that is rarely visited; a search over thresholds finds it as sharply as the data allow. The data allow a
    few neighbouring thresholds: each counts by its likelihood, so that ``w`` is the probability that the past
    lies in the regime, one or zero but for a past right at the edge. Without any split it is the
    ``LinearAnchor``. Fixed once fitted.

    ``rows`` (batch, 1 + inputs + channels) from ``as_rows`` -> (batch, channels, 3): mean and log std of the
    most probable regime, and log p.
    """

    coefficients: Tensor
    log_std: Tensor
    parent: Tensor
    variable: Tensor
    edges: Tensor
    shares: Tensor

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        splits = MOST_REGIMES - 1
        self.register_buffer("coefficients", torch.zeros(channels, MOST_REGIMES, 1 + inputs + channels))
        self.register_buffer("log_std", torch.zeros(channels, MOST_REGIMES))
        # Rows of the regime ``parent`` whose ``variable`` is at or above the threshold form a new regime, in
        # the order of the splits. Each of ``edges`` is the threshold with the probability in ``shares``; a
        # split that is not used has the shares 0.
        self.register_buffer("parent", torch.zeros(channels, splits, dtype=torch.long))
        self.register_buffer("variable", torch.zeros(channels, splits, dtype=torch.long))
        self.register_buffer("edges", torch.zeros(channels, splits, MOST_EDGES))
        self.register_buffer("shares", torch.zeros(channels, splits, MOST_EDGES))

    def forward(self, rows: Tensor) -> Tensor:
        log_weights, means, log_stds = self.mixture(rows)
        present = rows[:, -len(self.parent) :, None]
        log_density = torch.logsumexp(log_weights + log_normal(present - means, log_stds), -1)
        likely = log_weights.argmax(-1, keepdim=True)
        mean, log_std = (found.gather(-1, likely)[..., 0] for found in (means, log_stds))
        return torch.stack([mean, log_std, log_density], -1)

    def mixture(self, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log weights, means and log stds of the regimes, (batch, channels, regimes) each."""
        weights = self.weights(rows)
        means = (rows @ self.coefficients.flatten(0, 1).mT).view_as(weights)
        return weights.log(), means, self.log_std.expand_as(means)

    def weights(self, rows: Tensor) -> Tensor:
        """(batch, channels, regimes): the probability that each row lies in each regime."""
        weights = rows.new_zeros(len(rows), *self.log_std.shape)
        weights[..., 0] = 1.0
        for split in range(MOST_REGIMES - 1):
            passed = rows[:, self.variable[:, split], None] >= self.edges[:, split]
            parent = self.parent[:, split].expand(len(rows), -1)[..., None]
            moved = weights.gather(-1, parent) * (passed * self.shares[:, split]).sum(-1, keepdim=True)
            weights.scatter_add_(-1, parent, -moved)
            weights[..., split + 1] = moved[..., 0]
        return weights.clamp(min=0)

    def fit(self, anchor: LinearAnchor, training: Tensor, validation: Tensor, splitters: Tensor) -> None:
        """Search from the fitted ``anchor``, on rows; ``splitters`` are the columns that may split."""
        channels, columns = anchor.coefficients.shape
        self.shares.zero_()
        rows, held_out = _Rows.all(training), _Rows.all(validation)
        for channel in range(channels):
            known = columns - channels + channel
            coefficients = anchor.coefficients[channel, :known]
            root = _Regime(rows, held_out, known, coefficients, anchor.log_std[channel].exp().item())
            for number, regime in enumerate(self._grow(channel, root, splitters)):
                self.coefficients[channel, number, :known] = regime.coefficients
                self.log_std[channel, number] = math.log(regime.std)

    def _grow(self, channel: int, root: _Regime, splitters: Tensor) -> list[_Regime]:
        """The regimes of one channel; the tree is written down on the way, breadth first."""
        regimes, waiting = [root], [0]
        while waiting and len(regimes) < MOST_REGIMES:
            number = waiting.pop(0)
            split = _best_split(regimes[number], splitters)
            if split is None:
                continue
            place = len(regimes) - 1
            self.parent[channel, place] = number
            self.variable[channel, place] = split.variable
            kept = len(split.edges)
            self.edges[channel, place, :kept], self.shares[channel, place, :kept] = split.edges, split.shares
            regimes[number] = split.below
            regimes.append(split.above)
            waiting += [number, len(regimes) - 1]
        return regimes


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows at ``places`` of a table that all regimes share: only a part at a time is copied."""

    table: Tensor
    places: Tensor

    @classmethod
    def all(cls, table: Tensor) -> _Rows:
        return cls(table, torch.arange(len(table), device=table.device))

    def __len__(self) -> int:
        return len(self.places)

    def column(self, number: int) -> Tensor:
        return self.table[:, number][self.places]

    def where(self, inside: Tensor) -> _Rows:
        return _Rows(self.table, self.places[inside])

    def parts(self) -> Iterator[Tensor]:
        yield from (self.table[places] for places in torch.split(self.places, ROWS_AT_ONCE))


@dataclass(frozen=True, eq=False)
class _Regime:
    """The rows of one regime, and the regression of column ``known`` on those before it."""

    training: _Rows
    validation: _Rows
    known: int
    coefficients: Tensor
    std: float

    @property
    def terms(self) -> int:
        return int((self.coefficients != 0).sum())

    def residual(self, rows: _Rows) -> Tensor:
        """(rows,)"""
        found = [part[:, self.known] - part[:, : self.known] @ self.coefficients for part in rows.parts()]
        return torch.cat(found)

    def log_density(self, rows: _Rows) -> Tensor:
        """(rows,)"""
        return log_normal(self.residual(rows), torch.tensor(math.log(self.std)))

    def refitted(self, inside: Tensor, inside_validation: Tensor) -> _Regime:
        """The regime of those rows alone: a sparse regression, or this one's with a spread of its own."""
        training, validation = self.training.where(inside), self.validation.where(inside_validation)
        products, count = moments(part[:, : self.known + 1] for part in training.parts())
        coefficients = sparse(products, self.known, count).to(self.coefficients)
        found = []
        for candidate in (coefficients, self.coefficients):
            regime = _Regime(training, validation, self.known, candidate, 1.0)
            free = count / max(1.0, count - regime.terms * (candidate is coefficients))
            std = max((regime.residual(training).square().mean() * free).sqrt().item(), LEAST_STD)
            found.append(_Regime(training, validation, self.known, candidate, std))
        own, same = found
        cost = 0.5 * math.log(count) * own.terms
        return own if count * math.log(same.std / own.std) > cost else same


@dataclass(frozen=True, eq=False)
class _Split:
    """Two regimes, and what they say of the threshold between them.

    ``edges`` (candidates,) with the probabilities ``shares``, all prior values being equally likely.
    """

    variable: int
    threshold: float
    below: _Regime
    above: _Regime
    edges: Tensor
    shares: Tensor

    @property
    def best(self) -> float:
        return self.edges[self.shares.argmax()].item()


def _best_split(regime: _Regime, splitters: Tensor) -> _Split | None:
    """The split that tells most, or None where none earns its parameters, in training and in validation."""
    place = _promising(regime, splitters)
    if place is None:
        return None
    variable, threshold = place
    split = _split_at(regime, variable, threshold)
    for _ in range(REFINEMENTS):
        if split.best == split.threshold:
            break
        split = _split_at(regime, variable, split.best)
    return split if _worthwhile(regime, split, len(splitters)) else None


def _split_at(regime: _Regime, variable: int, threshold: float) -> _Split:
    inside, held_out = (rows.column(variable) >= threshold for rows in (regime.training, regime.validation))
    below, above = regime.refitted(~inside, ~held_out), regime.refitted(inside, held_out)
    edges, shares = _edges(regime.training, variable, below, above)
    return _Split(variable, threshold, below, above, edges, shares)


def _promising(regime: _Regime, splitters: Tensor) -> tuple[int, float] | None:
    """The column and threshold at which the regression changes most, by score tests at tail quantiles.

    Let S be the rows above a threshold. If the regression does not change there, the score
    ``U_j = sum over S of r z_j`` of input j is about normal with the variance ``V_j = sum over S of z_j^2``
    (and that of the other side); what a coefficient of its own would gain is about ``U_j^2 / 2 V_j``.
    """
    rows, known = regime.training, regime.known
    if len(rows) < 2 * LEAST_ROWS or not len(splitters):
        return None
    residual, cuts = regime.residual(rows) / regime.std, _cuts(len(rows))
    thresholds = torch.stack([rows.column(int(column)).sort().values[cuts] for column in splitters], 1)
    everywhere = torch.full_like(thresholds[:1], -math.inf)
    total, *tails = (
        _Tail.of(rows, known, residual, splitters, limits) for limits in (*everywhere, *thresholds)
    )
    cost = 0.5 * math.log(len(rows)) + math.log(known)
    best, place = 0.0, None
    for tail, limits in zip(tails, thresholds, strict=True):
        gains = tail.gains(total, cost)
        found = int(gains.argmax())
        if gains[found] > best:
            best, place = gains[found].item(), (int(splitters[found]), limits[found].item())
    return place


def _cuts(count: int) -> list[int]:
    """Where to cut ``count`` ordered rows: at halves, quarters, eighths .. from both ends."""
    tails = [count >> power for power in range(1, count.bit_length()) if count >> power >= LEAST_ROWS]
    return sorted({*tails, *(count - tail for tail in tails)})


@dataclass(frozen=True, eq=False)
class _Tail:
    """Sums over the rows above a threshold, for each splitter that it may be a threshold of.

    ``count``, ``square`` (splitters,): rows, and squares of the standardised residual r.
    ``information``, ``score`` (splitters, inputs): sums of ``z_j^2`` and of ``r z_j``.
    """

    count: Tensor
    square: Tensor
    information: Tensor
    score: Tensor

    @classmethod
    def of(cls, rows: _Rows, known: int, residual: Tensor, splitters: Tensor, thresholds: Tensor) -> _Tail:
        sums = [residual.new_zeros(len(splitters), width) for width in (1, 1, known, known)]
        for part, left in zip(rows.parts(), torch.split(residual, ROWS_AT_ONCE), strict=True):
            above, inputs = (part[:, splitters] >= thresholds).to(part.dtype).mT, part[:, :known]
            sums[0] += above.sum(1, keepdim=True)
            sums[1] += above @ left.square()[:, None]
            sums[2] += above @ inputs.square()
            sums[3] += above @ (left[:, None] * inputs)
        return cls(sums[0][:, 0], sums[1][:, 0], sums[2], sums[3])

    def gains(self, total: _Tail, cost: float) -> Tensor:
        """(splitters,): what splitting at each would gain in log likelihood, about."""
        # What an input tells in all rows alike needs no split.
        score = self.score - self.information / total.information * total.score
        tiny = 1e-6 * total.information + 1e-12
        below = total.information - self.information
        information = 1 / self.information.clamp(min=tiny) + 1 / below.clamp(min=tiny)
        mean_gain = (0.5 * score.square() * information - cost).clamp(min=0).sum(1)
        rest, rest_square = total.count - self.count, total.square - self.square
        spread_gain = sum(
            0.5 * n * (s.clamp(min=1e-6) - 1 - s.clamp(min=1e-6).log())
            for n, s in (
                (self.count, self.square / self.count.clamp(min=1)),
                (rest, rest_square / rest.clamp(min=1)),
            )
        )
        enough = (self.count >= LEAST_ROWS) & (rest >= LEAST_ROWS)
        return torch.where(enough, mean_gain + spread_gain, 0.0)


def _edges(rows: _Rows, variable: int, below: _Regime, above: _Regime) -> tuple[Tensor, Tensor]:
    """The likeliest thresholds between neighbouring values of ``variable``, and the probability of each."""
    values, order = rows.column(variable).sort()
    gain = (below.log_density(rows) - above.log_density(rows))[order].to(torch.float64).cumsum(0)
    gain = gain[LEAST_ROWS - 1 : -LEAST_ROWS]
    lower, upper = values[LEAST_ROWS - 1 : -LEAST_ROWS], values[LEAST_ROWS : len(values) - LEAST_ROWS + 1]
    likelihood = gain + (upper - lower).log()  # minus infinity between equal values
    best = likelihood.topk(min(MOST_EDGES, len(likelihood)))
    return ((lower + upper) / 2)[best.indices], best.values.softmax(0).to(values.dtype)


def _worthwhile(regime: _Regime, split: _Split, n_splitters: int) -> bool:
    parts = (split.below, split.above)
    if min(len(part.training) for part in parts) < LEAST_ROWS:
        return False
    count = len(regime.training)
    parameters = max(1, sum(part.terms + 1 for part in parts) - regime.terms - 1)
    cost = 0.5 * parameters * math.log(count) + math.log(count * n_splitters)
    gained = sum(part.log_density(part.training).sum().item() for part in parts)
    gained -= regime.log_density(regime.training).sum().item()
    held_out = sum(part.log_density(part.validation).sum().item() for part in parts)
    held_out -= regime.log_density(regime.validation).sum().item()
    return gained > cost and held_out > 0


def log_normal(residual: Tensor, log_std: Tensor) -> Tensor:
    """The log density of N(0, std^2) at ``residual``."""
    return -0.5 * (residual * torch.exp(-log_std)).square() - log_std - 0.5 * LOG_2_PI
