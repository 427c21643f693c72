"""Products of windows: the recursion against the definition, and old batches that fade."""

import doctest

import pytest
import torch
from torch.nn import functional

import treet.capacity.moments
from treet.capacity.moments import Moments, window_products


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def naive(values, memory):
    windows = values.unfold(1, memory + 1, 1).mT.flatten(2).flatten(0, 1)
    rows = functional.pad(windows, (1, 0), value=1.0)
    return rows.mT @ rows / len(rows)


def test_the_doctests():
    assert doctest.testmod(treet.capacity.moments).failed == 0


@pytest.mark.parametrize(
    ("batch", "time", "width", "memory"),
    [(3, 10, 2, 4), (5, 9, 3, 1), (2, 4, 1, 3), (4, 20, 4, 0), (2, 40, 2, 30)],
)
def test_the_products_are_those_of_all_windows(batch, time, width, memory):
    values = 3 + torch.randn(batch, time, width, generator=seeded(), dtype=torch.float64)
    assert torch.allclose(window_products(values, memory), naive(values, memory), rtol=1e-12, atol=1e-12)


def test_old_moments_fade():
    moments = Moments(1, 2, decay=0.5)
    for value in (1.0, 3.0):
        moments.update(torch.full((2, 5, 2), value))
    assert moments.products[0, 1].item() == pytest.approx((0.5 * 1 + 3) / 1.5)
