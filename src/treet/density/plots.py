"""Fan charts of conditional densities, in the visual language of the other pictures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from treet.checks import check_whole
from treet.density.conditional import ConditionalDensity
from treet.density.univariate import Floats, Rows
from treet.errors import TreetError
from treet.plots import ESTIMATE, INK, add_legend, add_title, prepared_axes
from treet.results import percent

BANDS = (0.95, 0.8, 0.5)
"""Levels of the central intervals, the widest first."""

FIRST_STEPS = 200
"""Of the time axis: more, and the bands run together."""

EDGE, POINTS = 1e-3, 400
"""Of a single density: the probability beyond each end of the curve, and points on it."""


def plot_density(density: ConditionalDensity, ax: Axes | None = None, channel: int = 0) -> Axes:
    """The median and central intervals of one target channel over time, with what came true.

    Of a longer density the first ``FIRST_STEPS`` steps are drawn; ``density[steps]`` chooses others. Where a
    time step has no density, the bands are broken.
    """
    if check_whole("channel", channel, 0) >= len(density.names):
        raise TreetError(f"channel must be below {len(density.names)}. Got {channel} instead.")
    shown = density[:FIRST_STEPS]
    levels = [0.5, *(0.5 + sign * band / 2 for band in BANDS for sign in (-1, 1))]
    found = shown.quantile(np.array(levels)).reshape(len(levels), len(shown), -1)[..., channel]
    observed = shown.observed.reshape(len(shown), -1)[:, channel]
    time = np.arange(shown.positions[0], shown.positions[-1] + 1)
    median, *ends, observed = (_spread(values, shown, time) for values in (*found, observed))
    ax = prepared_axes(ax)
    for place, band in enumerate(BANDS):
        low, high = ends[2 * place : 2 * place + 2]
        shade, label = 0.14 + 0.1 * place, f"{percent(band)} of the density"
        ax.fill_between(time, low, high, color=ESTIMATE, alpha=shade, linewidth=0, label=label)
    ax.plot(time, median, color=ESTIMATE, linewidth=1.3, label="median")
    ax.plot(time, observed, color=INK, linestyle="", marker=".", markersize=4, label="observed")
    name = density.names[channel]
    ax.set_xlabel("time step")
    ax.set_ylabel(name.replace("$", r"\$"))
    add_title(ax, f"{name} given the past")
    ax.margins(x=0.01)
    add_legend(ax)
    return ax


def _spread(values: Floats, density: ConditionalDensity, time: Rows) -> Floats:
    """(time,), NaN where a time step has no density."""
    line = np.full(len(time), np.nan)
    line[density.positions - time[0]] = values
    return line


def plot_one(
    density: ConditionalDensity, quantiles: Sequence[float], time: int, ax: Axes | None = None
) -> Axes:
    """The density of a single time step, with its quantiles and what came true."""
    low, high = (float(density.quantile(level)[0]) for level in (EDGE, 1 - EDGE))
    y = np.linspace(low, high, POINTS)
    values = density.pdf(y[:, None])[:, 0]
    ax = prepared_axes(ax)
    ax.plot(y, values, color=ESTIMATE, linewidth=1.5, label="density")
    ax.fill_between(y, 0, values, color=ESTIMATE, alpha=0.14, linewidth=0)
    levels = ", ".join(percent(level) for level in quantiles)
    places = density.quantile(np.array(quantiles))[:, 0]
    heights = density.pdf(places[:, None])[:, 0]
    ax.vlines(places, 0, heights, color=ESTIMATE, linewidth=1, label=f"quantiles {levels}")
    ax.axvline(float(density.observed[0]), color=INK, linewidth=1.3, linestyle="--", label="observed")
    name = density.names[0]
    ax.set_xlabel(name.replace("$", r"\$"))
    ax.set_ylabel("density")
    ax.set_ylim(bottom=0)
    add_title(ax, f"{name} given the past, at time step {time}")
    add_legend(ax)
    return ax
