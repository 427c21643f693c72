"""The course of an optimisation as a picture, in the visual language of ``treet.plots``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from treet.errors import TreetError
from treet.results import NATS_PER

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from treet.capacity.result import CapacityResult

POINTS = 100
"""Means over stretches of rounds: single rounds are noisy."""


def plot_capacity(result: CapacityResult, ax: Axes | None = None) -> Axes:
    """The value of each round, the value of the result with its interval, the exact one and the ceiling."""
    from treet import plots

    if result.history is None:
        raise TreetError("This result has no training history to plot.")
    ax = plots.prepared_axes(ax)
    rounds, values = _course(result)
    ax.plot(rounds, values, color=plots.ESTIMATE, linewidth=1.3, label="in training")
    low, high = result.interval
    ax.axhspan(low, high, color=plots.OTHER, alpha=0.3, linewidth=0)
    ax.axhline(result.value, color=plots.OTHER, linewidth=1.6, linestyle=(0, (6, 2)), label="on fresh data")
    for name, level, style in (("exact", result.exact, "-"), ("ceiling", result.ceiling, ":")):
        if level is not None:
            ax.axhline(level, color=plots.INK, linewidth=1, linestyle=style, label=name)
    ax.set_xlabel("round")
    ax.set_ylabel(f"transfer entropy ({result.unit})")
    plots.add_title(ax, f"Capacity of {result.channel}")
    plots.add_legend(ax)
    return ax


def _course(result: CapacityResult) -> tuple[list[float], list[float]]:
    assert result.history is not None
    cuts = np.arange(0, len(result.history.step), max(1, len(result.history.step) // POINTS))[1:]
    scale = -1 / NATS_PER[result.unit]
    steps, values = (np.array(part) for part in (result.history.step, result.history.validation))
    return (
        [float(part.mean()) for part in np.split(steps, cuts)],
        [scale * float(part.mean()) for part in np.split(values, cuts)],
    )
