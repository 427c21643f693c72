"""The pair of DINE: recurrent critics, on single windows."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from treet.estimators.drawn_pair import DrawnPair
from treet.lags import Lags
from treet.nn.recurrent import RecurrentCritic


class RecurrentPair(DrawnPair):
    """Recurrent critics; a window has a state of its own, so neighbours would only repeat each other."""

    sequence: ClassVar[int] = 1

    def _critic(self, lags: Lags, target: int, source: int, condition: int) -> RecurrentCritic:
        width = self.settings.width
        return RecurrentCritic(lags, target, source, condition, width=width, feedforward=2 * width)

    def _watched(self, y: Tensor, xy: Tensor) -> Tensor:
        # The best weights are kept: by the difference they would be those of the worst critic of Y.
        return -y - xy
