"""What a finished generator achieves: known values at the limit of its power, and an honest error."""

import math

import numpy as np
import pytest
import torch

from treet.capacity.critics import drawn
from treet.capacity.evaluation import evaluate
from treet.capacity.gaussian import input_transfer_entropy
from treet.capacity.gaussian_channels import AWGN, MovingAverage
from treet.capacity.generator import Generator, Limits


def evaluated(channel, power, seed, samples=100_000):
    random = torch.Generator().manual_seed(seed)
    dims = (3, channel.input_dim, channel.output_dim)
    generator = drawn(lambda: Generator(*dims, Limits(power=power), noise="gaussian"), random)
    generator.use_correction = False
    generator.scale.mul_(1.5)  # the power is measured and set
    return evaluate(generator, channel, samples, 1, random)


@pytest.mark.parametrize("power", [0.1, 10.0])
def test_white_noise_and_input_have_the_capacity(power):
    found = evaluated(AWGN(dimension=2), power, seed=0)
    assert found.value == pytest.approx(math.log1p(power), abs=4 * found.std_error)
    assert found.gaussian == pytest.approx(found.value, abs=4 * found.std_error)
    assert found.power == pytest.approx(power, rel=0.03)
    assert found.influence.shape == (4,)


def test_a_white_input_through_coloured_noise():
    found = evaluated(MovingAverage(), 1.0, seed=1)
    exact = input_transfer_entropy([1.0, 0, 0, 0], MovingAverage().noise.autocovariances(3))
    assert found.value == pytest.approx(exact, abs=4 * found.std_error)


@pytest.mark.slow
def test_the_error_is_that_of_repetitions():
    found = [evaluated(AWGN(), 10.0, seed, samples=51_200) for seed in range(12)]
    spread = np.std([one.value for one in found], ddof=1)
    assert spread == pytest.approx(np.mean([one.std_error for one in found]), rel=0.6)
    assert np.mean([one.value for one in found]) == pytest.approx(
        math.log(11) / 2, abs=4 * spread / math.sqrt(12)
    )
