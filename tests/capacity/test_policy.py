"""Input laws of the receiver's belief, for channels with finite alphabets."""

import math

import pytest
import torch

from treet.capacity.critics import drawn
from treet.capacity.discrete_channels import BinaryErasure, BinarySymmetric, Ising, Trapdoor
from treet.capacity.policy import (
    Law,
    Policy,
    PolicySchedule,
    PolicySearch,
    SymbolStreams,
    evaluate_policy,
    relative_values,
)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def searched(channel, rounds, seed=0):
    random = seeded(seed)
    law = Law(channel.law)
    policy = drawn(lambda: Policy(law), random)
    values = drawn(lambda: relative_values(law), random)
    search = PolicySearch(policy, values, PolicySchedule(rounds, 3 * rounds), random)
    search.run()
    return policy, search, random


@pytest.mark.parametrize("channel", [Trapdoor(), Ising(), BinaryErasure(0.3, no_two_ones=True)])
def test_a_step_of_the_belief_is_bayes_rule(channel):
    law = Law(channel.law)
    belief, inputs = torch.tensor([[0.3, 0.7]]), torch.tensor([[[0.2, 0.8], [1.0, 0.0]]])
    reward, output, after = law.step(belief, inputs)
    joint = torch.zeros(2, 2, law.outputs, 2)  # s, x, y, s'
    for s, x, y in [(s, x, y) for s in range(2) for x in range(2) for y in range(law.outputs)]:
        following = int(law.next_state[s, x, y])
        joint[s, x, y, following] += belief[0, s] * inputs[0, s, x] * law.probabilities[s, x, y]
    assert torch.allclose(output[0], joint.sum((0, 1, 3)))
    shown = output[0] > 0
    assert torch.allclose((after[0] * output[0, :, None])[shown], joint.sum((0, 1))[shown], atol=1e-6)
    given = joint.sum(3)
    pairs = given.sum(2, keepdim=True)
    information = torch.special.xlogy(given, given / pairs.clamp(min=1e-12) / output).sum()
    assert reward.item() == pytest.approx(information.item(), abs=1e-5)


def test_a_law_sends_what_is_allowed():
    policy = drawn(lambda: Policy(Law(BinarySymmetric(0.1, no_two_ones=True).law)), seeded())
    sent = policy(torch.rand(20, 2, generator=seeded()))
    assert torch.allclose(sent.sum(-1), torch.ones(20, 2))
    assert not sent[:, 1, 1].any()


def test_local_values_and_rewards_have_one_mean():
    policy, search, random = searched(Trapdoor(), 5)
    value, std_error = evaluate_policy(policy, Trapdoor(), 50_000, random)
    with torch.no_grad():
        visited = torch.cat([search._visit() for _ in range(20)])
        reward = policy.law.step(visited, policy(visited))[0].mean().item()
    assert value == pytest.approx(reward, abs=5 * std_error + 2e-3)


def test_symbols_are_int64_and_go_through_the_channel():
    policy = drawn(lambda: Policy(Law(Ising().law)), seeded())
    symbols, local = SymbolStreams(policy, Ising(), 3, seeded()).run(11)
    assert symbols.dtype == torch.int64
    assert symbols.shape == (3, 11, 2)
    assert torch.isfinite(local).all()
    x, y = symbols.unbind(-1)
    assert ((y[:, 1:] == x[:, 1:]) | (y[:, 1:] == x[:, :-1])).all()


@pytest.mark.parametrize(
    ("channel", "exact"), [(BinarySymmetric(0.1), 0.368064), (BinaryErasure(0.3), 0.7 * math.log(2))]
)
def test_without_a_state_the_law_is_uniform(channel, exact):
    policy, search, random = searched(channel, 20)
    assert search.best == pytest.approx(exact, rel=5e-3)
    value, std_error = evaluate_policy(policy, channel, 100_000, random)
    assert abs(value - exact) < 4 * std_error + 5e-3


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("channel", [Trapdoor(), Ising(), BinaryErasure(0.5, no_two_ones=True)])
def test_feedback_capacities_to_a_hundredth(channel, seed):
    policy, _, random = searched(channel, PolicySchedule().rounds, seed)
    value, std_error = evaluate_policy(policy, channel, 500_000, random)
    exact = channel.capacity(feedback=True)
    assert value == pytest.approx(exact, rel=0.01)
    assert value < exact + 3 * std_error
