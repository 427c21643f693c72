"""Pictures of the capacity experiments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from treet.plots import (
    ESTIMATE,
    INK,
    LOOKS,
    MUTED,
    OTHER,
    VIOLET,
    WIDTH,
    add_legend,
    add_title,
    prepared_axes,
)
from treet.reproduce.capacity import CURVES, Capacities, published_capacity
from treet.reproduce.memory import SHOWN, ByMemory, judged
from treet.reproduce.runs import Row

TITLES = {"awgn": "White noise", "ma": "Moving average", "ar": "Autoregressive"}
COLUMNS = 2


def capacity_picture(found: Capacities) -> Figure:
    """A panel a channel: exact curve, estimates and published figures by signal to noise ratio."""
    curves = [(name, feedback) for name, feedback in CURVES if _curve(found, name, feedback)]
    lines = math.ceil((len(curves) + 1) / COLUMNS)
    figure = Figure(figsize=(1.5 * WIDTH, 3.6 * lines), layout="constrained")
    axes = figure.subplots(lines, COLUMNS, squeeze=False).ravel()
    for ax, (name, feedback) in zip(axes, curves, strict=False):
        title = f"{TITLES[name]}{', feedback' if feedback else ''}"
        _curves(ax, _curve(found, name, feedback), "snr_db", "signal to noise ratio (dB)", title)
        ax.set_yscale("log")
    white = [row for row in found.points("gaussian") if row["channel"] == "awgn" and row["snr_db"] == 0]
    _curves(axes[len(curves)], white, "dimension", "dimension", "White noise at 0 dB")
    for ax in axes[len(curves) + 1 :]:
        ax.set_visible(False)
    return figure


def _curve(found: Capacities, name: str, feedback: bool) -> list[Row]:
    return [
        row
        for row in found.points("gaussian")
        if (row["channel"], row["feedback"], row["dimension"]) == (name, feedback, 1)
    ]


def _curves(ax: Axes, rows: list[Row], by: str, label: str, title: str) -> None:
    prepared_axes(ax)
    places = [row[by] for row in rows]
    ax.plot(places, [row["exact"] for row in rows], color=INK, linewidth=1, label="exact")
    ax.plot(places, [row["value"] for row in rows], "o", color=ESTIMATE, markersize=6, label="estimate")
    for method, colour, mark in (("treet", OTHER, "x"), ("dine", VIOLET, "+")):
        known = [(row[by], published_capacity(row, method)) for row in rows]
        shown = [(place, value) for place, value in known if value is not None]
        if shown:
            ax.plot(*zip(*shown, strict=True), mark, color=colour, label=f"published {method.upper()}")
    ax.set_xlabel(label)
    ax.set_ylabel("capacity (nats)")
    add_title(ax, title)
    add_legend(ax)


def map_picture(found: Capacities) -> Figure:
    """The input by the noise that it was made of, and the quantiles of both input and Gaussian."""
    figure = Figure(figsize=(1.5 * WIDTH, 3.8), layout="constrained")
    left, right = (prepared_axes(ax) for ax in figure.subplots(1, 2))
    rows = [row for row in found.of("gaussian") if "map" in row]
    for row, (colour, _) in zip(rows, LOOKS, strict=False):
        _draw_map(left, right, row, colour)
    for ax, label in ((left, "noise, uniform"), (right, "quantile of a Gaussian")):
        ax.set_xlabel(label)
        ax.set_ylabel("input")
        add_legend(ax)
    add_title(left, "White noise at 0 dB: from noise to input")
    add_title(right, "Quantiles of the input")
    return figure


def _draw_map(left: Axes, right: Axes, row: Row, colour: str) -> None:
    noise, x = (np.array(part) for part in row["map"])
    quantiles = norm.ppf((np.arange(len(x)) + 0.5) / len(x))
    label = f"seed {row['seed']}, p = {row['normal_p']:.2f}"
    left.plot(noise, x, ".", color=colour, markersize=2, label=label)
    right.plot(quantiles, np.sort(x), ".", color=colour, markersize=2, label=label)
    right.plot(quantiles[[0, -1]], quantiles[[0, -1]] * np.std(x), color=INK, linewidth=0.8, label="Gaussian")


def memory_picture(found: ByMemory) -> Figure:
    """Estimates, ceiling, capacity and published figures by memory."""
    figure = Figure(figsize=(WIDTH, 3.8), layout="constrained")
    ax = prepared_axes(figure.subplots())
    rows = sorted(found.rows, key=lambda row: int(row["memory"]))
    memories = [row["memory"] for row in rows]
    ax.plot(memories, [row["ceiling"] for row in rows], color=INK, drawstyle="steps-post", label="ceiling")
    ax.axhline(rows[0]["exact"], color=MUTED, linewidth=1, linestyle=":", label="capacity")
    ax.plot(memories, [row["value"] for row in rows], "o", color=ESTIMATE, label="estimate")
    verdicts = [judged(row) for row in rows]
    for name, colour, mark in (("published", OTHER, "x"), ("published_dine", VIOLET, "+")):
        known = [math.nan if verdict[name] is None else verdict[name] for verdict in verdicts]
        label = "published TREET" if name == "published" else "published DINE"
        ax.plot(memories, known, mark, color=colour, label=label)
    ax.set_xlabel("memory")
    ax.set_ylabel("transfer entropy (nats)")
    add_title(ax, "Noise that comes back after 100 steps")
    add_legend(ax)
    return figure


def weights_picture(found: ByMemory) -> Figure:
    """How strongly the density of the output reacts to each past step."""
    shown: list[Any] = [row for row in map(found.at, SHOWN) if row is not None]
    figure = Figure(figsize=(WIDTH, 2.8 * len(shown)), layout="constrained")
    for ax, row in zip(figure.subplots(len(shown), 1, sharey=True, squeeze=False)[:, 0], shown, strict=True):
        prepared_axes(ax)
        weights = np.array(row["influence"])[:-1][::-1]
        ax.bar(np.arange(1, len(weights) + 1), weights, color=ESTIMATE, width=1.0)
        ax.set_xlabel("lag")
        ax.set_ylabel("influence")
        add_title(ax, f"Memory {row['memory']}: the largest at lag {row['peak_lag']}")
    return figure
