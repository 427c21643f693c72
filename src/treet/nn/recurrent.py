"""The critic of DINE: an LSTM over the past, and one step of it for the real and for each drawn present."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from treet.lags import Lags
from treet.nn.tokens import TokenCritic


class RecurrentCritic(TokenCritic):
    """Scores of a real and of reference present values of the target from one and the same state.

    The critic of the directed information neural estimator (Tsur, Aharoni, Goldfeld and Permuter, "Neural
    estimation and optimization of directed information over continuous spaces", IEEE Trans. Information
    Theory 69, 2023). With an LSTM cell ``S`` and a small network ``g``,

        s_j = S(v_j, s_{j-1})          the real past, from s = 0 before its oldest token
        real score      g(S([y_t,  x_{t-delay}], s_{t-1}))
        reference score g(S([y~_t, x_{t-delay}], s_{t-1}))

    so that the state is driven by real values alone and a draw has one score and no successor. The token
    ``v_j`` holds ``y_j`` and, moved by the delay, ``x_{j-delay}`` and ``z_{j-delay}``.

    Published, the state runs on through the whole recording. Here it starts at zero for every window, at the
    oldest token with a visible value, and a value outside the history of its series is zero, the mean of
    standardised data. So a score depends on the declared lags alone, whichever they are, at ``memory + 1``
    steps a window. It also lets windows be trained on in any order, and the state that the drawn presents
    start from is the last one of a plain LSTM.

    Inputs and outputs are those of ``TokenCritic``.

    >>> import torch
    >>> critic = RecurrentCritic(Lags.from_memory(3), target_width=1, source_width=2)
    >>> y, x, reference = torch.randn(4, 3 + 10, 1), torch.randn(4, 3 + 10, 2), torch.rand(4, 10, 5, 1)
    >>> real, drawn = critic(y, x, reference)
    >>> real.shape, drawn.shape
    (torch.Size([4, 10]), torch.Size([4, 10, 5]))
    """

    def __init__(
        self,
        lags: Lags,
        target_width: int,
        source_width: int = 0,
        condition_width: int = 0,
        *,
        width: int = 32,
        feedforward: int = 64,
    ) -> None:
        super().__init__(lags, target_width, source_width, condition_width, shift=lags.delay)
        self.lstm = nn.LSTM(target_width + self.other_width, width)
        self.score = nn.Sequential(
            nn.Linear(width, feedforward), nn.ELU(inplace=True), nn.Linear(feedforward, 1)
        )

    def forward(
        self, tokens_y: Tensor, tokens_other: Tensor | None, reference: Tensor
    ) -> tuple[Tensor, Tensor]:
        values = self._values(tokens_y, tokens_other)
        presents = self._presents(values, self._real_and(reference, values))
        scores = self.score(self._step(presents, *self._state(values)))[..., 0]
        return scores[..., 0], scores[..., 1:]

    def _state(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Hidden and cell state (batch, length, 1, width) after the past of every window."""
        windows = values[:, :-1].unfold(1, self.memory, 1) * self.seen[:-1].mT
        steps = windows.flatten(0, 1).permute(2, 0, 1).contiguous()
        _, (hidden, cell) = self.lstm(steps)
        shape = (*windows.shape[:2], 1, self.lstm.hidden_size)
        return hidden.reshape(shape), cell.reshape(shape)

    def _step(self, presents: Tensor, hidden: Tensor, cell: Tensor) -> Tensor:
        """(batch, length, draws, width): one step of the same cell for each present token."""
        from_present, from_past, *biases = self.lstm.all_weights[0]
        before = functional.linear(hidden, from_past, biases[0] + biases[1])
        gates = functional.linear(presents, from_present) + before
        enter, forget, update, leave = gates.chunk(4, -1)
        cell = forget.sigmoid() * cell + enter.sigmoid() * update.tanh()
        return leave.sigmoid() * cell.tanh()
