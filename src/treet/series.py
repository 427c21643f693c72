"""A recording as the critics read it: standardised tensors, and windows or segments gathered from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from treet.windows import ROLES, Role, Windows

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Scaler:
    """Mean and standard deviation of each channel, (channels,), in the order of ``Windows.values``."""

    mean: Floats
    std: Floats

    @classmethod
    def of(cls, windows: Windows, positions: Integers) -> Scaler:
        """From the time steps that the windows at ``positions`` reach over: training data only."""
        values = windows.values[_reached(windows, positions)]
        mean, std = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
        # A channel that stands still in one part of the recording is shifted, not blown up.
        flat = ~(std > 1e-9 * np.maximum(np.abs(mean), np.finfo(float).tiny))
        return cls(np.nan_to_num(mean), np.where(flat, 1.0, std))


def _reached(windows: Windows, positions: Integers) -> NDArray[np.bool_]:
    """(time,): true from the oldest to the newest sample of every window at ``positions``."""
    edges = np.zeros(len(windows.values) + 1, np.int64)
    edges[positions - windows.span] += 1
    edges[positions + 1] -= 1
    return np.asarray(np.cumsum(edges[:-1]) > 0)


class Series:
    """Standardised float32 tensors of one recording on one device; gaps are zero and never gathered.

    >>> from treet.data import as_recording
    >>> from treet.lags import Lags
    >>> noise = np.random.default_rng(0).normal(size=(100, 3))
    >>> windows = Windows.of(
    ...     as_recording(noise[:, :2], "source"), as_recording(noise[:, 2], "target"), None, Lags(4, 5)
    ... )
    >>> series = Series(windows, Scaler.of(windows, windows.positions))
    >>> positions = torch.tensor([7, 20])
    >>> {role: tuple(past.shape) for role, past in series.pasts(positions, ("target", "source")).items()}
    {'target': (2, 4, 1), 'source': (2, 5, 2)}
    """

    def __init__(self, windows: Windows, scaler: Scaler, device: torch.device | str = "cpu") -> None:
        self.lags = windows.lags
        scaled = np.nan_to_num((windows.values - scaler.mean) / scaler.std)
        values = torch.from_numpy(scaled.astype(np.float32)).to(device)
        self.values: Mapping[Role, Tensor] = {
            role: values[:, windows.columns(role)].contiguous() for role in ROLES if windows.width(role)
        }

    @property
    def device(self) -> torch.device:
        return self.values["target"].device

    def shapes(self, roles: tuple[Role, ...]) -> dict[str, tuple[int, int]]:
        """(lags, channels) of the past of each of ``roles`` that is there."""
        return {
            role: (len(self.lags.of(role)), self.values[role].shape[1])
            for role in roles
            if role in self.values
        }

    def present(self, positions: Tensor) -> Tensor:
        """(batch, target channels)."""
        return self.values["target"][positions]

    def pasts(self, positions: Tensor, roles: tuple[Role, ...]) -> dict[str, Tensor]:
        """By role (batch, lags, channels), oldest first."""
        return {role: self._past(positions, role) for role in roles if role in self.values}

    def _past(self, positions: Tensor, role: Role) -> Tensor:
        lags = self.lags.of(role)
        # Row r of the view is the window that starts at time step r: no copy before the gather.
        view = self.values[role].unfold(0, len(lags), 1)
        return view[positions - lags[-1]].transpose(1, 2)

    def segments(self, starts: Tensor, length: int, roles: tuple[Role, ...]) -> list[Tensor]:
        """Stretches (batch, length, channels) of each of ``roles`` that is there."""
        steps = starts[:, None] + torch.arange(length, device=self.device)
        return [self.values[role][steps] for role in roles if role in self.values]
