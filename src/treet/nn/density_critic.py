"""The default critic: a conditional density of the target, normalised for every context by construction."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from treet.nn.anchor import LinearAnchor, as_rows
from treet.nn.lag_attention import LagAttention
from treet.nn.regimes import MOST_SPLITTERS, Regimes, log_normal
from treet.nn.weights import draw_uniform

LEAST_LOG_SCALE = -5.0
"""Of a component, relative to the regimes': a density on a target with ties stays finite."""

SQUASH = 3.0
"""Contexts grow linearly up to about this many standard deviations, then logarithmically."""

GATE = -2.0
"""The first log weight of each expert beside the network, which has to be given its say to learn."""

DOUBT = 1e-3
"""Weight of a broad density beside every expert and the network: no value, however far out, is impossible."""

BROAD = (1.0, 3.0, 10.0, 30.0)
"""Its standard deviations, in those of the target."""

NETWORK = -1
"""In place of an expert's number: the network's mixture with all of them."""

LOG_2_PI = math.log(2 * math.pi)


class DensityCritic(nn.Module):
    """``log p(y_t | past)``: a mixture of fixed experts and of a network with attention over the past.

    For each series a ``LagAttention`` turns the past into a few numbers; with the predictions of a
    ``LinearAnchor`` and of ``Regimes`` they are the context. For each target channel, in order and given the
    channels before it, a small network maps the context to the weights, means and scales of a mixture in the
    residual of the regimes, ``r = (y - mean) / std``, and to the gates ``g`` of the experts:

        p(y | past) = g_0 sum_k w_k N(r; m_k, s_k^2) / std + g_1 p_1(y | past) + g_2 p_2(y | past)

    Each of these holds a share ``DOUBT`` of a broad density around zero. Real recordings have artefacts that
    no training data foretell; without it one of them outweighs thousands of other time steps. Where there
    are none it costs nothing to first order, and the same with and without the source.

    Expert 1 is ``Regimes``, a piecewise linear density with sharp edges. Expert 2, where there is one, is
    ``base``: a critic that sees less and is not trained here. Where the source tells nothing both critics
    agree, and their difference, the transfer entropy, has next to no noise. Where the network adds nothing
    on validation data, ``choose`` leaves it out.

    As a critic the score is ``log p - log q``: the optimum of Donsker and Varadhan, with a normaliser that is
    exactly one, so that its mean on held-out data is a mean of log likelihood ratios that never exceeds the
    divergence in expectation.

    ``pasts``    by role (batch, lags, channels), oldest first; ``present`` (batch, target channels).
    ``log_density(pasts, present)``  (batch, target channels): given the channels before; their sum is log p.
    ``mixture(pasts, present)``  the same densities as one mixture of Gaussians for each channel.

    >>> critic = DensityCritic({"target": (5, 1), "source": (6, 2)}, target_channels=1)
    >>> pasts = {"target": torch.randn(16, 5, 1), "source": torch.randn(16, 6, 2)}
    >>> critic(pasts, torch.randn(16, 1)).shape
    torch.Size([16])
    """

    chosen: Tensor

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
        self.shapes = dict(shapes)
        self.streams = nn.ModuleDict(
            {
                role: LagAttention(lags, channels, min(heads, lags))
                for role, (lags, channels) in shapes.items()
            }
        )
        seen = sum(lags * channels for lags, channels in shapes.values())
        self.anchor = LinearAnchor(seen, target_channels)
        self.regimes = Regimes(seen, target_channels)
        context = sum(min(heads, lags) * channels for lags, channels in shapes.values())
        # The context, three predictions for this channel, the channels before it (zero for the others).
        inputs = context + 3 + target_channels
        outputs = 3 * components + 1 + (base is not None)
        self.first = ChannelLinear(target_channels, inputs, width)
        self.second = ChannelLinear(target_channels, width, width)
        self.last = ChannelLinear(target_channels, width, outputs)
        self.skip = ChannelLinear(target_channels, inputs, outputs)
        self.components = components
        self.base = base
        self.register_buffer("chosen", torch.tensor(NETWORK))

    def reset(self, generator: torch.Generator) -> None:
        """Draw the first weights; the mixture starts as the regimes' Gaussian, scales spread around it."""
        self.requires_grad_(True)
        if self.base is not None:
            self.base.requires_grad_(False)
        for stream in self.streams.values():
            cast("LagAttention", stream).reset(generator)
        for layer, gain in ((self.first, 1.0), (self.second, 1.0), (self.last, 0.3), (self.skip, 0.1)):
            layer.reset(gain, generator)
        with torch.no_grad():
            start = torch.zeros(self.last.bias.shape[-1])
            start[2 * self.components : 3 * self.components] = torch.linspace(-0.7, 0.3, self.components)
            start[3 * self.components :] = GATE
            self.last.bias.copy_(start.expand_as(self.last.bias))

    @property
    def n_experts(self) -> int:
        return 1 if self.base is None else 2

    def splitters(self) -> Tensor:
        """The columns of ``as_rows`` that may decide the regime: the newest of each series."""
        share = MOST_SPLITTERS // sum(channels for _, channels in self.shapes.values())
        columns, first = [], 1
        for lags, channels in self.shapes.values():
            columns.append(
                torch.arange(first + max(0, lags - max(1, share)) * channels, first + lags * channels)
            )
            first += lags * channels
        return torch.cat(columns)

    def forward(self, pasts: Mapping[str, Tensor], present: Tensor) -> Tensor:
        """(batch,): the log density of ``present``."""
        return self.log_density(pasts, present).sum(-1)

    def log_density(
        self, pasts: Mapping[str, Tensor], present: Tensor, predicted: Tensor | None = None
    ) -> Tensor:
        """(batch, target channels): the log density of each channel given the channels before it.

        ``predicted`` is what ``predict`` gives, where it is known already: it does not change in training.
        """
        predicted = self.predict(pasts, present) if predicted is None else predicted
        linear, mean, log_std = predicted[..., :3].unbind(-1)
        experts = predicted[..., 3:]
        if self.chosen != NETWORK:
            return experts[..., self.chosen]
        outputs = self._outputs(pasts, present, self._features(linear, mean, log_std))
        residual = (present - mean) * torch.exp(-log_std)
        own = _with_doubt(_log_mixture(residual, outputs, self.components) - log_std, present)
        return torch.logsumexp(self._log_gates(outputs) + torch.cat([own[..., None], experts], -1), -1)

    @torch.no_grad()
    def predict(self, pasts: Mapping[str, Tensor], present: Tensor) -> Tensor:
        """(batch, target channels, 4 or 5): the anchor's mean, what the regimes say, and log p_base."""
        rows = as_rows([pasts[role] for role in self.shapes], present)
        regimes = self.regimes(rows)
        regimes[..., 2] = _with_doubt(regimes[..., 2], present)
        found = [self.anchor(rows)[..., None], regimes]
        if self.base is not None:
            found.append(self.base.log_density(pasts, present)[..., None])
        return torch.cat(found, -1)

    @torch.no_grad()
    def mixture(self, pasts: Mapping[str, Tensor], present: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log weights, means and stds, each (batch, target channels, terms): all of ``log_density``.

        A channel's terms depend on the channels before it in ``present`` and on no other. Terms that are left
        out have the log weight minus infinity, so that their number is the same for every fit.
        """
        linear, mean, log_std = self.predict(pasts, present)[..., :3].unbind(-1)
        outputs = self._outputs(pasts, present, self._features(linear, mean, log_std))
        log_weights, means, log_scales = mixture_terms(outputs, self.components)
        std = torch.exp(log_std)[..., None]
        own = log_weights, mean[..., None] + std * means, std * torch.exp(log_scales)
        log_weights, of_regimes, log_stds = self.regimes.mixture(
            as_rows([pasts[role] for role in self.shapes], present)
        )
        parts = [_terms_with_doubt(own), _terms_with_doubt((log_weights, of_regimes, log_stds.exp()))]
        if self.base is not None:
            parts.append(self.base.mixture(pasts, present))
        gates = self._log_gates(outputs)
        weighted = [part[0] + gates[..., place, None] for place, part in enumerate(parts)]
        _, means, stds = (torch.cat(terms, -1) for terms in zip(*parts, strict=True))
        return torch.cat(weighted, -1), means, stds

    def _log_gates(self, outputs: Tensor) -> Tensor:
        """(batch, target channels, 2 or 3): log weights of the network and of the experts."""
        gates = functional.pad(outputs[..., 3 * self.components :], (1, 0))
        if self.chosen == NETWORK:
            return gates.log_softmax(-1)
        alone = torch.full_like(gates, -math.inf)
        alone[..., 1 + self.chosen] = 0.0
        return alone

    def _features(self, linear: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
        """(batch, target channels, 3): the linear prediction, and how the regimes differ from it."""
        log_scale = self.anchor.log_std
        difference = (mean - linear) * torch.exp(-log_scale)
        return torch.stack([linear, difference, log_std - log_scale], -1)

    def _outputs(self, pasts: Mapping[str, Tensor], present: Tensor, features: Tensor) -> Tensor:
        """(batch, target channels, outputs): what the network says of each channel."""
        context = torch.cat([self.streams[role](pasts[role]) for role in self.shapes], 1)
        channels = present.shape[1]
        before = present[:, None] * torch.ones(channels, channels, device=present.device).tril(-1)
        inputs = torch.cat([context[:, None].expand(-1, channels, -1), features, before], -1)
        inputs = _squashed(inputs.transpose(0, 1))
        hidden = functional.silu(self.first(inputs))
        hidden = functional.silu(self.second(hidden))
        return cast("Tensor", (self.last(hidden) + self.skip(inputs)).transpose(0, 1))

    def attention(self, pasts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """By role (batch, heads, lags): how much each past value weighs, oldest first."""
        return {role: cast("LagAttention", self.streams[role]).weights(pasts[role]) for role in self.shapes}


class ChannelLinear(nn.Module):
    """A linear map of its own for each channel: (channels, batch, inputs) -> (channels, batch, outputs)."""

    def __init__(self, channels: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(channels, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(channels, 1, outputs))

    def reset(self, gain: float, generator: torch.Generator) -> None:
        limit = gain / math.sqrt(self.weight.shape[1])
        draw_uniform(self.weight, limit, generator)
        draw_uniform(self.bias, limit, generator)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.baddbmm(self.bias, inputs, self.weight)


def _with_doubt(log_density: Tensor, present: Tensor) -> Tensor:
    """The log density with a share ``DOUBT`` of the broad one, at the standardised values ``present``."""
    scales = torch.tensor(BROAD, device=present.device)
    broad = torch.logsumexp(log_normal(present[..., None], scales.log()), -1) - math.log(len(BROAD))
    return torch.logaddexp(log_density + math.log1p(-DOUBT), broad + math.log(DOUBT))


def _terms_with_doubt(terms: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Log weights, means and stds (..., terms), with those of the broad density after them."""
    log_weights, means, stds = terms
    share = torch.full_like(means[..., :1], math.log(DOUBT / len(BROAD))).expand(
        *means.shape[:-1], len(BROAD)
    )
    broad = torch.tensor(BROAD, device=means.device).expand_as(share)
    return (
        torch.cat([log_weights + math.log1p(-DOUBT), share], -1),
        torch.cat([means, torch.zeros_like(share)], -1),
        torch.cat([stds, broad], -1),
    )


def _squashed(values: Tensor) -> Tensor:
    """Small values as they are, large ones by their logarithm: cheaper than the inverse hyperbolic sine."""
    return SQUASH * torch.log1p(values.abs() / SQUASH).copysign(values)


def mixture_terms(outputs: Tensor, components: int) -> tuple[Tensor, Tensor, Tensor]:
    """Log weights, means and log scales, (..., components) each, from 3 x components outputs or more."""
    logits, means, log_scales = outputs[..., : 3 * components].chunk(3, -1)
    return logits.log_softmax(-1), means, log_scales.clamp(min=LEAST_LOG_SCALE)


def _log_mixture(residual: Tensor, outputs: Tensor, components: int) -> Tensor:
    """log sum_k w_k N(residual; m_k, s_k^2)."""
    log_weights, means, log_scales = mixture_terms(outputs, components)
    standard = (residual[..., None] - means) * torch.exp(-log_scales)
    terms = log_weights - log_scales - 0.5 * standard.square()
    return torch.logsumexp(terms, -1) - 0.5 * LOG_2_PI
