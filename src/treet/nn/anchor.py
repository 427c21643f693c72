"""The linear Gaussian predictor that a critic starts from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)
"""Penalties that are tried, relative to the variance of a standardised input."""

LEAST_STD = 1e-3
"""Of a residual, where the target is all but a linear function of what is seen."""


class LinearAnchor(nn.Module):
    """Mean and standard deviation of each target channel, linear in the past and in the channels before it.

        mean_i = intercept_i + past . weight_i + sum_{j < i} y_j within_ij

    ``past``  (batch, inputs), ``y`` (batch, channels) -> (batch, channels). Fixed once fitted.
    """

    weight: Tensor
    within: Tensor
    intercept: Tensor
    log_std: Tensor

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.zeros(inputs, channels))
        self.register_buffer("within", torch.zeros(channels, channels))
        self.register_buffer("intercept", torch.zeros(channels))
        self.register_buffer("log_std", torch.zeros(channels))

    def forward(self, past: Tensor, y: Tensor) -> Tensor:
        return self.intercept + past @ self.weight + y @ self.within

    def fit(
        self, training: Iterable[tuple[Tensor, Tensor]], validation: Iterable[tuple[Tensor, Tensor]]
    ) -> None:
        """Ridge regression from batches (past, y); the best of ``RIDGES`` on the validation."""
        fitted, held_out = _moments(training), _moments(validation)
        inputs = len(self.weight)
        for channel in range(len(self.log_std)):
            # Columns of the moments: 1, the past, y. The channels before this one are inputs too.
            known = 1 + inputs + channel
            candidates = [_ridge(fitted, known, ridge) for ridge in RIDGES]
            errors = [_mean_square(held_out, known, candidate) for candidate in candidates]
            best = candidates[min(range(len(RIDGES)), key=errors.__getitem__)]
            std = _mean_square(fitted, known, best) ** 0.5
            self.intercept[channel] = best[0]
            self.weight[:, channel] = best[1 : 1 + inputs]
            self.within[:channel, channel] = best[1 + inputs :]
            self.log_std[channel] = max(std, LEAST_STD)
        self.log_std.log_()


def _moments(batches: Iterable[tuple[Tensor, Tensor]]) -> Tensor:
    """Mean products of (1, past, y), in float64 and one batch at a time."""
    total, count = torch.zeros(1, dtype=torch.float64), 0
    for past, y in batches:
        rows = torch.cat([torch.ones_like(y[:, :1]), past, y], 1).to(torch.float64)
        total, count = total + rows.mT @ rows, count + len(rows)
    mean: Tensor = total.cpu() / max(count, 1)
    return mean


def _ridge(moments: Tensor, known: int, ridge: float) -> Tensor:
    penalty = torch.full((known,), ridge, dtype=torch.float64)
    penalty[0] = 0.0
    solved: Tensor = torch.linalg.solve(moments[:known, :known] + penalty.diag(), moments[:known, known])
    return solved


def _mean_square(moments: Tensor, known: int, coefficients: Tensor) -> float:
    """The mean squared error of a prediction, from the moments alone."""
    cross, square = moments[:known, known], moments[known, known]
    explained = 2 * coefficients @ cross - coefficients @ moments[:known, :known] @ coefficients
    return max((square - explained).item(), 0.0)


def flat(pasts: Sequence[Tensor]) -> Tensor:
    """(batch, inputs): the pasts (batch, lags, channels) of several series in one row."""
    return torch.cat([past.flatten(1) for past in pasts], 1)
