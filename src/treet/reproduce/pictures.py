"""Pictures of the experiments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from treet.plots import INK, MUTED, WIDTH

if TYPE_CHECKING:
    from treet.reproduce.te_benchmark import TeBenchmark

COLOURS = "cividis_r"  # light is good; even in grey and for every colour vision
LEAST_ERROR, MOST_ERROR = 0.001, 1.0
COLUMNS = 2


def error_maps(benchmark: TeBenchmark) -> Figure:
    """A map for each method: the absolute error in nats by threshold and memory, a number in every cell."""
    methods = benchmark.methods
    lines = math.ceil(len(methods) / COLUMNS)
    figure = Figure(figsize=(1.6 * WIDTH, 0.6 + 3.1 * lines), layout="constrained")
    axes = figure.subplots(lines, COLUMNS, squeeze=False).ravel()
    scale = LogNorm(LEAST_ERROR, MOST_ERROR, clip=True)
    for ax, method in zip(axes, methods, strict=False):
        _error_map(ax, method, benchmark.of(method), scale)
    for ax in axes[len(methods) :]:
        ax.set_visible(False)
    colours = figure.colorbar(ScalarMappable(scale, COLOURS), ax=list(axes), shrink=0.6, extend="both")
    colours.set_label("absolute error (nats)", color=INK)
    return figure


def _error_map(ax: Axes, method: str, rows: Sequence[dict[str, Any]], scale: LogNorm) -> None:
    memories, thresholds = (sorted({row[name] for row in rows}) for name in ("memory", "threshold"))
    errors = np.full((len(memories), len(thresholds)), np.nan)
    for row in rows:
        place = memories.index(row["memory"]), thresholds.index(row["threshold"])
        errors[place] = abs(row["te"] - row["exact"])
        colour = "white" if scale(max(errors[place], LEAST_ERROR)) > 0.55 else INK
        ax.text(*place[::-1], f"{row['te']:.3f}", ha="center", va="center", fontsize=7.5, color=colour)
    ax.imshow(np.maximum(errors, LEAST_ERROR / 10), norm=scale, cmap=COLOURS, aspect="auto")
    ax.set_xticks(range(len(thresholds)), labels=[str(threshold) for threshold in thresholds])
    ax.set_yticks(range(len(memories)), labels=[str(memory) for memory in memories])
    ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=9, length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("threshold", color=INK, fontsize=9)
    ax.set_ylabel("memory", color=INK, fontsize=9)
    ax.set_title(
        f"{method}: x -> y, estimates in nats", loc="left", color=INK, fontsize=10, fontweight="bold"
    )
