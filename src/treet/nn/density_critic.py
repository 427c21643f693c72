"""The default critic: a conditional density of the target, normalised for every context by construction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from treet.nn.anchor import LinearAnchor, flat
from treet.nn.lag_attention import LagAttention

LEAST_LOG_SCALE = -5.0
"""Of a component, relative to the anchor's: a density on a target with ties stays finite."""

SQUASH = 3.0
"""Contexts grow linearly up to about this many standard deviations, then logarithmically."""

GATE = -2.0
"""Where the gate starts: a network with the source has to earn its say."""

LOG_2_PI = math.log(2 * math.pi)


class DensityCritic(nn.Module):
    """``log p(y_t | past)``, a mixture of Gaussians around a linear prediction, with attention contexts.

    For each series a ``LagAttention`` turns the past into a few numbers; with the prediction of a
    ``LinearAnchor`` they are the context. For each target channel, in order and given the channels before it,
    a small network maps the context to the weights, means and scales of a mixture in the anchor's residual
    ``r = (y - mean) / std``:

        p(r | context) = sum_k w_k N(r; m_k, s_k^2)

    The mean of a component is linear in the context plus what the network adds, so a piecewise linear
    process needs nothing but weights that switch. As a critic the score is ``log p - log q``: the optimum of
    Donsker and Varadhan, with a normaliser that is exactly one, so that its mean on held-out data is a mean
    of log likelihood ratios that never exceeds the divergence in expectation.

    With ``base``, a critic that sees less and is not trained here, the density is
    ``(1 - g) p_base + g p`` with a gate ``g(context)`` that starts small: where the source tells nothing both
    critics agree, and their difference, the transfer entropy, has next to no noise.

    ``pasts``    by role (batch, lags, channels), oldest first; ``present`` (batch, target channels).
    ``log_density(pasts, present)``  (batch, target channels): given the channels before; their sum is log p.

    >>> critic = DensityCritic({"target": (5, 1), "source": (6, 2)}, target_channels=1)
    >>> pasts = {"target": torch.randn(16, 5, 1), "source": torch.randn(16, 6, 2)}
    >>> critic(pasts, torch.randn(16, 1)).shape
    torch.Size([16])
    """

    def __init__(
        self,
        shapes: Mapping[str, tuple[int, int]],
        target_channels: int,
        *,
        heads: int = 8,
        width: int = 64,
        components: int = 3,
        base: DensityCritic | None = None,
    ) -> None:
        super().__init__()
        self.roles = tuple(shapes)
        self.streams = nn.ModuleDict(
            {
                role: LagAttention(lags, channels, min(heads, lags))
                for role, (lags, channels) in shapes.items()
            }
        )
        self.anchor = LinearAnchor(
            sum(lags * channels for lags, channels in shapes.values()), target_channels
        )
        context = sum(min(heads, lags) * channels for lags, channels in shapes.values())
        # The context, the prediction of this channel, the channels before it (zero for the others).
        inputs = context + 1 + target_channels
        outputs = 3 * components + (base is not None)
        self.first = ChannelLinear(target_channels, inputs, width)
        self.second = ChannelLinear(target_channels, width, width)
        self.last = ChannelLinear(target_channels, width, outputs)
        self.skip = ChannelLinear(target_channels, inputs, outputs)
        self.components = components
        self.base = base
        if base is not None:
            base.requires_grad_(False)

    def reset(self, generator: torch.Generator) -> None:
        """Draw the first weights; the mixture starts as the anchor's Gaussian, scales spread around it."""
        for stream in self.streams.values():
            cast("LagAttention", stream).reset(generator)
        for layer, gain in ((self.first, 1.0), (self.second, 1.0), (self.last, 0.3), (self.skip, 0.1)):
            layer.reset(gain, generator)
        with torch.no_grad():
            start = torch.zeros(self.last.bias.shape[-1])
            start[2 * self.components : 3 * self.components] = torch.linspace(-0.7, 0.3, self.components)
            start[3 * self.components :] = GATE
            self.last.bias.copy_(start.expand_as(self.last.bias))

    def forward(self, pasts: Mapping[str, Tensor], present: Tensor) -> Tensor:
        """(batch,): the log density of ``present``."""
        return self.log_density(pasts, present).sum(-1)

    def log_density(self, pasts: Mapping[str, Tensor], present: Tensor) -> Tensor:
        """(batch, target channels): the log density of each channel given the channels before it."""
        mean = self.anchor(flat([pasts[role] for role in self.roles]), present)
        outputs = self._outputs(pasts, mean, present)
        residual = (present - mean) * torch.exp(-self.anchor.log_std)
        own = _log_mixture(residual, outputs, self.components) - self.anchor.log_std
        if self.base is None:
            return own
        gate = outputs[..., -1]
        other = self.base.log_density(pasts, present)
        return torch.logaddexp(functional.logsigmoid(gate) + own, functional.logsigmoid(-gate) + other)

    def _outputs(self, pasts: Mapping[str, Tensor], mean: Tensor, present: Tensor) -> Tensor:
        """(batch, target channels, outputs): what the network says of each channel."""
        context = torch.cat([self.streams[role](pasts[role]) for role in self.roles], 1)
        channels = present.shape[1]
        before = present[:, None] * torch.ones(channels, channels, device=present.device).tril(-1)
        inputs = torch.cat([context[:, None].expand(-1, channels, -1), mean[..., None], before], -1)
        inputs = SQUASH * torch.asinh(inputs.transpose(0, 1) / SQUASH)
        hidden = functional.silu(self.first(inputs))
        hidden = functional.silu(self.second(hidden))
        return cast("Tensor", (self.last(hidden) + self.skip(inputs)).transpose(0, 1))

    def attention(self, pasts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """By role (batch, heads, lags): how much each past value weighs, oldest first."""
        return {role: cast("LagAttention", self.streams[role]).weights(pasts[role]) for role in self.roles}


class ChannelLinear(nn.Module):
    """A linear map of its own for each channel: (channels, batch, inputs) -> (channels, batch, outputs)."""

    def __init__(self, channels: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(channels, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(channels, 1, outputs))

    def reset(self, gain: float, generator: torch.Generator) -> None:
        limit = gain / math.sqrt(self.weight.shape[1])
        with torch.no_grad():
            self.weight.uniform_(-limit, limit, generator=generator)
            self.bias.uniform_(-limit, limit, generator=generator)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, inputs, self.weight)


def _log_mixture(residual: Tensor, outputs: Tensor, components: int) -> Tensor:
    """log sum_k w_k N(residual; m_k, s_k^2), from (..., 3 x components or more) outputs of a network."""
    logits, means, log_scales = outputs[..., : 3 * components].chunk(3, -1)
    log_scales = log_scales.clamp(min=LEAST_LOG_SCALE)
    standard = (residual[..., None] - means) * torch.exp(-log_scales)
    terms = logits.log_softmax(-1) - log_scales - 0.5 * standard.square()
    return torch.logsumexp(terms, -1) - 0.5 * LOG_2_PI
