"""A generator in front of a channel: sequences as they run, and once more with gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from treet.capacity.channels import Channel, State
from treet.capacity.generator import Generator


@dataclass(frozen=True, eq=False)
class Segment:
    """A stretch of many streams, and all that is needed to run it once more.

    ``noise``          (batch, memory + length, input_dim): of the generator.
    ``values``         (batch, memory + length, input_dim + output_dim): inputs and outputs.
    ``channel_noise``  (length, batch, noise_dim), and ``state``, that of the channel before the segment.
    """

    noise: Tensor
    values: Tensor
    channel_noise: Tensor
    state: State

    @property
    def length(self) -> int:
        return len(self.channel_noise)


class Streams:
    """Independent streams that run on from segment to segment, so that what happens stays stationary.

    The first ``memory`` values are zeros, and as many more are run and thrown away.
    """

    def __init__(
        self, generator: Generator, channel: Channel, batch: int, random: torch.Generator, burn_in: int = 0
    ) -> None:
        self.generator, self.channel, self.random = generator, channel, random
        self.noise = generator.draw_noise(batch, generator.memory, random)
        width = generator.input_dim + generator.output_dim
        self.values = torch.zeros(batch, generator.memory, width)
        self.state = channel.initial_state(batch, random)
        self.run(generator.memory + burn_in)

    @torch.no_grad()
    def run(self, length: int) -> Segment:
        """The next ``length`` steps."""
        generator, memory = self.generator, self.generator.memory
        batch = len(self.values)
        noise = torch.cat([self.noise, generator.draw_noise(batch, length, self.random)], 1)
        values = torch.cat([self.values, self.values.new_zeros(batch, length, self.values.shape[2])], 1)
        channel_noise = self.channel.sample_noise(length, batch, self.random)
        filtered, carry, state = (
            generator.filtered(noise),
            generator.correction.begin(generator.seen(self.values)),
            self.state,
        )
        for t in range(length):
            past = values[:, t : t + memory]
            x, carry = generator.step(filtered[:, t], past, noise[:, memory + t], carry)
            y, state = self.channel.step(x, state, channel_noise[t])
            values[:, memory + t] = torch.cat([x, y], 1)
        segment = Segment(noise, values, channel_noise, self.state)
        self.noise, self.values, self.state = noise[:, length:], values[:, length:], state
        return segment


def replay(generator: Generator, channel: Channel, segment: Segment) -> Tensor:
    """(batch, length, input_dim + output_dim): the segment's values, with gradients in the generator.

    Past values are taken as given, so that all inputs come from one parallel pass. They are scaled to keep
    the power in this segment, with a gradient through the scale; apart from it they are those of the segment.
    """
    x = generator.limits.normalised(generator(segment.values[:, :-1], segment.noise))
    return resent(channel, segment, x)


def resent(channel: Channel, segment: Segment, x: Tensor) -> Tensor:
    """(batch, length, input_dim + output_dim): ``x`` and the outputs that ``segment`` would have with it."""
    if channel.additive:
        values, width = segment.values[:, -segment.length :], x.shape[2]
        return torch.cat([x, x + values[..., width:] - values[..., :width]], -1)
    state, outputs = segment.state, []
    for x_t, noise_t in zip(x.unbind(1), segment.channel_noise, strict=True):
        y_t, state = channel.step(x_t, state, noise_t)
        outputs.append(y_t)
    return torch.cat([x, torch.stack(outputs, 1)], -1)
