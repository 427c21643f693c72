"""The largest transfer entropy through a channel: a generator of inputs trained through two critics."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from treet.capacity.ascent import Annealed, Ascent
from treet.capacity.channels import Channel
from treet.capacity.critics import CRITIC_RATE, Critics, train_networks
from treet.capacity.filters import FilterSearch
from treet.capacity.generator import Generator
from treet.capacity.moments import Moments
from treet.capacity.streams import Streams, replay
from treet.checks import check_number, check_whole
from treet.parallel import Advance
from treet.training import History

FILTER_RATE, NETWORK_RATE = 0.01, 1e-3
"""Largest learning rates of the generator's filters and of its networks.

Twice as fast, filters overshoot what the critics, some rounds behind, tell them: a white input of four
components then loses 2 % of its transfer entropy.
"""

DECAY = 0.8
"""Of the critics' moments, each round: the generator changes, and older sequences with it."""

USUAL = 31
"""Weights of the filter of the noise at memory 30, for one component: samples are smaller for more."""

FIRST, CHOICE = 3, 4
"""Rounds' worth of sequences for the first moments, and to decide whether the networks are of use."""


@dataclass(frozen=True)
class Schedule:
    """How long to train a generator.

    ``windows``       of a sample on which the generator's filters are found, at memory 30 for one component;
                      fewer where there are more weights to find.
    ``most_samples``  for the filters; they are judged on the one after that which they were found on.
    ``rounds``        of the first cycle of the networks; each is twice as long as the one before.
    ``most_rounds``   of all cycles.
    ``critic_steps``  of the critics in a round, to one of the generator: 3 is the paper's 1 in 4.
    ``batch``         streams; a round runs each of them ``memory + span`` steps on.
    ``tolerance``     relative: training stops after a cycle that raised the value by less.
    ``final_steps``   of the critics that are trained anew at the end, for the value that is reported.
    """

    windows: int = 1_000_000
    most_samples: int = 6
    rounds: int = 120
    most_rounds: int = 840
    critic_steps: int = 3
    batch: int = 64
    span: int = 60
    tolerance: float = 2e-3
    final_steps: int = 150

    def __post_init__(self) -> None:
        for name in ("windows", "most_samples", "rounds", "most_rounds", "critic_steps", "span"):
            check_whole(name, getattr(self, name), 1)
        check_whole("final_steps", self.final_steps, 1)
        check_whole("batch", self.batch, max(2, self.critic_steps))
        check_number("tolerance", self.tolerance, above=0)


class Search(Ascent):
    """A generator in front of a channel, its critics, and the streams that they see.

    Each round runs the streams on and sees the new segment once: its local values under critics that have
    not seen it are the round's value, their gradient moves the generator, and then the critics learn from it.
    The critics are at the optimum for the generator as it is, so that their own change with the generator
    has no first order effect on the value, and the gradient takes them as fixed.
    """

    def __init__(
        self,
        channel: Channel,
        generator: Generator,
        critics: Critics,
        schedule: Schedule,
        random: torch.Generator,
    ) -> None:
        super().__init__(generator, schedule.rounds, schedule.most_rounds, schedule.tolerance)
        self.channel, self.generator, self.critics = channel, generator, critics
        self.schedule, self.random = schedule, random
        self.length = generator.memory + schedule.span

    def run(self, advance: Advance = lambda share: None) -> History:
        """First the filters alone, with linear densities; then all, where the output is not Gaussian."""
        if not self.generator.limits.bounded:
            self._find_filters()
            if not self.critics.use_networks:
                advance(1.0)
                return self._history()
        self.generator.use_correction, self.converged = True, False
        self._restart()
        return super().run(advance)

    def _find_filters(self) -> None:
        """Leaves the networks of the critics out where they see nothing in what the filters make."""
        schedule, self.generator.use_correction = self.schedule, False
        search = FilterSearch(
            self.generator,
            self.channel,
            self.critics,
            int(schedule.windows * min(1.0, USUAL / self.generator.noise_filter.numel())),
            schedule.most_samples,
            schedule.tolerance,
            self.random,
        )
        search.run()
        self.values, self.converged = search.values, search.converged
        self.losses = [-value for value in search.values]
        self._keep()
        streams = Streams(self.generator, self.channel, CHOICE * schedule.batch, self.random)
        train_networks(self.critics, streams.run(self.length).values, schedule.final_steps, self.random)
        self.critics.choose(streams.run(self.length).values)

    def _restart(self) -> None:
        """Fresh streams, and the linear parts of the critics from them."""
        self.streams = Streams(self.generator, self.channel, self.schedule.batch, self.random)
        self.moments = Moments(self.generator.memory, self.generator.value_dim, DECAY)
        for _ in range(FIRST):
            self.moments.update(self.streams.run(self.length).values)
        self.critics.fit_linear(self.moments)

    def _between(self) -> None:
        self._restart()
        self.critics.choose(self.streams.run(CHOICE * self.length).values)

    def _optimisers(self, rounds: int) -> tuple[Annealed, Annealed]:
        direct = self.generator.direct()
        networks = [weight for weight in self.generator.parameters() if all(weight is not d for d in direct)]
        generator = Annealed([(direct, FILTER_RATE), (networks, NETWORK_RATE)], rounds)
        steps = rounds * self.schedule.critic_steps
        return generator, Annealed([(list(self.critics.parameters()), CRITIC_RATE)], steps)

    def _round(self, model: Annealed, critics: Annealed) -> tuple[Tensor, float]:
        segment = self.streams.run(self.length)
        values = replay(self.generator, self.channel, segment)
        value = self.critics(values).mean()
        if not torch.isfinite(value):
            return value.detach(), float("nan")
        model.step(-value)
        self.generator.follow_power(segment.values[..., : self.generator.input_dim])
        return value.detach(), self._teach(values.detach(), critics)

    def _teach(self, values: Tensor, optimiser: Annealed) -> float:
        """The critics learn from ``values``; the mean of their loss before each step."""
        self.moments.update(values)
        self.critics.fit_linear(self.moments)
        losses = []
        for part in values.chunk(self.schedule.critic_steps):
            loss = self.critics.loss(part)
            if self.critics.use_networks:
                optimiser.step(loss)
            losses.append(loss.item())
        return sum(losses) / len(losses)
