"""The default pair: critics that are conditional densities."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from treet.estimators.critic_pair import (
    GIVEN_PAST,
    ROLES_XY,
    ROLES_Y,
    CriticPair,
    as_tensor,
    chunks,
    inputs,
    make_reference,
)
from treet.estimators.presets import Settings
from treet.nn.anchor import LinearAnchor
from treet.nn.density_critic import DensityCritic
from treet.series import Series
from treet.statistics.cross_fitting import Fold
from treet.training import Advance, History, train
from treet.windows import Role


class DensityPair(CriticPair):
    """Critics that are conditional densities: a local divergence is ``log p(y_t | past) - log q(y_t)``."""

    def __init__(self, series: Series, settings: Settings) -> None:
        super().__init__(series, settings)
        channels = series.values["target"].shape[1]
        heads, width = settings.heads, settings.width
        self.y = DensityCritic(series.shapes(ROLES_Y), channels, heads=heads, width=width)
        self.xy = DensityCritic(series.shapes(ROLES_XY), channels, heads=heads, width=width, base=self.y)

    def fit(
        self, series: Series, fold: Fold, generator: torch.Generator, label: str, advance: Advance
    ) -> tuple[History, ...]:
        training, validation = (as_tensor(part, series) for part in (fold.train, fold.validation))
        rounds = ((self.y, ROLES_Y, "Y"), (self.xy, ROLES_XY, "XY"))
        self.y.requires_grad_(True)
        histories = []
        for critic, roles, name in rounds:
            critic.reset(generator)
            critic.anchor.fit(inputs(series, training, roles), inputs(series, validation, roles))
            history = train(
                critic,
                _likelihood_loss(critic, series, roles),
                partial(_validation_loss, critic, series, validation, roles),
                training,
                self.settings.schedule,
                generator,
                f"critic of {name}, {label}",
                lambda share: advance(share / 2),
            )
            histories.append(history)
            critic.requires_grad_(False)
        return tuple(histories)

    def divergences(
        self, series: Series, positions: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        reference = _log_reference(self.settings.reference, self.y.anchor, series, positions)
        y = _scored(self.y, series, positions, ROLES_Y)
        return y - reference, _scored(self.xy, series, positions, ROLES_XY) - reference


def _likelihood_loss(
    critic: DensityCritic, series: Series, roles: tuple[Role, ...]
) -> Callable[[Tensor], Tensor]:
    return lambda positions: -critic(series.pasts(positions, roles), series.present(positions)).mean()


@torch.no_grad()
def _scored(critic: nn.Module, series: Series, positions: Tensor, roles: tuple[Role, ...]) -> Tensor:
    """(windows,): log densities, a chunk at a time."""
    parts = [critic(series.pasts(part, roles), series.present(part)) for part in chunks(positions)]
    return torch.cat(parts).cpu()


@torch.no_grad()
def _log_reference(name: str, anchor: LinearAnchor, series: Series, positions: Tensor) -> Tensor:
    """(windows,): log q of the present values."""
    if name != GIVEN_PAST:
        reference = make_reference(name, anchor, series, positions)
        return reference.log_density(series.present(positions)[:, None])[:, 0].cpu()
    parts = [
        make_reference(name, anchor, series, part).log_density(series.present(part)[:, None])[:, 0]
        for part in chunks(positions)
    ]
    return torch.cat(parts).cpu()


def _validation_loss(
    critic: DensityCritic, series: Series, positions: Tensor, roles: tuple[Role, ...]
) -> float:
    return -_scored(critic, series, positions, roles).mean().item()
