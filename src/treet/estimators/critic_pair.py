"""A pair of critics, of Y and of XY, trained on one fold and read on any windows: the contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from treet.estimators.presets import Settings
from treet.nn.anchor import LinearAnchor, as_rows
from treet.reference import Gaussian, GaussianGivenPast, Reference, UniformBox
from treet.series import Floats, Integers, Scaler, Series
from treet.statistics.cross_fitting import Fold
from treet.training import Advance, History
from treet.windows import Role

ROLES_Y: tuple[Role, ...] = ("target", "condition")
ROLES_XY: tuple[Role, ...] = ("target", "condition", "source")
CHUNK = 4096
"""Windows that are scored at once."""

GIVEN_PAST = "gaussian given past"


class CriticPair(nn.Module, ABC):
    """The critics of Y and of XY: ``D_XY - D_Y`` is the transfer entropy.

    ``shared``  critics of Y that other fits on the same target and condition have trained, or None.
    """

    shared: dict[Any, Any] | None = None

    def __init__(self, series: Series, settings: Settings) -> None:
        super().__init__()
        self.settings = settings

    @abstractmethod
    def fit(
        self, series: Series, fold: Fold, generator: torch.Generator, label: str, advance: Advance
    ) -> tuple[History, ...]:
        """Train both critics on the fold; ``advance`` is told shares that add up to 1."""

    @abstractmethod
    def divergences(
        self, series: Series, positions: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """(windows,) twice: the local divergences of Y and of XY from the reference, in nats."""


@dataclass(frozen=True)
class FittedFold:
    """What one fold gave: the pair, the scaling it was trained with, and held-out local divergences."""

    pair: CriticPair
    scaler: Scaler
    y: Floats
    xy: Floats
    histories: tuple[History, ...] = ()


def as_tensor(positions: Integers, series: Series) -> Tensor:
    return torch.from_numpy(positions).to(series.device)


def chunks(positions: Tensor, size: int = CHUNK) -> tuple[Tensor, ...]:
    """The positions in parts of ``size``, the last one smaller."""
    parts: tuple[Tensor, ...] = torch.split(positions, size)
    return parts


def batches_of_rows(series: Series, positions: Tensor, roles: tuple[Role, ...]) -> Iterator[Tensor]:
    """Rows (1, past, present) of all windows, a chunk at a time."""
    for part in chunks(positions):
        yield as_rows(list(series.pasts(part, roles).values()), series.present(part))


def make_reference(name: str, anchor: LinearAnchor, series: Series, positions: Tensor) -> Reference:
    """The reference density for the windows at ``positions``, fitted to them where it is one for all."""
    present = series.present(positions)
    if name == "uniform":
        return UniformBox.around(present)
    if name == "gaussian":
        return Gaussian.of(present)
    mean = anchor(as_rows(list(series.pasts(positions, ROLES_Y).values()), present))
    return GaussianGivenPast(mean, anchor.log_std.exp().expand_as(mean))
