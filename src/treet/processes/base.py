"""The contract of every process: samples of a coupled series, and the transfer entropy that they have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treet.checks import check_whole
from treet.data import Recording
from treet.errors import TreetError
from treet.lags import Lags
from treet.windows import Windows

Floats = NDArray[np.float64]
RandomState = int | np.random.Generator | None


def check_random_state(random_state: RandomState) -> np.random.Generator:
    """A generator from a seed, a generator or None."""
    if random_state is None or isinstance(random_state, np.random.Generator):
        return np.random.default_rng(random_state)
    return np.random.default_rng(check_whole("random_state", random_state, 0))


def numbered(letter: str, count: int) -> tuple[str, ...]:
    """``x`` for one channel, ``x1, x2, ..`` for more."""
    return (letter,) if count == 1 else tuple(f"{letter}{i + 1}" for i in range(count))


@dataclass(frozen=True)
class Direction:
    """Which channels drive which, given which: checked names."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    condition: tuple[str, ...] = ()


class Process(ABC):
    """A stationary process with a known coupling ``source_names -> target_names``.

    Subclasses are frozen dataclasses that check their parameters, draw one stationary trial in ``_trial`` and
    know the transfer entropy of any direction in ``_transfer_entropy``.
    """

    @property
    @abstractmethod
    def source_names(self) -> tuple[str, ...]:
        """The channels that drive."""

    @property
    @abstractmethod
    def target_names(self) -> tuple[str, ...]:
        """The channels that are driven."""

    @property
    def names(self) -> tuple[str, ...]:
        """All channels, in the order of a sample's columns."""
        return self.source_names + self.target_names

    @abstractmethod
    def _trial(self, n_samples: int, generator: np.random.Generator) -> Floats:
        """One stationary trial, (n_samples, channels)."""

    @abstractmethod
    def _transfer_entropy(self, lags: Lags, direction: Direction) -> float | None:
        """The exact transfer entropy in nats, or None where no closed form is known."""

    def sample(self, n_samples: int, random_state: RandomState = None, n_trials: int = 1) -> Recording:
        """Independent stationary trials of ``n_samples`` time steps each; a seed gives them again."""
        n_samples = check_whole("n_samples", n_samples, 1)
        n_trials = check_whole("n_trials", n_trials, 1)
        generator = check_random_state(random_state)
        trials = tuple(self._trial(n_samples, generator) for _ in range(n_trials))
        return Recording(trials=trials, names=self.names)

    def transfer_entropy(
        self,
        lags: Lags,
        source: str | Sequence[str] | None = None,
        target: str | Sequence[str] | None = None,
        condition: str | Sequence[str] | None = None,
    ) -> float | None:
        """The exact transfer entropy ``source -> target | condition`` in nats under ``lags``.

        Channels are named; the coupled direction is the default. None where no exact value is known.
        """
        return self._transfer_entropy(lags, self._direction(source, target, condition))

    def local_variance(self, lags: Lags) -> float | None:
        """The variance of the local values of the coupled direction, or None where it is not known.

        ``sqrt(local_variance / n)`` is the oracle's standard error: that of the mean of ``n`` exact local
        values, taken as uncorrelated.
        """
        return None

    def local_transfer_entropy(self, recording: Recording, lags: Lags) -> tuple[Floats, ...] | None:
        """The exact local transfer entropy of the coupled direction at every time step of ``recording``.

        One array a trial, (time,), NaN where a time step has not its whole past; None where it is not known.
        """
        source, target = recording.select(self.source_names), recording.select(self.target_names)
        windows = Windows.of(source, target, None, lags)
        local = self._local_values(windows)
        return None if local is None else windows.on_time_axis(local)

    def _local_values(self, windows: Windows) -> Floats | None:
        """(windows,): exact local values of the coupled direction, or None where they are not known."""
        return None

    def _direction(
        self,
        source: str | Sequence[str] | None,
        target: str | Sequence[str] | None,
        condition: str | Sequence[str] | None,
    ) -> Direction:
        direction = Direction(
            self._channels("source", self.source_names if source is None else source),
            self._channels("target", self.target_names if target is None else target),
            () if condition is None else self._channels("condition", condition),
        )
        chosen = direction.source + direction.target + direction.condition
        repeated = sorted({name for name in chosen if chosen.count(name) > 1})
        if repeated:
            raise TreetError(
                f"Each channel can have one role only. Got {', '.join(repeated)} more than once: "
                f"name source, target and condition without overlap."
            )
        return direction

    def _channels(self, role: str, names: str | Sequence[str]) -> tuple[str, ...]:
        chosen = (names,) if isinstance(names, str) else tuple(names)
        unknown = [name for name in chosen if name not in self.names]
        if unknown or not chosen:
            raise TreetError(
                f"{role} must name one or more of the channels {', '.join(self.names)}. "
                f"Got {', '.join(map(repr, unknown)) or 'none'} instead."
            )
        return chosen
