"""The default pair: critics that are conditional densities."""

from __future__ import annotations

import copy
import hashlib

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
from treet.training import Advance, History, train
from treet.windows import Role

MOST_VALUES = 2**24
"""In the matrix of rows that regimes are searched in: more windows than it holds are thinned out evenly."""

BEYOND_CHANCE = 1.64
"""Standard errors by which a network has to be better than an expert: one-sided, 5 %."""


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
        history = self._fit_y(series, fold, generator, label, advance)
        return history, self._fit_one("XY", series, fold, generator, label, advance)

    def _fit_y(
        self, series: Series, fold: Fold, generator: torch.Generator, label: str, advance: Advance
    ) -> History:
        """Trained, or taken from a fit on the same target, with the random numbers where they were then."""
        if self.shared is None:
            return self._fit_one("Y", series, fold, generator, label, advance)
        key = _key_of_y(series, fold, generator)
        if key not in self.shared:
            history = self._fit_one("Y", series, fold, generator, label, advance)
            self.shared[key] = copy.deepcopy(self.y.state_dict()), generator.get_state(), history
        else:
            weights, state, history = self.shared[key]
            self.y.load_state_dict(weights)
            self.y.requires_grad_(False)
            generator.set_state(state)
            advance(0.5)
        return history

    def _fit_one(
        self,
        name: str,
        series: Series,
        fold: Fold,
        generator: torch.Generator,
        label: str,
        advance: Advance,
    ) -> History:
        critic, roles = (self.y, ROLES_Y) if name == "Y" else (self.xy, ROLES_XY)
        training = _Training(critic, series, fold, roles)
        critic.reset(generator)
        history = train(
            critic,
            training.loss,
            training.validation_loss,
            training.windows,
            self.settings.schedule,
            generator,
            f"critic of {name}, {label}",
            lambda share: advance(share / 2),
        )
        training.choose()
        critic.requires_grad_(False)
        return history

    def divergences(
        self, series: Series, positions: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        reference = _log_reference(self.settings.reference, self.y.anchor, series, positions)
        y = _scored(self.y, series, positions, ROLES_Y)
        return y - reference, _scored(self.xy, series, positions, ROLES_XY) - reference


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
    """One critic on the windows of one fold: its linear experts fitted, and what they say, once for all."""

    def __init__(self, critic: DensityCritic, series: Series, fold: Fold, roles: tuple[Role, ...]) -> None:
        self.critic, self.series, self.roles = critic, series, roles
        training, self.validation = (as_tensor(part, series) for part in (fold.train, fold.validation))
        self.positions = training
        self.windows = torch.arange(len(training), device=series.device)
        critic.anchor.fit(*(batches_of_rows(series, part, roles) for part in (training, self.validation)))
        critic.regimes.fit(
            critic.anchor, self._sampled(training), self._sampled(self.validation), critic.splitters()
        )
        self.predicted, self.validation_predicted = (
            torch.cat([critic.predict(*self._windows(part)) for part in chunks(positions)])
            for positions in (training, self.validation)
        )

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
