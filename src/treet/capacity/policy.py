"""Finite channels with feedback: an input law that is a network of what the receiver believes.

Reference: Permuter, Cuff, Van Roy and Weissman, Capacity of the trapdoor channel with feedback, IEEE Trans.
Inf. Theory 54 (2008), whose decision process this is; there it is solved on a grid, here by gradients, so
that any number of states will do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from treet.capacity.ascent import Annealed, Ascent
from treet.capacity.belief_programming import FiniteStateLaw
from treet.capacity.channels import State
from treet.capacity.discrete_channels import FiniteState
from treet.checks import check_number, check_whole
from treet.parallel import Advance

POLICY_RATE, VALUE_RATE = 3e-3, 3e-3
"""Largest learning rates of the input law and of the values of beliefs."""

WIDTH = 32

VISITS = 8
"""Steps that every belief moves on between two gradient steps: each has seen many channel outputs."""

STREAMS, SPAN = 512, 50
"""Streams side by side when the value is read, and how far each is run at a time."""


@dataclass(frozen=True)
class PolicySchedule:
    """How long to train an input law: as ``Schedule``, with ``batch`` beliefs at a time."""

    rounds: int = 300
    most_rounds: int = 2100
    batch: int = 256
    tolerance: float = 1e-3

    def __post_init__(self) -> None:
        for name in ("rounds", "most_rounds", "batch"):
            check_whole(name, getattr(self, name), 1)
        check_number("tolerance", self.tolerance, above=0)


class Law:
    """The tables of a channel as tensors, and one step of what the receiver believes."""

    def __init__(self, tables: FiniteStateLaw) -> None:
        self.probabilities = torch.as_tensor(tables.probabilities, dtype=torch.float32)
        self.next_state = torch.as_tensor(tables.next_state)
        self.states, self.inputs, self.outputs = self.probabilities.shape
        self.forbidden = ~torch.as_tensor(tables.allowed)
        moved = nn.functional.one_hot(self.next_state, self.states).to(torch.float32)
        self.moves = self.probabilities[..., None] * moved
        self.noise_entropy = torch.special.entr(self.probabilities).sum(-1)

    def step(self, belief: Tensor, law: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """From ``belief`` (batch, states) and the input law ``u(x|s)`` (batch, states, inputs).

        The information ``I(X, S; Y | belief)`` (batch,), how probable each output is (batch, outputs), and
        the belief after each of them (batch, outputs, states).
        """
        joint = belief[..., None] * law
        output = torch.einsum("bsx,sxy->by", joint, self.probabilities)
        after = torch.einsum("bsx,sxyn->byn", joint, self.moves) / output.clamp(min=1e-12)[..., None]
        noise = (joint * self.noise_entropy).sum((1, 2))
        return torch.special.entr(output.clamp(min=1e-12)).sum(-1) - noise, output, after


class Policy(nn.Module):
    """The input law ``u(x | s, belief)``: the encoder knows the state and, by feedback, the belief."""

    def __init__(self, law: Law) -> None:
        super().__init__()
        self.law = law
        self.network = _network(law.states, law.states * law.inputs)

    def forward(self, belief: Tensor) -> Tensor:
        """(batch, states) -> (batch, states, inputs)."""
        logits = self.network(belief).unflatten(-1, (self.law.states, self.law.inputs))
        return torch.softmax(logits.masked_fill(self.law.forbidden, -math.inf), -1)


def _network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, outputs)
    )


def relative_values(law: Law) -> nn.Module:
    """A network from beliefs (.., states) to values (.., 1)."""
    return _network(law.states, 1)


class PolicySearch(Ascent):
    """Policy gradient with exact expectations over all symbols, and a learned value of what comes after.

    On beliefs ``b`` that the law itself leads to, the law climbs

        r(b, u) + sum_y p(y | b, u) v(b after y)

    by its exact gradient in ``u``, and ``v`` learns the same minus its mean: the relative value of a belief.
    ``r = I(X, S; Y | b)`` needs no critic: the receiver's belief gives ``p(y_t | y_1 .. y_{t-1})`` exactly.
    """

    def __init__(
        self, policy: Policy, value: nn.Module, schedule: PolicySchedule, random: torch.Generator
    ) -> None:
        super().__init__(policy, schedule.rounds, schedule.most_rounds, schedule.tolerance)
        self.policy, self.value, self.random = policy, value, random
        self.belief = torch.zeros(schedule.batch, policy.law.states)
        self.belief[:, 0] = 1.0

    def _between(self) -> None:
        """The beliefs run on."""

    def _optimisers(self, rounds: int) -> tuple[Annealed, Annealed]:
        policy = Annealed([(list(self.policy.parameters()), POLICY_RATE)], rounds)
        return policy, Annealed([(list(self.value.parameters()), VALUE_RATE)], rounds)

    def _round(self, model: Annealed, critics: Annealed) -> tuple[Tensor, float]:
        visited = self._visit()
        reward, output, after = self.policy.law.step(visited, self.policy(visited))
        following = (output * self.value(after)[..., 0]).sum(-1)
        aim = (reward + following).detach()
        loss = (self.value(visited)[:, 0] - (aim - aim.mean())).square().mean()
        model.step(-(reward + following).mean())
        critics.step(loss)
        return reward.mean().detach(), loss.item()

    @torch.no_grad()
    def _visit(self) -> Tensor:
        """(VISITS x batch, states): the beliefs that the law leads to, from where they were."""
        visited = []
        for _ in range(VISITS):
            visited.append(self.belief)
            _, output, after = self.policy.law.step(self.belief, self.policy(self.belief))
            y = torch.multinomial(output, 1, generator=self.random)
            self.belief = after.gather(1, y[..., None].expand(-1, -1, after.shape[2]))[:, 0]
        return torch.cat(visited)


class SymbolStreams:
    """Independent streams of symbols through the channel itself, and the receiver's belief beside each."""

    def __init__(self, policy: Policy, channel: FiniteState, batch: int, random: torch.Generator) -> None:
        self.policy, self.channel, self.random = policy, channel, random
        self.state: State = channel.initial_state(batch, random)
        self.belief = nn.functional.one_hot(self.state[0], policy.law.states).to(torch.float32)

    @torch.no_grad()
    def run(self, length: int) -> tuple[Tensor, Tensor]:
        """Symbols (batch, length, 2), input and output, and the local values (batch, length)."""
        symbols, local = [], []
        noise = self.channel.sample_noise(length, len(self.belief), self.random)
        for noise_t in noise:
            step, value = self._step(noise_t)
            symbols.append(step)
            local.append(value)
        return torch.stack(symbols, 1), torch.stack(local, 1)

    def _step(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        law, state = self.policy.law, self.state[0]
        rows = torch.arange(len(state))
        inputs = self.policy(self.belief)
        x = torch.multinomial(inputs[rows, state], 1, generator=self.random)
        y, self.state = self.channel.step(x, self.state, noise)
        _, output, after = law.step(self.belief, inputs)
        self.belief = after[rows, y[:, 0]]
        given = law.probabilities[state, x[:, 0], y[:, 0]]
        return torch.cat([x, y], 1), torch.log(given / output[rows, y[:, 0]])


def evaluate_policy(
    policy: Policy,
    channel: FiniteState,
    samples: int,
    random: torch.Generator,
    advance: Advance = lambda share: None,
) -> tuple[float, float]:
    """The mean of ``samples`` fresh local values ``log p(y|x, s) / p(y|y past)``, and its standard error."""
    streams = SymbolStreams(policy, channel, STREAMS, random)
    streams.run(SPAN)
    means = torch.stack([part.mean(1) for part in _parts(streams, samples, advance)]).double().mean(0)
    return float(means.mean()), float(means.std()) / math.sqrt(len(means))


def _parts(streams: SymbolStreams, samples: int, advance: Advance) -> Iterator[Tensor]:
    count = math.ceil(samples / (STREAMS * SPAN))
    for _ in range(count):
        yield streams.run(SPAN)[1]
        advance(1 / count)
