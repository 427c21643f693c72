"""What the density experiments write: a table, a page and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure

from treet.files import write_text
from treet.plots import (
    ESTIMATE,
    INK,
    MUTED,
    OTHER,
    VIOLET,
    WIDTH,
    add_legend,
    add_title,
    prepared_axes,
    save_figure,
)
from treet.reproduce.density import (
    CONTEXTS,
    DELAY_LIMIT,
    LEAST_P,
    LIMIT,
    MODELS,
    DensityBenchmark,
    Summary,
)
from treet.reproduce.runs import Row
from treet.reproduce.tables import markdown_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LEGEND = """\
The state of a hidden Markov process is not seen; each model gives the density of the next value from past
ones. KL and TV are the divergence and the total variation from the true density given the state to the
model's, in nats, on data that no model was trained on. No model can have less KL than the optimum, the exact
density given the same past: a model's own error is what it has above it, with a 95% interval over the trials
(of a single trial, over its time steps). **Bold** is at most {limit:g} nats above the optimum. Seconds are
those of a fit. *p* is the median p-value of the test that the probability integral transform is uniform, with
the number of trials below {least:g} behind it: of exact densities one in a hundred is.

The Kalman filter has the true parameters, sees the whole past and takes all noise for Gaussian; its optimum
is that of the whole past.

*Paper*: the KL and TV that the paper prints. They are not comparable. Under the parameters that it states
the exact filter, which nothing can beat, has far less than any of them, and most are above what a Gaussian
that knows nothing of the past would have. They fit a true density with a quarter of the noise variance that
the data have. They are shown as they are, and nothing here was fitted to them.
"""

COLOURS = {"treet": ESTIMATE, "flow": VIOLET, "kalman": OTHER}
"""Of the models whose densities are drawn."""

MARKERS = dict(zip(MODELS, "osv^DPX", strict=True))
LINEAR_TO = 1e-3
"""Excess up to which the axis is linear."""


def write_density(benchmark: DensityBenchmark, folder: str | Path) -> tuple[Path, ...]:
    """``density.csv``, ``.md`` and ``.png``, or ``density-delay``, in ``folder``."""
    table, page, picture = (Path(folder) / f"{benchmark.label}{ending}" for ending in (".csv", ".md", ".png"))
    write_text(table, benchmark.to_frame().to_csv(index=False))
    write_text(page, density_markdown(benchmark))
    save_figure(density_picture(benchmark), picture)
    return table, page, picture


def density_markdown(benchmark: DensityBenchmark) -> str:
    """The legend, then a table for each noise or delay: a row a model."""
    summaries = benchmark.summaries()
    limit = DELAY_LIMIT if summaries[0].delay else LIMIT
    parts = ["# Densities of a hidden Markov process\n", LEGEND.format(limit=limit, least=LEAST_P)]
    for setting in dict.fromkeys(one.setting for one in summaries):
        of_setting = [one for one in summaries if one.setting == setting]
        parts += [f"## {setting.capitalize()}, memory {of_setting[0].memory}\n", _table(of_setting), ""]
    return "\n".join(parts)


def _table(summaries: Sequence[Summary]) -> str:
    header = [
        "model",
        "trials",
        "KL",
        "above the optimum",
        "TV",
        "above the optimum",
        "seconds",
        "p",
        "paper",
    ]
    best = next((one for one in summaries if one.model != "kalman"), summaries[0])
    optimum = ["optimum", "", f"{best.optimum_kl:.4f}", "", f"{best.optimum_tv:.4f}", "", "", "", ""]
    return markdown_table(header, [optimum, *map(_cells, summaries)])


def _cells(one: Summary) -> list[str]:
    low, high = one.interval
    excess = f"{one.excess_kl:.5f}"
    return [
        one.model,
        str(one.trials),
        f"{one.kl:.4f}",
        f"{f'**{excess}**' if one.within else excess} ({low:.5f} .. {high:.5f})",
        f"{one.tv:.4f}",
        f"{one.excess_tv:.5f}",
        f"{one.seconds:.1f}",
        f"{one.pit_p:.2g} ({one.uncalibrated})",
        "" if one.published is None else f"{one.published[0]:.3f}, {one.published[1]:.3f}",
    ]


def density_picture(benchmark: DensityBenchmark) -> Figure:
    """Densities after three pasts, estimated and exact, and below the excess of every model."""
    drawn = _drawn(benchmark)
    figure = Figure(figsize=(1.5 * WIDTH, 2.6 * len(drawn) + 4.2), layout="constrained")
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=[2.6 * len(drawn), 4.2])[:, 0]
    grid = above.subplots(len(drawn), len(CONTEXTS), squeeze=False)
    for axes, (setting, rows) in zip(grid, drawn.items(), strict=True):
        for number, ax in enumerate(axes):
            _draw_context(ax, number, rows)
            ax.set_title(f"{setting}, context {number + 1}", loc="left", color=INK, fontsize=9)
    grid[-1, 0].legend(fontsize=8, frameon=False, labelcolor=INK)
    _draw_excess(below.subplots(), benchmark.summaries())
    return figure


def _drawn(benchmark: DensityBenchmark) -> dict[str, list[Row]]:
    """The rows whose curves are drawn, by setting: both noises, or the shortest and the longest delay."""
    found: dict[str, list[Row]] = {}
    for row in benchmark.rows:
        if row["curves"] is not None and row["model"] in COLOURS:
            name = f"delay {row['delay']}" if row["delay"] else f"{row['noise']} noise"
            found.setdefault(name, []).append(row)
    names = list(found)
    return {name: found[name] for name in dict.fromkeys((names[0], names[-1]))}


def _draw_context(ax: Axes, number: int, rows: Sequence[Row]) -> None:
    prepared_axes(ax)
    curves = rows[0]["curves"]
    ax.plot(curves["y"], curves["exact"][number], color=INK, linewidth=2.4, alpha=0.45, label="exact")
    for row in rows:
        colour, style = COLOURS[row["model"]], "--" if row["model"] == "kalman" else "-"
        values = row["curves"]["model"][number]
        ax.plot(row["curves"]["y"], values, color=colour, linestyle=style, linewidth=1.2, label=row["model"])
    ax.set_xlabel("y")
    ax.set_ylabel("density")


def _draw_excess(ax: Axes, summaries: Sequence[Summary]) -> None:
    prepared_axes(ax)
    settings = list(dict.fromkeys(one.setting for one in summaries))
    for place, (model, marker) in enumerate(MARKERS.items()):
        chosen = [one for one in summaries if one.model == model]
        if not chosen:
            continue
        at = np.array([settings.index(one.setting) for one in chosen]) + 0.09 * (place - len(MARKERS) / 2)
        value = np.array([one.excess_kl for one in chosen])
        ends = np.abs(np.array([one.interval for one in chosen]).T - value)
        colour = COLOURS.get(model, MUTED)
        ax.errorbar(at, value, ends, color=colour, marker=marker, linestyle="", capsize=3, label=model)
    limit = DELAY_LIMIT if summaries[0].delay else LIMIT
    ax.axhline(limit, color=INK, linewidth=1, linestyle=":", label=f"aim: {limit:g}")
    ax.set_yscale("symlog", linthresh=LINEAR_TO)
    ax.set_xticks(range(len(settings)), labels=settings)
    ax.set_ylabel("KL above the optimum (nats)")
    add_title(ax, "What each model loses against the exact density")
    add_legend(ax)
