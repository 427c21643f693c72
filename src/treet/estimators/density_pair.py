"""The default pair: critics that are conditional densities."""

from __future__ import annotations

import copy
import hashlib
from dataclasses import replace
from typing import cast

import torch
from torch import Tensor

from treet.estimators.critic_pair import (
    GIVEN_PAST,
    ROLES_XY,
    ROLES_Y,
    CriticPair,
    as_tensor,
    batches_of_rows,
    chunks,
    make_reference,
)
from treet.estimators.presets import Settings
from treet.nn.anchor import LinearAnchor
from treet.nn.density_critic import NETWORK, DensityCritic
from treet.series import Series
from treet.statistics.cross_fitting import Fold
from treet.training import Advance, History, Schedule, train
from treet.windows import Role

MOST_VALUES = 2**24
"""In the matrix of rows that regimes are searched in: more windows than it holds are thinned out evenly."""

BEYOND_CHANCE = 1.64
"""Standard errors by which a network has to be better than an expert: one-sided, 5 %."""


MOST_STAGES = 4
"""Of the critic of Y: each further one is trained on top of the one before."""


SHARE = 0.5
"""Of the progress of a pair: the critics of Y, and that of XY."""


class DensityPair(CriticPair):
    """Critics that are conditional densities: a local divergence is ``log p(y_t | past) - log q(y_t)``.

    The critic of XY has that of Y as an expert and a network of its own. Where the target is hard to learn a
    second network helps whatever it sees, and the gain would be taken for transfer entropy: on recordings of
    a sleeping patient a source that was shifted by hours seemed to carry 0.02 to 0.07 nats. So the critic of
    Y is given further networks, each with the one before as an expert, until one more adds nothing.
    """

    def __init__(self, series: Series, settings: Settings, stages: int = 1) -> None:
        super().__init__(series, settings)
        self.y = make_critic(series, ROLES_Y, settings)
        for _ in range(1, stages):
            self.y = make_critic(series, ROLES_Y, settings, self.y)
        self.xy = make_critic(series, ROLES_XY, settings, self.y)

    def fit(
        self, series: Series, fold: Fold, generator: torch.Generator, label: str, advance: Advance
    ) -> tuple[History, ...]:
        histories = self._shared_y(series, fold, generator, label, lambda share: advance(SHARE * share))
        self.xy = make_critic(series, ROLES_XY, self.settings, self.y).to(series.device)
        training = _Training(self.xy, series, fold, ROLES_XY)
        named, rest = f"critic of XY, {label}", 1 - SHARE
        last = training.run(self.settings.schedule, generator, named, lambda share: advance(rest * share))
        return *histories, last

    def _shared_y(
        self, series: Series, fold: Fold, generator: torch.Generator, label: str, advance: Advance
    ) -> tuple[History, ...]:
        """Trained, or taken from a fit on the same target, with the random numbers where they were then."""
        if self.shared is None:
            self.y, histories = fit_own_past(series, fold, self.settings, generator, label, advance)
            return histories
        key = _key_of_y(series, fold, generator)
        if key not in self.shared:
            y, histories = fit_own_past(series, fold, self.settings, generator, label, advance)
            self.shared[key] = y, generator.get_state(), histories
        else:
            advance(1.0)
        y, state, histories = self.shared[key]
        self.y = copy.deepcopy(y)
        generator.set_state(state)
        return cast("tuple[History, ...]", histories)

    def divergences(
        self, series: Series, positions: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        reference = _log_reference(self.settings.reference, self.y.anchor, series, positions)
        y = _scored(self.y, series, positions, ROLES_Y)
        return y - reference, _scored(self.xy, series, positions, ROLES_XY) - reference


def make_critic(
    series: Series, roles: tuple[Role, ...], settings: Settings, base: DensityCritic | None = None
) -> DensityCritic:
    """A critic, not trained, that sees the pasts of ``roles`` and has ``base`` as an expert."""
    channels = series.values["target"].shape[1]
    heads, width = settings.heads, settings.width
    return DensityCritic(series.shapes(roles), channels, heads=heads, width=width, base=base)


def fit_own_past(
    series: Series,
    fold: Fold,
    settings: Settings,
    generator: torch.Generator,
    label: str,
    advance: Advance,
) -> tuple[DensityCritic, tuple[History, ...]]:
    """The critic of Y, trained in stages; ``advance`` is told shares that add up to 1.

    Where a further network was tried and left out the one before has converged, whatever its history says.
    """
    critic = make_critic(series, ROLES_Y, settings).to(series.device)
    training = _Training(critic, series, fold, ROLES_Y)
    histories = [training.run(settings.schedule, generator, f"critic of Y, {label}", advance)]
    while critic.chosen == NETWORK and len(histories) < MOST_STAGES:
        further = make_critic(series, ROLES_Y, settings, critic).to(series.device)
        training = _Training(further, series, fold, ROLES_Y, like=critic)
        history = training.run(settings.schedule, generator, f"further critic of Y, {label}")
        if further.chosen != NETWORK:
            histories[-1] = replace(histories[-1], converged=True)
            break
        histories.append(history)
        critic = further
    return critic, tuple(histories)


def _key_of_y(series: Series, fold: Fold, generator: torch.Generator) -> bytes:
    """A digest of all that decides the critic of Y: values, lags, windows and random numbers."""
    digest = hashlib.sha256()
    for role in ROLES_Y:
        if role in series.values:
            digest.update(repr(series.lags.of(role)).encode())
            digest.update(series.values[role].cpu().numpy().tobytes())
    for part in (fold.train, fold.validation, generator.get_state().numpy()):
        digest.update(part.tobytes())
    return digest.digest()


class _Training:
    """One critic on the windows of one fold: its linear experts fitted, and what they say, once for all.

    ``like`` is a critic whose linear experts were fitted to the same windows.
    """

    def __init__(
        self,
        critic: DensityCritic,
        series: Series,
        fold: Fold,
        roles: tuple[Role, ...],
        like: DensityCritic | None = None,
    ) -> None:
        self.critic, self.series, self.roles = critic, series, roles
        self.positions, self.validation = (as_tensor(part, series) for part in (fold.train, fold.validation))
        self.windows = torch.arange(len(self.positions), device=series.device)
        if like is None:
            self._fit_experts()
        else:
            critic.anchor.load_state_dict(like.anchor.state_dict())
            critic.regimes.load_state_dict(like.regimes.state_dict())
        self.predicted, self.validation_predicted = (
            torch.cat([critic.predict(*self._windows(part)) for part in chunks(positions)])
            for positions in (self.positions, self.validation)
        )

    def _fit_experts(self) -> None:
        critic, parts = self.critic, (self.positions, self.validation)
        critic.anchor.fit(*(batches_of_rows(self.series, part, self.roles) for part in parts))
        training, validation = (self._sampled(part) for part in parts)
        critic.regimes.fit(critic.anchor, training, validation, critic.splitters())

    def run(
        self,
        schedule: Schedule,
        generator: torch.Generator,
        label: str,
        advance: Advance = lambda share: None,
    ) -> History:
        """Train the network and choose; ``advance`` is told shares that add up to 1."""
        self.critic.reset(generator)
        history = train(
            self.critic,
            self.loss,
            self.validation_loss,
            self.windows,
            schedule,
            generator,
            label,
            advance,
        )
        self.choose()
        self.critic.requires_grad_(False)
        return history

    def _windows(self, positions: Tensor) -> tuple[dict[str, Tensor], Tensor]:
        return self.series.pasts(positions, self.roles), self.series.present(positions)

    def _sampled(self, positions: Tensor) -> Tensor:
        most = max(1, MOST_VALUES // self.critic.anchor.coefficients.shape[1])
        thinned = positions[:: -(-len(positions) // most)]
        rows = torch.empty(len(thinned), self.critic.anchor.coefficients.shape[1], device=self.series.device)
        parts = zip(chunks(rows), batches_of_rows(self.series, thinned, self.roles), strict=True)
        for place, part in parts:
            place.copy_(part)
        return rows

    def loss(self, windows: Tensor) -> tuple[Tensor]:
        """Minus the mean log density."""
        values = self._windows(self.positions[windows])
        return (-self.critic.log_density(*values, self.predicted[windows]).sum(1).mean(),)

    @torch.no_grad()
    def _validation(self) -> Tensor:
        """(windows,): log densities of the validation windows."""
        parts = zip(chunks(self.validation), chunks(self.validation_predicted), strict=True)
        found = [self.critic.log_density(*self._windows(part), known) for part, known in parts]
        return torch.cat(found).sum(1)

    def validation_loss(self) -> float:
        return -self._validation().mean().item()

    def choose(self) -> None:
        """Leave the network out unless it does better than the best expert alone beyond chance."""
        network = self._validation()
        alone = []
        for expert in range(self.critic.n_experts):
            self.critic.chosen.fill_(expert)
            alone.append(self._validation())
        best = max(range(len(alone)), key=lambda expert: alone[expert].mean().item())
        gain = network - alone[best]
        beyond = gain.mean() > BEYOND_CHANCE * gain.std() / len(gain) ** 0.5
        self.critic.chosen.fill_(NETWORK if beyond else best)


@torch.no_grad()
def _scored(critic: DensityCritic, series: Series, positions: Tensor, roles: tuple[Role, ...]) -> Tensor:
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
