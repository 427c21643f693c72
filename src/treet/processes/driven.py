"""What is exact for every target that an independent source drives at lag 1."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from treet.lags import Lags
from treet.processes.base import Direction, Floats, Process
from treet.windows import Windows


class Driven(Process):
    """An i.i.d. source ``X`` drives a first-order target: ``Y_t = F(Y_{t-1}, X_{t-1}, noise_t)``.

    With noise independent of all that came before, three facts hold under every ``Lags``:

    - Given ``y_{t-1}`` and ``x_{t-1}`` the law of ``Y_t`` depends on nothing older, and ``X_{t-1}`` enters
      nothing before ``Y_t``. So with source lag 1 the transfer entropy is ``I(Y_t; X_{t-1} | Y_{t-1})``,
      whatever else is seen.
    - Without source lag 1 it is exactly 0: ``X_{t-1}`` is independent of all that is seen, so the law of
      ``Y_t`` given ``y_{t-1}`` and anything but ``x_{t-1}`` is its law given ``y_{t-1}``.
    - ``Y -> X`` is exactly 0, at delay 0 as well: ``X_t`` is independent of ``Y_t, Y_{t-1}, ..``.

    A process may hold several independent pairs: transfer entropies add up over the pairs ``x -> y`` of which
    the one is in the source and the other in the target.
    """

    @property
    def _pairs(self) -> tuple[tuple[str, str], ...]:
        """The coupled channels: (source, target)."""
        return tuple(zip(self.source_names, self.target_names, strict=False))

    @abstractmethod
    def _pair_value(self) -> float:
        """``I(Y_t; X_{t-1} | Y_{t-1})`` of one pair."""

    def _pair_variance(self) -> float | None:
        """The variance of the local values of one pair."""
        return None

    def _pair_local(self, present: Floats, target_past: Floats, source_past: Floats) -> Floats | None:
        """``log p(y_t | y_{t-1}, x_{t-1}) - log p(y_t | y_{t-1})`` from ``y_t``, ``y_{t-1}``, ``x_{t-1}``.

        All arrays are (windows, pairs).
        """
        return None

    def _transfer_entropy(self, lags: Lags, direction: Direction) -> float:
        seen = [pair for pair in self._pairs if pair[0] in direction.source and pair[1] in direction.target]
        return len(seen) * self._pair_value() if seen and 1 in lags.source_lags else 0.0

    def local_variance(self, lags: Lags) -> float | None:
        if 1 not in lags.source_lags:
            return 0.0
        variance = self._pair_variance()
        return None if variance is None else len(self._pairs) * variance

    def _local_values(self, windows: Windows) -> Floats | None:
        if 1 not in windows.lags.source_lags:
            return np.zeros(len(windows))
        newest = windows.lags.source_lags.index(1)
        source_past = windows.past("source")[:, newest, : len(self._pairs)]
        local = self._pair_local(windows.present(), windows.past("target")[:, 0], source_past)
        return None if local is None else local.sum(axis=1)
