"""The one training loop: batches, schedule, validation, when to stop, and a record of it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from treet.errors import TreetError


@dataclass(frozen=True)
class History:
    """How one training went: losses in nats at the validation steps.

    ``best_step`` is the step whose weights were kept; ``converged`` whether the validation loss had settled.
    """

    label: str
    step: tuple[int, ...]
    train: tuple[float, ...]
    validation: tuple[float, ...]
    best_step: int
    converged: bool


@dataclass(frozen=True)
class Schedule:
    """How long to train, how fast, and when to stop; never longer than ``epochs``.

    ``stop="no improvement"``: cycles in which the learning rate rises and falls, each twice as long as the
    one before and starting from its best weights; the first is ``first_epochs`` long. Training stops after a
    cycle that lowered the best validation loss by less than ``tolerance``. The best weights are kept.

    ``stop="no change"``: the learning rate is constant, and training stops when the last ``patience``
    validation values lie within ``tolerance``. The last weights are kept.

    The validation loss is computed ``validations`` times in a cycle, or in all ``epochs``.
    """

    epochs: int
    batch_size: int | None
    learning_rate: float
    stop: Literal["no improvement", "no change"] = "no improvement"
    first_epochs: int = 3
    least_steps: int = 0
    weight_decay: float = 0.0
    clip: float | None = None
    validations: int = 8
    patience: int = 10
    tolerance: float = 1e-3

    def changed(self, **given: Any) -> Schedule:
        """This schedule with other settings; a number of ``epochs`` that is given is kept to."""
        if "epochs" in given:
            given["least_steps"] = 0  # that is for default settings on few items
        return replace(self, **given)

    def batch(self, n_items: int) -> int:
        """Items in a batch; by default more where there are more: noise of the gradient against steps."""
        return min(n_items, self.batch_size or min(1024, max(256, n_items // 64)))

    def most_steps(self, n_items: int) -> int:
        """Of the whole training on ``n_items`` items."""
        return max(63 * self.least_steps, math.ceil(self.epochs * n_items / self.batch(n_items)))

    def first_steps(self, n_items: int) -> int:
        """Of the first cycle."""
        if self.stop == "no change":
            return self.most_steps(n_items)
        first = max(1, self.least_steps, math.ceil(self.first_epochs * n_items / self.batch(n_items)))
        return min(first, self.most_steps(n_items))


Loss = Callable[[Tensor], Iterable[Tensor]]
"""The terms of the loss of a batch, which are added up; each is differentiated and let go before the next is
computed, so that parts that share no weights do not lie in memory together."""

Advance = Callable[[float], None]
"""Told, after every step, the share of the training that it was; what it raises ends the training."""


def train(
    model: nn.Module,
    loss: Loss,
    validate: Callable[[], float],
    items: Tensor,
    schedule: Schedule,
    generator: torch.Generator,
    label: str = "",
    advance: Advance = lambda share: None,
) -> History:
    """Minimise the sum of ``loss(batch of items)`` over the weights of ``model`` that require a gradient.

    ``items`` (n,) are drawn with ``generator``; ``validate()`` is the loss on data that is not trained on.
    """
    run = _Run(model, loss, validate, items, schedule, generator)
    length, left = schedule.first_steps(len(items)), schedule.most_steps(len(items))
    share = 1 / left
    while left > 0 and not run.settled:
        left -= run.cycle(min(length, left), lambda: advance(share))
        length *= 2
    advance(left * share)
    return run.finish(label)


class _Run:
    """The state of one training."""

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        validate: Callable[[], float],
        items: Tensor,
        schedule: Schedule,
        generator: torch.Generator,
    ) -> None:
        self.model, self.loss, self.validate = model, loss, validate
        self.items, self.schedule, self.generator = items, schedule, generator
        self.steps: list[int] = []
        self.train: list[float] = []
        self.validation: list[float] = []
        self.losses: list[float] = []
        self.best_step, self.best = 0, math.inf
        self.best_weights: dict[str, Any] = {}
        self.settled = False

    def cycle(self, length: int, advance: Callable[[], None]) -> int:
        """One cycle of ``length`` steps, or fewer where it settles before; how many there were."""
        optimiser, scheduler = self._optimiser(length)
        every, before, best = max(1, length // self.schedule.validations), self._last_step(), self.best
        for step in range(1, length + 1):
            self.losses.append(self._step(optimiser, scheduler))
            advance()
            if step % every == 0 or step == length:
                self._record(before + step)
            if self.schedule.stop == "no change" and self._unchanged():
                self.settled = True
                return step
        if self.schedule.stop == "no improvement":
            self.settled = self.best > best - self.schedule.tolerance
            self.model.load_state_dict(self.best_weights)
        return length

    def _last_step(self) -> int:
        return self.steps[-1] if self.steps else 0

    def _optimiser(self, length: int) -> tuple[torch.optim.Optimizer, Any]:
        schedule = self.schedule
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        if schedule.stop == "no change":
            return torch.optim.Adam(weights, schedule.learning_rate), None
        optimiser = torch.optim.AdamW(
            weights, schedule.learning_rate, betas=(0.9, 0.98), weight_decay=schedule.weight_decay
        )
        scheduler = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, schedule.learning_rate, total_steps=length + 1, pct_start=0.1, cycle_momentum=False
        )
        return optimiser, scheduler

    def _step(self, optimiser: torch.optim.Optimizer, scheduler: Any) -> float:
        count = self.schedule.batch(len(self.items))
        drawn = torch.randint(len(self.items), (count,), generator=self.generator)
        optimiser.zero_grad(set_to_none=True)
        loss = 0.0
        for term in self.loss(self.items[drawn.to(self.items.device)]):
            term.backward()  # type: ignore[no-untyped-call]
            loss += term.item()
        if self.schedule.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.schedule.clip)
        optimiser.step()
        if scheduler is not None:
            scheduler.step()
        return loss

    def _record(self, step: int) -> None:
        value, training_loss = self.validate(), sum(self.losses) / len(self.losses)
        self.losses.clear()
        if not math.isfinite(value) or not math.isfinite(training_loss):
            raise TreetError(
                f"Training diverged at step {step}: the loss is not finite. Lower learning_rate, or look for "
                "extreme values in the data."
            )
        self.steps.append(step)
        self.train.append(training_loss)
        self.validation.append(value)
        if value < self.best:
            self.best, self.best_step = value, step
            self.best_weights = copy.deepcopy(self.model.state_dict())

    def _unchanged(self) -> bool:
        recent = self.validation[-self.schedule.patience :]
        return len(recent) == self.schedule.patience and max(recent) - min(recent) < self.schedule.tolerance

    def finish(self, label: str) -> History:
        keep_best = self.schedule.stop == "no improvement"
        best = self.best_step if keep_best else self._last_step()
        return History(
            label, tuple(self.steps), tuple(self.train), tuple(self.validation), best, self.settled
        )
