"""Channels whose output is a symbol or a count: nothing here has a gradient in the input.

To optimise an encoder through them, weigh the outcomes by their probabilities (``output_probabilities``), or
use a score function estimator.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from scipy.stats import poisson
from torch import Tensor

from treet.capacity.belief_programming import FiniteStateLaw, Integers, two_state_feedback_capacity
from treet.capacity.channels import Channel, State, check_input, check_memory, refuse_power
from treet.capacity.closed_form import (
    bec_capacity,
    bec_no_two_ones_feedback_capacity,
    bsc_capacity,
    check_probability,
    ising_feedback_capacity,
    trapdoor_feedback_capacity,
)
from treet.capacity.mass_points import poisson_capacity
from treet.checks import check_number
from treet.errors import TreetError


class FiniteState(Channel):
    """A channel given by tables: ``p(y | s, x)``, the state that follows, and the inputs that are allowed.

    Symbols are int64 tensors (batch, 1), the noise is uniform on [0, 1), the state is (batch,).
    """

    differentiable: ClassVar[bool] = False

    @property
    @abstractmethod
    def law(self) -> FiniteStateLaw:
        """The tables."""

    @property
    def input_symbols(self) -> int:
        return int(self.law.probabilities.shape[1])

    @property
    def output_symbols(self) -> int:
        return int(self.law.probabilities.shape[2])

    def sample_noise(
        self, length: int, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        return torch.rand(length, batch, 1, generator=generator, device=generator.device, dtype=dtype)

    def initial_state(
        self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> State:
        """State 0: the capacity does not depend on where a connected channel starts."""
        return (torch.zeros(batch, dtype=torch.int64, device=generator.device),)

    def step(self, x: Tensor, state: State, noise: Tensor) -> tuple[Tensor, State]:
        self._check_symbols(x, state)
        outcomes = self.output_probabilities(x, state, noise.dtype)
        y = (noise >= outcomes.cumsum(dim=1)[:, :-1]).sum(dim=1, keepdim=True)
        following = torch.as_tensor(self.law.next_state, device=x.device)[state[0], x[:, 0], y[:, 0]]
        return y, (following,)

    def output_probabilities(self, x: Tensor, state: State, dtype: torch.dtype = torch.float32) -> Tensor:
        """(batch, output_symbols): how probable each output is."""
        table = torch.as_tensor(self.law.probabilities, dtype=dtype, device=x.device)
        return table[state[0], x[:, 0]]

    def allowed(self, state: State) -> Tensor:
        """(batch, input_symbols): which symbols may be sent in ``state``."""
        return torch.as_tensor(self.law.allowed, device=state[0].device)[state[0]]

    def _check_symbols(self, x: Tensor, state: State) -> None:
        if x.dtype != torch.int64 or bool(((x < 0) | (x >= self.input_symbols)).any()):
            raise TreetError(
                f"The input of {self.name!r} must be int64 symbols from 0 to {self.input_symbols - 1}. "
                f"Got {x.dtype} values from {x.min():g} to {x.max():g}."
            )
        if not bool(self.allowed(state).gather(1, x).all()):
            raise TreetError(
                f"The input of {self.name!r} breaks its constraint. Send only what allowed(state) allows."
            )

    def ceiling(self, memory: int, power: float | None = None, feedback: bool = False) -> float | None:
        """For a channel without state that of every memory is the capacity; otherwise it is not known."""
        check_memory(memory)
        refuse_power(self, power)
        return self.capacity(feedback=feedback) if len(self.law.probabilities) == 1 else None


def _memoryless(probabilities: list[list[float]], no_two_ones: bool) -> FiniteStateLaw:
    """A channel without a state, or with the last input as the state that forbids a second one in a row."""
    table = np.array([probabilities])
    if not no_two_ones:
        return FiniteStateLaw(table, np.zeros(table.shape, dtype=np.int64), np.array([[True, True]]))
    table = np.repeat(table, 2, axis=0)
    return FiniteStateLaw(table, _input_before(table.shape), np.array([[True, True], [True, False]]))


@dataclass(frozen=True)
class BinarySymmetric(FiniteState):
    """A bit that is flipped with probability ``flip``; ``no_two_ones`` forbids ones in a row.

    Under the constraint the capacity is known with feedback: by dynamic programming, from below, to 1e-5.
    """

    name: ClassVar[str] = "bsc"
    summary: ClassVar[str] = "a bit that is sometimes flipped"

    flip: float = 0.1
    no_two_ones: bool = False

    def __post_init__(self) -> None:
        check_probability("flip", self.flip)

    @cached_property
    def law(self) -> FiniteStateLaw:
        return _memoryless([[1 - self.flip, self.flip], [self.flip, 1 - self.flip]], self.no_two_ones)

    def capacity(self, power: float | None = None, feedback: bool = False) -> float | None:
        refuse_power(self, power)
        if not self.no_two_ones:
            return bsc_capacity(self.flip)
        return two_state_feedback_capacity(self.law) if feedback else None


@dataclass(frozen=True)
class BinaryErasure(FiniteState):
    """A bit that is lost with probability ``erasure``, which gives the symbol 2.

    ``no_two_ones`` forbids ones in a row; the capacity is then known with feedback.
    """

    name: ClassVar[str] = "bec"
    summary: ClassVar[str] = "a bit that is sometimes lost"

    erasure: float = 0.5
    no_two_ones: bool = False

    def __post_init__(self) -> None:
        check_probability("erasure", self.erasure)

    @cached_property
    def law(self) -> FiniteStateLaw:
        kept = 1 - self.erasure
        return _memoryless([[kept, 0.0, self.erasure], [0.0, kept, self.erasure]], self.no_two_ones)

    def capacity(self, power: float | None = None, feedback: bool = False) -> float | None:
        refuse_power(self, power)
        if not self.no_two_ones:
            return bec_capacity(self.erasure)
        return bec_no_two_ones_feedback_capacity(self.erasure) if feedback else None


def _input_before(shape: tuple[int, ...]) -> Integers:
    """(states, inputs, outputs): the state that follows is the input."""
    return np.array(np.broadcast_to(np.arange(2)[None, :, None], shape))


def _either(next_state: Integers) -> FiniteStateLaw:
    """The output is the input or the state, with equal probability."""
    state, x, y = np.ogrid[:2, :2, :2]
    probabilities = ((y == x) + (y == state).astype(np.float64)) / 2
    return FiniteStateLaw(probabilities, next_state, np.ones((2, 2), dtype=np.bool_))


@dataclass(frozen=True)
class Trapdoor(FiniteState):
    """A box that holds a ball: a second one is put in, and one of the two falls out at random.

    The state is the ball that stays, ``s xor x xor y``. With feedback ``C`` is the log of the golden ratio.
    """

    name: ClassVar[str] = "trapdoor"
    summary: ClassVar[str] = "of the input and the symbol left inside, one comes out at random"

    @cached_property
    def law(self) -> FiniteStateLaw:
        state, x, y = np.ogrid[:2, :2, :2]
        return _either((state + x + y) % 2)

    def capacity(self, power: float | None = None, feedback: bool = False) -> float | None:
        refuse_power(self, power)
        return trapdoor_feedback_capacity() if feedback else None


@dataclass(frozen=True)
class Ising(FiniteState):
    """The output is this input or the one before, with equal probability; the state is the input before."""

    name: ClassVar[str] = "ising"
    summary: ClassVar[str] = "of this input and the one before, one comes out at random"

    @cached_property
    def law(self) -> FiniteStateLaw:
        return _either(_input_before((2, 2, 2)))

    def capacity(self, power: float | None = None, feedback: bool = False) -> float | None:
        refuse_power(self, power)
        return ising_feedback_capacity() if feedback else None


@dataclass(frozen=True)
class Optical(Channel):
    """Photons counted in a slot: ``y ~ Poisson(x + dark)`` with the intensity ``0 <= x <= peak``.

    ``mean``, if given, bounds ``E[x]``. The input is real and the output a count, in the input's type: a
    uniform number goes through the inverse of the distribution function, which has no gradient.

    >>> round(Optical(peak=2.0, dark=0.5).capacity(), 4)
    0.2781
    """

    name: ClassVar[str] = "optical"
    summary: ClassVar[str] = "photon counts with a dark current and a limit on the peak"
    differentiable: ClassVar[bool] = False

    peak: float = 10.0
    dark: float = 1.0
    mean: float | None = None

    def __post_init__(self) -> None:
        check_number("peak", self.peak, above=0)
        check_number("dark", self.dark, above=-math.ulp(0.0))
        if self.mean is not None:
            check_number("mean", self.mean, above=0)

    @property
    def input_range(self) -> tuple[float, float]:
        return (0.0, self.peak)

    @cached_property
    def _largest_count(self) -> int:
        """Single precision does not resolve what is beyond."""
        return int(poisson.isf(1e-12, self.peak + self.dark)) + 1

    def sample_noise(
        self, length: int, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        return torch.rand(length, batch, 1, generator=generator, device=generator.device, dtype=dtype)

    def step(self, x: Tensor, state: State, noise: Tensor) -> tuple[Tensor, State]:
        check_input(self, x)
        cumulative = self.output_probabilities(x, state).cumsum(dim=1)
        return (noise >= cumulative[:, :-1]).sum(dim=1, keepdim=True).to(x.dtype), state

    def output_probabilities(self, x: Tensor, state: State) -> Tensor:
        """(batch, counts): how probable each count is, with a gradient in ``x``."""
        counts = torch.arange(self._largest_count + 1, device=x.device, dtype=x.dtype)
        rate = (x + self.dark).clamp(min=1e-30)
        return torch.exp(counts * torch.log(rate) - rate - torch.lgamma(counts + 1))

    def capacity(self, power: float | None = None, feedback: bool = False) -> float | None:
        if power is not None:
            raise TreetError(
                f"The optical channel has no power. Got power={power!r}: set mean on the channel."
            )
        return poisson_capacity(self.peak, self.dark, self.mean).value

    def ceiling(self, memory: int, power: float | None = None, feedback: bool = False) -> float | None:
        check_memory(memory)
        return self.capacity(power, feedback)
