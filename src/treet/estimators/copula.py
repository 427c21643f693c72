"""The estimator ``copula``: transfer entropy as a combination of copula entropies of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import digamma

from treet.checks import check_whole
from treet.errors import TreetError
from treet.estimators.base import Estimate, Floats, TransferEntropyEstimator
from treet.estimators.neighbours import Sweep, dimension, spaces
from treet.progress import progress
from treet.results import Unit
from treet.windows import Windows

WIDEST = 0.15
"""Share of a variable's range that a typical neighbourhood may span: beyond, details of the density blur."""
MOST_BY_TREE = 12
"""Variables up to which trees find the neighbours of 100,000 windows sooner than a sweep over all pairs."""
SIGNS = (-1, 1, 1, -1)
"""What the entropies count for, in the order of the spaces."""


class CopulaTE(TransferEntropyEstimator):
    """Transfer entropy by copula entropies (Copnet; Ma, "Estimating transfer entropy via copula entropy").

    A copula entropy ``H`` is the entropy of the ranks of several variables, minus their multi-information;
    that of one variable is 0. With ``p`` the past of the target and of the condition, and ``x`` that of the
    source,

        TE = I(y; x | p) = H(y, p) + H(x, p) - H(y, x, p) - H(p)

    Each is estimated from the ``neighbours``-th nearest neighbours in the max norm (Kozachenko and Leonenko):
    the mean over windows of ``psi(n) - psi(neighbours) + log volume`` of the cube that reaches that
    neighbour. Local values are the same combination for one window.

    Up to twelve variables in all, each is ranked among the windows, as published. Beyond, each channel is
    ranked once, among its time steps, and all its lags share these ranks: nearly the same values, and the
    neighbours of 100,000 windows are found in half a minute instead of hours.

    ``neighbours``   fewer mean less bias, more mean less noise.
    ``corrected``    count only the part of a neighbourhood that lies in the unit cube, where ranks lie, and
                     up to the middle of the last step, since ranks are whole. False is the published
                     estimate: its entropies are too high, and the transfer entropy is mostly too low.
    ``random_state`` decides the order of equal values; without ties nothing is random.

    >>> from treet.processes import Threshold
    >>> recording = Threshold().sample(2000, random_state=0)
    >>> estimator = CopulaTE(target_history=1, source_history=1, random_state=0)
    >>> estimator.fit(recording.select("x"), recording.select("y")).te_ > 0.3
    True
    """

    name: ClassVar[str] = "copula"
    summary: ClassVar[str] = "four copula entropies of ranks, by nearest neighbours (Copnet)"
    assumes: ClassVar[str] = "a stationary process of continuous values; few variables in all"
    cost: ClassVar[str] = "half a second at 10,000 samples, half a minute at 100,000, whatever the history"
    use_when: ClassVar[str] = "histories are short and the scales of the series are odd or heavy-tailed"

    def __init__(
        self,
        memory: int | None = None,
        target_history: int | None = None,
        source_history: int | None = None,
        delay: int | None = None,
        condition_history: int | None = None,
        *,
        neighbours: int = 3,
        corrected: bool = True,
        unit: Unit = "nats",
        confidence: float = 0.95,
        random_state: int | None = None,
    ) -> None:
        self.memory = memory
        self.target_history = target_history
        self.source_history = source_history
        self.delay = delay
        self.condition_history = condition_history
        self.neighbours = neighbours
        self.corrected = corrected
        self.unit = unit
        self.confidence = confidence
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_whole("neighbours", self.neighbours, 1)
        if not isinstance(self.corrected, bool):
            raise TreetError(f"corrected must be True or False. Got {self.corrected!r} instead.")

    def _estimate(self, windows: Windows) -> Estimate:
        if len(windows) <= self.neighbours:
            raise TreetError(
                f"neighbours={self.neighbours} needs more windows than that. Got {len(windows)}: "
                "use fewer neighbours or a longer recording."
            )
        # A stream of its own: data may have been drawn with the same seed.
        generator = np.random.default_rng(np.random.SeedSequence(self.random_state).spawn(1)[0])
        search = _search_trees if dimension(windows) <= MOST_BY_TREE else _sweep_pairs
        local = np.zeros(len(windows))
        for sign, found in zip(SIGNS, search(_ranked(windows, generator), self.neighbours), strict=True):
            local += sign * self._local_entropy(found)
        return Estimate(te=float(local.mean()), local=local, notes=_doubts(found))

    def _local_entropy(self, found: _Found) -> Floats:
        """(windows,): values whose mean is the copula entropy of the columns."""
        n, columns = found.ranks.shape
        if columns == 1:
            return np.zeros(n)
        log_volume = columns * np.log(2 * found.reach)
        if self.corrected:
            reach = found.reach - 0.5 * found.step
            sides = (np.minimum(1, ranks + reach) - np.maximum(0, ranks - reach) for ranks in found.ranks.T)
            log_volume = sum((np.log(side) for side in sides), start=np.zeros(n))
        return np.asarray(digamma(n) - digamma(self.neighbours) + log_volume)


class _Found(NamedTuple):
    """What a search finds in one space.

    ``ranks``  (windows, columns): the points, in the unit cube.
    ``reach``  (windows,): how far the last of the nearest neighbours is, in the max norm.
    ``step``   the smallest difference of two ranks.
    """

    ranks: Floats
    reach: Floats
    step: float


def _search_trees(ranked: Windows, neighbours: int) -> Iterator[_Found]:
    """By a k-d tree in each space, of ranks among the windows in each column as in the published estimate."""
    with progress("neighbours", len(SIGNS)) as advance:
        for points in spaces(ranked):
            ranks = np.column_stack([_ranks(column) for column in points.T])
            distances, _ = cKDTree(ranks).query(ranks, [neighbours + 1], p=np.inf, workers=-1)
            yield _Found(ranks, distances[:, 0], 1 / len(ranks))
            advance(1)


def _sweep_pairs(ranked: Windows, neighbours: int) -> Iterator[_Found]:
    """By all pairs in all spaces at once, of ranks on the time axis, so that lags of a channel share them."""
    sweep = Sweep.over(ranked)
    with progress("neighbours", sweep.time) as advance:
        reaches = sweep.nearest(neighbours, range(len(SIGNS)), advance)
    for points, reach in zip(spaces(ranked), reaches[:, ranked.valid].astype(np.float64), strict=True):
        yield _Found(points, reach, 1 / sweep.time)


def _ranked(windows: Windows, generator: np.random.Generator) -> Windows:
    """The same windows of each channel's ranks among the time steps that are there."""
    values = windows.values.copy()
    for channel in values.T:
        there = np.isfinite(channel)
        channel[there] = _ranks(channel[there], generator.random(there.sum()))
    return replace(windows, values=values)


def _ranks(*keys: Floats) -> Floats:
    """(values,): ranks by the first key, then by the next, in the middle of equal cells of the unit interval.

    >>> _ranks(np.array([30.0, 10.0, 20.0, 40.0])).tolist()
    [0.625, 0.125, 0.375, 0.875]
    """
    ranks = np.empty(len(keys[0]))
    ranks[np.lexsort(keys[::-1])] = np.arange(len(ranks)) + 0.5
    return ranks / len(ranks)


def _doubts(found: _Found) -> tuple[str, ...]:
    width = 2 * float(np.median(found.reach))
    if width <= WIDEST:
        return ()
    return (
        f"The nearest neighbours of a window span {width:.0%} of the range of each of {found.ranks.shape[1]} "
        "variables: too few windows for so many. What varies within that is not seen, and the value is "
        "biased, mostly towards zero. Use shorter histories, a longer recording or another estimator.",
    )
