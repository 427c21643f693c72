"""Neural generators of channel inputs: causal, under a power or a peak constraint, trained by gradients."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from treet.nn.attention import FixedPastTransformer

Carry = tuple[Tensor, ...]

KINDS, NOISES = ("transformer", "lstm", "iid"), ("uniform", "gaussian")

FIRST_SPREAD = 0.01
"""With feedback, of the weights of past noise and outputs before training: at zero is a saddle point."""

STEPS = 6
"""How many bends the map of the noise can make: the mass points of a bounded input need a few."""

GATE = 0.3
"""The rate at which the scale follows the measured power: each measurement is noisy."""


class Correction(nn.Module, ABC):
    """What a network adds to the linear part of a generator: a function of past values and of new noise.

    ``past``   (batch, memory + length - 1, value_dim): the values before each step, oldest first.
    ``noise``  (batch, length, noise_dim): the noise of each step, which no other step sees.
    output     (batch, length, output_dim).

    ``step`` does one step of it, with what ``begin`` and earlier steps carry along.
    """

    @abstractmethod
    def forward(self, past: Tensor, noise: Tensor) -> Tensor:
        """All steps in one pass."""

    def begin(self, past: Tensor) -> Carry:
        """What ``step`` needs for the first step after ``past`` (batch, memory, value_dim)."""
        return ()

    def step(self, past: Tensor, noise: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """``past`` (batch, memory, value_dim) and ``noise`` (batch, noise_dim) to (batch, output_dim)."""
        return self(past, noise[:, None])[:, 0], carry


def _silent(layer: nn.Linear) -> nn.Linear:
    """``layer`` with zero output: training begins with the linear part alone."""
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class TransformerCorrection(Correction):
    """The paper's generator: past tokens hold values and no noise, the newest token noise and no value."""

    def __init__(
        self, memory: int, value_dim: int, noise_dim: int, *, width: int = 16, heads: int = 1, layers: int = 1
    ) -> None:
        super().__init__()
        self.of_values = nn.Linear(value_dim, width)
        self.of_noise = nn.Linear(noise_dim, width)
        self.transformer = FixedPastTransformer(width, heads, memory, 2 * width, layers, lag_bias=True)
        self.last = _silent(nn.Linear(width, noise_dim))

    def forward(self, past: Tensor, noise: Tensor) -> Tensor:
        present = self.of_noise(noise)[:, :, None]
        return cast("Tensor", self.last(self.transformer(self.of_values(past), present)[:, :, 0]))

    def weights(self, past: Tensor, noise: Tensor) -> Tensor:
        """(layers, batch, length, draws, heads, memory + 1): how much each past value weighs."""
        return self.transformer.weights(self.of_values(past), self.of_noise(noise)[:, :, None])


class LSTMCorrection(Correction):
    """An LSTM over the past values, and a small network of its state and the new noise."""

    def __init__(self, memory: int, value_dim: int, noise_dim: int, *, width: int = 32) -> None:
        super().__init__()
        self.memory = memory
        self.lstm = nn.LSTM(value_dim, width, batch_first=True)
        self.first = nn.Linear(width + noise_dim, 2 * width)
        self.last = _silent(nn.Linear(2 * width, noise_dim))

    def forward(self, past: Tensor, noise: Tensor) -> Tensor:
        states = self.lstm(past)[0][:, self.memory - 1 :]
        return self._read(states, noise)

    def _read(self, states: Tensor, noise: Tensor) -> Tensor:
        return cast("Tensor", self.last(functional.elu(self.first(torch.cat([states, noise], -1)))))

    def begin(self, past: Tensor) -> Carry:
        # The newest value is taken in by the step that follows it.
        zeros = past.new_zeros(1, len(past), self.lstm.hidden_size)
        return self.lstm(past[:, :-1], (zeros, zeros))[1] if past.shape[1] > 1 else (zeros, zeros)

    def step(self, past: Tensor, noise: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        states, carry = self.lstm(past[:, -1:], carry)
        return self._read(states, noise[:, None])[:, 0], carry


class MemorylessCorrection(Correction):
    """A small network of the new noise alone: independent inputs."""

    def __init__(self, noise_dim: int, *, width: int = 32) -> None:
        super().__init__()
        self.first = nn.Linear(noise_dim, width)
        self.last = _silent(nn.Linear(width, noise_dim))

    def forward(self, past: Tensor, noise: Tensor) -> Tensor:
        return cast("Tensor", self.last(functional.elu(self.first(noise))))


class NoiseMap(nn.Module):
    """An increasing map of uniform noise, which begins as the normal quantile function.

        m(u) = a g + sum_k h_k tanh(s_k (g - c_k)),   g = quantile((1 + u) / 2),   a, h_k, s_k > 0

    It turns uniform into Gaussian noise at first and, with large ``s_k``, into a few mass points.
    """

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(math.log(math.expm1(1.0))))
        self.heights = nn.Parameter(torch.full((STEPS,), -5.0))
        self.sharpness = nn.Parameter(torch.zeros(STEPS))
        self.centres = nn.Parameter(torch.linspace(-1.5, 1.5, STEPS))

    def forward(self, noise: Tensor) -> Tensor:
        gaussian = math.sqrt(2) * torch.erfinv(noise)
        bends = torch.tanh(self.sharpness.exp() * (gaussian[..., None] - self.centres))
        return functional.softplus(self.slope) * gaussian + bends @ functional.softplus(self.heights)


@dataclass(frozen=True)
class Limits:
    """What an input must keep: ``E|x|^2 <= power``, and ``low <= x_i <= high``; None where there is none."""

    power: float | None = None
    low: float | None = None
    high: float | None = None

    @property
    def bounded(self) -> bool:
        return self.low is not None and self.high is not None

    def squash(self, raw: Tensor) -> Tensor:
        """``raw`` moved into the range, smoothly."""
        if self.low is None or self.high is None:
            return raw
        middle, half = (self.high + self.low) / 2, (self.high - self.low) / 2
        return middle + half * torch.tanh(raw / half)

    def normalised(self, x: Tensor) -> Tensor:
        """``x`` (batch, length, input_dim) scaled by a number, through which gradients go, to keep the power.

        Where the range holds as well, ``x`` is only ever scaled down.
        """
        if self.power is None:
            return x
        factor = (self.power / x.square().sum(-1).mean().clamp(min=1e-12)).sqrt()
        return x * (factor.clamp(max=1.0) if self.bounded else factor)


class Generator(nn.Module):
    """``x_t = limits(scale (sum_k B_k m(u_{t-k}) + sum_k C_k e_{t-k} + correction(past, u_t)))``.

    The generator of the paper (a transformer, the correction) with a linear path beside it: filters ``B`` of
    the noise and, with feedback, ``C`` of what the channel did, ``e = y - x`` (``y`` alone where the two have
    different sizes). Gaussian inputs through linear filters are optimal for Gaussian channels, so that only
    what is not linear and Gaussian is left to the network. A filter of the noise is learned in a few hundred
    steps where a recursion over past inputs needs poles at the unit circle; and for additive noise neither
    filter has a gradient through the past, so that taking past values as given, as the paper does, loses
    nothing.

    ``noise``   (batch, memory + length, input_dim): uniform on (-1, 1), or standard normal.
    ``past``    (batch, memory + length - 1, input_dim + output_dim): the values before each step.
    output      (batch, length, input_dim).
    """

    scale: Tensor

    def __init__(
        self,
        memory: int,
        input_dim: int,
        output_dim: int,
        limits: Limits,
        *,
        feedback: bool = False,
        kind: Literal["transformer", "lstm", "iid"] = "transformer",
        noise: Literal["uniform", "gaussian"] = "uniform",
    ) -> None:
        super().__init__()
        self.memory, self.input_dim, self.output_dim = memory, input_dim, output_dim
        self.feedback, self.limits = feedback, limits
        self.map = NoiseMap() if noise == "uniform" else nn.Identity()
        taps = 0 if kind == "iid" else memory
        spread = FIRST_SPREAD if feedback else 0.0
        self.noise_filter = nn.Parameter(spread * torch.randn(input_dim, input_dim, taps + 1))
        self.noise_filter.data[:, :, -1] = torch.eye(input_dim)
        if feedback:
            self.feedback_filter = nn.Parameter(spread * torch.randn(input_dim, output_dim, memory))
        seen = self.value_dim if feedback else input_dim
        self.use_correction = True
        self.correction: Correction
        if kind == "transformer":
            self.correction = TransformerCorrection(memory, seen, input_dim)
        elif kind == "lstm":
            self.correction = LSTMCorrection(memory, seen, input_dim)
        else:
            self.correction = MemorylessCorrection(input_dim)
        first = 1.0 if limits.power is None else math.sqrt(limits.power / input_dim)
        self.register_buffer("scale", torch.tensor(first))

    @property
    def value_dim(self) -> int:
        """Of input and output together."""
        return self.input_dim + self.output_dim

    def direct(self) -> list[nn.Parameter]:
        """The weights that can learn fast: the filters and, where the range calls for another law, its map.

        Where there is no range a Gaussian input is the rule, and critics that have left their networks out
        would not see the map leave it.
        """
        filters = self.filters()
        return [*filters, *self.map.parameters()] if self.limits.bounded else filters

    def filters(self) -> list[nn.Parameter]:
        return [self.noise_filter, self.feedback_filter] if self.feedback else [self.noise_filter]

    @property
    def uniform(self) -> bool:
        return isinstance(self.map, NoiseMap)

    def draw_noise(self, batch: int, length: int, generator: torch.Generator) -> Tensor:
        """(batch, length, input_dim) of fresh noise."""
        shape = (batch, length, self.input_dim)
        if not self.uniform:
            return torch.randn(shape, generator=generator)
        # Open at both ends, so that the quantile function stays finite.
        return (2 * torch.rand(shape, generator=generator) - 1).clamp(-1 + 1e-6, 1 - 1e-6)

    def forward(self, past: Tensor, noise: Tensor) -> Tensor:
        """All inputs in one pass; ``past`` has no gradient."""
        raw = self.filtered(noise)
        if self.use_correction:
            raw = raw + self.correction(self.seen(past), noise[:, self.memory :])
        if self.feedback:
            raw = raw + _filter(self.echoes(past), self.feedback_filter)
        return self.limits.squash(self.scale * raw)

    def filtered(self, noise: Tensor) -> Tensor:
        """(batch, length, input_dim): the part that follows from the noise alone."""
        return _filter(self.map(noise[:, self.memory + 1 - self.noise_filter.shape[-1] :]), self.noise_filter)

    def seen(self, past: Tensor) -> Tensor:
        """What the network sees of past values: inputs, and outputs where there is feedback."""
        return past if self.feedback else past[..., : self.input_dim]

    def echoes(self, past: Tensor) -> Tensor:
        """(batch, time, output_dim): what the channel did with past inputs."""
        x, y = past[..., : self.input_dim], past[..., self.input_dim :]
        return y - x if self.input_dim == self.output_dim else y

    def step(self, filtered: Tensor, past: Tensor, noise: Tensor, carry: Carry) -> tuple[Tensor, Carry]:
        """One step: ``past`` (batch, memory, ..), ``filtered`` and ``noise`` (batch, input_dim)."""
        raw = filtered
        if self.use_correction:
            corrected, carry = self.correction.step(self.seen(past), noise, carry)
            raw = raw + corrected
        if self.feedback:
            raw = raw + _filter(self.echoes(past), self.feedback_filter)[:, 0]
        return self.limits.squash(self.scale * raw), carry

    def follow_power(self, x: Tensor, rate: float = GATE) -> None:
        """Move the scale towards the one with which ``x`` (batch, length, input_dim) keeps the power."""
        if self.limits.power is None:
            return
        ratio = self.limits.power / float(x.detach().square().sum(-1).mean())
        self.scale.mul_(ratio ** (rate / 2))


def _filter(values: Tensor, weights: Tensor) -> Tensor:
    """(batch, time, inputs) -> (batch, time - lags, outputs): each output a sum over the last values."""
    return functional.conv1d(values.mT, weights).mT
