"""Generators: causal, within their limits, and the same in one pass as step by step."""

import math

import pytest
import torch

from treet.capacity.critics import drawn
from treet.capacity.gaussian_channels import AWGN, MovingAverage, Saturating
from treet.capacity.generator import Generator, Limits, NoiseMap
from treet.capacity.streams import Streams, replay

MEMORY, LENGTH, BATCH = 3, 7, 5
WIDTHS = [(1, 1), (2, 2), (2, 3)]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def made(kind="transformer", feedback=False, widths=(1, 1), limits=None, noise="uniform", seed=0):
    """A generator whose networks say something, as after training."""
    limits = limits or Limits(power=1.0)
    generator = drawn(
        lambda: Generator(MEMORY, *widths, limits, feedback=feedback, kind=kind, noise=noise), seeded(seed)
    )
    with torch.no_grad():
        for weight in generator.parameters():
            weight.add_(0.2 * torch.randn(weight.shape, generator=seeded(seed + 1)))
    return generator


def inputs(generator, seed=2):
    """Past values and noise, with gradients."""
    past = torch.randn(BATCH, MEMORY + LENGTH - 1, generator.value_dim, generator=seeded(seed))
    return past.requires_grad_(), generator.draw_noise(BATCH, MEMORY + LENGTH, seeded(seed)).requires_grad_()


def reach(output, given):
    """(time of ``given``,): where the gradient of the sum of ``output`` is not zero."""
    gradient = torch.autograd.grad(output.sum(), given, retain_graph=True, allow_unused=True)[0]
    if gradient is None:
        return torch.zeros(given.shape[1], dtype=torch.bool)
    return (gradient != 0).any(-1).any(0)


@pytest.mark.parametrize(
    ("kind", "feedback"), [("transformer", False), ("transformer", True), ("lstm", True)]
)
def test_an_input_depends_on_its_memory_alone(kind, feedback):
    generator = made(kind, feedback)
    past, noise = inputs(generator)
    x = generator(past, noise)
    for t in range(LENGTH):
        steps = torch.arange(MEMORY + LENGTH)
        assert torch.equal(reach(x[:, t], noise), (steps >= t) & (steps <= t + MEMORY))
        seen = (steps[:-1] < t + MEMORY) & ((steps[:-1] >= t) | (kind == "lstm"))
        assert torch.equal(reach(x[:, t], past), seen)


def test_without_feedback_past_outputs_do_not_matter():
    generator = made(widths=(2, 3))
    past, noise = inputs(generator)
    gradient = torch.autograd.grad(generator(past, noise).sum(), past)[0]
    assert gradient[..., :2].abs().max() > 0
    assert not gradient[..., 2:].any()


def test_an_iid_generator_sees_its_new_noise_alone():
    generator = made("iid")
    past, noise = inputs(generator)
    x = generator(past, noise)
    for t in range(LENGTH):
        assert reach(x[:, t], noise).nonzero().tolist() == [[MEMORY + t]]
        assert not reach(x[:, t], past).any()


@pytest.mark.parametrize("noise", ["uniform", "gaussian"])
@pytest.mark.parametrize(
    ("kind", "feedback"),
    [("transformer", False), ("transformer", True), ("lstm", False), ("lstm", True), ("iid", False)],
)
def test_one_pass_gives_what_was_generated_step_by_step(kind, feedback, noise):
    generator = made(kind, feedback, noise=noise)
    segment = Streams(generator, MovingAverage(), BATCH, seeded()).run(LENGTH)
    again = generator(segment.values[:, :-1], segment.noise)
    # The LSTM's state goes further back than the segment in neither case.
    assert torch.allclose(again, segment.values[:, MEMORY:, :1], atol=1e-5)


@pytest.mark.parametrize("widths", [(2, 2)])
def test_one_pass_of_vectors_gives_what_was_generated_step_by_step(widths):
    generator = made(feedback=True, widths=widths)
    segment = Streams(generator, AWGN(dimension=2), BATCH, seeded()).run(LENGTH)
    again = generator(segment.values[:, :-1], segment.noise)
    assert torch.allclose(again, segment.values[:, MEMORY:, :2], atol=1e-5)


def test_a_replay_keeps_the_power_and_is_the_segment_but_for_a_scale():
    generator = made(limits=Limits(power=3.0))
    channel = Saturating()
    segment = Streams(generator, channel, BATCH, seeded()).run(LENGTH)
    values = replay(generator, channel, segment)
    assert values[..., 0].square().mean().item() == pytest.approx(3.0, rel=1e-5)
    ratio = values[..., 0] / segment.values[:, MEMORY:, 0]
    assert torch.allclose(ratio, ratio[:1, :1].expand_as(ratio), rtol=1e-3)


def test_segments_run_on():
    generator, channel = made(feedback=True), MovingAverage()
    streams = Streams(generator, channel, BATCH, seeded())
    first, second = streams.run(LENGTH), streams.run(LENGTH)
    assert torch.equal(first.values[:, -MEMORY:], second.values[:, :MEMORY])
    assert torch.equal(first.noise[:, -MEMORY:], second.noise[:, :MEMORY])


def test_values_keep_the_peak_whatever_the_weights():
    generator = made(limits=Limits(low=-0.5, high=2.0))
    with torch.no_grad():
        generator.noise_filter.mul_(100)
    x = generator(*inputs(generator))
    assert x.min() >= -0.5
    assert x.max() <= 2.0
    assert x.max() - x.min() > 2.0


def test_peak_and_power_are_both_kept():
    limits = Limits(power=0.1, low=-1.0, high=1.0)
    x = limits.normalised(limits.squash(torch.randn(50, 40, 1, generator=seeded())))
    assert x.square().mean().item() == pytest.approx(0.1, rel=1e-5)
    low = limits.normalised(torch.full((2, 3, 1), 0.1))
    assert torch.equal(low, torch.full((2, 3, 1), 0.1))


def test_the_scale_follows_the_power():
    generator = made(limits=Limits(power=2.0))
    before = generator.scale.clone()
    generator.follow_power(torch.full((4, 5, 1), math.sqrt(8.0)), rate=1.0)
    assert generator.scale.item() == pytest.approx(before.item() / 2)


def test_uniform_noise_becomes_gaussian_at_first_and_is_never_turned_round():
    noise = torch.linspace(-0.999, 0.999, 999)
    fresh = NoiseMap()(noise[:, None])
    normal = math.sqrt(2) * torch.erfinv(noise)
    assert (fresh - normal[:, None]).abs().max() < 0.1
    trained = NoiseMap()
    with torch.no_grad():
        for weight in trained.parameters():
            weight.add_(3 * torch.randn(weight.shape, generator=seeded()))
    assert (trained(noise[:, None])[:, 0].diff() >= -1e-6).all()


def test_weights_come_from_the_seed_and_leave_the_global_state_alone():
    before = torch.random.get_rng_state()
    one, same, other = made(seed=1), made(seed=1), made(seed=2)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one.noise_filter, same.noise_filter)
    assert not torch.equal(one.noise_filter, other.noise_filter)
