"""The two densities of a channel's output: normalised, exact for Gaussian processes, blind to the future."""

import math

import numpy as np
import pytest
import torch

from treet.capacity.critics import Critics, OutputDensity, drawn
from treet.capacity.gaussian import joint_transfer_entropy
from treet.capacity.gaussian_channels import AWGN, MovingAverage
from treet.capacity.generator import Generator, Limits
from treet.capacity.moments import Moments
from treet.capacity.streams import Streams

MEMORY = 3


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def density(input_dim=1, output_dim=1, memory=MEMORY):
    made = drawn(lambda: OutputDensity(memory, input_dim, output_dim, width=8, heads=2), seeded())
    with torch.no_grad():
        for weight in made.parameters():
            weight.add_(0.3 * torch.randn(weight.shape, generator=seeded(1)))
    return made


def test_a_density_integrates_to_one_for_every_past():
    critic = density()
    past = torch.randn(5, MEMORY, 2, generator=seeded())
    grid = torch.linspace(-30, 30, 6001)
    present = torch.stack([torch.full_like(grid, 0.7), grid], -1)
    for values in past:
        windows = torch.cat([values.expand(len(grid), -1, -1), present[:, None]], 1)
        total = critic(windows)[:, 0].exp().sum() * (grid[1] - grid[0])
        assert total.item() == pytest.approx(1.0, abs=1e-4)


def test_a_density_sees_its_memory_the_present_input_and_earlier_channels():
    critic = density(input_dim=2, output_dim=2)
    values = torch.randn(4, MEMORY + 6, 4, generator=seeded()).requires_grad_()
    gradient = torch.autograd.grad(critic(values)[:, 2].sum(), values)[0]
    seen = gradient.abs().sum((0, 2)) > 0
    assert seen.tolist() == [2 <= t <= 2 + MEMORY for t in range(MEMORY + 6)]


def test_an_lstm_sees_the_past_the_present_input_and_no_future():
    critic = drawn(lambda: OutputDensity(MEMORY, 1, 1, "dine", width=8), seeded())
    values = torch.randn(4, MEMORY + 6, 2, generator=seeded()).requires_grad_()
    found = critic(values)
    assert found.shape == (4, 6)
    gradient = torch.autograd.grad(found[:, 2].sum(), values)[0]
    assert (gradient.abs().sum((0, 2)) > 0).tolist() == [t <= 2 + MEMORY for t in range(MEMORY + 6)]
    assert critic.attention(values) is None


def test_the_marginal_density_is_given_outputs_alone():
    critics = drawn(lambda: Critics(MEMORY, 1, 1), seeded())
    assert critics.alone.input_dim == 0
    values = torch.randn(4, MEMORY + 6, 2, generator=seeded())
    local = critics(values)
    assert local.shape == (4, 6)
    assert torch.allclose(local, critics.joint(values) - critics.alone(values[..., 1:]))


@pytest.mark.parametrize(("channel", "dim"), [(MovingAverage(), 1), (AWGN(dimension=2), 2)])
def test_linear_densities_give_the_gaussian_transfer_entropy(channel, dim):
    generator = drawn(lambda: Generator(MEMORY, dim, dim, Limits(power=1.0)), seeded())
    values = Streams(generator, channel, 400, seeded()).run(100).values
    moments = Moments(MEMORY, 2 * dim, decay=1.0)
    moments.update(values)
    critics = drawn(lambda: Critics(MEMORY, dim, dim), seeded())
    critics.fit_linear(moments)
    critics.joint.use_network = critics.alone.use_network = False
    found = critics(values).mean().item()
    windows = values.unfold(1, MEMORY + 1, 1).flatten(0, 1).double().numpy()  # (windows, d, memory + 1)
    gamma = np.stack(
        [np.einsum("wi,wj->ij", windows[..., -1], windows[..., -1 - j]) for j in range(MEMORY + 1)]
    )
    # The autocovariances are pooled over time, the moments are not: they differ by sampling alone.
    assert found == pytest.approx(joint_transfer_entropy(gamma / len(windows), dim), abs=2e-3)


def test_rescaled_values_have_the_same_transfer_entropy():
    values = torch.randn(200, MEMORY + 20, 2, generator=seeded()).cumsum(-1)
    scaled = values * torch.tensor([100.0, 0.01])
    found = []
    for part in (values, scaled):
        moments = Moments(MEMORY, 2, decay=1.0)
        moments.update(part)
        critics = drawn(lambda: Critics(MEMORY, 1, 1), seeded())
        critics.fit_linear(moments)
        critics.joint.use_network = critics.alone.use_network = False
        found.append(critics(part).mean().item())
    assert found[0] == pytest.approx(found[1], abs=1e-4)
    assert found[0] == pytest.approx(math.log(2) / 2, abs=0.02)


def test_a_network_without_a_gain_is_left_out():
    values = torch.randn(64, MEMORY + 40, 2, generator=seeded()).cumsum(-1)
    moments = Moments(MEMORY, 2, decay=1.0)
    moments.update(values)
    critics = drawn(lambda: Critics(MEMORY, 1, 1), seeded())
    critics.fit_linear(moments)
    critics.choose(torch.randn(64, MEMORY + 40, 2, generator=seeded(1)).cumsum(-1))
    assert not critics.use_networks
