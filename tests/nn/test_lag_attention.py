"""Attention of a learned query over lags, against a loop over windows, heads and lags."""

import doctest
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import treet.nn.lag_attention
from treet.nn.lag_attention import SHARPNESS, LagAttention

close = {"rtol": 0, "atol": 1e-12}
SIZES = [(1, 1, 1), (2, 1, 5), (5, 3, 1), (7, 2, 3), (30, 1, 8)]


def noise(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(lags, channels, heads):
    """An attention in float64 whose parameters are all drawn, so that nothing vanishes by chance."""
    attention = LagAttention(lags, channels, heads).double()
    with torch.no_grad():
        attention.bias.copy_(0.3 * noise(heads, lags, seed=1))
        attention.content.copy_(noise(heads, channels, seed=2))
    return attention


def naive_weights(attention, window, head):
    """The softmax of one head over one window, (lags, channels) oldest first, from the equations."""
    scores = []
    for row, values in enumerate(window.tolist()):
        content = sum(c * v for c, v in zip(attention.content[head].tolist(), values, strict=True))
        scores.append(SHARPNESS * attention.bias[head, row].item() + content)
    largest = max(scores)
    terms = [math.exp(score - largest) for score in scores]
    return [term / sum(terms) for term in terms]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 12), st.integers(1, 4), st.integers(1, 9), st.integers(1, 3))
def test_equal_to_the_naive_loop(lags, channels, heads, batch):
    attention, past = make(lags, channels, heads), noise(batch, lags, channels, seed=3)
    outputs, weights = attention(past).detach(), attention.weights(past).detach()
    assert outputs.shape == (batch, heads * channels)
    assert weights.shape == (batch, heads, lags)
    for b in range(batch):
        for head in range(heads):
            expected = naive_weights(attention, past[b], head)
            torch.testing.assert_close(weights[b, head], torch.tensor(expected, dtype=torch.float64), **close)
            for channel in range(channels):
                mean = sum(w * v for w, v in zip(expected, past[b, :, channel].tolist(), strict=True))
                assert outputs[b, head * channels + channel].item() == pytest.approx(mean, abs=1e-12)


@pytest.mark.parametrize(("lags", "channels", "heads"), SIZES)
def test_weights_are_positive_and_sum_to_one(lags, channels, heads):
    weights = make(lags, channels, heads).weights(10 * noise(50, lags, channels))
    torch.testing.assert_close(weights.sum(-1), torch.ones(50, heads).double(), **close)
    assert weights.min() >= 0


@pytest.mark.parametrize(("lags", "channels", "heads"), SIZES)
def test_each_output_depends_on_all_of_its_own_window_and_on_no_other(lags, channels, heads):
    attention, past = make(lags, channels, heads), noise(3, lags, channels, seed=4)
    found = torch.autograd.functional.jacobian(attention, past)
    for b in range(3):
        for other in range(3):
            if b != other:
                assert (found[b, :, other] == 0).all()
    # (batch, heads, output channel, lags, input channel)
    own = torch.stack([found[b, :, b] for b in range(3)]).reshape(3, heads, channels, lags, channels)
    same = own[:, :, range(channels), :, range(channels)]
    assert (same != 0).all()
    if lags > 1:
        assert (own != 0).all()


def test_the_same_window_gives_the_same_output_wherever_it_stands():
    attention, series = make(6, 2, 4), noise(40, 2, seed=5)
    series[20:26] = series[5:11]
    windows = series.unfold(0, 6, 1).mT
    outputs = attention(windows)
    torch.testing.assert_close(outputs[5], outputs[20], **close)


def test_an_output_lies_within_the_range_of_what_was_seen():
    past = noise(200, 9, 1, seed=6)
    outputs = make(9, 1, 5)(past)
    assert (outputs <= past.amax(1) + 1e-12).all()
    assert (outputs >= past.amin(1) - 1e-12).all()


def test_heads_start_on_lags_from_the_newest_to_the_oldest():
    weights = LagAttention(lags=64, channels=1, heads=7).weights(torch.zeros(1, 64, 1))[0]
    ages = 63 - weights.argmax(-1)
    assert ages[0] == 0
    assert ages[-1] == 63
    assert (ages.diff() > 0).all()
    # Every lag has a part of at least one head.
    assert weights.amax(0).min() > 1e-3


def test_with_as_many_heads_as_lags_the_newest_lags_have_a_head_each():
    weights = LagAttention(lags=5, channels=1, heads=5).weights(torch.zeros(1, 5, 1))[0]
    assert set((4 - weights.argmax(-1)).tolist()) >= {0, 1, 2, 4}


@pytest.mark.parametrize(("lags", "channels", "heads"), SIZES)
def test_before_training_content_has_little_say_and_the_generator_draws_it(lags, channels, heads):
    attention, again, other = (LagAttention(lags, channels, heads) for _ in range(3))
    before = torch.get_rng_state()
    for each, seed in ((attention, 7), (again, 7), (other, 8)):
        each.reset(torch.Generator().manual_seed(seed))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(attention.content, again.content)
    assert not torch.equal(attention.content, other.content)
    assert 0 < attention.content.abs().max() < 0.6


def test_huge_values_overflow_nothing():
    past = 1e30 * torch.ones(2, 8, 3)
    past[1] *= -1
    attention = LagAttention(8, 3, 4)
    attention.reset(torch.Generator().manual_seed(0))
    assert attention(past).isfinite().all()


def test_all_parameters_are_trained():
    attention = make(6, 2, 3)
    attention(noise(10, 6, 2)).square().sum().backward()
    for name, parameter in attention.named_parameters():
        assert parameter.grad.abs().max() > 1e-6, name


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.nn.lag_attention).failed == 0
