"""Two densities of a channel's output, with gradients: their log ratio is the transfer entropy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from treet.capacity.ascent import Annealed
from treet.capacity.moments import Moments
from treet.nn.attention import FixedPastTransformer
from treet.nn.density_critic import ChannelLinear

Made = TypeVar("Made")
CriticKind = Literal["treet", "dine"]
CRITICS: tuple[CriticKind, ...] = ("treet", "dine")

LOG_2_PI = math.log(2 * math.pi)

RIDGE = 1e-6
"""Added to the diagonal of correlations: an input can be all but a function of its own past."""

FIRST_GATE = -3.0
"""The first log odds of the network's mixture against the linear Gaussian density."""

CRITIC_RATE, MINIBATCH = 3e-3, 16
"""The largest learning rate of the networks, and the streams in a step of their training."""

LEAST_LOG_SCALE = -5.0
"""Of a component, relative to the residual of the linear prediction."""


def drawn(make: Callable[[], Made], random: torch.Generator) -> Made:
    """``make()`` with its first weights from ``random``.

    PyTorch draws them from its global state, which is left as it was.
    """
    with torch.random.fork_rng(devices=()):
        torch.default_generator.manual_seed(int(torch.randint(2**31, (), generator=random)))
        return make()


class RecurrentContext(nn.Module):
    """What is seen of the past, from an LSTM as in DINE, together with the present.

    Its state starts at zero at the first value that it is given: the first output is given ``memory`` steps,
    and later ones as many more as have passed since.

    ``past``     (batch, memory + length - 1, width)
    ``present``  (batch, length, 1, width)
    output       (batch, length, 1, width)
    """

    def __init__(self, width: int, memory: int) -> None:
        super().__init__()
        self.memory = memory
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.joined = nn.Linear(2 * width, width)

    def forward(self, past: Tensor, present: Tensor) -> Tensor:
        states = self.lstm(past)[0][:, self.memory - 1 :, None]
        return cast("Tensor", self.joined(torch.cat([states, present], -1)))


class OutputDensity(nn.Module):
    """``log p(y_t | past)``: a linear Gaussian density, and a mixture around it from a network.

    The linear prediction ``mean_t`` and the covariance ``L L'`` of its error come from ``Moments``, without a
    search. In the residual ``r = L^{-1} (y - mean)``, channel by channel,

        p(y | past) = prod_i ((1 - g_i) N(r_i; 0, 1) + g_i sum_k w_ik N(r_i; m_ik, s_ik^2)) / det L

    where gates, weights, means and scales follow from fixed past causal attention over the past, or with
    ``kind="dine"`` from an LSTM, and from the channels before. The logarithm is differentiable in all values,
    past and present.

    ``values``  (batch, memory + length, value_dim), ``v = (x, y)``, or ``y`` alone for ``input_dim=0``.
    output      (batch, length): given ``memory`` values of the past and, where it is seen, ``x_t``.
    """

    weight: Tensor
    bias: Tensor
    root: Tensor
    shift: Tensor
    spread: Tensor

    def __init__(
        self,
        memory: int,
        input_dim: int,
        output_dim: int,
        kind: CriticKind = "treet",
        *,
        width: int = 32,
        heads: int = 4,
        layers: int = 1,
        components: int = 4,
    ) -> None:
        super().__init__()
        self.memory, self.input_dim, self.output_dim = memory, input_dim, output_dim
        self.components = components
        value_dim = input_dim + output_dim
        self.register_buffer("weight", torch.zeros(output_dim, value_dim, memory + 1))
        self.register_buffer("bias", torch.zeros(output_dim))
        self.register_buffer("root", torch.eye(output_dim))
        self.register_buffer("shift", torch.zeros(value_dim))
        self.register_buffer("spread", torch.ones(value_dim))
        self.of_past = nn.Linear(value_dim, width)
        self.of_present = nn.Linear(max(input_dim, 1), width)
        self.context: FixedPastTransformer | RecurrentContext
        if kind == "treet":
            self.context = FixedPastTransformer(width, heads, memory, 2 * width, layers, lag_bias=True)
        else:
            self.context = RecurrentContext(width, memory)
        self.hidden = ChannelLinear(output_dim, width + output_dim, width)
        self.last = ChannelLinear(output_dim, width, 3 * components + 1)
        self.use_network = True
        self._start_mixture()

    def _start_mixture(self) -> None:
        """A small gate and spread means."""
        self.hidden.reset(1.0, torch.default_generator)
        self.last.reset(0.3, torch.default_generator)
        with torch.no_grad():
            start = torch.zeros(3 * self.components + 1)
            start[self.components : 2 * self.components] = torch.linspace(-1, 1, self.components)
            start[2 * self.components : 3 * self.components] = -0.3
            start[-1] = FIRST_GATE
            self.last.bias.copy_(start.expand_as(self.last.bias))

    def fit_linear(self, moments: Moments) -> None:
        """The linear prediction and its error from ``moments`` of windows of ``v = (x, y)``."""
        products, inputs, present = self._own(moments)
        mean = products[0]
        covariance = products - torch.outer(mean, mean)
        scale = covariance.diagonal().clamp(min=1e-12).sqrt()
        correlation = covariance / torch.outer(scale, scale)
        seen = correlation[inputs][:, inputs] + RIDGE * torch.eye(len(inputs), dtype=torch.float64)
        across = correlation[inputs][:, present]
        found = torch.linalg.solve(seen, across)
        error = correlation[present][:, present] - across.mT @ found - found.mT @ across
        error = error + found.mT @ (seen @ found)
        coefficients = found / scale[inputs, None] * scale[present]
        self._set(coefficients, inputs, mean, scale, error * torch.outer(scale[present], scale[present]))

    def _own(self, moments: Moments) -> tuple[Tensor, Tensor, Tensor]:
        """Products of what this density sees; the columns of its inputs and of its present output."""
        step = self.input_dim + self.output_dim
        joint = (len(moments.products) - 1) // (self.memory + 1)
        kept = torch.arange(joint - step, joint) + joint * torch.arange(self.memory + 1)[:, None]
        kept = torch.cat([torch.zeros(1, dtype=torch.int64), 1 + kept.flatten()])
        columns = torch.arange(1, len(kept))
        return moments.products[kept][:, kept], columns[: -self.output_dim], columns[-self.output_dim :]

    def _set(self, coefficients: Tensor, inputs: Tensor, mean: Tensor, scale: Tensor, error: Tensor) -> None:
        value_dim = self.input_dim + self.output_dim
        weight = torch.zeros((self.memory + 1) * value_dim, self.output_dim, dtype=torch.float64)
        weight[: len(inputs)] = coefficients
        self.weight.copy_(weight.view(self.memory + 1, value_dim, self.output_dim).permute(2, 1, 0))
        self.bias.copy_(mean[-self.output_dim :] - mean[inputs] @ coefficients)
        self.root.copy_(torch.linalg.cholesky(error))
        self.shift.copy_(mean[-value_dim:])
        self.spread.copy_(scale[-value_dim:])

    def forward(self, values: Tensor) -> Tensor:
        residual = self.residual(values)
        gaussian = -0.5 * (residual.square() + LOG_2_PI)
        density = self._with_mixture(values, residual, gaussian) if self.use_network else gaussian
        return density.sum(-1) - self.root.diagonal().log().sum()

    def residual(self, values: Tensor) -> Tensor:
        """(batch, length, output_dim): the standardised error of the linear prediction."""
        mean = functional.conv1d(values.mT, self.weight, self.bias).mT
        error = values[:, self.memory :, self.input_dim :] - mean
        residual: Tensor = torch.linalg.solve_triangular(self.root, error.mT, upper=False)
        return residual.mT

    def linear(self, values: Tensor) -> Tensor:
        """(batch, length): the log density without the network."""
        gaussian = -0.5 * (self.residual(values).square() + LOG_2_PI)
        return gaussian.sum(-1) - self.root.diagonal().log().sum()

    def choose(self, values: Tensor) -> None:
        """Use the network where its gain on ``values``, of streams it has not seen, is not by chance."""
        self.use_network = True
        gain = (self(values) - self.linear(values)).mean(1)
        self.use_network = bool(gain.mean() > 2 * gain.std() / math.sqrt(len(gain)))

    def _with_mixture(self, values: Tensor, residual: Tensor, gaussian: Tensor) -> Tensor:
        """(batch, length, output_dim): log of the gated sum of the Gaussian and the network's mixture."""
        outputs = self._outputs(values, residual)
        logits, means, log_scales = outputs[..., :-1].chunk(3, -1)
        log_scales = log_scales.clamp(min=LEAST_LOG_SCALE)
        standard = (residual[..., None] - means) * torch.exp(-log_scales)
        terms = logits.log_softmax(-1) - log_scales - 0.5 * (standard.square() + LOG_2_PI)
        gate = outputs[..., -1]
        mixture = torch.logsumexp(terms, -1) + functional.logsigmoid(gate)
        return torch.logaddexp(gaussian + functional.logsigmoid(-gate), mixture)

    def _outputs(self, values: Tensor, residual: Tensor) -> Tensor:
        """(batch, length, output_dim, 3 x components + 1): what the network says of each channel."""
        past, present = self._tokens(values)
        context = self.context(past, present)
        d = self.output_dim
        before = residual[:, :, None] * torch.ones(d, d, device=residual.device).tril(-1)
        inputs = torch.cat([context.expand(-1, -1, d, -1), before], -1)
        hidden = functional.silu(self.hidden(inputs.flatten(0, 1).transpose(0, 1)))
        return cast("Tensor", self.last(hidden).transpose(0, 1).unflatten(0, residual.shape[:2]))

    def _tokens(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Embedded past (batch, memory + length - 1, width) and present (batch, length, 1, width)."""
        standard = (values - self.shift) / self.spread
        present = standard[:, self.memory :, : self.input_dim]
        if not self.input_dim:
            present = torch.zeros_like(standard[:, self.memory :, :1])
        return self.of_past(standard[:, :-1]), self.of_present(present)[:, :, None]

    def attention(self, values: Tensor) -> Tensor | None:
        """(layers, batch, length, 1, heads, memory + 1): the weights, oldest first; None for an LSTM."""
        if isinstance(self.context, RecurrentContext):
            return None
        return self.context.weights(*self._tokens(values))

    @torch.enable_grad()
    def influence(self, values: Tensor) -> Tensor:
        """(memory + 1,): how strongly the log density reacts to each step of its window, oldest first.

        The root mean square, over the first windows of all streams, of its gradient in standardised values.
        """
        windows = values[:, : self.memory + 1].detach().requires_grad_()
        gradient = torch.autograd.grad(self(windows).sum(), windows)[0]
        return (gradient * self.spread).square().sum(-1).mean(0).sqrt()


class Critics(nn.Module):
    """The density of the output given its past, and given the input as well: TE = E[log p_XY - log p_Y]."""

    def __init__(self, memory: int, input_dim: int, output_dim: int, kind: CriticKind = "treet") -> None:
        super().__init__()
        self.input_dim, self.kind = input_dim, kind
        self.joint = OutputDensity(memory, input_dim, output_dim, kind)
        self.alone = OutputDensity(memory, 0, output_dim, kind)

    def forward(self, values: Tensor) -> Tensor:
        """(batch, length): local transfer entropy, for ``values`` (batch, memory + length, x and y)."""
        joint, alone = self._both(values)
        return joint - alone

    def linear(self, values: Tensor) -> Tensor:
        """(batch, length): the same from the linear densities alone."""
        return self.joint.linear(values) - self.alone.linear(values[..., self.input_dim :])

    def loss(self, values: Tensor) -> Tensor:
        """What training the two densities minimises."""
        joint, alone = self._both(values)
        return -(joint + alone).mean()

    def _both(self, values: Tensor) -> tuple[Tensor, Tensor]:
        return self.joint(values), self.alone(values[..., self.input_dim :])

    @property
    def use_networks(self) -> bool:
        """Whether there is anything to train."""
        return self.joint.use_network or self.alone.use_network

    @torch.no_grad()
    def choose(self, values: Tensor) -> None:
        """Leave out each network that does not beat its linear density on ``values`` by more than chance."""
        self.joint.choose(values)
        self.alone.choose(values[..., self.input_dim :])

    def fit_linear(self, moments: Moments) -> None:
        self.joint.fit_linear(moments)
        self.alone.fit_linear(moments)


def train_networks(critics: Critics, values: Tensor, steps: int, random: torch.Generator) -> None:
    """The networks of ``critics``, by ``steps`` minibatches of streams of ``values``."""
    optimiser = Annealed([(list(critics.parameters()), CRITIC_RATE)], steps)
    for _ in range(steps):
        chosen = torch.randint(len(values), (MINIBATCH,), generator=random)
        optimiser.step(critics.loss(values[chosen]))
