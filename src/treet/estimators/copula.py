"""The estimator ``copula``: transfer entropy as a combination of copula entropies of ranks."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import digamma

from treet.checks import check_whole
from treet.errors import TreetError
from treet.estimators.base import Estimate, Floats, TransferEntropyEstimator
from treet.progress import progress
from treet.results import Unit
from treet.windows import Windows

WIDEST = 0.15
"""Share of a variable's range that a typical neighbourhood may span: beyond, details of the density blur."""


class CopulaTE(TransferEntropyEstimator):
    """Transfer entropy by copula entropies (Copnet; Ma, "Estimating transfer entropy via copula entropy").

    A copula entropy ``H`` is the entropy of the ranks of several variables, minus their multi-information;
    that of one variable is 0. With ``p`` the past of the target and of the condition, and ``x`` that of the
    source,

        TE = I(y; x | p) = H(y, p) + H(x, p) - H(y, x, p) - H(p)

    Each is estimated from the ``neighbours``-th nearest neighbours in the max norm (Kozachenko and Leonenko):
    the mean over windows of ``psi(n) - psi(neighbours) + log volume`` of the cube that reaches that
    neighbour. Local values are the same combination for one window.

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
    cost: ClassVar[str] = "seconds for some ten thousand windows of few variables; slow in many"
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
        present, past, source = self._ranks(windows)
        terms = {
            "y": (1, np.hstack([present, past])),
            "x": (1, np.hstack([source, past])),
            "all": (-1, np.hstack([present, source, past])),
            "past": (-1, past),
        }
        names = windows.names
        label = f"{', '.join(names['source'])} -> {', '.join(names['target'])}"
        local = np.zeros(len(windows))
        notes: tuple[str, ...] = ()
        with progress(label, len(terms)) as advance:
            for term, (sign, ranks) in terms.items():
                reach = self._reach(ranks)
                local += sign * self._local_entropy(ranks, reach)
                notes += self._doubts(ranks, reach) if term == "all" else ()
                advance(1)
        return Estimate(te=float(local.mean()), local=local, notes=notes)

    def _ranks(self, windows: Windows) -> tuple[Floats, Floats, Floats]:
        """Ranks of the present, of the past that is conditioned on, and of the source: (windows, columns)."""
        # A stream of its own: data may have been drawn with the same seed.
        generator = np.random.default_rng(np.random.SeedSequence(self.random_state).spawn(1)[0])
        past = np.hstack([windows.flat_past("target"), windows.flat_past("condition")])
        blocks = (windows.present(), past, windows.flat_past("source"))
        present, past, source = (
            np.column_stack([_ranks(column, generator) for column in block.T]) for block in blocks
        )
        return present, past, source

    def _reach(self, ranks: Floats) -> Floats:
        """(windows,): how far the last of the nearest neighbours is, in the max norm."""
        distances, _ = cKDTree(ranks).query(ranks, [self.neighbours + 1], p=np.inf, workers=-1)
        reach: Floats = distances[:, 0]
        return reach

    def _local_entropy(self, ranks: Floats, reach: Floats) -> Floats:
        """(windows,): values whose mean is the copula entropy of the columns."""
        n, columns = ranks.shape
        if columns == 1:
            return np.zeros(n)
        log_volume = columns * np.log(2 * reach)
        if self.corrected:
            reach = reach - 0.5 / n
            side = np.minimum(1, ranks + reach[:, None]) - np.maximum(0, ranks - reach[:, None])
            log_volume = np.log(side).sum(axis=1)
        return np.asarray(digamma(n) - digamma(self.neighbours) + log_volume)

    def _doubts(self, ranks: Floats, reach: Floats) -> tuple[str, ...]:
        width = 2 * float(np.median(reach))
        if width <= WIDEST:
            return ()
        return (
            f"The nearest neighbours of a window span {width:.0%} of the range of each of {ranks.shape[1]} "
            f"variables: too few windows for so many. What varies within that is not seen, and the value is "
            "biased, mostly towards zero. Use shorter histories, a longer recording or another estimator.",
        )


def _ranks(column: Floats, generator: np.random.Generator) -> Floats:
    """(windows,): ranks in the middle of ``n`` equal cells of the unit interval; equal values in any order.

    >>> _ranks(np.array([30.0, 10.0, 20.0, 40.0]), np.random.default_rng(0)).tolist()
    [0.625, 0.125, 0.375, 0.875]
    """
    ranks = np.empty(len(column))
    ranks[np.lexsort((generator.random(len(column)), column))] = np.arange(len(column)) + 0.5
    return ranks / len(column)
