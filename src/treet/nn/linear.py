"""Linear regressions from moments: ridge and forward selection."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor

MOST_TERMS = 64
"""That a sparse regression may take in."""

LEAST_SHARE = 1e-9
"""Of its own square that an input keeps beside those taken in: with less it is a copy of them."""


def moments(batches: Iterable[Tensor]) -> tuple[Tensor, int]:
    """Mean products of the columns, in float64 and one batch at a time, and the number of rows."""
    total, count = torch.zeros(1, dtype=torch.float64), 0
    for batch in batches:
        rows = batch.to(torch.float64)
        total, count = total.to(rows.device) + rows.mT @ rows, count + len(rows)
    return total.cpu() / max(count, 1), count


def ridge(moments: Tensor, known: int, penalty: float) -> Tensor:
    """Coefficients (known,) of column ``known`` on the columns before it; the first, the constant, is free.

    ``moments`` (columns, columns) are mean products, float64; inputs are standardised.
    """
    added = torch.full((known,), penalty, dtype=torch.float64)
    added[0] = 0.0
    solved: Tensor = torch.linalg.solve(moments[:known, :known] + added.diag(), moments[:known, known])
    return solved


def sparse(moments: Tensor, known: int, count: int) -> Tensor:
    """Coefficients (known,) by forward selection: an input enters while it pays for itself.

    The one that lowers the residual sum of squares most enters while that raises the Gaussian log likelihood
    of the ``count`` samples by more than ``log(count) / 2 + log(known)``, the extended Bayesian information
    criterion of Chen and Chen. The constant is always in.

    >>> generator = torch.Generator().manual_seed(0)
    >>> rows = torch.randn(1000, 5, generator=generator, dtype=torch.float64)
    >>> rows[:, 0], rows[:, 4] = 1.0, 2.0 * rows[:, 2] + rows[:, 4]
    >>> sparse(rows.mT @ rows / 1000, 4, 1000).round().abs().tolist()
    [0.0, 0.0, 2.0, 0.0]
    """
    swept, taken = _sweep(moments[: known + 1, : known + 1], 0), [0]
    original = moments.diagonal()[:known]
    for _ in range(min(known - 1, MOST_TERMS, count // 4)):
        square = swept.diagonal()[:known]
        left = square > LEAST_SHARE * original
        left[taken] = False
        lowered = torch.where(left, swept[:known, known].square() / square, 0.0)
        best = int(lowered.argmax())
        remaining = (1 - lowered[best] / swept[known, known]).clamp(min=1e-12)
        if -0.5 * count * math.log(remaining) <= 0.5 * math.log(count) + math.log(known):
            break
        swept = _sweep(swept, best)
        taken.append(best)
    coefficients = torch.zeros(known, dtype=torch.float64)
    coefficients[taken] = swept[taken, known]
    return coefficients


def _sweep(matrix: Tensor, pivot: int) -> Tensor:
    """The moments with the input ``pivot`` regressed out of all others; its row holds coefficients."""
    row, column = matrix[pivot] / matrix[pivot, pivot], matrix[:, pivot]
    swept = matrix - column[:, None] * row
    swept[:, pivot] = -column / matrix[pivot, pivot]
    swept[pivot] = row
    swept[pivot, pivot] = 1 / matrix[pivot, pivot]
    return swept


def mean_square(moments: Tensor, known: int, coefficients: Tensor) -> float:
    """The mean squared error of a prediction, from the moments alone."""
    cross, square = moments[:known, known], moments[known, known]
    explained = 2 * coefficients @ cross - coefficients @ moments[:known, :known] @ coefficients
    return max((square - explained).item(), 0.0)
