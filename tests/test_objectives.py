"""The objectives at densities whose divergence is known, their invariances, and the stream of scores."""

import doctest
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import treet.objectives
from treet.errors import TreetError
from treet.objectives import StreamingLogMeanExp, donsker_varadhan, log_mean_exp, per_context, ranking_nce

# p and q, and KL(p || q) in closed form
P_MEAN, P_STD, Q_STD = 0.5, 0.8, 1.3
KL = math.log(Q_STD / P_STD) + (P_STD**2 + P_MEAN**2) / (2 * Q_STD**2) - 0.5


def log_ratio(y, mean=P_MEAN):
    return norm.logpdf(y, mean, P_STD) - norm.logpdf(y, 0.0, Q_STD)


def quantiles(n, mean, std):
    """Evenly spread in probability: a mean over them is an integral over the density."""
    return norm.ppf((np.arange(n) + 0.5) / n, mean, std)


def scores_on_quantiles(n_real, n_reference, mean=P_MEAN):
    real = torch.from_numpy(log_ratio(quantiles(n_real, mean, P_STD), mean))
    return real, torch.from_numpy(log_ratio(quantiles(n_reference, 0.0, Q_STD), mean))


def noise(*shape, scale=1.0, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def test_the_true_log_ratio_gives_the_divergence():
    real, reference = scores_on_quantiles(200_000, 200_000)
    assert donsker_varadhan(real, reference).item() == pytest.approx(KL, abs=1e-4)
    real, reference = scores_on_quantiles(1001, 2001)
    assert per_context(real, reference.expand(1001, -1)).item() == pytest.approx(KL, abs=5e-3)


def test_any_other_score_gives_less():
    real, reference = scores_on_quantiles(50_000, 50_000)
    best = donsker_varadhan(real, reference)
    for scale in (0.0, 0.5, 0.9, 1.1):
        assert donsker_varadhan(scale * real, scale * reference) < best - 1e-4


def test_the_mean_over_contexts_is_the_conditional_divergence():
    means = [-1.0, 0.2, 0.9]
    expected = np.mean([math.log(Q_STD / P_STD) + (P_STD**2 + m**2) / (2 * Q_STD**2) - 0.5 for m in means])
    pairs = [scores_on_quantiles(1001, 2001, mean) for mean in means]
    real = torch.stack([real for real, _ in pairs])
    reference = torch.stack([reference.expand(1001, -1) for _, reference in pairs])
    assert per_context(real, reference).item() == pytest.approx(expected, abs=5e-3)
    shift = torch.tensor([5.0, -3.0, 40.0]).double()[:, None]
    shifted = per_context(real + shift, reference + shift[..., None])
    assert shifted.item() == pytest.approx(expected, abs=5e-3)
    assert donsker_varadhan(real + shift, reference + shift[..., None]) < expected - 1


def test_one_draw_is_too_few_for_the_per_context_form_and_not_for_ranking():
    """With one draw their expectations are KL(p||q) + KL(q||p) and that of a two-candidate ranking."""
    n = 2000
    real, reference = scores_on_quantiles(n, n)
    every_pair = real[:, None].expand(n, n), reference[None, :, None].expand(n, n, 1)
    reverse = math.log(P_STD / Q_STD) + (Q_STD**2 + P_MEAN**2) / (2 * P_STD**2) - 0.5
    assert per_context(*every_pair).item() == pytest.approx(KL + reverse, abs=1e-2)

    grid = np.linspace(-9, 9, 1501)
    p, q = norm.pdf(grid, P_MEAN, P_STD), norm.pdf(grid, 0.0, Q_STD)
    forward, mixture = np.outer(p, q), (np.outer(p, q) + np.outer(q, p)) / 2
    expected = (forward * np.log(forward / mixture)).sum() * (grid[1] - grid[0]) ** 2
    found = ranking_nce(*every_pair).item()
    assert found == pytest.approx(expected, abs=1e-3)
    assert found < KL


@pytest.mark.parametrize("draws", [1, 4, 50])
def test_ranking_stays_below_the_divergence_and_below_its_bound(draws):
    rng = np.random.default_rng(draws)
    real = torch.from_numpy(log_ratio(rng.normal(P_MEAN, P_STD, 40_000)))
    reference = torch.from_numpy(log_ratio(rng.normal(0.0, Q_STD, (40_000, draws))))
    assert 0.2 * KL < ranking_nce(real, reference).item() < KL + 0.01
    assert ranking_nce(100.0 + 0 * real, reference).item() == pytest.approx(math.log(draws + 1))
    assert ranking_nce(1e4 * real, 1e4 * reference).item() <= math.log(draws + 1)


def test_ranking_is_the_log_probability_of_picking_the_real_value():
    real, reference = noise(6), noise(6, 3, seed=1)
    logits = torch.cat([real[:, None], reference], -1)
    expected = -torch.nn.functional.cross_entropy(logits, torch.zeros(6, dtype=torch.long)) + math.log(4)
    torch.testing.assert_close(ranking_nce(real, reference), expected)


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6), st.floats(-1e3, 1e3))
def test_a_constant_changes_nothing(batch, length, draws, constant):
    real, reference = noise(batch, length), noise(batch, length, draws, seed=1)
    for objective in (donsker_varadhan, per_context, ranking_nce):
        torch.testing.assert_close(
            objective(real + constant, reference + constant), objective(real, reference), rtol=0, atol=1e-9
        )


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 6), st.integers(0, 99))
def test_a_function_of_the_context_changes_nothing_per_context(batch, length, draws, seed):
    real, reference = noise(batch, length), noise(batch, length, draws, seed=1)
    offset = noise(batch, length, scale=100.0, seed=seed)
    for objective in (per_context, ranking_nce):
        torch.testing.assert_close(
            objective(real + offset, reference + offset[..., None]),
            objective(real, reference),
            rtol=0,
            atol=1e-9,
        )


def test_values_by_hand():
    real = torch.tensor([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0]], dtype=torch.float64)
    reference = noise(2, 3, 4)
    exps = reference.exp()
    dv = real.mean() - exps.mean().log()
    local = [real[b, t] - exps[b, t].mean().log() for b in range(2) for t in range(3)]
    ranked = [
        real[b, t] - ((real[b, t].exp() + exps[b, t].sum()) / 5).log() for b in range(2) for t in range(3)
    ]
    torch.testing.assert_close(donsker_varadhan(real, reference), dv)
    torch.testing.assert_close(per_context(real, reference), torch.stack(local).mean())
    torch.testing.assert_close(ranking_nce(real, reference), torch.stack(ranked).mean())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("objective", [donsker_varadhan, per_context, ranking_nce])
@pytest.mark.parametrize(("level", "reference_level"), [(1e4, 1e4), (-1e4, -1e4), (1e4, -1e4), (-1e4, 1e4)])
def test_large_scores_overflow_neither_in_the_value_nor_in_the_gradient(
    objective, dtype, level, reference_level
):
    real = (level + noise(5)).to(dtype).requires_grad_()
    reference = (reference_level + noise(5, 4, seed=1)).to(dtype).requires_grad_()
    value = objective(real, reference)
    value.backward()
    assert value.dtype == dtype
    assert abs(value.item()) <= abs(level - reference_level) + 10
    # ranking is bounded above however far apart the scores are
    bound = math.log(5) if objective is ranking_nce else math.inf
    assert value.item() == pytest.approx(min(level - reference_level, bound), abs=5)
    for gradient in (real.grad, reference.grad):
        assert bool(torch.isfinite(gradient).all())
    # no constant has a gradient, to the precision that scores of this size have
    rounding = 1e4 * torch.finfo(dtype).eps
    assert (real.grad.sum() + reference.grad.sum()).item() == pytest.approx(0.0, abs=2 * rounding)


def test_the_gradient_of_donsker_varadhan_weights_draws_by_their_softmax():
    real, reference = noise(7).requires_grad_(), noise(7, 3, seed=1).requires_grad_()
    donsker_varadhan(real, reference).backward()
    torch.testing.assert_close(real.grad, torch.full_like(real, 1 / 7))
    torch.testing.assert_close(reference.grad, -reference.detach().flatten().softmax(0).view(7, 3))


@pytest.mark.parametrize("objective", [per_context, ranking_nce])
@pytest.mark.parametrize(("real", "reference"), [((4, 5), (4, 5)), ((4, 5), (5, 4, 3)), ((4,), (3, 4))])
def test_scores_that_do_not_belong_together_are_refused(objective, real, reference):
    with pytest.raises(TreetError, match="one more axis, the draws") as error:
        objective(torch.zeros(real), torch.zeros(reference))
    assert f"Got real {real} and reference {reference}" in str(error.value)


def test_no_draws_at_all_are_refused():
    for empty in (torch.zeros(0), torch.zeros(3, 0)):
        with pytest.raises(TreetError, match=r"needs at least one score\. Got none"):
            log_mean_exp(empty, -1)
    with pytest.raises(TreetError, match="needs at least one score"):
        per_context(torch.zeros(3), torch.zeros(3, 0))
    with pytest.raises(TreetError, match="needs at least one score"):
        donsker_varadhan(torch.zeros(3), torch.zeros(3, 0))


def test_log_mean_exp_over_one_axis_and_over_all():
    scores = noise(3, 4, 5)
    torch.testing.assert_close(log_mean_exp(scores), scores.exp().mean().log())
    torch.testing.assert_close(log_mean_exp(scores, 1), scores.exp().mean(1).log())
    assert log_mean_exp(torch.tensor(2.5)).item() == 2.5


score_lists = st.lists(st.floats(-1e5, 1e5), min_size=1, max_size=40)


@settings(max_examples=200)
@given(score_lists, st.lists(st.integers(0, 40), max_size=5), st.randoms(use_true_random=False))
def test_a_stream_equals_one_pass_for_any_split_in_any_order(scores, cuts, random):
    expected = log_mean_exp(torch.tensor(scores, dtype=torch.float64)).item()
    random.shuffle(scores)
    cuts = sorted(min(cut, len(scores)) for cut in cuts)
    parts = [scores[a:b] for a, b in zip([0, *cuts], [*cuts, len(scores)], strict=True)]
    one_by_one, merged = StreamingLogMeanExp(), StreamingLogMeanExp()
    for part in parts:
        assert one_by_one.update(part) is one_by_one
        assert merged.merge(StreamingLogMeanExp().update(torch.tensor(part, dtype=torch.float64))) is merged
    for stream in (one_by_one, merged):
        assert stream.count == len(scores)
        assert stream.value == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_a_stream_takes_arrays_of_any_kind():
    values = np.array([[0.1, 3.0], [-2.0, 7.5]])
    expected = math.log(np.exp(values).mean())
    locked = values.copy()
    locked.flags.writeable = False
    with_gradient = torch.from_numpy(values.copy()).requires_grad_()
    for scores in (values, locked, values[::-1, ::-1], values.tolist(), with_gradient, with_gradient.T):
        assert StreamingLogMeanExp().update(scores).value == pytest.approx(expected, rel=1e-14)
    assert StreamingLogMeanExp().update(torch.tensor([1, 2])).value == pytest.approx(
        math.log((math.e + math.e**2) / 2)
    )


def test_a_stream_works_in_float64():
    assert StreamingLogMeanExp().update([1e300]).value == 1e300
    assert StreamingLogMeanExp().update([0.1]).value == 0.1
    for scores in (torch.tensor([0.0, -20.0]), torch.tensor([0.0, -20.0]).half()):
        # in half or single precision 1 + exp(-20) is 1
        expected = math.log1p(math.exp(-20)) - math.log(2)
        assert StreamingLogMeanExp().update(scores).value == pytest.approx(expected, rel=1e-13)


def test_a_stream_keeps_small_scores_and_forgets_negligible_ones():
    assert StreamingLogMeanExp().update([-1e4, -1e4]).update([-1e4]).value == -1e4
    both = StreamingLogMeanExp().update([-1e4]).update([1e4])
    assert both.value == pytest.approx(1e4 - math.log(2), rel=1e-12)
    assert StreamingLogMeanExp().update([1e4]).update([-1e4]).value == both.value


special = st.sampled_from([0.0, 2.0, -math.inf, math.inf, math.nan])


@given(st.lists(special, min_size=1, max_size=6), st.integers(0, 6))
def test_infinite_and_missing_scores_mean_what_they_mean_in_one_pass(scores, cut):
    if any(math.isnan(score) for score in scores):
        expected = math.nan
    else:
        expected = log_mean_exp(torch.tensor(scores, dtype=torch.float64)).item()
    first, second = StreamingLogMeanExp().update(scores[:cut]), StreamingLogMeanExp().update(scores[cut:])
    streamed = StreamingLogMeanExp().update(scores[:cut]).update(scores[cut:])
    for stream in (streamed, first.merge(second)):
        assert stream.count == len(scores)
        assert stream.value == pytest.approx(expected, nan_ok=True)


def test_an_empty_stream_has_no_value():
    for stream in (StreamingLogMeanExp(), StreamingLogMeanExp().update([]).merge(StreamingLogMeanExp())):
        assert stream.count == 0
        with pytest.raises(TreetError, match="call update with some first"):
            _ = stream.value


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.objectives).failed == 0
