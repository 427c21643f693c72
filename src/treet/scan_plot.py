"""The picture of a scan over lags, in the look of all other pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from treet.errors import TreetError
from treet.plots import INK, LOOKS, MUTED, add_legend, add_title, prepared_axes, short_direction
from treet.results import percent

if TYPE_CHECKING:
    from treet.lag_scan import ScanCell, ScanResult

MARKERS = tuple(marker for _, marker in LOOKS)
Look = tuple[tuple[float, ...] | str, str]


def plot_scan(result: ScanResult, ax: Axes | None = None) -> Axes:
    """The value over the parameter that varies most, one line for each choice of the others.

    Vertical bars are the intervals; a ring marks the largest value.
    """
    return plot_scans([result], ax)


def plot_scans(results: Sequence[ScanResult], ax: Axes | None = None) -> Axes:
    """Several scans over the same lags, such as both directions, on one pair of axes."""
    if len({result.unit for result in results}) != 1:
        raise TreetError("The scans to compare must be at least one, all in one unit.")
    ax = prepared_axes(ax)
    lines = scan_lines(results)
    along = varied_most(results)
    for (label, cells), look in zip(lines.items(), _looks(len(lines)), strict=False):
        _draw_line(ax, label, cells, along, look)
    ax.axhline(0, color=MUTED, linewidth=1)
    for result in results:
        _draw_best(ax, result, along, last=result is results[-1])
    ax.set_xlabel(f"{_words(along)} (time steps)")
    ax.set_ylabel(f"transfer entropy ({results[0].unit})")
    add_title(ax, " and ".join(dict.fromkeys(short_direction(result) for result in results)))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    add_legend(ax)
    return ax


def varied_most(results: Sequence[ScanResult]) -> str:
    """The parameter of the lags with most values."""
    varying = results[0].varying() or {"delay": []}
    return max(varying, key=lambda name: len(varying[name]))


def scan_lines(results: Sequence[ScanResult]) -> dict[str, list[ScanCell]]:
    """The cells of each line of the picture by the line's label, in the order of what varies most."""
    along = varied_most(results)
    others = [name for name in results[0].varying() if name != along]
    lines: dict[str, list[ScanCell]] = {}
    for result in results:
        for cell in result.cells:
            words = [f"{_words(name)} {getattr(cell.lags, name)}" for name in others]
            label = ", ".join([*([short_direction(result)] if len(results) > 1 else []), *words])
            lines.setdefault(label or "transfer entropy", []).append(cell)
    for cells in lines.values():
        cells.sort(key=lambda cell: int(getattr(cell.lags, along)))
    return lines


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


def _draw_best(ax: Axes, result: ScanResult, along: str, last: bool) -> None:
    best = result.best
    label = f"largest: {best.te:.4g} {result.unit}"
    if last and best.interval is not None:
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
