"""Piecewise linear densities: against a loop over rows, splits and regimes, and against known regimes."""

import math

import pytest
import torch
from scipy.stats import norm

from treet.nn.anchor import LinearAnchor, as_rows
from treet.nn.regimes import MOST_REGIMES, Regimes

SPLITTERS = torch.tensor([1, 2, 3])


def noise(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def fitted(rows, channels=1, splitters=SPLITTERS):
    """Regimes of three inputs, on four fifths of the rows; the rest validates."""
    cut = 4 * len(rows) // 5
    anchor, regimes = LinearAnchor(3, channels), Regimes(3, channels)
    anchor.fit([rows[:cut]], [rows[cut:]])
    regimes.fit(anchor, rows[:cut], rows[cut:], splitters)
    return anchor, regimes


def gated(n=4000, threshold=0.5, seed=0):
    """``y`` follows the first input, but only while the third is at or above ``threshold``."""
    past = noise(n, 3, 1, seed=seed)
    on = past[:, 2, 0] >= threshold
    mean = torch.where(on, 0.9 * past[:, 0, 0], 0.0)
    std = torch.where(on, math.sqrt(1 - 0.81), 1.0)
    present = mean + std * noise(n, seed=seed + 100)
    exact = norm.logpdf(present.numpy(), mean.numpy(), std.numpy())
    return as_rows([past], present[:, None]), torch.from_numpy(exact), on


def used(regimes):
    return int((regimes.shares.sum(-1) > 0).sum())


def naive(regimes, row):
    """Mean, log std and log density of one row and channel 0, written from the equations."""
    weights = [1.0] + [0.0] * (MOST_REGIMES - 1)
    for split in range(MOST_REGIMES - 1):
        value = row[regimes.variable[0, split]].item()
        edges, shares = regimes.edges[0, split].tolist(), regimes.shares[0, split].tolist()
        above = sum(share for edge, share in zip(edges, shares, strict=True) if value >= edge)
        parent = int(regimes.parent[0, split])
        weights[split + 1] = weights[parent] * above
        weights[parent] *= 1 - above
    means = [(row @ coefficients).item() for coefficients in regimes.coefficients[0]]
    log_stds = regimes.log_std[0].tolist()
    density = sum(
        weight * norm.pdf(row[-1].item(), mean, math.exp(log_std))
        for weight, mean, log_std in zip(weights, means, log_stds, strict=True)
    )
    likely = weights.index(max(weights))
    return [means[likely], log_stds[likely], math.log(density)]


def test_equal_to_the_naive_loop_with_several_edges_and_nested_regimes():
    regimes = Regimes(3, 1)
    regimes.coefficients.copy_(0.5 * noise(*regimes.coefficients.shape, seed=1))
    regimes.coefficients[..., -1] = 0
    regimes.log_std.copy_(0.3 * noise(*regimes.log_std.shape, seed=2))
    regimes.parent[0, :3] = torch.tensor([0, 0, 1])
    regimes.variable[0, :3] = torch.tensor([1, 3, 2])
    regimes.edges[0, :3, :2] = torch.tensor([[-0.5, 0.5], [0.0, 0.1], [0.3, 9.0]])
    regimes.shares[0, :3, :2] = torch.tensor([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
    rows = as_rows([noise(60, 3, 1, seed=3)], noise(60, 1, seed=4))
    found = regimes(rows)[:, 0]
    for row, values in zip(rows, found, strict=True):
        torch.testing.assert_close(values, torch.tensor(naive(regimes, row)), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(regimes.weights(rows).sum(-1), torch.ones(60, 1))
    assert (regimes.weights(rows).amax(-1) < 0.99).any()


@pytest.mark.parametrize("seed", range(3))
def test_a_threshold_is_found_and_the_density_is_that_of_the_process(seed):
    rows, exact, on = gated(seed=seed)
    _, regimes = fitted(rows)
    assert used(regimes) == 1
    assert int(regimes.variable[0, 0]) == 3
    assert regimes.edges[0, 0][regimes.shares[0, 0].argmax()].item() == pytest.approx(0.5, abs=0.03)
    assert (regimes.weights(rows)[:, 0, 1] > 0.5).eq(on).double().mean() > 0.99
    assert (exact - regimes(rows)[:, 0, 2]).mean().abs() < 0.005


def test_a_rare_regime_is_found():
    rows, exact, on = gated(n=20_000, threshold=2.3)
    assert on.sum() < 300
    _, regimes = fitted(rows)
    assert int(regimes.variable[0, 0]) == 3
    assert (exact - regimes(rows)[:, 0, 2])[on].mean().abs() < 0.1


def test_a_value_right_at_the_edge_belongs_to_both_sides_a_little():
    """No row is so sure of its side that being wrong costs more than the data can rule out."""
    rows, *_ = gated(n=2000, threshold=1.0)
    _, regimes = fitted(rows)
    fresh, exact, _ = gated(n=50_000, threshold=1.0, seed=7)
    assert (exact - regimes(fresh)[:, 0, 2]).mean() < 0.01
    assert (regimes.shares[0, 0] > 0.01).sum() > 1


def test_where_nothing_changes_it_is_the_linear_anchor():
    past = noise(3000, 3, 1)
    rows = as_rows([past], 0.7 * past[:, 1] + noise(3000, 1, seed=5))
    anchor, regimes = fitted(rows)
    assert used(regimes) == 0
    mean, log_std, log_density = regimes(rows)[:, 0].unbind(-1)
    torch.testing.assert_close(mean, anchor(rows)[:, 0])
    torch.testing.assert_close(log_std, anchor.log_std.expand(3000))
    expected = norm.logpdf(rows[:, -1].numpy(), mean.numpy(), log_std.exp().numpy())
    torch.testing.assert_close(log_density, torch.from_numpy(expected).float(), atol=1e-5, rtol=1e-5)


def test_a_change_of_the_spread_alone_is_found():
    past = noise(3000, 3, 1)
    std = torch.where(past[:, 0, 0] >= 0, 2.0, 0.5)
    rows = as_rows([past], (std * noise(3000, seed=6))[:, None])
    _, regimes = fitted(rows)
    assert int(regimes.variable[0, 0]) == 1
    stds = sorted(regimes.log_std[0, :2].exp().tolist())
    assert stds == pytest.approx([0.5, 2.0], rel=0.1)


def test_only_the_given_columns_split():
    rows, _, _ = gated()
    _, regimes = fitted(rows, splitters=torch.tensor([1, 2]))
    assert 3 not in regimes.variable[0, regimes.shares[0].sum(-1) > 0].tolist()


def test_a_splitter_of_two_values_is_split_between_them():
    past = noise(2000, 3, 1)
    past[:, 2] = (past[:, 2] > 0).float()
    rows = as_rows([past], past[:, 2] * past[:, 0] + 0.3 * noise(2000, 1, seed=8))
    _, regimes = fitted(rows)
    assert torch.isfinite(regimes(rows)).all()
    assert 0 < regimes.edges[0, 0][regimes.shares[0, 0].argmax()].item() < 1


def test_channels_have_regimes_of_their_own():
    rows, *_ = gated()
    both = torch.cat([rows, noise(len(rows), 1, seed=9)], 1)
    _, regimes = fitted(both, channels=2)
    assert (regimes.shares.sum(-1) > 0).sum(1).tolist() == [1, 0]
    alone = fitted(rows)[1]
    torch.testing.assert_close(regimes(both)[:, 0], alone(rows)[:, 0], atol=1e-4, rtol=1e-4)


def test_fitting_again_forgets_the_first_fit():
    anchor, regimes = fitted(gated()[0])
    past = noise(3000, 3, 1)
    rows = as_rows([past], 0.7 * past[:, 1] + noise(3000, 1, seed=5))
    anchor.fit([rows[:2400]], [rows[2400:]])
    regimes.fit(anchor, rows[:2400], rows[2400:], SPLITTERS)
    assert used(regimes) == 0
