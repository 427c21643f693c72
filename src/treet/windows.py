"""Windows of a recording: which present values have their whole past, and strided views of that past."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from treet.data import Recording, check_same_shape
from treet.errors import TreetError
from treet.lags import Lags

Role = Literal["target", "source", "condition"]
ROLES: tuple[Role, ...] = ("target", "source", "condition")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Windows:
    """Every window of a recording, on one time axis with the trials one after another.

    ``values``  (time, channels): target channels, then source, then condition; NaN is a gap.
    ``trial``   (time,): the number of the trial that each time step belongs to.
    ``valid``   (time,): true where ``values[t]`` of the target and its whole past under ``lags`` are there.

    A window never spans two trials or a gap. Arrays are read-only views where the input allows it. With
    ``least_span`` every window has so many time steps before it that are complete in all channels, so that
    lags that differ can be compared on the same windows.
    """

    values: Floats
    trial: NDArray[np.int64]
    valid: NDArray[np.bool_]
    lags: Lags
    names: dict[Role, tuple[str, ...]]
    least_span: int = 0

    @classmethod
    def of(
        cls,
        source: Recording | None,
        target: Recording,
        condition: Recording | None,
        lags: Lags,
        least_span: int = 0,
    ) -> Windows:
        """The windows of aligned recordings; raises where none has its whole past.

        Without a ``source`` the lags are ``SourcelessLags``.
        """
        given = {"target": target, "source": source, "condition": condition}
        parts = {role: part for role, part in given.items() if part is not None}
        check_same_shape(parts)
        if condition is None and lags.condition_history is not None:
            raise TreetError(
                f"condition_history={lags.condition_history} was given without a condition. "
                "Leave it out or give a condition."
            )
        values = np.concatenate([np.concatenate(part.trials) for part in parts.values()], axis=1)
        lengths = [len(trial) for trial in target.trials]
        trial = np.repeat(np.arange(len(lengths)), lengths)
        names: dict[Role, tuple[str, ...]] = {
            role: parts[role].names if role in parts else () for role in ROLES
        }
        windows = cls(values, trial, np.zeros(len(values), bool), lags, names, least_span)
        object.__setattr__(windows, "valid", windows._find_valid())
        windows._check_enough(max(lengths))
        for array in (windows.values, windows.trial, windows.valid):
            array.flags.writeable = False
        return windows

    def _find_valid(self) -> NDArray[np.bool_]:
        valid = self._same_trial() & self._complete("target", range(1))
        for role in ROLES:
            lags = range(self.span + 1) if self.least_span else self.lags.of(role)
            if self.width(role) and lags:
                valid &= self._complete(role, lags)
        return valid

    def _complete(self, role: Role, lags: range) -> NDArray[np.bool_]:
        """Where no value of ``role`` is missing at any of ``lags``: none is counted between the ends."""
        there = np.asarray(np.isfinite(self.values[:, self.columns(role)]).all(axis=1))
        missing = np.r_[0, np.cumsum(~there)]
        complete = np.zeros(len(self.values), np.bool_)
        newest, oldest = lags[0], lags[-1]
        after = missing[oldest - newest + 1 : max(0, len(missing) - newest)]
        complete[oldest:] = after == missing[: len(after)]
        return complete

    def _same_trial(self) -> NDArray[np.bool_]:
        """Where the time step ``span`` earlier lies in the same trial."""
        same = np.zeros(len(self.trial), bool)
        same[self.span :] = self.trial[self.span :] == self.trial[: max(0, len(self.trial) - self.span)]
        return same

    def _check_enough(self, longest: int) -> None:
        needed = self.span + 2
        if len(self) >= 2:
            return
        if longest < needed:
            raise TreetError(
                f"The recording is too short for these lags ({self.lags}): they need at least {needed} "
                f"samples in a row. Got {longest}. Use a shorter history or a longer recording."
            )
        where = " in any channel" if self.least_span else ""
        raise TreetError(
            f"No stretch without a gap{where} is long enough for these lags ({self.lags}): they need at "
            f"least {needed} samples in a row without NaN. Use a shorter history or fill the gaps."
        )

    @property
    def span(self) -> int:
        """How far back a window reaches."""
        return max(self.lags.span, self.least_span)

    def width(self, role: Role) -> int:
        """How many channels ``role`` has."""
        return len(self.names[role])

    def columns(self, role: Role) -> slice:
        """Where the channels of ``role`` stand in ``values``."""
        start = sum(self.width(other) for other in ROLES[: ROLES.index(role)])
        return slice(start, start + self.width(role))

    def __len__(self) -> int:
        return int(self.valid.sum())

    @property
    def positions(self) -> NDArray[np.int64]:
        """(windows,): the time step of each window's present value."""
        return np.flatnonzero(self.valid)

    def present(self) -> Floats:
        """(windows, target channels): the present value of the target in each window."""
        return self.values[self.valid, self.columns("target")]

    def past(self, role: Role) -> Floats:
        """(windows, lags, channels): the past of ``role``, newest first as in ``lags.of(role)``."""
        lags = np.asarray(self.lags.of(role)) if self.width(role) else np.zeros(0, int)
        past: Floats = self.values[:, self.columns(role)][self.positions[:, None] - lags]
        return past

    def flat_past(self, role: Role) -> Floats:
        """(windows, lags x channels): ``past`` with one row a window."""
        past = self.past(role)
        return past.reshape(len(past), past.shape[1] * past.shape[2])

    def on_time_axis(self, per_window: Sequence[float] | Floats) -> tuple[Floats, ...]:
        """One array a trial, (time,), with NaN where a time step has no window."""
        line = np.full(len(self.values), np.nan)
        line[self.valid] = per_window
        edges = np.flatnonzero(np.diff(self.trial)) + 1
        return tuple(np.split(line, edges))
