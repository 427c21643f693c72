"""The paper's pair: critics with attention, on sequences."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from treet.estimators.drawn_pair import DrawnPair
from treet.lags import Lags
from treet.nn.paper_critic import PaperCritic


class PaperPair(DrawnPair):
    """The paper's critics, trained until the transfer entropy has settled."""

    sequence: ClassVar[int] = 30

    def _critic(self, lags: Lags, target: int, source: int, condition: int) -> PaperCritic:
        heads, width = self.settings.heads, self.settings.width
        return PaperCritic(lags, target, source, condition, heads=heads, width=width, feedforward=2 * width)

    def _watched(self, y: Tensor, xy: Tensor) -> Tensor:
        return y - xy
