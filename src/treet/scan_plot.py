"""The picture of a scan over lags, in the look of all other pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from treet.plots import INK, LOOKS, MUTED, add_legend, add_title, listed, prepared_axes
from treet.results import percent

if TYPE_CHECKING:
    from treet.lag_scan import ScanCell, ScanResult

MARKERS = tuple(marker for _, marker in LOOKS)
Look = tuple[tuple[float, ...] | str, str]


def plot_scan(result: ScanResult, ax: Axes | None = None) -> Axes:
    """The value over the parameter that varies most, one line for each choice of the others.

    Vertical bars are the intervals; a ring marks the largest value.
    """
    ax = prepared_axes(ax)
    varying = result.varying() or {"delay": []}
    along, *others = sorted(varying, key=lambda name: -len(varying[name]))
    lines: dict[str, list[ScanCell]] = {}
    for cell in result.cells:
        label = ", ".join(f"{_words(name)} {getattr(cell.lags, name)}" for name in others)
        lines.setdefault(label or "transfer entropy", []).append(cell)
    for (label, cells), look in zip(lines.items(), _looks(len(lines)), strict=False):
        _draw_line(ax, label, sorted(cells, key=lambda cell: getattr(cell.lags, along)), along, look)
    _draw_best(ax, result, along)
    ax.set_xlabel(f"{_words(along)} (time steps)")
    ax.set_ylabel(f"transfer entropy ({result.unit})")
    names = f"{listed(result.source)} -> {listed(result.target)}"
    add_title(ax, f"{names} | {listed(result.condition)}" if result.condition else names)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    add_legend(ax)
    return ax


def _words(name: str) -> str:
    return name.replace("_", " ")


def _looks(count: int) -> Iterator[Look]:
    """Colours and markers for lines: the common ones while they suffice, else from dark to light."""
    if count <= len(LOOKS):
        return iter(LOOKS)
    shades = colormaps["viridis"](np.linspace(0, 0.9, count))
    return zip(map(tuple, shades), cycle(MARKERS), strict=False)


def _draw_line(ax: Axes, label: str, cells: Sequence[ScanCell], along: str, look: Look) -> None:
    colour, marker = look
    at = [getattr(cell.lags, along) for cell in cells]
    values = [cell.te for cell in cells]
    ax.plot(at, values, color=colour, marker=marker, markersize=5, linewidth=1.3, label=label)
    bars = [(place, *cell.interval) for place, cell in zip(at, cells, strict=True) if cell.interval]
    if bars:
        ax.vlines(*np.array(bars).T, color=colour, linewidth=2, alpha=0.45)


def _draw_best(ax: Axes, result: ScanResult, along: str) -> None:
    ax.axhline(0, color=MUTED, linewidth=1)
    best = result.best
    label = f"largest: {best.te:.4g} {result.unit}"
    if best.interval is not None:
        label += f", bars: {percent(result.confidence)} interval"
    ax.plot(
        [getattr(best.lags, along)],
        [best.te],
        linestyle="none",
        marker="o",
        markersize=12,
        markerfacecolor="none",
        markeredgecolor=INK,
        label=label,
    )
