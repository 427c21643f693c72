"""The recurrent critic: what each score may depend on, and a loop over single windows and steps."""

import doctest

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import treet.nn.recurrent
from treet.errors import TreetError
from treet.lags import Lags
from treet.nn.recurrent import RecurrentCritic

# lags, then target, source and condition channels
CASES = [
    (Lags.from_memory(1), 1, 1, 0),
    (Lags.from_memory(4), 2, 3, 0),
    (Lags.from_memory(4), 1, 0, 0),
    (Lags(3, 3, 1), 1, 1, 0),
    (Lags(3, 3, 1, 2), 1, 2, 1),
    (Lags(4, 2, 0, 3), 2, 1, 1),
    (Lags(5, 1, 1), 1, 1, 0),
    (Lags(1, 5, 1), 1, 2, 0),
    (Lags(2, 5, 20), 2, 1, 0),
    (Lags(25, 2, 20), 1, 1, 0),
    (Lags(3, 2, 4, 6), 1, 0, 2),
]

histories = st.integers(1, 5)
every_lags = st.builds(Lags, histories, histories, st.integers(0, 7), st.none() | histories)

close = {"rtol": 0, "atol": 1e-12}


def noise(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(lags, target_width, source_width, condition_width, width=6):
    """A critic in float64 whose parameters are all drawn, so that nothing vanishes by chance."""
    critic = RecurrentCritic(lags, target_width, source_width, condition_width, width=width, feedforward=5)
    critic = critic.double()
    with torch.no_grad():
        for number, parameter in enumerate(critic.parameters()):
            parameter.copy_(0.6 * noise(*parameter.shape, seed=number))
    return critic


def inputs(critic, batch, length, draws, seed=0):
    """tokens_y, tokens_other (None without other series) and reference."""
    steps = critic.lags.span + length
    other = noise(batch, steps, critic.other_width, seed=seed + 1) if critic.other_width else None
    reference = noise(batch, length, draws, critic.target_width, seed=seed + 2)
    return noise(batch, steps, critic.target_width, seed=seed), other, reference


def cell_step(lstm, value, hidden, cell):
    """One step of an LSTM written out gate by gate."""
    gates = lstm.weight_ih_l0 @ value + lstm.bias_ih_l0 + lstm.weight_hh_l0 @ hidden + lstm.bias_hh_l0
    width = len(hidden)
    enter, forget, update, leave = (gates[i * width : (i + 1) * width] for i in range(4))
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(update)
    return torch.sigmoid(leave) * torch.tanh(cell), cell


def one_window(critic, y, other, reference, b, t, source_width):
    """Real and reference scores of one window: its state lag by lag, then a step for each present value."""
    lags = critic.lags
    now = lags.span + t

    def token(back, present=None):
        values = [present if back == 0 else y[b, now - back] * (back in lags.target_lags)]
        for channel in range(critic.other_width):
            role = "source" if channel < source_width else "condition"
            lag = back + lags.delay
            seen = lag in lags.of(role)
            values.append(other[b, now - lag, channel : channel + 1] if seen else torch.zeros(1))
        return torch.cat(values).double()

    state = torch.zeros(2, critic.lstm.hidden_size).double()
    used = [lags.target_history, *([lags.source_history - 1] if source_width else [])]
    if critic.other_width > source_width:
        used.append((lags.condition_history or lags.source_history) - 1)
    for back in range(max(used), 0, -1):
        state = cell_step(critic.lstm, token(back), *state)
    values = [y[b, now], *reference[b, t]]
    return torch.cat([critic.score(cell_step(critic.lstm, token(0, value), *state)[0]) for value in values])


@settings(deadline=None, max_examples=40)
@given(every_lags, st.integers(1, 2), st.integers(0, 2), st.integers(0, 2))
def test_scores_equal_those_of_single_windows_step_by_step(lags, target, source, condition):
    critic = make(lags, target, source, condition)
    y, other, reference = inputs(critic, 2, 4, 3)
    with torch.no_grad():
        real, drawn = critic(y, other, reference)
        for b in range(2):
            for t in range(4):
                expected = one_window(critic, y, other, reference, b, t, source)
                torch.testing.assert_close(torch.cat([real[b, t, None], drawn[b, t]]), expected, **close)


def visible(length, span, lags):
    """(length, span + length): whether the window at t sees the value at each time step."""
    time, window = torch.arange(span + length), span + torch.arange(length)[:, None]
    return sum((time == window - lag for lag in lags), torch.zeros(length, span + length, dtype=torch.bool))


def jacobian(critic, y, other, reference):
    """Of real (length,) and drawn (length, draws) scores of one sequence by its inputs."""
    given = [part[None] for part in (y, other, reference) if part is not None]

    def scores(*parts):
        parts = (parts[0], None, parts[1]) if other is None else parts
        return tuple(score[0] for score in critic(*parts))

    found = torch.autograd.functional.jacobian(scores, tuple(given))
    return [[gradient.squeeze(score + 1) for gradient in of] for score, of in enumerate(found)]


def assert_sees_exactly(gradient, mask):
    """``gradient`` (outputs, time, channels) is zero where the mask (outputs, time) is false alone."""
    mask = mask[..., None].expand(gradient.shape)
    assert bool((gradient[~mask] == 0).all())
    assert bool((gradient[mask] != 0).all())


@pytest.mark.parametrize(("lags", "target", "source", "condition"), CASES)
def test_each_score_depends_on_the_declared_lags_and_on_nothing_else(lags, target, source, condition):
    length, draws = 3, 2
    critic = make(lags, target, source, condition)
    y, other, reference = (None if part is None else part[0] for part in inputs(critic, 1, length, draws))
    real, drawn = jacobian(critic, y, other, reference)
    past = visible(length, lags.span, lags.target_lags)
    assert_sees_exactly(real[0], past | visible(length, lags.span, [0]))
    assert_sees_exactly(drawn[0].flatten(0, 1), past.repeat_interleave(draws, 0))
    seen_of = [visible(length, lags.span, lags.source_lags)] * source
    seen_of += [visible(length, lags.span, lags.condition_lags)] * condition
    for channel, seen in enumerate(seen_of):
        assert_sees_exactly(real[1][..., channel, None], seen)
        assert_sees_exactly(drawn[1][..., channel, None].flatten(0, 1), seen.repeat_interleave(draws, 0))


def test_a_reference_draw_reaches_its_own_score_and_no_other():
    """Not the real scores, nor those of other draws, nor, through the state, of any other time."""
    length, draws = 4, 3
    critic = make(Lags.from_memory(3), 2, 1, 0)
    real, drawn = jacobian(critic, *(part[0] for part in inputs(critic, 1, length, draws)))
    assert bool((real[2] == 0).all())
    by_draw = drawn[2].flatten(0, 1).flatten(1, 2)
    assert_sees_exactly(by_draw, torch.eye(length * draws, dtype=torch.bool))


def test_a_reference_draw_that_equals_the_real_present_has_the_real_score():
    critic = make(Lags(3, 2, 1, 4), 2, 1, 1)
    y, other, _ = inputs(critic, 2, 7, 1)
    real, drawn = critic(y, other, y[:, critic.lags.span :, None].expand(-1, -1, 3, -1))
    torch.testing.assert_close(drawn, real[..., None].expand(-1, -1, 3), **close)


@settings(deadline=None, max_examples=20)
@given(every_lags, st.integers(0, 11))
def test_a_score_is_the_same_wherever_its_window_stands(lags, start):
    critic = make(lags, 1, 1, 1)
    y, other, reference = inputs(critic, 2, 12, 2)
    with torch.no_grad():
        long = critic(y, other, reference)
        alone = slice(start, start + lags.span + 1)
        short = critic(y[:, alone], other[:, alone], reference[:, start : start + 1])
    for whole, part in zip(long, short, strict=True):
        torch.testing.assert_close(whole[:, start : start + 1], part, **close)


def test_a_delay_costs_no_steps():
    assert RecurrentCritic(Lags.from_memory(30), 1, 1).memory == 30
    assert RecurrentCritic(Lags(3, 4, 20), 1, 1).memory == 3
    assert RecurrentCritic(Lags(3, 5, 20), 1, 1).memory == 4
    assert RecurrentCritic(Lags(3, 5, 20), 1).memory == 3


def test_all_parameters_are_trained_and_the_mask_is_not_stored():
    critic = make(Lags(2, 4, 3), 1, 1, 0)
    assert "seen" not in critic.state_dict()
    real, drawn = critic(*inputs(critic, 2, 30, 3))
    (real.square().sum() + drawn.square().sum()).backward()
    for name, parameter in critic.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 1e-6, name


def test_tokens_of_wrong_shapes_are_refused():
    critic = RecurrentCritic(Lags(3, 5, 1), 1, 2)
    y, other, reference = torch.zeros(2, 9, 1), torch.zeros(2, 9, 2), torch.zeros(2, 4, 3, 1)
    with pytest.raises(TreetError, match=r"tokens_y must be \(batch, more than 5 time steps, 1\)"):
        critic(y[:, :5], other, reference)
    with pytest.raises(TreetError, match=r"tokens_other must be \(2, 9, 2\)\. Got None"):
        critic(y, None, reference)
    with pytest.raises(TreetError, match=r"reference must be \(2, 4, draws, 1\)"):
        critic(y, other, reference[:, 1:])


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.nn.recurrent).failed == 0
