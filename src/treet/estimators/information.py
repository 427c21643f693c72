"""Mutual information between contexts and the present of the target, by networks that tell pairs apart."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from treet.checks import check_number, check_whole
from treet.errors import NotConvergedWarning
from treet.estimators.base import Estimate, Floats, TransferEntropyEstimator
from treet.estimators.critic_pair import as_tensor, chunks
from treet.estimators.folds import on_every_fold
from treet.estimators.neural import NOT_CONVERGED
from treet.nn.statistics_network import StatisticsNetwork
from treet.objectives import donsker_varadhan, log_mean_exp
from treet.parallel import Advance
from treet.results import Unit
from treet.series import Scaler, Series
from treet.statistics.cross_fitting import Fold
from treet.training import History, Schedule, train
from treet.windows import Role, Windows

WIDTH = 64
"""Of the hidden layers."""

SCHEDULE = Schedule(
    epochs=62,
    batch_size=512,
    learning_rate=1e-2,
    first_epochs=2,
    least_steps=50,
    weight_decay=0.1,
    clip=1.0,
    tolerance=2e-3,
)

SHUFFLES = 8
"""Times that held-out present values are shuffled among the contexts."""

WIDEST_NOISE = 0.3
"""Nats, the standard error of a logarithm of a mean that about ten shuffled pairs decide."""

REMEDY = "Use shorter histories, a longer recording or another estimator."

LEAST_REMEMBERED, SHARE_REMEMBERED = 0.02, 0.1
"""By how much the value on training data exceeds that on others before it is doubtful: nats, and a share."""


def minus_cross_entropy(real: Tensor, shuffled: Tensor) -> Tensor:
    """What a classifier of real and shuffled pairs gains: largest for ``f = log p(c, y) / p(c) p(y)``.

    ``real``, ``shuffled`` have any shapes; chance is 0.

    >>> minus_cross_entropy(torch.zeros(3), torch.zeros(3)).item()
    0.0
    """
    found = functional.logsigmoid(real).mean() + functional.logsigmoid(-shuffled).mean()
    return found + 2 * math.log(2)


OBJECTIVES = {"dv": donsker_varadhan, "classifier": minus_cross_entropy}


@dataclass(frozen=True)
class Information:
    """A mutual information that one fold gave, in nats.

    ``local``       (held-out windows,): values whose mean is the mutual information.
    ``variance``    of the logarithm of a mean that they share.
    ``remembered``  by how much the mutual information of the training windows is larger.
    """

    local: Floats
    variance: float
    remembered: float
    history: History

    @property
    def value(self) -> float:
        return float(self.local.mean())


class Trained:
    """A statistics network that is trained on the windows of one fold, ``I(past of roles; y_t)``.

        I = mean f(c, y) - log mean exp f(c, y')

    with ``y'`` the present values shuffled among the contexts ``c``.
    """

    def __init__(self, series: Series, fold: Fold, roles: tuple[Role, ...], method: str) -> None:
        self.series, self.roles, self.objective = series, roles, OBJECTIVES[method]
        inputs = sum(lags * channels for lags, channels in series.shapes(roles).values())
        self.network = StatisticsNetwork(inputs, series.values["target"].shape[1], WIDTH)
        self.training, self.validation, self.test = (
            as_tensor(part, series) for part in (fold.train, fold.validation, fold.test)
        )

    def fit(
        self, schedule: Schedule, generator: torch.Generator, label: str, advance: Advance
    ) -> Information:
        self.network.reset(generator)
        history = train(
            self.network,
            self._loss,
            self._validation_loss,
            self.training,
            schedule,
            generator,
            f"information of {' and '.join(self.series.shapes(self.roles))}, {label}",
            advance,
        )
        local, variance = self._read(self.test, generator, SHUFFLES)
        seen, _ = self._read(self.training, generator, 1)
        return Information(local, variance, float(seen.mean() - local.mean()), history)

    def _loss(self, positions: Tensor) -> tuple[Tensor]:
        context, present = self._contexts(positions), self.series.present(positions)
        # Items of a batch are drawn independently: the neighbour's present is one of any other window.
        pairs = torch.cat([present, present.roll(1, 0)])
        real, shuffled = self.network(torch.cat([context, context]), pairs).chunk(2)
        return (-self.objective(real, shuffled),)

    def _contexts(self, positions: Tensor) -> Tensor:
        """(batch, inputs)."""
        return torch.cat(
            [past.flatten(1) for past in self.series.pasts(positions, self.roles).values()], dim=1
        )

    def _validation_loss(self) -> float:
        """Always with the same shuffles."""
        scores = self._scores(self.validation, torch.Generator().manual_seed(0), 2)
        return -self.objective(*scores).item()

    @torch.no_grad()
    def _scores(self, positions: Tensor, generator: torch.Generator, shuffles: int) -> tuple[Tensor, Tensor]:
        """Real (windows,) and shuffled (windows, shuffles) scores in float64."""
        present = self.series.present(positions)
        orders = [torch.randperm(len(present), generator=generator) for _ in range(shuffles)]
        paired = torch.stack([present, *(present[order] for order in orders)], dim=1)
        scores = []
        for part, values in zip(chunks(positions), chunks(paired), strict=True):
            context = self._contexts(part)
            scores.append(torch.stack([self.network(context, column) for column in values.unbind(1)], 1))
        found = torch.cat(scores).double()
        return found[:, 0], found[:, 1:]

    def _read(self, positions: Tensor, generator: torch.Generator, shuffles: int) -> tuple[Floats, float]:
        """Local values (windows,), and the variance of the logarithm of a mean in them.

        The relative variance of a mean of ``exp f`` over one shuffle, which more shuffles only lower.
        """
        real, shuffled = self._scores(positions, generator, shuffles)
        mean, square = log_mean_exp(shuffled).item(), log_mean_exp(2 * shuffled).item()
        return (real - mean).numpy(), math.expm1(min(square - 2 * mean, 700.0)) / len(positions)


class InformationEstimator(TransferEntropyEstimator):
    """Base of estimators that add and subtract mutual informations with the present of the target.

    ``terms``  the sign of each, by the roles whose past is its context. Every network is trained on all
               blocks of the recording but one and read on that one.
    """

    terms: ClassVar[dict[tuple[Role, ...], int]]
    method: str = "dv"

    def __init__(
        self,
        memory: int | None = None,
        target_history: int | None = None,
        source_history: int | None = None,
        delay: int | None = None,
        condition_history: int | None = None,
        *,
        folds: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        unit: Unit = "nats",
        confidence: float = 0.95,
        random_state: int | None = None,
    ) -> None:
        self.memory = memory
        self.target_history = target_history
        self.source_history = source_history
        self.delay = delay
        self.condition_history = condition_history
        self.folds = folds
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.unit = unit
        self.confidence = confidence
        self.random_state = random_state

    def _check_parameters(self) -> None:
        for name, least in (("folds", 2), ("epochs", 1), ("batch_size", 2)):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), least)
        if self.learning_rate is not None:
            check_number("learning_rate", self.learning_rate, above=0, below=1)

    def _schedule(self) -> Schedule:
        names = ("epochs", "batch_size", "learning_rate")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return SCHEDULE.changed(**given)

    def _estimate(self, windows: Windows) -> Estimate:
        fitted = on_every_fold(self._fit_fold, windows, self.folds, self.random_state)
        return self._put_together(windows, fitted)

    def _fit_fold(
        self, windows: Windows, fold: Fold, seed: int, label: str, advance: Advance
    ) -> list[Information]:
        """One for each term."""
        generator = torch.Generator().manual_seed(seed)
        series = Series(windows, Scaler.of(windows, fold.train))
        schedule, share = self._schedule(), 1 / len(self.terms)
        return [
            Trained(series, fold, roles, self.method).fit(
                schedule, generator, label, lambda done: advance(done * share)
            )
            for roles in self.terms
        ]

    def _put_together(self, windows: Windows, fitted: Sequence[Sequence[Information]]) -> Estimate:
        by_term = list(zip(*fitted, strict=True))
        parts = np.array([np.concatenate([fold.local for fold in folds]) for folds in by_term])
        shares = np.array([len(fold[0].local) for fold in fitted]) / len(windows)
        variances = np.array([[found.variance for found in fold] for fold in fitted])
        histories = tuple(found.history for fold in fitted for found in fold)
        if not (settled := all(history.converged for history in histories)):
            warnings.warn(NOT_CONVERGED, NotConvergedWarning, stacklevel=4)
        notes = tuple(note for folds in by_term for note in doubts(folds))
        local = np.array(list(self.terms.values())) @ parts
        means = [float(part.mean()) for part in parts]
        return Estimate(
            te=float(local.mean()),
            local=local,
            resolution=float(np.sqrt(shares**2 @ variances.sum(axis=1))),
            d_y=means[0] if len(means) == 2 else None,
            d_xy=means[1] if len(means) == 2 else None,
            converged=settled and not notes,
            notes=notes,
            history=histories,
        )


def doubts(folds: Sequence[Information]) -> tuple[str, ...]:
    """What makes the mutual information of one context unreliable, from all folds of it."""
    value, remembered = (
        float(np.mean([getattr(fold, name) for fold in folds])) for name in ("value", "remembered")
    )
    most = math.log(sum(len(fold.local) for fold in folds))
    noise = math.sqrt(max(fold.variance for fold in folds))
    what = folds[0].history.label.split(",")[0]
    notes = []
    if (largest := max(fold.value for fold in folds)) > most:
        notes.append(
            f"The {what} diverged: no more than log n = {most:.2f} nats can be told from n windows, and one "
            f"of the networks says {largest:.4g}."
        )
    if noise > WIDEST_NOISE:
        notes.append(
            f"The {what} hangs on a few shuffled pairs, by {noise:.2g} nats in one fold: it is too large to "
            "be read from so many windows."
        )
    seen = value + remembered
    if remembered > max(LEAST_REMEMBERED, SHARE_REMEMBERED * seen):
        notes.append(
            f"The {what} is {seen:.3g} nats on the windows that the networks were trained on and {value:.3g} "
            "on the others, which is what counts: they remember what does not come again, and it is too low."
        )
    return tuple(f"{note} {REMEDY}" for note in notes)
