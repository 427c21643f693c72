"""What a finished generator achieves: its transfer entropy on sequences that nothing was trained on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from treet.capacity.channels import Channel
from treet.capacity.critics import CriticKind, Critics, drawn, train_networks
from treet.capacity.gaussian import input_transfer_entropy, joint_transfer_entropy
from treet.capacity.gaussian_channels import AWGN, ColouredNoise
from treet.capacity.generator import Generator
from treet.capacity.moments import Moments
from treet.capacity.noise import Floats
from treet.capacity.streams import Streams, resent
from treet.errors import TreetError
from treet.parallel import Advance

STREAMS, SPAN = 512, 100
"""Streams side by side, and how far each is run at a time."""

BINDING = 0.99
"""A power below this share of its limit is not held down by it."""

CALIBRATIONS = (0.1, 1.0)
"""Sequences for each measurement of the power: the first is rough, since the scale all but sets the power."""

SHARES = {"fit": 1.0, "train": 0.2, "choose": 0.05}
"""Sequences for each purpose, all of them fresh, as a part of those that the value is read from."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A transfer entropy in nats, with its standard error, and what goes with it.

    ``gaussian``   the transfer entropy of a Gaussian process with the same covariances, for Gaussian noise.
    ``power``      ``E|x|^2`` in the sequences that the value was read from.
    ``attention``  (layers, heads, memory + 1): mean weights of the joint critic, oldest first.
    ``influence``  (memory + 1,): how strongly its log density reacts to each step, oldest first.

    None where there is no such thing.
    """

    value: float
    std_error: float
    gaussian: float | None = None
    power: float | None = None
    attention: Floats | None = None
    influence: Floats | None = None


def evaluate(
    generator: Generator,
    channel: Channel,
    samples: int,
    steps: int,
    random: torch.Generator,
    advance: Advance = lambda share: None,
    critic: CriticKind = "treet",
) -> Evaluation:
    """Transfer entropy of ``generator`` by critics trained anew in ``steps``, on ``samples`` windows."""
    streams = Streams(generator, channel, STREAMS, random)
    rounds = math.ceil(samples / (STREAMS * SPAN))
    parts = {name: max(1, round(share * rounds)) for name, share in SHARES.items()}
    total = rounds + sum(parts.values())

    def segments(count: int) -> Iterator[Tensor]:
        for _ in range(count):
            yield streams.run(SPAN).values
            advance(1 / total)

    power = _calibrate(generator, streams, rounds)
    dims = (generator.memory, generator.input_dim, generator.output_dim)
    critics = drawn(lambda: Critics(*dims, critic), random)
    moments = Moments(generator.memory, generator.value_dim, decay=1.0)
    for values in segments(parts["fit"]):
        moments.update(values)
    critics.fit_linear(moments)
    train_networks(critics, torch.cat(list(segments(parts["train"]))), steps, random)
    critics.choose(torch.cat(list(segments(parts["choose"]))))
    price = 0.0
    if power > BINDING * (generator.limits.power or math.inf):
        price = _price(critics, generator, channel, streams)
    return _read(critics, generator, channel, segments(rounds), price)


def _calibrate(generator: Generator, streams: Streams, rounds: int) -> float:
    """Set the scale so that the power is at its limit, or below; the power."""
    limits, power = generator.limits, 0.0
    if limits.power is None:
        return power
    for share in CALIBRATIONS:
        segments = [streams.run(SPAN).values for _ in range(max(1, round(share * rounds)))]
        power = float(torch.stack([_power(values, generator).mean() for values in segments]).mean())
        if not power > 0 or not math.isfinite(power):
            raise TreetError(f"The power of the generator is {power:g}: it has diverged. Try another seed.")
        if power > limits.power or not limits.bounded:
            generator.scale.mul_(math.sqrt(limits.power / power))
            power = limits.power
    return power


def _price(critics: Critics, generator: Generator, channel: Channel, streams: Streams) -> float:
    """How much the value rises with the logarithm of the power, in nats."""
    segment = streams.run(generator.memory + SPAN)
    x = segment.values[:, generator.memory :, : generator.input_dim]
    factor = torch.ones((), requires_grad=True)
    value = critics(resent(channel, segment, factor * x)).mean()
    return float(torch.autograd.grad(value, factor)[0]) / 2


def _power(values: Tensor, generator: Generator) -> Tensor:
    """(streams,): the mean power of the inputs of a segment."""
    return values[:, generator.memory :, : generator.input_dim].square().sum(-1).mean(1)


@torch.no_grad()
def _read(
    critics: Critics, generator: Generator, channel: Channel, segments: Iterator[Tensor], price: float
) -> Evaluation:
    """Means over ``segments`` of the same streams; streams are independent, so that they give the error.

    The power in the segments is not quite its limit. What it is above or below is taken off at its ``price``
    stream by stream: the value is that at the limit, and its error knows how well the power is known.
    """
    local, power = [], []
    moments = Moments(generator.memory, generator.value_dim, decay=1.0)
    for values in segments:
        local.append(critics(values).mean(1).double())
        power.append(_power(values, generator).double())
        moments.update(values)
    power_by_stream = torch.stack(power).mean(0)
    by_stream = torch.stack(local).mean(0) - price * (power_by_stream / (generator.limits.power or 1.0) - 1)
    attention = critics.joint.attention(values)
    return Evaluation(
        value=float(by_stream.mean()),
        std_error=float(by_stream.std()) / math.sqrt(len(by_stream)),
        gaussian=_gaussian(_autocovariances(moments, generator.value_dim), generator, channel),
        power=float(power_by_stream.mean()),
        attention=None if attention is None else attention.mean((1, 2, 3)).numpy(),
        influence=critics.joint.influence(values).numpy(),
    )


def _gaussian(autocovariances: Floats, generator: Generator, channel: Channel) -> float | None:
    """The transfer entropy in closed form; without feedback, from the input alone, the noise being known."""
    if generator.limits.bounded or not isinstance(channel, AWGN | ColouredNoise):
        return None
    if generator.feedback or not isinstance(channel, ColouredNoise):
        return joint_transfer_entropy(autocovariances, generator.input_dim)
    noise = channel.noise.autocovariances(generator.memory)
    return input_transfer_entropy(autocovariances[:, 0, 0], noise)


def _autocovariances(moments: Moments, value_dim: int) -> Floats:
    """(memory + 1, d, d): ``E[v_t v_{t-j}']``, the last rows of the products of a window."""
    rows = moments.products[-value_dim:, 1:].view(value_dim, moments.memory + 1, value_dim)
    return rows.transpose(0, 1).flip(0).numpy()
