"""The linear Gaussian predictor that a critic starts from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from treet.nn.linear import mean_square, moments, ridge, sparse

RIDGES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1)
"""Penalties that are tried, relative to the variance of a standardised input."""

LEAST_STD = 1e-3
"""Of a residual, where the target is all but a linear function of what is seen."""


class LinearAnchor(nn.Module):
    """Mean and standard deviation of each target channel, linear in the past and in the channels before it.

        mean_i = coefficients_i . (1, past, y),   coefficients_ij = 0 for y_j with j >= i

    A sparse regression, by an information criterion, or a ridge regression, whichever predicts the
    validation data best. Fixed once fitted.

    ``rows`` (batch, 1 + inputs + channels) from ``as_rows`` -> (batch, channels).
    """

    coefficients: Tensor
    log_std: Tensor

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.register_buffer("coefficients", torch.zeros(channels, 1 + inputs + channels))
        self.register_buffer("log_std", torch.zeros(channels))

    def forward(self, rows: Tensor) -> Tensor:
        return rows @ self.coefficients.mT

    def fit(self, training: Iterable[Tensor], validation: Iterable[Tensor]) -> None:
        """From batches of rows."""
        fitted, count = moments(training)
        held_out, _ = moments(validation)
        channels, columns = self.coefficients.shape
        for channel in range(channels):
            known = columns - channels + channel
            candidates = [ridge(fitted, known, penalty) for penalty in RIDGES]
            candidates.append(sparse(fitted, known, count))
            errors = [mean_square(held_out, known, candidate) for candidate in candidates]
            best = candidates[min(range(len(candidates)), key=errors.__getitem__)]
            std = mean_square(fitted, known, best) ** 0.5
            self.coefficients[channel, :known] = best
            self.log_std[channel] = max(std, LEAST_STD)
        self.log_std.log_()


def as_rows(pasts: Sequence[Tensor], present: Tensor) -> Tensor:
    """(batch, 1 + inputs + channels): a one, the pasts (batch, lags, channels) of several series, y."""
    return torch.cat([torch.ones_like(present[:, :1]), *(past.flatten(1) for past in pasts), present], 1)
