"""Filters found on samples: the gradient, the power, known optima, and that nothing is gained on noise."""

import math

import numpy as np
import pytest
import torch

from treet.capacity.critics import Critics, drawn
from treet.capacity.filters import FilterSample, FilterSearch
from treet.capacity.gaussian import largest_transfer_entropy
from treet.capacity.gaussian_channels import AWGN, DelayedTap, MovingAverage, Saturating
from treet.capacity.generator import Generator, Limits
from treet.capacity.moments import Moments
from treet.capacity.noise import ArmaNoise
from treet.capacity.streams import Streams, resent


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def parts(channel, memory=3, feedback=False, power=1.0):
    dims = (memory, channel.input_dim, channel.output_dim)
    generator = drawn(lambda: Generator(*dims, Limits(power=power), feedback=feedback), seeded())
    generator.use_correction = False
    return generator, channel, drawn(lambda: Critics(*dims), seeded(1))


@pytest.mark.parametrize("channel", [MovingAverage(), Saturating()])
def test_the_gradient_is_that_of_the_value(channel):
    sample = FilterSample(*parts(channel, feedback=True), 2000, seeded())
    weights = sample.weights()
    value = sample.local(weights).mean()
    gradient = torch.cat([part.flatten() for part in torch.autograd.grad(value, sample.filters)]).numpy()
    assert len(gradient) == 4 + 3
    for place in (0, 3, 5):
        step = np.zeros_like(weights)
        step[place] = 0.02
        with torch.no_grad():
            rise = sample.local(weights + step).mean() - sample.local(weights - step).mean()
        assert rise.item() / 0.04 == pytest.approx(gradient[place], abs=2e-3)


def test_inputs_sent_again_give_the_outputs_of_a_channel_that_is_run():
    generator, channel, _ = parts(MovingAverage(), feedback=True)
    segment = Streams(generator, channel, 4, seeded()).run(10)
    x = segment.values[:, 3:, :1] * 1.5 + 0.1
    state, outputs = segment.state, []
    for x_t, noise_t in zip(x.unbind(1), segment.channel_noise, strict=True):
        y_t, state = channel.step(x_t, state, noise_t)
        outputs.append(y_t)
    assert torch.allclose(resent(channel, segment, x)[..., 1:], torch.stack(outputs, 1), atol=1e-6)


@pytest.mark.parametrize("power", [1.0, 10.0])
def test_the_largest_transfer_entropy_of_coloured_noise_is_found(power):
    generator, channel, critics = parts(MovingAverage(), power=power)
    search = FilterSearch(generator, channel, critics, 40_000, 4, 2e-3, seeded())
    search.run()
    assert search.converged
    ceiling = largest_transfer_entropy(ArmaNoise(ma=(0.5,)).autocovariances(3), power)
    assert search.values[-1] == pytest.approx(ceiling, abs=0.01)
    assert found_exactly(generator, power) == pytest.approx(ceiling, rel=5e-3)


def found_exactly(generator, power):
    """TE(3) of the filter through MA(1) noise, from its autocovariances."""
    taps = generator.noise_filter.detach()[0, 0].double().numpy()
    auto = np.correlate(taps, taps, "full")[3:] * power / np.sum(taps**2)
    noise = ArmaNoise(ma=(0.5,)).autocovariances(3)
    place = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    errors = [np.linalg.cholesky(values[place])[-1, -1] for values in (auto + noise, noise)]
    return math.log(errors[0] / errors[1])


def test_white_noise_leaves_the_input_white_and_at_its_power():
    generator, channel, critics = parts(AWGN(dimension=2), power=3.0)
    FilterSearch(generator, channel, critics, 20_000, 4, 2e-3, seeded()).run()
    values = Streams(generator, channel, 500, seeded(1)).run(100).values
    assert values[..., :2].square().sum(-1).mean().item() == pytest.approx(3.0, rel=0.03)
    taps = generator.noise_filter.detach()
    assert taps[..., :-1].square().sum() < 0.02 * taps.square().sum()


def test_the_densities_react_to_the_lag_where_the_noise_comes_back():
    generator, channel, critics = parts(DelayedTap(delay=5), memory=7)
    values = Streams(generator, channel, 300, seeded()).run(100).values
    moments = Moments(7, 2, decay=1.0)
    moments.update(values)
    critics.fit_linear(moments)
    critics.joint.use_network = False
    influence = critics.joint.influence(values)
    assert influence.shape == (8,)
    assert 7 - int(influence[:-1].argmax()) == 5
