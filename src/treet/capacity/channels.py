"""The contract of every channel: one use at a time, over a batch, with the state and the noise passed in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from treet.checks import check_number, check_whole
from treet.errors import TreetError

State = tuple[Tensor, ...]
"""What a channel remembers: tensors (batch, ..), none for a memoryless one. Never changed in place."""


class Channel(ABC):
    """``(y_t, state) = step(x_t, state, noise_t)``: a pure function, with nothing kept on the channel.

    Subclasses are frozen dataclasses that check their parameters. A continuous channel is differentiable in
    ``x_t`` and in the state; a discrete one takes and gives symbols 0, 1, .. as int64 tensors.

    A channel of your own needs ``step`` and, if it remembers, ``initial_state``; the noise is standard
    normal with ``noise_dim`` components unless ``sample_noise`` says otherwise.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Fading(Channel):
    ...     name = "fading"
    ...     summary = "a gain that changes at every step"
    ...     noise_dim = 2
    ...     def step(self, x, state, noise):
    ...         return noise[:, :1] * x + noise[:, 1:], state
    >>> generator = torch.Generator().manual_seed(0)
    >>> Fading().transmit(torch.ones(10, 3, 1), generator).shape
    torch.Size([10, 3, 1])
    """

    name: ClassVar[str]
    """What the registry and the command line call it."""

    summary: ClassVar[str]
    """One line for lists of channels."""

    allows_feedback: ClassVar[bool] = True
    """Whether the encoder may see past outputs."""

    differentiable: ClassVar[bool] = True
    """Whether the output has a gradient in the input."""

    additive: ClassVar[bool] = False
    """Whether ``y_t - x_t`` is the same whatever the inputs."""

    @property
    def input_dim(self) -> int:
        """How many components ``x_t`` has."""
        return 1

    @property
    def output_dim(self) -> int:
        """How many components ``y_t`` has."""
        return 1

    @property
    def noise_dim(self) -> int:
        """How many components the noise of one step has."""
        return 1

    @property
    def input_symbols(self) -> int | None:
        """How many input symbols there are; None for a continuous input."""
        return None

    @property
    def output_symbols(self) -> int | None:
        """How many output symbols there are; None for a continuous output or a count."""
        return None

    @property
    def input_range(self) -> tuple[float, float] | None:
        """The limits that every component of the input has to keep, None where there are none."""
        return None

    @abstractmethod
    def step(self, x: Tensor, state: State, noise: Tensor) -> tuple[Tensor, State]:
        """One use: ``x`` (batch, input_dim) and ``noise`` (batch, noise_dim) to ``y`` (batch, output_dim)."""

    def initial_state(
        self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> State:
        """A state before the first use, drawn from its stationary law, on the device of ``generator``."""
        return ()

    def sample_noise(
        self, length: int, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """(length, batch, noise_dim): the noise of ``length`` uses, on the device of ``generator``."""
        shape = (length, batch, self.noise_dim)
        return torch.randn(shape, generator=generator, device=generator.device, dtype=dtype)

    def transmit(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """The outputs (length, batch, output_dim) for inputs (length, batch, input_dim) set beforehand."""
        dtype = x.dtype if x.is_floating_point() else torch.float32
        state = self.initial_state(x.shape[1], generator, dtype)
        outputs = []
        for x_t, noise_t in zip(x, self.sample_noise(len(x), x.shape[1], generator, dtype), strict=True):
            y_t, state = self.step(x_t, state, noise_t)
            outputs.append(y_t)
        return torch.stack(outputs)

    def capacity(self, power: float | None = None, feedback: bool = False) -> float | None:
        """The exact capacity in nats a use, or None where it is not known.

        ``power``     the bound on ``E|X_t|^2``.
        ``feedback``  whether the encoder sees past outputs.
        """
        return None

    def ceiling(self, memory: int, power: float | None = None, feedback: bool = False) -> float | None:
        """The supremum in nats of TE(``memory``) over stationary inputs, or None where it is not known.

        It is what an estimator with this memory can reach at most, and can differ from the capacity, below
        or above.
        """
        return None


def need_power(channel: Channel, power: float | None) -> float:
    """``power``, checked, for a channel whose capacity depends on it."""
    if power is None:
        raise TreetError(f"The capacity of {channel.name!r} depends on the input power. Give power.")
    check_number("power", power, above=0)
    return power


def refuse_power(channel: Channel, power: float | None) -> None:
    """Raise when a power is given to a channel whose input has none."""
    if power is not None:
        raise TreetError(
            f"The input of {channel.name!r} is made of symbols and has no power. Got power={power!r}: "
            "leave it out."
        )


def check_memory(memory: int) -> int:
    """``memory`` as an int of at least 0."""
    return check_whole("memory", memory, 0)


def check_input(channel: Channel, x: Tensor) -> None:
    """Raise where the input leaves its range; rounding of the limits is allowed."""
    if channel.input_range is None:
        return
    low, high = channel.input_range
    slack = 1e-5 * (high - low)
    least, most = (float(value) for value in torch.aminmax(x.detach()))
    if not (low - slack <= least and most <= high + slack):
        raise TreetError(
            f"The input of {channel.name!r} must be from {low:g} to {high:g}. Got values from {least:.4g} to "
            f"{most:.4g}: limit what the encoder sends."
        )
