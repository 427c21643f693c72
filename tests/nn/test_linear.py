"""Ridge and sparse regression from moments, against least squares."""

import doctest

import numpy as np
import pytest
import torch

import treet.nn.linear
from treet.nn.anchor import LEAST_STD, LinearAnchor, as_rows
from treet.nn.linear import mean_square, ridge, sparse


def sample(n=400, inputs=6, seed=0, coefficients=(0.0, 1.5, 0.0, 0.0, -0.7, 0.0), noise=0.5):
    """Rows (one, inputs, target), float64."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, inputs))
    y = 0.3 + x @ np.asarray(coefficients) + noise * rng.normal(size=n)
    return torch.from_numpy(np.column_stack([np.ones(n), x, y]))


def moments(rows):
    return rows.mT @ rows / len(rows)


def test_the_doctest():
    assert doctest.testmod(treet.nn.linear).failed == 0


def test_without_a_penalty_ridge_is_least_squares():
    rows = sample()
    expected = np.linalg.lstsq(rows[:, :-1].numpy(), rows[:, -1].numpy(), rcond=None)[0]
    np.testing.assert_allclose(ridge(moments(rows), 7, 0.0), expected, atol=1e-10)


def test_the_penalty_is_that_of_the_equation_and_leaves_the_constant_free():
    rows, penalty = sample(), 0.4
    design, target = rows[:, :-1].numpy(), rows[:, -1].numpy()
    added = penalty * np.diag([0.0] + [1.0] * 6)
    expected = np.linalg.solve(design.T @ design / len(rows) + added, design.T @ target / len(rows))
    np.testing.assert_allclose(ridge(moments(rows), 7, penalty), expected, atol=1e-10)
    shifted = rows.clone()
    shifted[:, -1] += 5
    moved = ridge(moments(shifted), 7, penalty) - ridge(moments(rows), 7, penalty)
    inputs_only = design[:, 1:] - design[:, 1:].mean(0)
    assert abs(moved[0].item() - 5) < 5 * abs(inputs_only.mean()) + 0.2


@pytest.mark.parametrize("seed", range(5))
def test_sparse_finds_the_inputs_that_matter_and_no_others(seed):
    rows = sample(n=2000, seed=seed)
    found = sparse(moments(rows), 7, len(rows))
    assert torch.nonzero(found[1:])[:, 0].tolist() == [1, 4]
    kept = [0, 2, 5]
    expected = np.linalg.lstsq(rows[:, kept].numpy(), rows[:, -1].numpy(), rcond=None)[0]
    np.testing.assert_allclose(found[kept], expected, atol=1e-8)


def test_sparse_takes_nothing_in_where_there_is_nothing():
    kept = [
        int((sparse(moments(rows), 7, len(rows))[1:] != 0).sum())
        for rows in (sample(n=500, seed=seed, coefficients=np.zeros(6)) for seed in range(60))
    ]
    assert sum(kept) <= 2


def test_sparse_takes_one_of_two_copies():
    rows = sample(n=1000)
    rows[:, 3] = rows[:, 2]
    found = sparse(moments(rows), 7, len(rows))
    assert int((found[[2, 3]] != 0).sum()) == 1
    assert found[[2, 3]].sum().item() == pytest.approx(1.5, abs=0.1)


def test_the_mean_square_is_that_of_the_residuals():
    rows, coefficients = sample(), torch.linspace(-1, 1, 7, dtype=torch.float64)
    residual = rows[:, -1] - rows[:, :-1] @ coefficients
    assert mean_square(moments(rows), 7, coefficients) == pytest.approx(residual.square().mean().item())


def test_the_anchor_predicts_each_channel_from_the_past_and_the_channels_before_it():
    generator = torch.Generator().manual_seed(0)
    past = torch.randn(4000, 3, 1, generator=generator)
    noise = torch.randn(4000, 2, generator=generator)
    first = 0.8 * past[:, 2, 0] + 0.6 * noise[:, 0]
    second = 0.5 * first - 0.4 * past[:, 0, 0] + 0.3 * noise[:, 1]
    rows = as_rows([past], torch.stack([first, second], 1))
    anchor = LinearAnchor(3, 2)
    anchor.fit([rows[:1500], rows[1500:3000]], [rows[3000:]])
    expected = torch.tensor([[0, 0, 0, 0.8, 0, 0], [0, -0.4, 0, 0, 0.5, 0]])
    torch.testing.assert_close(anchor.coefficients, expected, atol=0.03, rtol=0)
    torch.testing.assert_close(anchor.log_std.exp(), torch.tensor([0.6, 0.3]), atol=0.02, rtol=0)
    torch.testing.assert_close(anchor(rows), rows @ anchor.coefficients.mT)


def test_a_target_that_is_an_input_keeps_a_finite_scale():
    past = torch.randn(500, 1, 1, generator=torch.Generator().manual_seed(1))
    rows = as_rows([past], 2 * past[:, 0])
    anchor = LinearAnchor(1, 1)
    anchor.fit([rows[:400]], [rows[400:]])
    assert anchor.log_std.exp().item() == pytest.approx(LEAST_STD)
