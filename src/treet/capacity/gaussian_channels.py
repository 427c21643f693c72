"""Channels with additive Gaussian noise, white or with a memory."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from treet.capacity.channels import Channel, State, check_input, check_memory, need_power
from treet.capacity.closed_form import arma_feedback_capacity, awgn_capacity
from treet.capacity.feedback_ceiling import largest_feedback_transfer_entropy
from treet.capacity.gaussian import largest_transfer_entropy
from treet.capacity.mass_points import amplitude_capacity
from treet.capacity.noise import ArmaNoise, Floats, check_coefficients
from treet.capacity.water_filling import water_filling_capacity
from treet.checks import check_number, check_whole


@dataclass(frozen=True)
class AWGN(Channel):
    """White Gaussian noise: ``y = x + z``, ``E|z|^2 = variance`` shared over ``dimension`` components.

    ``C = (d/2) log(1 + power / variance)`` with ``E|x|^2 <= power``, with and without feedback and at every
    memory. With a ``peak`` every component keeps ``|x_i| <= peak``; the capacity is then that of the best
    mass points, and a power may be left out. Peak and power together are known for one component only.

    >>> round(AWGN(dimension=4).capacity(power=1.0), 6)
    1.386294
    """

    name: ClassVar[str] = "awgn"
    summary: ClassVar[str] = "white Gaussian noise, with a limit on the power or the peak"
    additive: ClassVar[bool] = True

    dimension: int = 1
    variance: float = 1.0
    peak: float | None = None

    def __post_init__(self) -> None:
        check_whole("dimension", self.dimension, 1)
        check_number("variance", self.variance, above=0)
        if self.peak is not None:
            check_number("peak", self.peak, above=0)

    @property
    def input_dim(self) -> int:
        return self.dimension

    @property
    def output_dim(self) -> int:
        return self.dimension

    @property
    def noise_dim(self) -> int:
        return self.dimension

    @property
    def input_range(self) -> tuple[float, float] | None:
        return None if self.peak is None else (-self.peak, self.peak)

    @property
    def std(self) -> float:
        """The standard deviation of one component of the noise."""
        return math.sqrt(self.variance / self.dimension)

    def step(self, x: Tensor, state: State, noise: Tensor) -> tuple[Tensor, State]:
        check_input(self, x)
        return x + self.std * noise, state

    def capacity(self, power: float | None = None, feedback: bool = False) -> float | None:
        if self.peak is None:
            return awgn_capacity(need_power(self, power), self.variance, self.dimension)
        if power is not None and self.dimension > 1:
            return None
        return self.dimension * amplitude_capacity(self.peak, self.std, power).value

    def ceiling(self, memory: int, power: float | None = None, feedback: bool = False) -> float | None:
        check_memory(memory)
        return self.capacity(power, feedback)


class ColouredNoise(Channel):
    """``y = x + z`` with stationary Gaussian noise ``z`` that has a memory.

    The noise that goes into ``step`` is standard normal; the state is the past of ``z`` and of its
    innovations, newest first: (batch, p) and (batch, q).
    """

    additive: ClassVar[bool] = True

    @property
    @abstractmethod
    def noise(self) -> ArmaNoise:
        """The law of ``z``."""

    @cached_property
    def _state_root(self) -> Floats:
        values, vectors = np.linalg.eigh(self.noise.state_covariance)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))

    def initial_state(
        self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> State:
        root = torch.as_tensor(self._state_root, dtype=dtype, device=generator.device)
        drawn = torch.randn(batch, len(root), generator=generator, device=generator.device, dtype=dtype)
        past = drawn @ root.T
        order = len(self.noise.ar)
        return past[:, :order], past[:, order:]

    def step(self, x: Tensor, state: State, noise: Tensor) -> tuple[Tensor, State]:
        past, innovations = state
        new = math.sqrt(self.noise.variance) * noise
        z = new + _weighted(past, self.noise.ar) + _weighted(innovations, self.noise.ma)
        return x + z, (_shifted(past, z), _shifted(innovations, new))

    def capacity(self, power: float | None = None, feedback: bool = False) -> float | None:
        """Water-filling; with feedback it is known for noise of first order at most."""
        power = need_power(self, power)
        if not feedback:
            return water_filling_capacity(self.noise.spectrum, power, self.noise.breaks)
        ar, ma = (_first_order(coefficients) for coefficients in (self.noise.ar, self.noise.ma))
        if ar is None or ma is None:
            return None
        return arma_feedback_capacity(power, ar, ma, self.noise.variance)

    def ceiling(self, memory: int, power: float | None = None, feedback: bool = False) -> float | None:
        memory, power = check_memory(memory), need_power(self, power)
        if feedback:
            return largest_feedback_transfer_entropy(self.noise, memory, power)
        return largest_transfer_entropy(self.noise.autocovariances(memory), power)


def _weighted(past: Tensor, coefficients: Sequence[float]) -> Tensor:
    """(batch, 1): ``sum_i coefficients_i past_i``."""
    return (past @ past.new_tensor(coefficients))[:, None]


def _shifted(past: Tensor, new: Tensor) -> Tensor:
    """``past`` with ``new`` in front and its oldest value gone."""
    return torch.cat([new, past], dim=1)[:, : past.shape[1]]


def _first_order(coefficients: Sequence[float]) -> float | None:
    """The coefficient at lag 1, None if another one is not zero."""
    return None if any(coefficients[1:]) else float(sum(coefficients[:1]))


@dataclass(frozen=True)
class MovingAverage(ColouredNoise):
    """MA(q) noise: ``z_t = n_t + sum_j coefficients_j n_{t-j}``, ``n_t ~ N(0, variance)``.

    >>> channel = MovingAverage((0.5,))
    >>> round(channel.capacity(1.0), 6), round(channel.capacity(1.0, feedback=True), 6)
    (0.405465, 0.546191)
    """

    name: ClassVar[str] = "ma"
    summary: ClassVar[str] = "Gaussian noise that is a moving average"

    coefficients: Sequence[float] = (0.5,)
    variance: float = 1.0

    def __post_init__(self) -> None:
        _freeze(self, "coefficients")
        check_number("variance", self.variance, above=0)

    @cached_property
    def noise(self) -> ArmaNoise:
        return ArmaNoise(ma=self.coefficients, variance=self.variance)


@dataclass(frozen=True)
class AutoRegressive(ColouredNoise):
    """AR(p) noise: ``z_t = sum_i coefficients_i z_{t-i} + n_t``, ``n_t ~ N(0, variance)``.

    >>> round(AutoRegressive((0.5,)).capacity(1.0), 6)
    0.413427
    """

    name: ClassVar[str] = "ar"
    summary: ClassVar[str] = "autoregressive Gaussian noise"

    coefficients: Sequence[float] = (0.5,)
    variance: float = 1.0

    def __post_init__(self) -> None:
        _freeze(self, "coefficients")
        check_number("variance", self.variance, above=0)
        self.noise  # noqa: B018 - refuses coefficients that are not stable

    @cached_property
    def noise(self) -> ArmaNoise:
        return ArmaNoise(ar=self.coefficients, variance=self.variance)


@dataclass(frozen=True)
class ARMA(ColouredNoise):
    """ARMA(p, q) noise: ``z_t = sum_i ar_i z_{t-i} + n_t + sum_j ma_j n_{t-j}``, ``n_t ~ N(0, variance)``."""

    name: ClassVar[str] = "arma"
    summary: ClassVar[str] = "Gaussian noise with autoregressive and moving average parts"

    ar: Sequence[float] = (0.5,)
    ma: Sequence[float] = (0.5,)
    variance: float = 1.0

    def __post_init__(self) -> None:
        _freeze(self, "ar")
        _freeze(self, "ma")
        self.noise  # noqa: B018 - refuses coefficients that are not stable

    @cached_property
    def noise(self) -> ArmaNoise:
        return ArmaNoise(self.ar, self.ma, self.variance)


@dataclass(frozen=True)
class DelayedTap(ColouredNoise):
    """``z_t = n_t + coefficient n_{t-delay}``, ``n_t ~ N(0, variance)``: the paper's GMA(100) by default.

    It is ``delay`` interleaved, independent MA(1) channels: the capacities are those of MA(1), and the
    largest TE(l) is that of MA(1) at ``l // delay``.

    >>> channel = DelayedTap()
    >>> [round(channel.ceiling(memory, power=1.0), 6) for memory in (99, 100)]
    [0.293893, 0.38107]
    """

    name: ClassVar[str] = "delayed-tap"
    summary: ClassVar[str] = "Gaussian noise that comes back once, many steps later"

    coefficient: float = 0.5
    delay: int = 100
    variance: float = 1.0

    def __post_init__(self) -> None:
        check_number("coefficient", self.coefficient)
        check_whole("delay", self.delay, 1)
        check_number("variance", self.variance, above=0)

    @cached_property
    def noise(self) -> ArmaNoise:
        return ArmaNoise(ma=(0.0,) * (self.delay - 1) + (self.coefficient,), variance=self.variance)

    @property
    def interleaved(self) -> MovingAverage:
        """One of the ``delay`` channels."""
        return MovingAverage((self.coefficient,), self.variance)

    def capacity(self, power: float | None = None, feedback: bool = False) -> float | None:
        return self.interleaved.capacity(need_power(self, power), feedback)

    def ceiling(self, memory: int, power: float | None = None, feedback: bool = False) -> float | None:
        power = need_power(self, power)
        return self.interleaved.ceiling(check_memory(memory) // self.delay, power, feedback)


@dataclass(frozen=True)
class Saturating(Channel):
    """A nonlinear channel with memory: ``y_t = limit tanh((x_t + echo x_{t-1}) / limit) + n_t``.

    An amplifier that saturates after an echo, with ``n_t ~ N(0, variance)``. Its capacity is not known; it is
    at most that of white noise with the peak ``limit``. The state is the input before, (batch, 1).
    """

    name: ClassVar[str] = "saturating"
    summary: ClassVar[str] = "an echo, an amplifier that saturates, and white Gaussian noise"

    echo: float = 0.5
    limit: float = 1.0
    variance: float = 1.0

    def __post_init__(self) -> None:
        check_number("echo", self.echo)
        check_number("limit", self.limit, above=0)
        check_number("variance", self.variance, above=0)

    def initial_state(
        self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> State:
        """Nothing was sent before the first use."""
        return (torch.zeros(batch, 1, device=generator.device, dtype=dtype),)

    def step(self, x: Tensor, state: State, noise: Tensor) -> tuple[Tensor, State]:
        driven = self.limit * torch.tanh((x + self.echo * state[0]) / self.limit)
        return driven + math.sqrt(self.variance) * noise, (x,)


def _freeze(channel: Channel, name: str) -> None:
    """The field as a tuple of floats, so that the channel can be compared and printed."""
    object.__setattr__(channel, name, check_coefficients(name, getattr(channel, name)))
