"""The published critic: what each score may depend on, lag by lag, and a loop over single windows."""

import doctest
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import treet.nn.paper_critic
from treet.errors import TreetError
from treet.lags import Lags
from treet.nn.paper_critic import PaperCritic, sinusoids

# lags, then target, source and condition channels
CASES = [
    (Lags.from_memory(1), 1, 1, 0),
    (Lags.from_memory(4), 2, 3, 0),
    (Lags.from_memory(4), 1, 0, 0),
    (Lags(3, 3, 1), 1, 1, 0),
    (Lags(3, 3, 1), 2, 1, 2),
    (Lags(3, 3, 1, 2), 1, 2, 1),
    (Lags(2, 4, 0), 1, 1, 0),
    (Lags(4, 2, 0, 3), 2, 1, 1),
    (Lags(5, 1, 1), 1, 1, 0),
    (Lags(1, 5, 1), 1, 2, 0),
    (Lags(1, 1, 0), 1, 1, 0),
    (Lags(3, 3, 20), 1, 1, 0),
    (Lags(2, 5, 20), 2, 1, 0),
    (Lags(5, 2, 20, 4), 1, 2, 3),
    (Lags(25, 2, 20), 1, 1, 0),
    (Lags(3, 2, 4, 6), 1, 0, 2),
    (Lags(2, 3, 20), 1, 0, 0),
]

histories = st.integers(1, 5)
every_lags = st.builds(Lags, histories, histories, st.integers(0, 7), st.none() | histories)

close = {"rtol": 0, "atol": 1e-12}


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def make(lags, target_width, source_width, condition_width, width=6, heads=2):
    """A critic in float64 whose parameters are all drawn, so that nothing vanishes by chance."""
    critic = PaperCritic(
        lags, target_width, source_width, condition_width, width=width, heads=heads, feedforward=5
    )
    generator = torch.Generator().manual_seed(1)
    critic = critic.double()
    with torch.no_grad():
        for parameter in critic.parameters():
            parameter.copy_(0.6 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return critic


def inputs(critic, batch, length, draws, seed=0):
    """tokens_y, tokens_other (None without other series) and reference."""
    steps = critic.lags.span + length
    other = noise(batch, steps, critic.other_width, seed=seed + 1) if critic.other_width else None
    reference = noise(batch, length, draws, critic.target_width, seed=seed + 2)
    return noise(batch, steps, critic.target_width, seed=seed), other, reference


def visible(length, span, lags):
    """(length, span + length): whether the window at t sees the value at each time step."""
    time, window = torch.arange(span + length), span + torch.arange(length)[:, None]
    return sum((time == window - lag for lag in lags), torch.zeros(length, span + length, dtype=torch.bool))


def jacobian(critic, y, other, reference):
    """Gradients of real (batch, length) and drawn (batch, length, draws) with respect to the inputs."""
    if other is None:
        found = torch.autograd.functional.jacobian(lambda y, r: critic(y, None, r), (y, reference))
        return [(of_y, None, of_reference) for of_y, of_reference in found]
    return torch.autograd.functional.jacobian(critic, (y, other, reference))


def of_one_sequence(gradient, batch, outputs):
    """The block of each sequence's scores by its own inputs; asserts that all other blocks vanish."""
    gradient = gradient.movedim(outputs, 1)
    for b in range(batch):
        for c in range(batch):
            assert b == c or bool((gradient[b, c] == 0).all())
    return torch.stack([gradient[b, b] for b in range(batch)])


def assert_sees_exactly(gradient, mask):
    """``gradient`` (batch, outputs, time, channels) is zero where the mask (outputs, time) is false alone."""
    mask = mask[None, :, :, None].expand(gradient.shape)
    assert bool((gradient[~mask] == 0).all())
    assert bool((gradient[mask] != 0).all())


@pytest.mark.parametrize(("lags", "target", "source", "condition"), CASES)
def test_each_score_depends_on_the_declared_lags_and_on_nothing_else(lags, target, source, condition):
    batch, length, draws = 2, 4, 3
    critic = make(lags, target, source, condition)
    real, drawn = jacobian(critic, *inputs(critic, batch, length, draws))
    past = visible(length, lags.span, lags.target_lags)
    each_draw = past.repeat_interleave(draws, 0)

    assert_sees_exactly(of_one_sequence(real[0], batch, 2), past | visible(length, lags.span, [0]))
    assert_sees_exactly(of_one_sequence(drawn[0].flatten(1, 2), batch, 2), each_draw)
    if critic.other_width:
        seen_of = [visible(length, lags.span, lags.source_lags)] * source
        seen_of += [visible(length, lags.span, lags.condition_lags)] * condition
        of_real = of_one_sequence(real[1], batch, 2)
        of_drawn = of_one_sequence(drawn[1].flatten(1, 2), batch, 2)
        for channel, seen in enumerate(seen_of):
            assert_sees_exactly(of_real[..., channel, None], seen)
            assert_sees_exactly(of_drawn[..., channel, None], seen.repeat_interleave(draws, 0))

    assert bool((real[2] == 0).all())
    by_draw = of_one_sequence(drawn[2].flatten(1, 2).flatten(3, 4), batch, 2)
    assert_sees_exactly(by_draw, torch.eye(length * draws, dtype=torch.bool))


@pytest.mark.parametrize("lags", [Lags(3, 3, 1), Lags(2, 4, 1), Lags(4, 2, 1, 5)])
def test_the_present_of_the_others_is_invisible_at_delay_one_and_visible_at_delay_zero(lags):
    for delay, sees in [(1, False), (0, True)]:
        lags = Lags(lags.target_history, lags.source_history, delay, lags.condition_history)
        critic = make(lags, 1, 1, 1)
        y, other, reference = inputs(critic, 2, 1, 3)
        before = critic(y, other, reference)
        for channel in range(2):
            changed = other.clone()
            changed[:, -1, channel] += 3.0
            after = critic(y, changed, reference)
            for old, new in zip(before, after, strict=True):
                assert bool(torch.eq(old, new).all()) is not sees


def one_window(critic, lags, y, other, reference, b, t, source_width):
    """Real and reference scores of one window, its tokens put together lag by lag."""
    shift = max(lags.delay - 1, 0)
    now = lags.span + t
    positions = sinusoids(critic.memory + t + 1, critic.score.in_features)

    def token(lag, present):
        values = [present if lag == 0 else y[b, now - lag] * (lag in lags.target_lags)]
        for channel in range(critic.other_width):
            role = "source" if channel < source_width else "condition"
            seen = lag + shift in lags.of(role)
            values.append(other[b, now - lag - shift, channel : channel + 1] if seen else torch.zeros(1))
        return critic.embedding(torch.cat(values).double()) + positions[critic.memory + t - lag]

    past = torch.stack([token(lag, None) for lag in range(critic.memory, 0, -1)])[None]
    scores = []
    for value in [y[b, now], *reference[b, t]]:
        present = token(0, value)[None, None, None]
        scores.append(critic.score(critic.transformer(past, present)).reshape(()))
    return torch.stack(scores)


@settings(deadline=None, max_examples=40)
@given(every_lags, st.integers(1, 2), st.integers(0, 2), st.integers(0, 2))
def test_scores_equal_those_of_single_windows_put_together_by_hand(lags, target, source, condition):
    critic = make(lags, target, source, condition)
    y, other, reference = inputs(critic, 2, 5, 3)
    with torch.no_grad():
        real, drawn = critic(y, other, reference)
        for b in range(2):
            for t in range(5):
                expected = one_window(critic, lags, y, other, reference, b, t, source)
                torch.testing.assert_close(torch.cat([real[b, t, None], drawn[b, t]]), expected, **close)


@settings(deadline=None, max_examples=30)
@given(every_lags, st.integers(1, 2), st.integers(0, 2), st.integers(0, 24))
def test_a_score_is_the_same_whatever_comes_after_its_window(lags, target, source, cut):
    critic = make(lags, target, source, 1)
    y, other, reference = inputs(critic, 2, 25, 2)
    with torch.no_grad():
        long = critic(y, other, reference)
        steps = lags.span + cut + 1
        short = critic(y[:, :steps], other[:, :steps], reference[:, : cut + 1])
    for whole, part in zip(long, short, strict=True):
        torch.testing.assert_close(whole[:, : cut + 1], part, **close)


def test_a_wild_value_reaches_no_window_that_does_not_see_it():
    lags = Lags(2, 3, 4)
    critic = make(lags, 1, 1, 0)
    y, other, reference = inputs(critic, 1, 40, 2)
    before = critic(y, other, reference)[0][0]
    y, other = y.clone(), other.clone()
    y[0, 20] = other[0, 25] = 1e6
    after = critic(y, other, reference)[0][0]
    # y at lags 0..2 and x at lags 4..6
    changed = {time - lags.span for time in [*range(20, 23), *range(29, 32)]}
    assert set(torch.nonzero(before != after).flatten().tolist()) == changed


def test_a_reference_draw_that_equals_the_real_present_has_the_real_score():
    critic = make(Lags(3, 2, 1, 4), 2, 1, 1)
    y, other, _ = inputs(critic, 2, 7, 1)
    real, drawn = critic(y, other, y[:, critic.lags.span :, None].expand(-1, -1, 3, -1))
    torch.testing.assert_close(drawn, real[..., None].expand(-1, -1, 3), **close)


def test_only_equal_histories_share_their_past():
    assert PaperCritic(Lags.from_memory(9), 1, 1).shares_past
    assert PaperCritic(Lags(3, 3, 20), 1, 1, 1).shares_past
    assert PaperCritic(Lags(3, 7, 20), 1).shares_past
    assert not PaperCritic(Lags(3, 4, 1), 1, 1).shares_past
    assert not PaperCritic(Lags(3, 3, 1, 2), 1, 1, 1).shares_past


def test_a_delay_does_not_lengthen_the_attention():
    assert PaperCritic(Lags(3, 3, 20), 1, 1).memory == 3
    assert PaperCritic(Lags(3, 5, 20), 1, 1).memory == 5
    assert PaperCritic(Lags.from_memory(30), 1, 1).memory == 30
    assert PaperCritic(Lags(3, 5, 20), 1).memory == 3


@pytest.mark.parametrize(("lags", "target", "source", "condition"), CASES)
def test_attention_weights_are_those_of_the_real_pass(lags, target, source, condition):
    critic = make(lags, target, source, condition)
    y, other, _ = inputs(critic, 2, 5, 1)
    weights = critic.weights(y, other)
    assert weights.shape == (2, 5, 2, critic.memory + 1)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 5, 2).double(), **close)
    values = critic._values(y, other)
    embedded = critic._embedded(values, values[:, critic.memory :, None, :target])
    expected = critic.transformer.blocks[0].attention.weights(*embedded)
    torch.testing.assert_close(weights, expected.reshape(weights.shape), **close)


def test_weights_look_at_the_value_that_stands_out():
    """With keys that grow with the value, the lag of a spike gets nearly all the weight."""
    critic = make(Lags(4, 4, 1), 1, 1, 0, width=2, heads=1)
    with torch.no_grad():
        critic.embedding.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
        attention = critic.transformer.blocks[0].attention.query_key_value
        attention.weight.zero_()
        attention.bias.zero_()
        attention.bias[0] = 1.0
        attention.weight[2, 0] = 1.0
        y = torch.zeros(1, 4 + 6, 1).double()
        y[0, 5] = 1000.0
        weights = critic.weights(y, torch.zeros_like(y))[0, :, 0]
    # window t is at time step 4 + t; the spike stands at lag t - 1, in column memory - lag
    assert weights[1:6].argmax(-1).tolist() == [4, 3, 2, 1, 0]
    assert weights[1:6].amax(-1).min() > 0.99
    assert weights[0].max() < 0.9


@pytest.mark.parametrize(("length", "width"), [(1, 1), (7, 6), (12, 5), (300, 2)])
def test_sinusoids_equal_the_published_formula(length, width):
    found = sinusoids(length, width)
    assert found.shape == (length, width)
    for i in range(length):
        for column in range(width):
            angle = i / 10000 ** ((column - column % 2) / width)
            expected = math.cos(angle) if column % 2 else math.sin(angle)
            assert found[i, column].item() == pytest.approx(expected, abs=1e-12)


def test_scores_depend_on_the_position_in_the_sequence():
    critic = make(Lags(2, 2, 1), 1, 1, 0)
    y, other, reference = (torch.ones(1, steps, 1).double() for steps in (8, 8, 6))
    real, _ = critic(y, other, reference[:, :, None])
    assert len(set(real[0].tolist())) == 6


def test_all_parameters_are_trained_and_the_mask_is_not_stored():
    critic = make(Lags(2, 4, 3), 1, 1, 0)
    assert "seen" not in critic.state_dict()
    real, drawn = critic(*inputs(critic, 2, 30, 3))
    (real.square().sum() + drawn.square().sum()).backward()
    for name, parameter in critic.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 1e-6, name


@pytest.mark.parametrize("shape", [(2, 5, 1), (2, 9, 2), (9, 1), (2, 9, 1, 1)])
def test_wrong_target_tokens_are_refused(shape):
    critic = PaperCritic(Lags(3, 5, 1), 1, 1)
    with pytest.raises(TreetError, match=r"tokens_y must be \(batch, more than 5 time steps, 1\)") as error:
        critic(torch.zeros(shape), torch.zeros(2, 9, 1), torch.zeros(2, 4, 3, 1))
    assert "target lags 1..3, source lags 1..5" in str(error.value)
    assert f"Got {shape}" in str(error.value)


@pytest.mark.parametrize("shape", [(2, 9, 1), (2, 8, 3), (1, 9, 3), (9, 3)])
def test_wrong_other_tokens_are_refused(shape):
    critic = PaperCritic(Lags(3, 5, 1), 1, 2, 1)
    with pytest.raises(TreetError, match=r"tokens_other must be \(2, 9, 3\)") as error:
        critic.weights(torch.zeros(2, 9, 1), torch.zeros(shape))
    assert f"Got {shape} instead" in str(error.value)


def test_other_tokens_are_needed_or_refused_by_what_is_scored():
    y, reference = torch.zeros(2, 9, 1), torch.zeros(2, 4, 3, 1)
    with pytest.raises(TreetError, match=r"tokens_other must be \(2, 9, 2\)\. Got None"):
        PaperCritic(Lags(), 1, 2)(y, None, reference)
    with pytest.raises(TreetError, match=r"must be None: only the target is scored\. Got \(2, 9, 1\)"):
        PaperCritic(Lags(), 1)(y, y, reference)


@pytest.mark.parametrize("shape", [(2, 4, 1), (2, 3, 3, 1), (1, 4, 3, 1), (2, 4, 3, 2)])
def test_a_wrong_reference_is_refused(shape):
    with pytest.raises(TreetError, match=r"reference must be \(2, 4, draws, 1\)") as error:
        PaperCritic(Lags(), 1)(torch.zeros(2, 9, 1), None, torch.zeros(shape))
    assert f"Got {shape}" in str(error.value)


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.nn.paper_critic).failed == 0
