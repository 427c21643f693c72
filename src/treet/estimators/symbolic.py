"""The estimator ``symbolic``: transfer entropy between the ordinal patterns of continuous series."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from treet.checks import check_whole
from treet.data import Recording
from treet.errors import TreetError
from treet.estimators.base import Estimate, Floats, TransferEntropyEstimator
from treet.estimators.discrete import DiscreteTE
from treet.lags import Lags
from treet.results import Unit
from treet.windows import Windows

# 10! is 3.6 million patterns: longer ones hardly occur twice.
LONGEST_PATTERN = 10


class SymbolicTE(TransferEntropyEstimator):
    """Transfer entropy between ordinal patterns (Bandt and Pompe 2002; Staniek and Lehnertz 2008).

        TE = I(Y_t ; X_{t-delay}, .. | Y_{t-1}, .., Z past),   Y_t = the order of y_t, y_{t-step}, ..

    Every channel becomes a series of patterns, and ``DiscreteTE`` takes those: its ``correction``, its
    ``permutations``, its intervals and notes. A strictly increasing function of a channel changes nothing.

    ``order``  values in a pattern, 2 to 10: there are order! patterns, so 3 with histories of 1 is where to
               start, and 4 wants some ten thousand samples.
    ``step``   time steps between the values of a pattern.

    The value is that of the patterns, not of the series: how much the source's patterns tell about the order
    of the target's values, at most ``log(order!)``, and it need not grow with the coupling. Patterns overlap
    in time, which has two consequences. With ``step=1`` the target's last pattern shares ``order - 1`` values
    with its present one, so that only the rank of the newest value is left to tell, at most ``log(order)``.
    And a lag of patterns reaches further back than it says: the source is seen from lag ``delay`` to lag
    ``delay + source_history - 1 + (order - 1) step``. A coupling at one lag is found at all delays less than
    ``order * step`` away from it, most clearly at its own: between white series coupled at lag 5, 0.09, 0.18,
    0.24, 0.01, 0.02 nats at the delays 3 to 7.

    Patterns also leave out part of the past: how large a series' last values were. Another series that shows
    it tells about the next pattern, without driving it. Against the coupling, from target to source, TE of
    the series is 0 and that of the patterns is not, 0.009 nats where the coupled direction has 0.046
    (``BivariateLinear``, order 3, histories 1): compare both directions, and do not take a small p-value in
    one of them for a coupling.

    >>> from treet.processes import BivariateLinear
    >>> recording = BivariateLinear().sample(3000, random_state=0)
    >>> estimator = SymbolicTE(target_history=1, source_history=1, random_state=0)
    >>> estimator.fit(recording.select("x"), recording.select("y")).result_.p_value < 0.01
    True
    """

    name: ClassVar[str] = "symbolic"
    summary: ClassVar[str] = "ordinal patterns of continuous series, then counts"
    assumes: ClassVar[str] = "that the order of neighbouring values tells what matters; short histories"
    cost: ClassVar[str] = "milliseconds; linear in the samples, the history and the permutations"
    use_when: ClassVar[str] = "series drift, are on unknown scales or have outliers; a fast first look"

    def __init__(
        self,
        memory: int | None = None,
        target_history: int | None = None,
        source_history: int | None = None,
        delay: int | None = None,
        condition_history: int | None = None,
        *,
        order: int = 3,
        step: int = 1,
        correction: str = "adjusted",
        permutations: int = 200,
        unit: Unit = "nats",
        confidence: float = 0.95,
        random_state: int | None = None,
    ) -> None:
        self.memory = memory
        self.target_history = target_history
        self.source_history = source_history
        self.delay = delay
        self.condition_history = condition_history
        self.order = order
        self.step = step
        self.correction = correction
        self.permutations = permutations
        self.unit = unit
        self.confidence = confidence
        self.random_state = random_state

    def _check_parameters(self) -> None:
        if check_whole("order", self.order, 2) > LONGEST_PATTERN:
            raise TreetError(
                f"order must be at most {LONGEST_PATTERN}, for there are order! patterns. "
                f"Got {self.order} instead."
            )
        check_whole("step", self.step, 1)
        self._discrete()._check_parameters()

    def _discrete(self) -> DiscreteTE:
        return DiscreteTE(
            correction=self.correction, permutations=self.permutations, random_state=self.random_state
        )

    def _windows(self, source: Any, target: Any, condition: Any, lags: Lags, least_span: int = 0) -> Windows:
        sources, targets, conditions = self.recordings(source, target, condition)
        patterns = self._patterns(sources, "source"), self._patterns(targets, "target")
        of_condition = None if conditions is None else self._patterns(conditions, "condition")
        return Windows.of(*patterns, of_condition, lags, least_span)

    def _patterns(self, recording: Recording, role: str) -> Recording:
        trials = tuple(ordinal_patterns(trial, self.order, self.step) for trial in recording.trials)
        line = np.concatenate(trials)
        lowest, highest = np.fmin.reduce(line), np.fmax.reduce(line)
        for name, low, high in zip(recording.names, lowest, highest, strict=True):
            if not low < high:
                raise TreetError(
                    f"Channel {name!r} ({role}) has fewer than two ordinal patterns of order {self.order} "
                    f"and step {self.step}, so it carries no information: it only rises, only falls, or has "
                    f"no stretch of {(self.order - 1) * self.step + 1} values without a gap. "
                    "Use its differences or leave it out."
                )
        return replace(recording, trials=trials)

    def _estimate(self, windows: Windows) -> Estimate:
        return self._discrete()._estimate(windows)


def ordinal_patterns(values: Floats, order: int, step: int = 1) -> Floats:
    """(time, channels): at each time the code of the order of the values at t, t - step, .., 0 .. order! - 1.

    The code's digits, in the factorial number system, say for each value from the oldest on how many newer
    ones are smaller: 0 where the values rise. Of equal values the older one counts as the smaller. NaN where
    one of the values is missing or before the start.

    >>> ordinal_patterns(np.array([[1.0], [2.0], [3.0], [0.0], [0.0]]), order=3)[:, 0]
    array([nan, nan,  0.,  3.,  4.])
    """
    reach = (order - 1) * step
    codes = np.full(values.shape, math.nan)
    if len(values) <= reach:
        return codes
    from_oldest = [values[lag : len(values) - reach + lag] for lag in range(0, reach + 1, step)]
    code = np.zeros(from_oldest[0].shape)
    for index, value in enumerate(from_oldest):
        smaller = sum((value > newer for newer in from_oldest[index + 1 :]), np.zeros(value.shape, np.int64))
        code = code * (order - index) + smaller
    codes[reach:] = np.where(np.isnan(sum(from_oldest)), math.nan, code)
    return codes
