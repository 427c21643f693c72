"""Attention against a loop over every query, written from the paper's equations alone."""

import doctest
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

import treet.nn.attention
from treet.errors import TreetError
from treet.nn.attention import FixedPastAttention, FixedPastBlock, FixedPastTransformer, band, unband

# Whole and partial blocks of queries, memories below and above the smallest block.
LENGTHS = [1, 11, 16, 17, 31, 32, 37]
MEMORIES = [1, 7, 13, 16, 19, 23, 41]

close = {"rtol": 0, "atol": 1e-12}


def randomised(module, seed=0):
    """In float64 and with every parameter drawn, so that none is at zero or one."""
    generator = torch.Generator().manual_seed(seed)
    module = module.double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.7 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def noise(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def projections(attention, token):
    """q, k, v of one token, each (heads, width / heads)."""
    weight, bias = (part.detach().numpy() for part in attention.query_key_value.parameters())
    return (weight @ token + bias).reshape(3, attention.heads, -1)


def naive_attention(attention, past, present):
    """Weights and outputs: for each query the softmax over t-l .. t, the present token's q, k, v replaced."""
    batch, length, draws, width = present.shape
    weights = np.zeros((batch, length, draws, attention.heads, attention.memory + 1))
    mixed = np.zeros((batch, length, draws, width))
    for b in range(batch):
        kv = [projections(attention, token)[1:] for token in past[b].numpy()]
        for t in range(length):
            for d in range(draws):
                query, own_key, own_value = projections(attention, present[b, t, d].numpy())
                keys = [k for k, _ in kv[t : t + attention.memory]] + [own_key]
                values = [v for _, v in kv[t : t + attention.memory]] + [own_value]
                row = []
                for h in range(attention.heads):
                    scores = np.array([query[h] @ key[h] for key in keys]) / math.sqrt(query.shape[1])
                    if attention.bias is not None:
                        scores = scores + attention.bias[h].detach().numpy()
                    softmax = np.exp(scores) / np.exp(scores).sum()
                    weights[b, t, d, h] = softmax
                    row.append(sum(w * value[h] for w, value in zip(softmax, values, strict=True)))
                mixed[b, t, d] = np.concatenate(row)
    with torch.no_grad():
        return torch.from_numpy(weights), attention.output(torch.from_numpy(mixed))


def norm(layer, x):
    """Layer normalisation, written out."""
    x = x - x.mean(-1, keepdim=True)
    x = x / (x.square().mean(-1, keepdim=True) + layer.eps).sqrt()
    return x * layer.weight + layer.bias


def naive_block(block, past, present):
    state = norm(block.attention_norm, present + naive_attention(block.attention, past, present)[1])
    first, _, second = block.feedforward
    hidden = state @ first.weight.T + first.bias
    hidden = torch.where(hidden > 0, hidden, hidden.exp() - 1)
    return norm(block.feedforward_norm, state + hidden @ second.weight.T + second.bias).detach()


@st.composite
def shapes(draw):
    """Sizes without a common factor, so that no two axes can be taken for one another."""
    batch, draws, heads, head_width = draw(st.permutations([1, 2, 3, 5]))
    length, memory = draw(st.sampled_from(LENGTHS)), draw(st.sampled_from(MEMORIES))
    return batch, length, memory, draws, heads, heads * head_width


def tokens(batch, length, memory, draws, width, seed, extra=0):
    past = noise(batch, memory + length - 1 + extra, width, seed=seed)
    return past, noise(batch, length, draws, width, seed=seed + 1)


@settings(deadline=None, max_examples=60)
@given(shapes(), st.booleans(), st.integers(0, 1), st.integers(0, 1000))
def test_attention_equals_the_loop_over_every_query(shape, lag_bias, extra, seed):
    batch, length, memory, draws, heads, width = shape
    attention = randomised(FixedPastAttention(width, heads, memory, lag_bias=lag_bias), seed)
    past, present = tokens(batch, length, memory, draws, width, seed + 10, extra)
    weights, output = naive_attention(attention, past, present)
    torch.testing.assert_close(attention.weights(past, present), weights, **close)
    torch.testing.assert_close(attention(past, present), output, **close)


@settings(deadline=None, max_examples=10)
@given(st.sampled_from(LENGTHS), st.sampled_from(MEMORIES), st.integers(1, 3), st.booleans())
def test_a_stack_equals_the_layers_written_out_one_by_one(length, memory, layers, lag_bias):
    batch, draws, heads, width = 2, 3, 2, 10
    stack = randomised(FixedPastTransformer(width, heads, memory, 7, layers, lag_bias=lag_bias), length)
    past, present = tokens(batch, length, memory, draws, width, memory)
    expected, weights = present, []
    for block in stack.blocks:
        weights.append(naive_attention(block.attention, past, expected)[0])
        expected = naive_block(block, past, expected)
    torch.testing.assert_close(stack(past, present), expected, **close)
    torch.testing.assert_close(stack.weights(past, present), torch.stack(weights), **close)


@pytest.mark.parametrize(("length", "memory"), [(1, 3), (33, 5), (16, 16), (40, 19)])
def test_the_real_pass_is_masked_attention_over_the_whole_sequence(length, memory):
    """softmax(Q K^T with -inf outside the band) V, of which the first ``memory`` rows are left out."""
    width, heads = 6, 2
    attention = randomised(FixedPastAttention(width, heads, memory))
    sequence = noise(3, memory + length, width)
    q, k, v = (
        part.reshape(3, memory + length, heads, 3).transpose(1, 2)
        for part in attention.query_key_value(sequence).chunk(3, -1)
    )
    row, column = torch.arange(memory + length)[:, None], torch.arange(memory + length)
    allowed = (column <= row) & (column >= row - memory)
    scores = torch.where(allowed, q @ k.mT / math.sqrt(3), -math.inf)
    expected = attention.output((scores.softmax(-1) @ v).transpose(1, 2).flatten(-2))[:, memory:]
    found = attention(sequence, sequence[:, memory:, None])[:, :, 0]
    torch.testing.assert_close(found, expected, **close)


@settings(deadline=None, max_examples=50)
@given(shapes(), st.integers(1, 2))
def test_any_number_of_draws_equals_one_draw_at_a_time(shape, layers):
    batch, length, memory, draws, heads, width = shape
    stack = randomised(FixedPastTransformer(width, heads, memory, 4, layers, lag_bias=True))
    past, present = tokens(batch, length, memory, draws, width, 3)
    alone = [stack(past, present[:, :, d : d + 1]) for d in range(draws)]
    torch.testing.assert_close(stack(past, present), torch.cat(alone, 2), **close)


@settings(deadline=None, max_examples=50)
@given(shapes())
def test_weights_sum_to_one_and_reproduce_the_output(shape):
    batch, length, memory, draws, heads, width = shape
    attention = randomised(FixedPastAttention(width, heads, memory, lag_bias=True))
    past, present = tokens(batch, length, memory, draws, width, 5)
    weights = attention.weights(past, present)
    assert weights.shape == (batch, length, draws, heads, memory + 1)
    assert bool((weights >= 0).all())
    torch.testing.assert_close(weights.sum(-1), torch.ones(batch, length, draws, heads).double(), **close)
    values = [attention.query_key_value(part)[..., 2 * width :] for part in (past, present)]
    values = [part.unflatten(-1, (heads, -1)) for part in values]
    mixed = torch.einsum(
        "btdhl,btlhw->btdhw", weights[..., :-1], values[0].unfold(1, memory, 1).movedim(-1, 2)
    )
    mixed = mixed + weights[..., -1:] * values[1]
    torch.testing.assert_close(attention(past, present), attention.output(mixed.flatten(-2)), **close)


def test_the_lag_bias_starts_at_zero_and_prefers_the_lag_that_it_is_raised_for():
    attention = FixedPastAttention(6, 2, 4, lag_bias=True).double()
    past, present = tokens(2, 7, 4, 3, 6, 0)
    with torch.no_grad():
        without = attention.weights(past, present)
        assert attention.bias.abs().max() == 0
        attention.bias[1, 2] = 50.0
        raised = attention.weights(past, present)
    torch.testing.assert_close(raised[..., 0, :], without[..., 0, :], **close)
    assert raised[..., 1, 2].min() > 0.99


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 3))
def test_band_takes_the_diagonals_and_unband_puts_them_back(rows, memory, leading):
    block = noise(leading, 2, rows, rows + memory - 1)
    banded, expected = band(block), torch.zeros_like(block)
    assert banded.shape == (leading, 2, rows, memory)
    for row in range(rows):
        assert torch.equal(banded[..., row, :], block[..., row, row : row + memory])
        expected[..., row, row : row + memory] = block[..., row, row : row + memory]
    assert torch.equal(unband(banded), expected)
    assert torch.equal(band(unband(banded)), banded)


def gradients(module, past, present, t, draw):
    """The size of the gradient of one output token with respect to each past and each present token."""
    past, present = past.clone().requires_grad_(), present.clone().requires_grad_()
    output = module(past, present)[0, t, draw]
    found = torch.autograd.grad((output * noise(len(output), seed=99)).sum(), [past, present])
    return [grad.abs().sum(-1) for grad in found]


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize(("length", "memory"), [(1, 1), (9, 4), (37, 3), (40, 18)])
def test_the_output_depends_on_its_memory_and_its_own_token_alone_at_any_depth(length, memory, layers):
    stack = randomised(FixedPastTransformer(6, 2, memory, 5, layers), layers)
    past, present = tokens(2, length, memory, 2, 6, 8, extra=1)
    for t in {0, length // 2, length - 1}:
        of_past, of_present = gradients(stack, past, present, t, draw=1)
        inside = torch.zeros(past.shape[:2], dtype=torch.bool)
        inside[0, t : t + memory] = True
        assert bool((of_past[~inside] == 0).all())
        assert bool((of_past[inside] > 0).all())
        assert of_present[0, t, 1] > 0
        of_present[0, t, 1] = 0
        assert bool((of_present == 0).all())


def test_the_gradients_are_those_of_finite_differences():
    attention = randomised(FixedPastAttention(4, 2, 3, lag_bias=True))
    past, present = tokens(1, 18, 3, 2, 4, 6)
    inputs = past.requires_grad_(), present.requires_grad_()
    assert torch.autograd.gradcheck(attention, inputs, fast_mode=True)
    names, parameters = zip(*attention.named_parameters(), strict=True)

    def of_parameters(*parameters):
        given_parameters = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(attention, given_parameters, (past.detach(), present.detach()))

    assert torch.autograd.gradcheck(of_parameters, parameters, fast_mode=True)


class LargestStorage(TorchDispatchMode):
    """The number of elements of the largest tensor that any operation makes; views count what they view."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage().nbytes() // tensor.element_size()
                self.elements = max(self.elements, storage)
        return result


@pytest.mark.parametrize("length", [256, 1024])
def test_no_tensor_is_as_large_as_a_copy_of_the_values_for_every_lag(length):
    batch, memory, draws, heads, width = 2, 64, 2, 1, 64
    attention = FixedPastAttention(width, heads, memory)
    past = torch.randn(batch, memory + length - 1, width, requires_grad=True)
    present = torch.randn(batch, length, draws, width, requires_grad=True)
    saved = []
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.numel()) or x, lambda x: x)
    with LargestStorage() as largest, hooks:
        attention(past, present).sum().backward()
    scores = 2 * batch * length * draws * heads * (memory + 1)
    projected = 3 * batch * (length + memory) * draws * width
    copied = batch * length * memory * width
    assert max(scores, projected) < copied / 4
    assert length * memory < max(saved) <= max(scores, projected)
    assert largest.elements <= 1.1 * max(scores, projected)


def test_large_scores_do_not_overflow():
    attention = FixedPastAttention(4, 1, 3)
    past, present = 1e4 * torch.randn(2, 3 + 20 - 1, 4), 1e4 * torch.randn(2, 20, 3, 4)
    assert bool(torch.isfinite(attention(past, present)).all())


@pytest.mark.parametrize(
    ("past", "present"),
    [((2, 12, 6), (2, 10, 3, 5)), ((2, 12, 5), (2, 10, 5)), ((2, 3, 12, 6), (2, 10, 3, 6))],
)
def test_wrong_axes_are_named(past, present):
    attention = FixedPastAttention(6, 2, 3)
    with pytest.raises(TreetError, match=r"past must be \(batch, time, 6\)") as error:
        attention(torch.zeros(past), torch.zeros(present))
    assert f"Got {past} and {present}" in str(error.value)


@pytest.mark.parametrize("past", [(2, 11, 6), (2, 14, 6), (3, 12, 6)])
def test_a_past_that_does_not_fit_is_refused_with_the_length_that_would(past):
    attention = FixedPastAttention(6, 2, 3)
    with pytest.raises(TreetError, match=r"past must be \(2, 12 or 13, 6\)") as error:
        attention.weights(torch.zeros(past), torch.zeros(2, 10, 3, 6))
    assert f"Got {past}" in str(error.value)


def test_impossible_sizes_are_refused():
    for width, heads in [(6, 4), (0, 1), (6, 0), (-6, 2)]:
        with pytest.raises(TreetError, match=f"Got width={width}, heads={heads}"):
            FixedPastAttention(width, heads, 3)
    with pytest.raises(TreetError, match=r"memory must be at least 1\. Got 0"):
        FixedPastBlock(6, 2, 0, 4)
    with pytest.raises(TreetError, match=r"layers must be at least 1\. Got 0"):
        FixedPastTransformer(6, 2, 3, 4, 0)


def test_the_sizes_are_shown():
    assert "width=6, heads=2, memory=3, lag_bias=True" in repr(FixedPastAttention(6, 2, 3, lag_bias=True))


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.nn.attention).failed == 0
