"""Fixed past causal attention: one pass for the real present and for any number of reference draws of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from treet.errors import TreetError

# Below this many queries a block's matrix products are too small to be worth a call of their own.
_LEAST_BLOCK = 16


def band(scores: Tensor) -> Tensor:
    """The band of a block: row r keeps columns r .. r + memory - 1.

    (..., rows, rows + memory - 1) -> (..., rows, memory).

    >>> band(torch.arange(8.0).reshape(2, 4)).tolist()
    [[0.0, 1.0, 2.0], [5.0, 6.0, 7.0]]
    """
    return cast("Tensor", _Band.apply(scores))  # type: ignore[no-untyped-call]


def unband(weights: Tensor) -> Tensor:
    """The inverse of ``band``, with zeros outside: (..., rows, memory) -> (..., rows, rows + memory - 1).

    >>> unband(torch.ones(2, 3)).tolist()
    [[1.0, 1.0, 1.0, 0.0], [0.0, 1.0, 1.0, 1.0]]
    """
    return cast("Tensor", _Unband.apply(weights))  # type: ignore[no-untyped-call]


def _diagonals(block: Tensor) -> Tensor:
    """The band as a view: in the flat block row r of it starts at r * (columns + 1)."""
    rows, columns = block.shape[-2:]
    strides = (*block.stride()[:-2], columns + 1, 1)
    return block.as_strided((*block.shape[:-1], columns - rows + 1), strides)


class _Band(torch.autograd.Function):
    """Each of the two is the other's transpose, so that neither direction fills or pads what it need not."""

    @staticmethod
    def forward(_: Any, scores: Tensor) -> Tensor:
        return _diagonals(scores.contiguous()).contiguous()

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        return unband(gradient)


class _Unband(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, weights: Tensor) -> Tensor:
        rows, memory = weights.shape[-2:]
        block = weights.new_zeros(*weights.shape[:-1], rows + memory - 1)
        _diagonals(block).copy_(weights)
        return block

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        return band(gradient)


class FixedPastAttention(nn.Module):
    """Attention of a present token over its own past of fixed length and over itself.

    With ``q~, k~, v~`` of the present token at t, real or drawn from a reference, and ``k, v`` of the real
    past,

        weights_t = softmax([q~.k_{t-memory}, .., q~.k_{t-1}, q~.k~] / sqrt(width / heads))
        output_t  = weights_t [v_{t-memory}; ..; v_{t-1}; v~]

    for every head, followed by a linear map over the heads. With the real token as the present one this is
    the paper's FPCA, with a reference draw its modified FPCA. The paper's equations leave out the factor
    1/sqrt(width / heads) of standard attention; it is only a rescaling of the query weights, and with it
    training starts from the same spread of scores at every width.

    Past keys and values are computed once, for all draws. The band is processed in blocks of about ``memory``
    queries, each over the 2 x memory keys that it can see: time O(length x memory x width), memory
    O(length x memory). Tokens must be finite: a NaN would reach the other queries of its block.

    ``past``     (batch, memory + length - 1, width), or one token more, which no present token sees.
    ``present``  (batch, length, draws, width); ``present[:, t]`` follows ``past[:, t : t + memory]``.
    output       (batch, length, draws, width).

    ``lag_bias=True`` adds a learned number for each head and lag to the scores, which start at zero.

    >>> attention = FixedPastAttention(width=8, heads=2, memory=3)
    >>> past, present = torch.randn(4, 3 + 10 - 1, 8), torch.randn(4, 10, 5, 8)
    >>> attention(past, present).shape, attention.weights(past, present).shape
    (torch.Size([4, 10, 5, 8]), torch.Size([4, 10, 5, 2, 4]))
    """

    def __init__(self, width: int, heads: int, memory: int, *, lag_bias: bool = False) -> None:
        super().__init__()
        if width < 1 or heads < 1 or width % heads:
            raise TreetError(
                f"width must be a multiple of heads, both at least 1. Got width={width}, heads={heads}."
            )
        if memory < 1:
            raise TreetError(f"memory must be at least 1. Got {memory} instead.")
        self.width, self.heads, self.memory = width, heads, memory
        self._head_width = width // heads
        self.query_key_value = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)
        self.bias = nn.Parameter(torch.zeros(heads, memory + 1)) if lag_bias else None

    def extra_repr(self) -> str:
        return (
            f"width={self.width}, heads={self.heads}, memory={self.memory}, lag_bias={self.bias is not None}"
        )

    def forward(self, past: Tensor, present: Tensor) -> Tensor:
        weights, past_values, own_values = self._attend(past, present)
        seen = unband(weights[..., :-1]).flatten(3, 4) @ past_values
        mixed = seen.view(own_values.shape) + weights[..., -1:] * own_values
        return cast("Tensor", self.output(self._in_order(mixed, present.shape[1]).flatten(-2)))

    def weights(self, past: Tensor, present: Tensor) -> Tensor:
        """(batch, length, draws, heads, memory + 1): softmax weights, oldest first, present last."""
        return self._in_order(self._attend(past, present)[0], present.shape[1])

    def _attend(self, past: Tensor, present: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """In blocks: weights (batch, heads, blocks, draws, block, memory + 1), past and present values."""
        self._check(past, present)
        block = min(max(_LEAST_BLOCK, self.memory), present.shape[1])
        blocks = -(-present.shape[1] // block)
        query, own_key, own_value = self._present_blocks(present, block, blocks)
        key, value = self._past_blocks(past, block, blocks)
        products = query.flatten(3, 4) @ key.mT
        seen = band(products.view(*query.shape[:-1], products.shape[-1]))
        scores = torch.cat([seen, (query * own_key).sum(-1, keepdim=True)], -1)
        if self.bias is not None:
            scores = scores + self.bias[:, None, None, None]
        return scores.softmax(-1), value, own_value

    def _check(self, past: Tensor, present: Tensor) -> None:
        if past.ndim != 3 or present.ndim != 4 or not past.shape[2] == present.shape[3] == self.width:
            raise TreetError(
                f"past must be (batch, time, {self.width}) and present (batch, length, draws, {self.width}). "
                f"Got {tuple(past.shape)} and {tuple(present.shape)} instead."
            )
        needed = self.memory + present.shape[1] - 1
        if past.shape[0] != present.shape[0] or past.shape[1] not in (needed, needed + 1):
            raise TreetError(
                f"With memory {self.memory} and present {tuple(present.shape)}, past must be "
                f"({present.shape[0]}, {needed} or {needed + 1}, {self.width}). Got {tuple(past.shape)}."
            )

    def _present_blocks(self, present: Tensor, block: int, blocks: int) -> list[Tensor]:
        """Scaled query, key and value, each (batch, heads, blocks, draws, block, width / heads)."""
        tokens = _pad_time(present.transpose(1, 2), blocks * block).contiguous()
        split = (*tokens.shape[:2], blocks, block, self.heads, self._head_width)
        return [
            functional.linear(tokens, weight, bias).view(split).permute(0, 4, 2, 1, 3, 5)
            for weight, bias in self._maps()
        ]

    def _past_blocks(self, past: Tensor, block: int, blocks: int) -> list[Tensor]:
        """Key and value, each (batch, heads, blocks, block + memory - 1, width / heads)."""
        columns = block + self.memory - 1
        tokens = _pad_time(past, (blocks - 1) * block + columns)
        found = []
        # Nothing queries on behalf of a past token: keys and values alone.
        for weight, bias in self._maps()[1:]:
            mapped = functional.linear(tokens, weight, bias)
            windows = mapped.unfold(1, columns, block).mT if blocks > 1 else mapped[:, None]
            split = (*windows.shape[:3], self.heads, self._head_width)
            found.append(windows.reshape(split).permute(0, 3, 1, 2, 4))
        return found

    def _maps(self) -> list[tuple[Tensor, Tensor]]:
        """Weight and bias of the query, with the scores' factor in them, of the key and of the value."""
        joint, scale = self.query_key_value, self._head_width**-0.5
        query, *others = zip(joint.weight.chunk(3), joint.bias.chunk(3), strict=True)
        return [(query[0] * scale, query[1] * scale), *others]

    @staticmethod
    def _in_order(blocked: Tensor, length: int) -> Tensor:
        """(batch, heads, blocks, draws, block, any) -> (batch, length, draws, heads, any)."""
        return blocked.permute(0, 2, 4, 3, 1, 5).flatten(1, 2)[:, :length]


def _pad_time(tokens: Tensor, length: int) -> Tensor:
    """(..., time, width) with zeros appended, or cut, to ``length``; a copy only where it must be one."""
    missing = length - tokens.shape[-2]
    return functional.pad(tokens, (0, 0, 0, missing)) if missing > 0 else tokens[..., :length, :]


class FixedPastBlock(nn.Module):
    """Attention, Add & Norm, feed-forward with ELU, Add & Norm: updates the present token alone."""

    def __init__(
        self, width: int, heads: int, memory: int, feedforward: int, *, lag_bias: bool = False
    ) -> None:
        super().__init__()
        self.attention = FixedPastAttention(width, heads, memory, lag_bias=lag_bias)
        self.attention_norm = nn.LayerNorm(width)
        self.feedforward = nn.Sequential(
            nn.Linear(width, feedforward), nn.ELU(), nn.Linear(feedforward, width)
        )
        self.feedforward_norm = nn.LayerNorm(width)

    def forward(self, past: Tensor, present: Tensor) -> Tensor:
        state = self.attention_norm(present + self.attention(past, present))
        return cast("Tensor", self.feedforward_norm(state + self.feedforward(state)))


class FixedPastTransformer(nn.Module):
    """A stack of blocks whose memory does not grow with its depth.

    Every layer makes its own keys and values from the embedded past tokens, never from their updated states,
    and only the state of the present token goes from layer to layer: the output at t depends on
    t-memory .. t, for any number of layers. Shapes are those of ``FixedPastAttention``.

    >>> transformer = FixedPastTransformer(width=8, heads=2, memory=3, feedforward=16, layers=2)
    >>> past, present = torch.randn(4, 3 + 10 - 1, 8), torch.randn(4, 10, 5, 8)
    >>> transformer(past, present).shape, transformer.weights(past, present).shape
    (torch.Size([4, 10, 5, 8]), torch.Size([2, 4, 10, 5, 2, 4]))
    """

    def __init__(
        self,
        width: int,
        heads: int,
        memory: int,
        feedforward: int,
        layers: int = 1,
        *,
        lag_bias: bool = False,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise TreetError(f"layers must be at least 1. Got {layers} instead.")
        self.blocks = nn.ModuleList(
            FixedPastBlock(width, heads, memory, feedforward, lag_bias=lag_bias) for _ in range(layers)
        )

    def forward(self, past: Tensor, present: Tensor) -> Tensor:
        for block in self.blocks:
            present = block(past, present)
        return present

    def weights(self, past: Tensor, present: Tensor) -> Tensor:
        """(layers, batch, length, draws, heads, memory + 1): the attention weights of every layer."""
        found = []
        for block in cast("Iterable[FixedPastBlock]", self.blocks):
            found.append(block.attention.weights(past, present))
            present = block(past, present)
        return torch.stack(found)
