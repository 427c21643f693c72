"""Capacities with a formula: the exact table, and optima found without the formula."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch
from scipy.linalg import toeplitz
from scipy.optimize import minimize

from treet.capacity.blahut_arimoto import discrete_capacity
from treet.capacity.closed_form import (
    arma_feedback_capacity,
    awgn_capacity,
    bec_capacity,
    bec_no_two_ones_feedback_capacity,
    bsc_capacity,
    ising_feedback_capacity,
    mckellips_bound,
    poisson_lower_bound,
    poisson_upper_bound,
    trapdoor_feedback_capacity,
)
from treet.capacity.noise import ArmaNoise
from treet.errors import TreetError


def block_information(noise: ArmaNoise, n: int, power: float, seed: int) -> float:
    """``n`` times the n-block feedback capacity of Cover and Pombra, by numerical maximisation.

    ``max log(det((I + B) K (I + B)' + V) / det K) / 2`` over strictly lower triangular ``B`` and ``V = L L'``
    with ``tr(B K B' + V) <= n power``.
    """
    covariance = torch.tensor(toeplitz(noise.autocovariances(n - 1)))
    below, lower = torch.tril_indices(n, n, -1), torch.tril_indices(n, n)
    identity, zeros = torch.eye(n, dtype=torch.float64), torch.zeros(n, n, dtype=torch.float64)

    def loss(values: np.ndarray) -> tuple[float, np.ndarray]:
        free = torch.tensor(values, requires_grad=True)
        feedback = zeros.index_put(tuple(below), free[: below.shape[1]])
        root = zeros.index_put(tuple(lower), free[below.shape[1] :])
        spent = (feedback @ covariance @ feedback.T + root @ root.T).trace()
        scale = n * power / spent
        moved = identity + torch.sqrt(scale) * feedback
        output = moved @ covariance @ moved.T + scale * root @ root.T
        information = (torch.logdet(output) - torch.logdet(covariance)) / 2
        (-information).backward()
        return -information.item(), free.grad.numpy()

    start = 0.3 * np.random.default_rng(seed).standard_normal(below.shape[1] + lower.shape[1])
    options = {"maxiter": 3000, "ftol": 1e-15, "gtol": 1e-9}
    return -float(minimize(loss, start, jac=True, method="L-BFGS-B", options=options).fun)


@pytest.mark.parametrize(
    ("parameters", "power", "close"),
    [
        ({"ma": 0.5}, 1.0, 1e-4),
        ({"ma": -0.8}, 0.3, 3e-3),
        ({"ar": 0.5}, 1.0, 2e-4),
        ({"ar": -0.7}, 3.0, 2e-4),
        ({"ar": 0.3, "ma": -0.6}, 1.0, 1e-4),
        ({"ma": 2.0}, 4.0, 1e-4),
    ],
)
def test_feedback_capacity_is_what_a_longer_block_adds(
    parameters: dict[str, float], power: float, close: float
) -> None:
    noise = ArmaNoise(**{key: (value,) for key, value in parameters.items()})
    capacity = arma_feedback_capacity(power, **parameters)
    short, long = (max(block_information(noise, n, power, seed) for seed in (0, 1)) for n in (11, 12))
    assert long - short == pytest.approx(capacity, abs=close)
    # A block is a code: what it carries is below the capacity.
    assert short / 11 < long / 12 < capacity


@pytest.mark.parametrize(("a", "power"), list(product((0.0, 0.5, -0.9), (0.01, 1.0, 30.0))))
def test_feedback_polynomials(a: float, power: float) -> None:
    x = math.exp(-arma_feedback_capacity(power, ma=a))
    assert power * x**2 == pytest.approx((1 - x**2) * (1 - abs(a) * x) ** 2, rel=1e-9)
    x = math.exp(-arma_feedback_capacity(power, ar=a))
    assert power * x**2 == pytest.approx((1 - x**2) / (1 + abs(a) * x) ** 2, rel=1e-9)


def test_feedback_capacity_of_noise_that_is_white_or_scaled() -> None:
    for parameters in ({}, {"ar": 0.4, "ma": -0.4}):
        assert arma_feedback_capacity(2.0, **parameters) == pytest.approx(awgn_capacity(2.0))
    assert arma_feedback_capacity(2.0, ma=0.5, variance=4.0) == pytest.approx(
        arma_feedback_capacity(0.5, ma=0.5)
    )
    assert arma_feedback_capacity(2.0, ma=2.0) == pytest.approx(arma_feedback_capacity(0.5, ma=0.5))


def test_awgn() -> None:
    assert awgn_capacity(1.0) == pytest.approx(0.346574, abs=1e-6)
    assert awgn_capacity(1.0, dimension=10) == pytest.approx(10 * 0.346574, abs=1e-5)
    assert awgn_capacity(3.0, variance=3.0) == awgn_capacity(1.0)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 0.8, 1.0])
def test_binary_channels_against_blahut_and_arimoto(p: float) -> None:
    assert discrete_capacity([[1 - p, p], [p, 1 - p]]).value == pytest.approx(bsc_capacity(p), abs=1e-9)
    erasure = [[1 - p, 0, p], [0, 1 - p, p]]
    assert discrete_capacity(erasure).value == pytest.approx(bec_capacity(p), abs=1e-9)


def test_published_values() -> None:
    assert trapdoor_feedback_capacity() / math.log(2) == pytest.approx(0.694242, abs=1e-6)
    assert ising_feedback_capacity() / math.log(2) == pytest.approx(0.5755, abs=1e-4)
    assert bec_no_two_ones_feedback_capacity(0.0) == pytest.approx(trapdoor_feedback_capacity())
    assert bec_no_two_ones_feedback_capacity(1.0) == 0.0
    values = [bec_no_two_ones_feedback_capacity(e) for e in (0.0, 0.3, 0.6, 0.99, 1.0)]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: awgn_capacity(-1.0), "power must be a finite number above 0"),
        (lambda: awgn_capacity(1.0, dimension=0), "dimension must be a whole number of at least 1"),
        (lambda: arma_feedback_capacity(1.0, ar=1.0), "ar must be a finite number above -1 and below 1"),
        (lambda: bsc_capacity(1.1), "flip must be a probability, from 0 to 1. Got 1.1"),
        (lambda: bec_capacity(math.nan), "erasure must be a probability"),
        (lambda: mckellips_bound(0.0), "peak must be"),
        (lambda: poisson_lower_bound(1.0, -0.1), "dark must be"),
        (lambda: poisson_upper_bound(-1.0, 0.1), "peak must be"),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with pytest.raises(TreetError) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value).startswith(message)
