"""The published critic: values of all series in one token, sinusoidal positions, one attention layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from treet.lags import Lags
from treet.nn.attention import FixedPastTransformer
from treet.nn.tokens import TokenCritic


def sinusoids(length: int, width: int) -> Tensor:
    """(length, width), float64: sin(i / 10000^(2j / width)) in column 2j and the cosine in column 2j + 1.

    >>> sinusoids(1, 4).tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """
    rate = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * rate
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width]


class PaperCritic(TokenCritic):
    """Scores of a real and of reference present values of the target after one and the same past.

    The network of the paper: a token holds the values of all series at one time step; a linear embedding and
    a sinusoidal position within the sequence; one layer of fixed past causal attention with Add & Norm and a
    feed-forward net with ELU; a dense map to one score. In a reference draw only the target's value in the
    present token is replaced: ``[y~_t, x_t]``.

    The critic of Y has ``source_width=0``. It obeys any ``Lags``: the other series are moved so that they can
    share tokens with the target, and a value outside its series' history is zero, the mean of standardised
    data. Where the histories differ (``shares_past`` is false), one token cannot serve all windows, and each
    window is embedded on its own, at memory times the storage; ``memory=l`` and equal histories share.

    Inputs and outputs are those of ``TokenCritic``, where ``span`` is ``memory`` for the paper's lags.
    Positions are absolute: score with the sequence length of training.

    >>> critic = PaperCritic(Lags.from_memory(3), target_width=1, source_width=2)
    >>> y, x, reference = torch.randn(4, 3 + 10, 1), torch.randn(4, 3 + 10, 2), torch.rand(4, 10, 5, 1)
    >>> real, drawn = critic(y, x, reference)
    >>> real.shape, drawn.shape, critic.weights(y, x).shape
    (torch.Size([4, 10]), torch.Size([4, 10, 5]), torch.Size([4, 10, 1, 4]))
    """

    def __init__(
        self,
        lags: Lags,
        target_width: int,
        source_width: int = 0,
        condition_width: int = 0,
        *,
        width: int = 32,
        heads: int = 1,
        feedforward: int = 64,
    ) -> None:
        # Where the present may not see x_t, token t-1 holds the newest value that it may see.
        shift = max(lags.delay - 1, 0)
        super().__init__(lags, target_width, source_width, condition_width, shift=shift)
        self.shares_past = bool(self.seen[:-1].all())
        self.embedding = nn.Linear(target_width + self.other_width, width)
        self.transformer = FixedPastTransformer(width, heads, self.memory, feedforward)
        self.score = nn.Linear(width, 1)

    def forward(
        self, tokens_y: Tensor, tokens_other: Tensor | None, reference: Tensor
    ) -> tuple[Tensor, Tensor]:
        values = self._values(tokens_y, tokens_other)
        drawn = self._real_and(reference, values)
        scores = self.score(self.transformer(*self._embedded(values, drawn)))
        scores = scores.reshape(drawn.shape[:3])
        return scores[..., 0], scores[..., 1:]

    def weights(self, tokens_y: Tensor, tokens_other: Tensor | None) -> Tensor:
        """(batch, length, heads, memory + 1): attention of the real pass, oldest first, present last."""
        values = self._values(tokens_y, tokens_other)
        present = values[:, self.memory :, None, : self.target_width]
        found = self.transformer.weights(*self._embedded(values, present))[0]
        return found.reshape(*present.shape[:2], *found.shape[-2:])

    def _embedded(self, values: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
        """Past and present tokens for the transformer; one row a window unless windows share their past."""
        positions = sinusoids(values.shape[1], self.score.in_features).to(values)
        present = self.embedding(self._presents(values, drawn)) + positions[self.memory :, None]
        if self.shares_past:
            return self.embedding(values[:, :-1]) + positions[:-1], present
        windows = values[:, :-1].unfold(1, self.memory, 1).mT * self.seen[:-1]
        past = self.embedding(windows) + positions[:-1].unfold(0, self.memory, 1).mT
        return past.flatten(0, 1), present.flatten(0, 1)[:, None]
