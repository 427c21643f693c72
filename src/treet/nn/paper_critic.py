"""The published critic: values of all series in one token, sinusoidal positions, one attention layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from treet.errors import TreetError
from treet.lags import Lags
from treet.nn.attention import FixedPastTransformer


def sinusoids(length: int, width: int) -> Tensor:
    """(length, width), float64: sin(i / 10000^(2j / width)) in column 2j and the cosine in column 2j + 1.

    >>> sinusoids(1, 4).tolist()
    [[0.0, 1.0, 0.0, 1.0]]
    """
    rate = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angle = torch.arange(length, dtype=torch.float64)[:, None] * rate
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width]


class PaperCritic(nn.Module):
    """Scores of a real and of reference present values of the target after one and the same past.

    The network of the paper: a token holds the values of all series at one time step; a linear embedding and
    a sinusoidal position within the sequence; one layer of fixed past causal attention with Add & Norm and a
    feed-forward net with ELU; a dense map to one score. In a reference draw only the target's value in the
    present token is replaced: ``[y~_t, x_t]``.

    The critic of Y has ``source_width=0``. It obeys any ``Lags``: the other series are moved so that they can
    share tokens with the target, and a value outside its series' history is zero, the mean of standardised
    data. Where the histories differ (``shares_past`` is false), one token cannot serve all windows, and each
    window is embedded on its own, at memory times the storage; ``memory=l`` and equal histories share.

    With ``span = lags.span`` (``memory`` for the paper's lags) plain aligned segments of a recording go in:

    ``tokens_y``      (batch, span + length, target channels)
    ``tokens_other``  (batch, span + length, source channels + condition channels), or None
    ``reference``     (batch, length, draws, target channels)
    output            (batch, length) real scores and (batch, length, draws) reference scores.

    Positions are absolute: score with the sequence length of training.

    >>> critic = PaperCritic(Lags.from_memory(3), target_width=1, source_width=2)
    >>> y, x, reference = torch.randn(4, 3 + 10, 1), torch.randn(4, 3 + 10, 2), torch.rand(4, 10, 5, 1)
    >>> real, drawn = critic(y, x, reference)
    >>> real.shape, drawn.shape, critic.weights(y, x).shape
    (torch.Size([4, 10]), torch.Size([4, 10, 5]), torch.Size([4, 10, 1, 4]))
    """

    seen: Tensor

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
        super().__init__()
        self.lags = lags
        self.target_width, self.other_width = target_width, source_width + condition_width
        # Where the present may not see x_t, token t-1 holds the newest value that it may see.
        self.shift = max(lags.delay - 1, 0)
        visible = self._visible(source_width, condition_width)
        self.memory = max(max(lags_) for lags_ in visible)
        seen = torch.tensor([[lag in lags_ for lags_ in visible] for lag in range(self.memory, -1, -1)])
        self.register_buffer("seen", seen, persistent=False)
        self.shares_past = bool(seen[:-1].all())
        self.embedding = nn.Linear(target_width + self.other_width, width)
        self.transformer = FixedPastTransformer(width, heads, self.memory, feedforward)
        self.score = nn.Linear(width, 1)

    def _visible(self, source_width: int, condition_width: int) -> list[set[int]]:
        """For each channel, how many tokens back from the present it is visible."""
        target = {0, *self.lags.target_lags}
        source = {lag - self.shift for lag in self.lags.source_lags}
        condition = {lag - self.shift for lag in self.lags.condition_lags}
        return [target] * self.target_width + [source] * source_width + [condition] * condition_width

    def forward(
        self, tokens_y: Tensor, tokens_other: Tensor | None, reference: Tensor
    ) -> tuple[Tensor, Tensor]:
        values = self._values(tokens_y, tokens_other)
        self._check_reference(reference, values)
        drawn = torch.cat([values[:, self.memory :, None, : self.target_width], reference], 2)
        scores = self.score(self.transformer(*self._embedded(values, drawn)))
        scores = scores.reshape(drawn.shape[:3])
        return scores[..., 0], scores[..., 1:]

    def weights(self, tokens_y: Tensor, tokens_other: Tensor | None) -> Tensor:
        """(batch, length, heads, memory + 1): attention of the real pass, oldest first, present last."""
        values = self._values(tokens_y, tokens_other)
        present = values[:, self.memory :, None, : self.target_width]
        found = self.transformer.weights(*self._embedded(values, present))[0]
        return found.reshape(*present.shape[:2], *found.shape[-2:])

    def _values(self, tokens_y: Tensor, tokens_other: Tensor | None) -> Tensor:
        """(batch, memory + length, channels): what the tokens hold, the other series moved by ``shift``."""
        self._check_tokens(tokens_y, tokens_other)
        first = self.lags.span - self.memory
        own = tokens_y[:, first:]
        if tokens_other is None:
            return own
        start = first - self.shift
        # Tokens that would start before the segment hold values that no lag can reach.
        moved = functional.pad(tokens_other[:, max(start, 0) :], (0, 0, max(-start, 0), 0))
        return torch.cat([own, moved[:, : own.shape[1]]], -1)

    def _embedded(self, values: Tensor, drawn: Tensor) -> tuple[Tensor, Tensor]:
        """Past and present tokens for the transformer; one row a window unless windows share their past."""
        others = values[:, self.memory :, None, self.target_width :].expand(-1, -1, drawn.shape[2], -1)
        positions = sinusoids(values.shape[1], self.score.in_features).to(values)
        present = self.embedding(torch.cat([drawn, others], -1) * self.seen[-1])
        present = present + positions[self.memory :, None]
        if self.shares_past:
            return self.embedding(values[:, :-1]) + positions[:-1], present
        windows = values[:, :-1].unfold(1, self.memory, 1).mT * self.seen[:-1]
        past = self.embedding(windows) + positions[:-1].unfold(0, self.memory, 1).mT
        return past.flatten(0, 1), present.flatten(0, 1)[:, None]

    def _check_tokens(self, tokens_y: Tensor, tokens_other: Tensor | None) -> None:
        if (
            tokens_y.ndim != 3
            or tokens_y.shape[1] <= self.lags.span
            or tokens_y.shape[2] != self.target_width
        ):
            raise TreetError(
                f"tokens_y must be (batch, more than {self.lags.span} time steps, {self.target_width}) for "
                f"the lags {self.lags}. Got {tuple(tokens_y.shape)} instead."
            )
        expected = (*tokens_y.shape[:2], self.other_width) if self.other_width else None
        got = None if tokens_other is None else tuple(tokens_other.shape)
        if got != expected:
            raise TreetError(
                f"tokens_other must be {expected or 'None: only the target is scored'}. Got {got} instead."
            )

    def _check_reference(self, reference: Tensor, values: Tensor) -> None:
        batch, length = values.shape[0], values.shape[1] - self.memory
        if reference.ndim != 4 or (*reference.shape[:2], reference.shape[3]) != (
            batch,
            length,
            self.target_width,
        ):
            raise TreetError(
                f"reference must be ({batch}, {length}, draws, {self.target_width}). "
                f"Got {tuple(reference.shape)} instead."
            )
