"""One training for every fold, side by side."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

import numpy as np

from treet.parallel import Advance, run_together
from treet.progress import progress
from treet.statistics.cross_fitting import Fold, blocked_folds, default_folds
from treet.windows import Role, Windows

DIRECTION: tuple[Role, ...] = ("source", "target")

Result = TypeVar("Result")
Fit = Callable[[Windows, Fold, int, str, Advance], Result]
"""From windows, a fold, its seed, its name and whom to tell of the progress."""


def on_every_fold(
    fit: Fit[Result], windows: Windows, n_folds: int | None, random_state: int | None
) -> list[Result]:
    """What ``fit`` gives for each fold, in their order; ``n_folds=None``: by the number of windows."""
    folds = blocked_folds(windows, n_folds or default_folds(len(windows)))
    seeds = np.random.SeedSequence(random_state).generate_state(len(folds))
    tasks = [
        partial(fit, windows, fold, int(seed), f"fold {number} of {len(folds)}")
        for number, (fold, seed) in enumerate(zip(folds, seeds, strict=True), start=1)
    ]
    names = [", ".join(windows.names[role]) for role in DIRECTION if windows.width(role)]
    with progress(" -> ".join(names), len(folds)) as advance:
        return run_together(tasks, advance)
