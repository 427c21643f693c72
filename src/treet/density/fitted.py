"""Conditional densities from the critics of a fitted estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from scipy.special import logsumexp
from torch import Tensor

from treet.checks import check_choice
from treet.density.conditional import Alone, ConditionalDensity, Factors
from treet.density.published import on_grid
from treet.density.univariate import Floats, Mixtures, Rows
from treet.errors import TreetError
from treet.estimators.critic_pair import ROLES_XY, ROLES_Y, CriticPair, chunks
from treet.estimators.density_pair import DensityPair
from treet.estimators.drawn_pair import DrawnPair
from treet.nn.anchor import LinearAnchor, as_rows
from treet.series import Scaler, Series
from treet.statistics.cross_fitting import Fold, blocked_folds
from treet.windows import Role, Windows

if TYPE_CHECKING:
    from treet.estimators.neural import CrossFitted

ROLES = {"target": ROLES_Y, "joint": ROLES_XY, "linear": ROLES_Y, "linear joint": ROLES_XY}
"""What is seen, by what is asked for."""

Terms = tuple[Tensor, Tensor, Tensor]
Mixture = Callable[[Mapping[str, Tensor], Tensor], Terms]
"""From the pasts and the present values to log weights, means and stds."""


@dataclass(frozen=True, eq=False)
class Model:
    """One network on one recording: the terms of its mixture for any windows, in the target's units.

    ``mixture(pasts, present)`` gives log weights, means and stds, (batch, channels, terms) each.
    """

    mixture: Mixture
    series: Series
    roles: tuple[Role, ...]
    mean: Floats
    std: Floats

    @classmethod
    def of(
        cls,
        mixture: Mixture,
        windows: Windows,
        scaler: Scaler,
        roles: tuple[Role, ...],
        device: torch.device | str = "cpu",
    ) -> Model:
        target = windows.columns("target")
        series = Series(windows, scaler, device)
        return cls(mixture, series, roles, scaler.mean[target], scaler.std[target])

    def terms(self, positions: Rows, channel: int, before: Floats) -> Floats:
        """(3, terms, positions): the mixture of ``channel`` given the channels ``before`` it."""
        present = np.zeros((len(positions), len(self.mean)))
        present[:, :channel] = (before - self.mean[:channel]) / self.std[:channel]
        whole = torch.from_numpy(positions), torch.from_numpy(present.astype(np.float32))
        found = []
        for place, part in zip(*(chunks(values.to(self.series.device)) for values in whole), strict=True):
            with torch.no_grad():
                mixture = self.mixture(self.series.pasts(place, self.roles), part)
            found.append(torch.stack([values[:, channel].mT for values in mixture]).cpu())
        log_weights, means, stds = torch.cat(found, -1).numpy().astype(np.float64)
        return np.stack(
            [log_weights, self.mean[channel] + self.std[channel] * means, self.std[channel] * stds]
        )


@dataclass(frozen=True, eq=False)
class Averaged:
    """The factors of a mixture of several models with equal weights, the same or others for each step.

    ``positions`` (steps,); ``slots`` (models of a step, steps): which of ``models`` speak of each step. In a
    mixture the channels before a channel tell which model is right: its factor weighs them by their densities
    of what came before.
    """

    models: Sequence[Model]
    positions: Rows
    slots: Rows

    @property
    def channels(self) -> int:
        return len(self.models[0].mean)

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, steps: Rows) -> Averaged:
        return replace(self, positions=self.positions[steps], slots=self.slots[:, steps])

    def factor(self, channel: int, before: Floats) -> Mixtures:
        mixtures, log_shares = [], np.zeros(self.slots.shape)
        for slot, share in zip(self.slots, log_shares, strict=True):
            mixtures.append(self._mixture(slot, channel, before))
            if len(self.slots) > 1:
                for earlier in range(channel):
                    known = self._mixture(slot, earlier, before[:, :earlier])
                    share += known.logpdf(before[:, earlier])
        return Mixtures.pooled(mixtures, log_shares - logsumexp(log_shares, axis=0))

    def _mixture(self, slot: Rows, channel: int, before: Floats) -> Mixtures:
        rows = [np.flatnonzero(slot == number) for number in range(len(self.models))]
        parts = [
            model.terms(self.positions[row], channel, before[row])
            for model, row in zip(self.models, rows, strict=True)
            if len(row)
        ]
        order = np.argsort(np.concatenate(rows), kind="stable")
        return Mixtures.of(*np.concatenate(parts, axis=-1)[..., order])


def of_estimator(
    estimator: CrossFitted, source: Any, target: Any, condition: Any = None, at: str = "target"
) -> ConditionalDensity:
    """The conditional densities that a fitted estimator has of a recording: see ``CrossFitted.density``.

    ``at="linear"`` is the linear Gaussian predictor that the critic of the target's own past starts from,
    ``at="linear joint"`` that of the critic which sees the source too.
    """
    check_choice("at", at, ROLES)
    if not hasattr(estimator, "folds_"):
        raise TreetError("This estimator is not fitted. Call fit first, or load a saved one.")
    windows = estimator._windows(source, target, condition, estimator.lags_)
    estimator._check_widths(windows)
    scalers = [fold.scaler for fold in estimator.folds_]
    slots, device = slots_of(windows, scalers, estimator.n_windows_), estimator._torch_device()
    if isinstance(estimator.folds_[0].pair, DrawnPair) and at != "linear":
        if at == "linear joint":
            raise TreetError(
                "at='linear joint' needs critics that start from a linear predictor of both pasts: the "
                "estimator 'treet' with preset='default'."
            )
        found = on_grid(estimator.folds_, windows, slots, at, device)
        return ConditionalDensity(Alone(found), windows)
    mixtures = [_mixture_of(fold.pair.to(device), at) for fold in estimator.folds_]
    return averaged(mixtures, scalers, windows, slots, ROLES[at], device)


def averaged(
    mixtures: Sequence[Mixture],
    scalers: Sequence[Scaler],
    windows: Windows,
    slots: Rows,
    roles: tuple[Role, ...],
    device: torch.device,
) -> ConditionalDensity:
    """The density of one network a fold, each with the scales that it was trained with: see ``Averaged``."""
    models = [
        Model.of(mixture, windows, scaler, roles, device)
        for mixture, scaler in zip(mixtures, scalers, strict=True)
    ]
    return ConditionalDensity(alone(Averaged(models, windows.positions, slots)), windows)


def alone(factors: Factors) -> Factors:
    """The factors, computed once where there is one channel: then nothing depends on the value."""
    if factors.channels > 1:
        return factors
    return Alone(factors.factor(0, np.zeros((len(factors), 0))))


def _mixture_of(pair: CriticPair, at: str) -> Mixture:
    if isinstance(pair, DrawnPair):
        return partial(linear_mixture, pair.anchor)
    critics = cast("DensityPair", pair)
    if at in ("linear", "linear joint"):
        return partial(linear_mixture, (critics.y if at == "linear" else critics.xy).anchor)
    return (critics.y if at == "target" else critics.xy).mixture


def linear_mixture(anchor: LinearAnchor, pasts: Mapping[str, Tensor], present: Tensor) -> Terms:
    """The Gaussian of the anchor as a mixture with one term."""
    mean = anchor(as_rows(list(pasts.values()), present))[..., None]
    return torch.zeros_like(mean), mean, anchor.log_std.exp()[:, None].expand_as(mean)


def slots_of(windows: Windows, scalers: Sequence[Scaler], fitted_windows: int) -> Rows:
    """(1, steps): the fold that held each step out, or (folds, steps): all folds for a new recording."""
    if len(windows) == fitted_windows:
        folds = blocked_folds(windows, len(scalers))
        if all(_trained_on(windows, fold, scaler) for fold, scaler in zip(folds, scalers, strict=True)):
            return np.repeat(np.arange(len(folds)), [len(fold.test) for fold in folds])[None]
    return np.broadcast_to(np.arange(len(scalers))[:, None], (len(scalers), len(windows)))


def _trained_on(windows: Windows, fold: Fold, scaler: Scaler) -> bool:
    """Whether the scales of the fold's training data are those of the fit: then it is the same recording."""
    found = Scaler.of(windows, fold.train)
    pairs = ((found.mean, scaler.mean), (found.std, scaler.std))
    return all(np.allclose(one, other, rtol=1e-12, atol=1e-12 * scaler.std.min()) for one, other in pairs)
