"""Pairs of critics that are trained together on sequences, against draws from the reference."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

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
from treet.lags import Lags
from treet.nn.anchor import LinearAnchor
from treet.nn.tokens import TokenCritic
from treet.nn.weights import draw_uniform
from treet.objectives import StreamingLogMeanExp, donsker_varadhan, per_context, ranking_nce
from treet.reference import GaussianGivenPast, Reference
from treet.series import Series
from treet.statistics.cross_fitting import Fold
from treet.training import Advance, History, train

MOST_WINDOWS = 7680
"""That are scored at once."""

DRAWN = {"dv": donsker_varadhan, "per context": per_context, "ranking": ranking_nce}


class DrawnPair(CriticPair):
    """Critics trained together on sequences of windows, against draws from the reference.

    ``sequence``  windows in a training sequence, or fewer where no stretch is that long.
    """

    sequence: ClassVar[int]

    def __init__(self, series: Series, settings: Settings) -> None:
        super().__init__(series, settings)
        widths = {role: channels for role, (_, channels) in series.shapes(ROLES_XY).items()}
        target, condition = widths["target"], widths.get("condition", 0)
        with _Undrawn():
            self.y = self._critic(series.lags, target, 0, condition)
            self.xy = self._critic(series.lags, target, widths["source"], condition)
        inputs = sum(lags * channels for lags, channels in series.shapes(ROLES_Y).values())
        self.anchor = LinearAnchor(inputs, target)
        self.register_buffer("length", torch.tensor(self.sequence))

    @abstractmethod
    def _critic(self, lags: Lags, target: int, source: int, condition: int) -> TokenCritic:
        """A critic for so many channels of each role."""

    @abstractmethod
    def _watched(self, y: Tensor, xy: Tensor) -> Tensor:
        """(windows,): what training stops by, from the local divergences of the validation windows."""

    def fit(
        self, series: Series, fold: Fold, generator: torch.Generator, label: str, advance: Advance
    ) -> tuple[History, ...]:
        reset(self, generator)
        parts = [as_tensor(part, series) for part in (fold.train, fold.validation, fold.test)]
        length = min(self.sequence, *(int(runs(part)[1].min()) for part in parts))
        self.length = torch.tensor(length)
        training, validation = parts[:2]
        self.anchor.fit(*(batches_of_rows(series, part, ROLES_Y) for part in (training, validation)))
        history = train(
            self,
            lambda starts: self._loss(series, starts, generator),
            lambda: self._validation_loss(series, validation),
            _starts(training, length),
            self.settings.schedule,
            generator,
            f"critics of Y and XY, {label}",
            advance,
        )
        self.requires_grad_(False)
        return (history,)

    def _loss(self, series: Series, starts: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
        """The bound of each critic, which share no weights."""
        objective = DRAWN[self.settings.objective]
        steps = starts[:, None] + torch.arange(int(self.length), device=starts.device)
        for real, drawn in self._scores(series, steps, generator, None):
            yield -objective(real, drawn)

    def _validation_loss(self, series: Series, positions: Tensor) -> float:
        """Always with the same draws."""
        divergences = self.divergences(series, positions, torch.Generator().manual_seed(0))
        return self._watched(*divergences).mean().item()

    def _scores(
        self, series: Series, steps: Tensor, generator: torch.Generator, box: Reference | None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Real (batch, length) and reference (batch, length, draws) scores of Y and XY, on the same draws.

        ``steps`` (batch, length) are the windows of the sequences; ``box`` a reference for all of them.
        """
        span = series.lags.span
        reference = box or self._reference(series, steps.flatten(), tuple(steps.shape))
        drawn = reference.sample((*steps.shape, self.settings.draws), generator).to(series.device)
        tokens = series.segments(steps[:, 0] - span, span + steps.shape[1], ("target", "source", "condition"))
        condition = tokens[2:]
        others = [torch.cat(condition, -1) if condition else None, torch.cat(tokens[1:], -1)]
        for critic, other in zip((self.y, self.xy), others, strict=True):
            yield critic(tokens[0], other, drawn)

    def _reference(self, series: Series, positions: Tensor, shape: tuple[int, ...]) -> Reference:
        made = make_reference(self.settings.reference, self.anchor, series, positions)
        if isinstance(made, GaussianGivenPast):
            return GaussianGivenPast(*(part.detach().reshape(*shape, -1) for part in (made.mean, made.std)))
        return made

    @torch.no_grad()
    def divergences(
        self, series: Series, positions: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        # New data may have only shorter stretches than the training had.
        length = min(int(self.length), int(runs(positions)[1].min()))
        tiles = tiles_of(positions, length)
        per_context_form = self.settings.objective != "dv"
        same = self.settings.reference != GIVEN_PAST
        box = self._reference(series, positions, tuple(positions.shape)) if same else None
        steps = tiles[:, None] + torch.arange(length, device=tiles.device)
        places = torch.searchsorted(positions, steps)
        found = torch.zeros(2, len(positions), device=series.device)
        means = [StreamingLogMeanExp(), StreamingLogMeanExp()]
        rows = MOST_WINDOWS // length
        for part, where in zip(chunks(steps, rows), chunks(places, rows), strict=True):
            for row, (real, drawn) in enumerate(self._scores(series, part, generator, box)):
                normaliser = torch.logsumexp(drawn, -1) - np.log(drawn.shape[-1]) if per_context_form else 0.0
                found[row, where.flatten()] = (real - normaliser).flatten()
                means[row].update(drawn)
        shift = (
            0.0 if per_context_form else torch.tensor([[mean.value] for mean in means], device=series.device)
        )
        y, xy = (found - shift).cpu()
        return y, xy


class _Undrawn(TorchFunctionMode):
    """Weights are made without a draw from PyTorch's global state: ``reset`` draws them."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in (nn.init.kaiming_uniform_, nn.init.uniform_, Tensor.uniform_):
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return function(*args, **kwargs)


def reset(module: nn.Module, generator: torch.Generator) -> None:
    """Draw all weights again, as PyTorch does, but from ``generator`` and not from global state."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.LSTM):
            limit = (part.in_features if isinstance(part, nn.Linear) else part.hidden_size) ** -0.5
            for weight in part.parameters():
                draw_uniform(weight, limit, generator)


def runs(positions: Tensor) -> tuple[Tensor, Tensor]:
    """First positions and lengths of the stretches of consecutive positions."""
    cuts = torch.nonzero(positions.diff() != 1)[:, 0] + 1
    edges = torch.cat([cuts.new_zeros(1), cuts, cuts.new_tensor([len(positions)])])
    return positions[edges[:-1]], edges.diff()


def _starts(positions: Tensor, length: int) -> Tensor:
    """Positions from which ``length`` consecutive ones are there."""
    first, count = runs(positions)
    before_end = torch.repeat_interleave(first + count, count) - positions
    return positions[before_end >= length]


def tiles_of(positions: Tensor, length: int) -> Tensor:
    """Starts of sequences that cover every position; the last one of a stretch may overlap the one before."""
    parts = []
    for first, count in zip(*(part.tolist() for part in runs(positions)), strict=True):
        starts = torch.arange(first, first + count - length + 1, length)
        parts.append(torch.unique(torch.cat([starts, starts.new_tensor([first + count - length])])))
    return torch.cat(parts).to(positions.device)
