"""What a finished generator achieves: its transfer entropy on sequences that nothing was trained on."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from treet.capacity.ascent import Annealed
from treet.capacity.channels import Channel
from treet.capacity.critics import Critics, Moments, drawn
from treet.capacity.gaussian import input_transfer_entropy, joint_transfer_entropy
from treet.capacity.gaussian_channels import AWGN, ColouredNoise
from treet.capacity.generator import Generator
from treet.capacity.noise import Floats
from treet.capacity.optimise import CRITIC_RATE
from treet.capacity.streams import Streams
from treet.errors import TreetError
from treet.parallel import Advance

STREAMS, SPAN = 512, 100
"""Streams side by side, and how far each is run at a time."""

MINIBATCH = 16
"""Streams in a step of the critics' training."""

SURE = 1.0
"""Standard errors by which the measured power stays below its limit."""

CALIBRATIONS = (0.1, 1.0)
"""Sequences for each measurement of the power: the first is rough, since the scale all but sets the power."""

SHARES = {"fit": 0.5, "train": 0.4, "choose": 0.1}
"""Sequences for each purpose, all of them fresh, as a part of those that the value is read from."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A transfer entropy in nats, with its standard error, and what goes with it.

    ``gaussian``   the transfer entropy of a Gaussian process with the same covariances, for Gaussian noise.
    ``power``      ``E|x|^2`` in the sequences that the value was read from.
    ``attention``  (layers, heads, memory + 1): mean weights of the joint critic, oldest first.

    None where there is no such thing.
    """

    value: float
    std_error: float
    gaussian: float | None = None
    power: float | None = None
    attention: Floats | None = None


def evaluate(
    generator: Generator,
    channel: Channel,
    samples: int,
    steps: int,
    random: torch.Generator,
    advance: Advance = lambda share: None,
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

    _calibrate(generator, streams, rounds)
    critics = drawn(lambda: Critics(generator.memory, generator.input_dim, generator.output_dim), random)
    moments = Moments(generator.memory, generator.value_dim, decay=1.0)
    for values in segments(parts["fit"]):
        moments.update(values)
    critics.fit_linear(moments)
    _train(critics, torch.cat(list(segments(parts["train"]))), steps, random)
    critics.choose(torch.cat(list(segments(parts["choose"]))))
    return _read(critics, generator, channel, segments(rounds))


def _calibrate(generator: Generator, streams: Streams, rounds: int) -> None:
    """Set the scale so that the power keeps its limit with SURE standard errors to spare."""
    limits = generator.limits
    if limits.power is None:
        return
    for share in CALIBRATIONS:
        segments = [streams.run(SPAN).values for _ in range(max(1, round(share * rounds)))]
        parts = [_power(values, generator) for values in segments]
        power = torch.stack(parts).mean(0)
        most = float(power.mean() + SURE * power.std() / math.sqrt(len(power)))
        if not most > 0 or not math.isfinite(most):
            raise TreetError(f"The power of the generator is {most:g}: it has diverged. Try another seed.")
        if most > limits.power or not limits.bounded:
            generator.scale.mul_(math.sqrt(limits.power / most))


def _power(values: Tensor, generator: Generator) -> Tensor:
    """(streams,): the mean power of the inputs of a segment."""
    return values[:, generator.memory :, : generator.input_dim].square().sum(-1).mean(1)


def _train(critics: Critics, values: Tensor, steps: int, random: torch.Generator) -> None:
    """The networks of ``critics``, by ``steps`` minibatches of streams of ``values``."""
    optimiser = Annealed([(list(critics.parameters()), CRITIC_RATE)], steps)
    for _ in range(steps):
        drawn_streams = torch.randint(len(values), (MINIBATCH,), generator=random)
        optimiser.step(critics.loss(values[drawn_streams]))


@torch.no_grad()
def _read(critics: Critics, generator: Generator, channel: Channel, segments: Iterator[Tensor]) -> Evaluation:
    """Means over ``segments`` of the same streams; streams are independent, so that they give the error."""
    memory = generator.memory
    local, power, covariance = [], [], []
    for values in segments:
        local.append(critics(values).mean(1).double())
        power.append(_power(values, generator).mean())
        covariance.append(_autocovariances(values, memory))
    by_stream = torch.stack(local).mean(0)
    return Evaluation(
        value=float(by_stream.mean()),
        std_error=float(by_stream.std()) / math.sqrt(len(by_stream)),
        gaussian=_gaussian(torch.stack(covariance).mean(0).numpy(), generator, channel),
        power=float(torch.stack(power).mean()),
        attention=critics.joint.attention(values).mean((1, 2, 3)).numpy(),
    )


def _gaussian(autocovariances: Floats, generator: Generator, channel: Channel) -> float | None:
    """The transfer entropy in closed form; without feedback, from the input alone, the noise being known."""
    if generator.limits.bounded or not isinstance(channel, AWGN | ColouredNoise):
        return None
    if generator.feedback or not isinstance(channel, ColouredNoise):
        return joint_transfer_entropy(autocovariances, generator.input_dim)
    noise = channel.noise.autocovariances(generator.memory)
    return input_transfer_entropy(autocovariances[:, 0, 0], noise)


def _autocovariances(values: Tensor, memory: int) -> Tensor:
    """(memory + 1, d, d): ``E[v_t v_{t-j}']`` over the windows of ``values`` (batch, memory + length, d)."""
    values = values.double()
    now = values[:, memory:].flatten(0, 1)
    length = values.shape[1] - memory
    lags = [values[:, memory - j : memory - j + length].flatten(0, 1) for j in range(memory + 1)]
    return torch.stack([now.mT @ lag for lag in lags]) / len(now)
