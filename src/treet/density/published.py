"""Conditional densities from critics of the paper's kind: scores on a grid, normalised for each time step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from torch import Tensor

from treet.density.univariate import Floats, OnGrid, Rows
from treet.errors import TreetError
from treet.estimators.critic_pair import FittedFold, chunks
from treet.estimators.drawn_pair import DrawnPair, runs, tiles_of
from treet.series import Series
from treet.windows import ROLES, Windows

NODES = 257
SEQUENCES = 32
"""That are scored on the whole grid at once."""


def on_grid(
    folds: Sequence[FittedFold], windows: Windows, slots: Rows, at: str, device: torch.device
) -> OnGrid:
    """``p(y | past) = q(y) exp(score) / Z`` between the least and the largest value of the target, else zero.

    The score of such a critic is ``log p / q`` but for a constant, which the normalisation removes, also
    where it differs between time steps. ``slots`` (models of a step, steps) are the folds that speak.
    """
    if windows.width("target") > 1:
        raise TreetError(
            "Densities of a target with several channels need preset='default', whose critics are "
            f"normalised. Got preset='paper' and {windows.width('target')} channels."
        )
    present = windows.present()
    nodes = np.linspace(present.min(), present.max(), NODES)
    total = np.zeros((NODES, len(windows)))
    for number, fold in enumerate(folds):
        rows = np.flatnonzero((slots == number).any(axis=0))
        if len(rows):
            found = _log_densities(fold, windows, windows.positions[rows], nodes, at, device)
            total[:, rows] += OnGrid.of(nodes, np.exp(found - found.max(axis=0))).densities
    return OnGrid.of(nodes, total)


@torch.no_grad()
def _log_densities(
    fold: FittedFold, windows: Windows, positions: Rows, nodes: Floats, at: str, device: torch.device
) -> Floats:
    """(nodes, positions): ``log q + score`` of one fold's critic."""
    series, where = Series(windows, fold.scaler, device), torch.from_numpy(positions).to(device)
    pair = cast("DrawnPair", fold.pair.to(device))
    column = windows.columns("target").start
    standard = (nodes - fold.scaler.mean[column]) / fold.scaler.std[column]
    values = torch.from_numpy(standard.astype(np.float32)).to(device)
    length = min(int(pair.length), int(runs(where)[1].min()))
    steps = tiles_of(where, length)[:, None] + torch.arange(length, device=device)
    found = torch.zeros(len(where), NODES, device=device)
    for part in chunks(steps, SEQUENCES):
        drawn = values.expand(*part.shape, NODES)[..., None]
        scores = _scores(pair, series, part, drawn, at) + _log_reference(pair, series, where, part, drawn)
        found[torch.searchsorted(where, part.flatten())] = scores.flatten(0, 1)
    return found.T.cpu().numpy().astype(np.float64)


def _scores(pair: DrawnPair, series: Series, steps: Tensor, drawn: Tensor, at: str) -> Tensor:
    """(sequences, length, nodes)"""
    span = series.lags.span
    roles = tuple(role for role in ROLES if role != "source" or at == "joint")
    tokens, *others = series.segments(steps[:, 0] - span, span + steps.shape[1], roles)
    critic = pair.xy if at == "joint" else pair.y
    return critic(tokens, torch.cat(others, -1) if others else None, drawn)[1]  # type: ignore[no-any-return]


def _log_reference(
    pair: DrawnPair, series: Series, positions: Tensor, steps: Tensor, drawn: Tensor
) -> Tensor | float:
    """log q on the grid, but for a constant: the uniform reference is the grid's own range."""
    if pair.settings.reference == "uniform":
        return 0.0
    if pair.settings.reference == "gaussian":
        return pair._reference(series, positions, tuple(positions.shape)).log_density(drawn)
    return pair._reference(series, steps.flatten(), tuple(steps.shape)).log_density(drawn)
