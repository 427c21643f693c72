"""The most that TE(l) is with feedback: its limits, and where it is not known."""

import doctest

import pytest

import treet.capacity.feedback_ceiling
from treet.capacity.feedback_ceiling import largest_feedback_transfer_entropy
from treet.capacity.gaussian_channels import AWGN, AutoRegressive, DelayedTap, MovingAverage
from treet.capacity.noise import ArmaNoise
from treet.errors import TreetError


def test_the_doctests():
    assert doctest.testmod(treet.capacity.feedback_ceiling).failed == 0


@pytest.mark.parametrize("power", [0.1, 1.0, 10.0])
@pytest.mark.parametrize("channel", [MovingAverage(), MovingAverage((-0.3,), 2.0), AutoRegressive()])
def test_a_long_memory_gives_the_capacity(channel, power):
    assert channel.ceiling(20, power, feedback=True) == pytest.approx(channel.capacity(power, True), abs=3e-6)


@pytest.mark.parametrize("memory", [0, 1, 4])
def test_white_noise_has_its_capacity_at_every_memory(memory):
    found = largest_feedback_transfer_entropy(ArmaNoise(variance=2.0), memory, 3.0)
    assert found == pytest.approx(AWGN(variance=2.0).capacity(3.0), abs=1e-7)


def test_a_short_memory_can_have_more_than_the_capacity_and_more_than_without_feedback():
    channel = AutoRegressive()
    short = channel.ceiling(1, 1.0, feedback=True)
    assert short > channel.capacity(1.0, feedback=True) + 0.005
    for memory in (1, 2, 5):
        assert channel.ceiling(memory, 1.0, feedback=True) > channel.ceiling(memory, 1.0)


def test_where_noise_before_the_window_still_tells_something_it_is_not_known():
    assert MovingAverage().ceiling(3, 1.0, feedback=True) is None
    assert DelayedTap().ceiling(150, 1.0, feedback=True) is None
    assert DelayedTap(delay=2).ceiling(40, 1.0, feedback=True) == pytest.approx(0.546191, abs=1e-5)


def test_a_power_that_makes_no_sense():
    with pytest.raises(TreetError, match="power must be"):
        largest_feedback_transfer_entropy(ArmaNoise(), 2, 0.0)
