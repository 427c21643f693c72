"""Attention of a learned query over the past of one series: the part of a context that one series gives."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from treet.nn.weights import draw_normal

# A bias of b stands for SHARPNESS * b in the scores: few steps suffice to single out one lag among many.
SHARPNESS = 4.0
# How far below its centre a head's first score may lie: a lag further away keeps exp(-FLOOR) of the weight.
FLOOR = 8.0


class LagAttention(nn.Module):
    """Fixed past causal attention whose present token carries no value, only a learned query.

    With ``v_{t-j}`` the values of a series at its visible lags and one query for each head,

        weights_t = softmax over j of (bias_j + content . v_{t-j})
        output_t  = sum over j of weights_{t,j} v_{t-j}

    The constant query is folded into ``bias`` (by lag) and ``content`` (by value), and the value map into the
    layer behind, so that a head costs two products for each lag. Weights depend on the distance in time
    alone: the same window gives the same output wherever it stands. Heads start on lags that are spaced
    evenly in their logarithm: recent lags one by one, older ones in ever wider groups.

    ``past``  (batch, lags, channels), oldest first -> (batch, heads x channels).

    >>> attention = LagAttention(lags=30, channels=2, heads=4)
    >>> past = torch.randn(16, 30, 2)
    >>> attention(past).shape, attention.weights(past).shape
    (torch.Size([16, 8]), torch.Size([16, 4, 30]))
    """

    def __init__(self, lags: int, channels: int, heads: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(_log_spaced(lags, heads) / SHARPNESS)
        self.content = nn.Parameter(torch.zeros(heads, channels))

    def reset(self, generator: torch.Generator) -> None:
        """Draw the content scores: small, so that training starts from the biases."""
        draw_normal(self.content, 0.1, generator)

    def forward(self, past: Tensor) -> Tensor:
        return (self.weights(past) @ past).flatten(1)

    def weights(self, past: Tensor) -> Tensor:
        """(batch, heads, lags): softmax weights, oldest first."""
        scores = torch.baddbmm(
            self.bias.expand(len(past), -1, -1),
            self.content.expand(len(past), -1, -1),
            past.transpose(1, 2),
            beta=SHARPNESS,
        )
        return scores.softmax(-1)


def _log_spaced(lags: int, heads: int) -> Tensor:
    """(heads, lags): a bump for each head, its centre and width growing from the newest lag to the oldest."""
    age = torch.arange(lags - 1, -1, -1, dtype=torch.float32)
    centre = torch.logspace(0, math.log10(lags), heads)[:, None] - 1
    width = (centre / 2).clamp(min=0.5)
    return (-0.5 * ((age - centre) / width).square()).clamp(min=-FLOOR)
