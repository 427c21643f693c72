"""What a critic that reads tokens may see of them: the values that ``Lags`` names and nothing else."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from treet.errors import TreetError
from treet.lags import Lags


class TokenCritic(nn.Module):
    """Base of critics whose tokens hold the values of all series at one time step.

    The critic of Y has ``source_width=0``. The other series stand ``shift`` time steps later than they were
    recorded, so that they can share tokens with the target.

    ``memory``  how many tokens before the present one hold something that is visible.
    ``seen``    (memory + 1, channels): what is visible of each token, oldest first, the present one last.

    With ``span = lags.span`` plain aligned segments of a recording go in:

    ``tokens_y``      (batch, span + length, target channels)
    ``tokens_other``  (batch, span + length, source channels + condition channels), or None
    ``reference``     (batch, length, draws, target channels)
    output            (batch, length) real scores and (batch, length, draws) reference scores.
    """

    seen: Tensor

    def __init__(
        self, lags: Lags, target_width: int, source_width: int, condition_width: int, *, shift: int
    ) -> None:
        super().__init__()
        self.lags = lags
        self.target_width, self.other_width = target_width, source_width + condition_width
        self.shift = shift
        visible = self._visible(source_width, condition_width)
        self.memory = max(max(lags_) for lags_ in visible)
        seen = torch.tensor([[lag in lags_ for lags_ in visible] for lag in range(self.memory, -1, -1)])
        self.register_buffer("seen", seen, persistent=False)

    def _visible(self, source_width: int, condition_width: int) -> list[set[int]]:
        """For each channel, how many tokens back from the present it is visible."""
        target = {0, *self.lags.target_lags}
        source = {lag - self.shift for lag in self.lags.source_lags}
        condition = {lag - self.shift for lag in self.lags.condition_lags}
        return [target] * self.target_width + [source] * source_width + [condition] * condition_width

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

    def _real_and(self, reference: Tensor, values: Tensor) -> Tensor:
        """(batch, length, 1 + draws, target channels): the real present values, then the reference draws."""
        self._check_reference(reference, values)
        return torch.cat([values[:, self.memory :, None, : self.target_width], reference], 2)

    def _presents(self, values: Tensor, drawn: Tensor) -> Tensor:
        """(batch, length, draws, channels): the present tokens with ``drawn`` as the target's values.

        The other series keep theirs: ``[y~_t, x_t]``.
        """
        others = values[:, self.memory :, None, self.target_width :].expand(-1, -1, drawn.shape[2], -1)
        return torch.cat([drawn, others], -1) * self.seen[-1]

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
