"""Blocked cross-fitting: every window is held out once, with a gap around what is held out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treet.errors import TreetError
from treet.windows import Windows

Integers = NDArray[np.int64]

VALIDATION_BLOCKS = 8
VALIDATION_SHARE = 0.12
LEAST_WINDOWS = 40
"""For each fold: fewer leave nothing to learn from, nor to judge by."""


@dataclass(frozen=True)
class Fold:
    """Positions of windows on the time axis: to train on, to stop by, and held out."""

    train: Integers
    validation: Integers
    test: Integers


def default_folds(n_windows: int) -> int:
    """More folds where data are few: each training sees more of them; fewer where they cost time.

    Even numbers, since trainings run side by side on the cores.
    """
    return 6 if n_windows < 30_000 else 4 if n_windows < 300_000 else 2


def blocked_folds(windows: Windows, n_folds: int) -> list[Fold]:
    """``n_folds`` blocks of consecutive windows, each held out once.

    Windows of other blocks that share a sample with a held-out window are left out of its fold: a gap of the
    memory on both sides, within the trial. Of the others, eight stretches spread over the recording decide
    when training stops.
    """
    positions = windows.positions
    if len(positions) < LEAST_WINDOWS * n_folds:
        raise TreetError(
            f"Too few windows to train and to hold out: {len(positions)} for {n_folds} folds. At least "
            f"{LEAST_WINDOWS * n_folds} are needed. Use a longer recording or a shorter history."
        )
    blocks = np.array_split(np.arange(len(positions)), n_folds)
    return [_fold(windows, positions, block) for block in blocks]


def _fold(windows: Windows, positions: Integers, block: Integers) -> Fold:
    test = positions[block]
    rest = positions[~_touches(windows, positions, int(test[0]), int(test[-1]))]
    if len(rest) < LEAST_WINDOWS:
        raise TreetError(
            f"The memory is too long for this recording: {len(rest)} windows are left to train on when a "
            f"block and a gap of {windows.span} time steps on both sides are held out. Use a shorter history."
        )
    held_back = _spread_blocks(len(rest))
    return Fold(rest[~held_back], rest[held_back], test)


def _touches(windows: Windows, positions: Integers, first: int, last: int) -> NDArray[np.bool_]:
    """Which windows lie in the block ``first .. last`` or share a sample with one that does."""
    trial = windows.trial
    inside = (positions >= first) & (positions <= last)
    before = (positions < first) & (positions >= first - windows.span) & (trial[positions] == trial[first])
    after = (positions > last) & (positions <= last + windows.span) & (trial[positions] == trial[last])
    return np.asarray(inside | before | after)


def _spread_blocks(count: int) -> NDArray[np.bool_]:
    """(count,): true in ``VALIDATION_BLOCKS`` stretches that hold ``VALIDATION_SHARE``, or one each."""
    spread = np.zeros(count, np.bool_)
    for part in np.array_split(np.arange(count), VALIDATION_BLOCKS):
        size = max(1, round(VALIDATION_SHARE * len(part)))
        start = (len(part) - size) // 2
        spread[part[start : start + size]] = True
    return spread
