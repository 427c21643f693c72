"""Maximising a value that is only ever measured on fresh sequences: cycles, the best point, when to stop."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from treet.parallel import Advance
from treet.training import History

LAST_SHARE = 0.2
"""The part of a cycle, at its end, whose values are its validation: the learning rate is low there."""

CLIP = 1.0
"""The largest norm of a gradient."""


class Annealed:
    """Adam with learning rates that rise for a tenth of the steps and fall to next to nothing."""

    def __init__(self, groups: list[tuple[list[nn.Parameter], float]], steps: int) -> None:
        groups = [(weights, rate) for weights, rate in groups if weights]
        self.weights = [weight for weights, _ in groups for weight in weights]
        self.optimiser = torch.optim.Adam(
            [{"params": weights, "lr": rate} for weights, rate in groups], betas=(0.9, 0.98)
        )
        rise = max(1, steps // 10)

        def share(step: int) -> float:
            """Of the largest learning rate: a straight rise, then half a period of a cosine."""
            if step < rise:
                return (step + 1) / rise
            return 0.5 + 0.5 * math.cos(math.pi * (step - rise) / max(1, steps - rise))

        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimiser, share)

    def step(self, loss: Tensor) -> None:
        """One step down ``loss``, for these weights alone."""
        # A network that was left out has no gradient.
        gradients = torch.autograd.grad(loss, self.weights, materialize_grads=True)
        for weight, gradient in zip(self.weights, gradients, strict=True):
            weight.grad = gradient
        nn.utils.clip_grad_norm_(self.weights, CLIP)
        self.optimiser.step()
        self.scheduler.step()


class Ascent(ABC):
    """Rounds that each measure the value of ``model`` on sequences it has not seen, and then improve it.

    The rounds form cycles in which the learning rates rise and fall, each twice as long as the one before and
    starting from the best point. A cycle counts with the mean of its last values. The ascent stops after a
    cycle that raised this by less than ``tolerance``, relative, or by no more than two standard errors.

    It is not ``treet.training.train``, because there the data stand still and one optimiser works on them.
    """

    def __init__(self, model: nn.Module, rounds: int, most_rounds: int, tolerance: float) -> None:
        self.model, self.tolerance = model, tolerance
        self.rounds, self.most_rounds = rounds, most_rounds
        self.values: list[float] = []
        self.losses: list[float] = []
        self.best, self.best_round = -math.inf, 0
        self.converged = self.diverged = False
        self._keep()

    @abstractmethod
    def _optimisers(self, rounds: int) -> tuple[Annealed, Annealed]:
        """Of the model and of its critics, for a cycle."""

    @abstractmethod
    def _round(self, model: Annealed, critics: Annealed) -> tuple[Tensor, float]:
        """One round: its value, and the loss of the critics."""

    @abstractmethod
    def _between(self) -> None:
        """What is to do after a cycle, with the model at its best point."""

    def run(self, advance: Advance = lambda share: None) -> History:
        """Cycles until one does not help; leaves the model at its best point."""
        length, left = self.rounds, self.most_rounds
        while left > 0 and not (self.converged or self.diverged):
            self._cycle(min(length, left), advance)
            left, length = left - length, 2 * length
            self.model.load_state_dict(self.best_weights)
            self._between()
        advance(max(left, 0) / self.most_rounds)
        return self._history()

    def _cycle(self, length: int, advance: Advance) -> None:
        optimisers = self._optimisers(length)
        for _ in range(length):
            value, loss = self._round(*optimisers)
            if not math.isfinite(value.item()):
                self.diverged = True
                return
            self.values.append(value.item())
            self.losses.append(loss)
            advance(1 / self.most_rounds)
        self._judge(torch.tensor(self.values[-max(2, int(LAST_SHARE * length)) :]))

    def _judge(self, last: Tensor) -> None:
        value, std_error = float(last.mean()), float(last.std()) / math.sqrt(len(last))
        least = max(self.tolerance * abs(value), 2 * std_error)
        self.converged = value < self.best + least
        if value > self.best:
            self.best = value
            self._keep()

    def _keep(self) -> None:
        self.best_round = len(self.values)
        self.best_weights = copy.deepcopy(self.model.state_dict())

    def _history(self) -> History:
        """Losses are minus the values: ``validation``, and those of the critics: ``train``."""
        rounds = tuple(range(1, len(self.values) + 1))
        minus = tuple(-value for value in self.values)
        return History("generator", rounds, tuple(self.losses), minus, self.best_round, self.converged)
