"""Pictures of results: one visual language, units and direction on every axis.

Every function draws on the axes that it is given, or on a new figure of its own, and returns the axes.
Nothing touches pyplot, so no window opens and no figure stays behind. Colours are told apart by lightness as
well, and line styles and markers differ, so that pictures can be read in grey and by colour-blind readers.
"""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from treet.errors import TreetError
from treet.files import write_bytes
from treet.results import TransferEntropyResult, direction, percent

if TYPE_CHECKING:
    from treet.data import Recording
    from treet.lag_scan import ScanResult
    from treet.training import History

Floats = NDArray[np.float64]

ESTIMATE, OTHER = "#0072b2", "#d55e00"  # blue and vermilion: far apart for every common colour vision
VIOLET = "#cc79a7"
INK, MUTED, RULE = "#1f2328", "#656d76", "#d0d7de"
ENDINGS = (".png", ".svg", ".pdf")
WIDTH = 7.2  # inches
MOST_POINTS = 160  # more than this, and single time steps hide the course: means over several are drawn
MOST_TRIALS = 24  # more than this, and the lines between trials hide the rest
FIRST_STEPS = 300  # of a series: enough to see its shape
ROW_LETTERS, TITLE_LETTERS = 26, 50  # in a line of a row's name and of a title
MOST_LETTERS = 24  # of the names of a role: longer lists are shortened
NO_METADATA = dict.fromkeys(("Date", "Creator", "Format", "Type"))
METADATA = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}  # the same picture, the same file
LOOKS = ((ESTIMATE, "o"), (OTHER, "s"), (INK, "^"), (VIOLET, "D"))


def plot_result(result: TransferEntropyResult, ax: Axes | None = None) -> Axes:
    """Local transfer entropy over time, with the value and its interval as a band.

    Long recordings are drawn as means over equal stretches of time, with the middle 80% of the local values
    shaded. Trials stand one after another. A result without local values is drawn as its value alone.
    """
    if result.local is None:
        return plot_both([result], ax)
    ax = prepared_axes(ax)
    _draw_local(ax, np.concatenate(result.local))
    edges = np.cumsum([len(trial) for trial in result.local])[:-1]
    for edge in edges if len(edges) < MOST_TRIALS else ():
        ax.axvline(edge, color=MUTED, linewidth=0.8, linestyle=":")
    _draw_value(ax, result)
    ax.set_xlabel("time step" + (" (trials one after another)" if len(result.local) > 1 else ""))
    ax.set_ylabel(f"local transfer entropy ({result.unit})")
    add_title(ax, short_direction(result))
    ax.margins(x=0.01)
    add_legend(ax)
    return ax


def plot_both(results: Sequence[TransferEntropyResult], ax: Axes | None = None) -> Axes:
    """The values of several results, one row a direction, each with its interval."""
    if len({result.unit for result in results}) != 1:
        raise TreetError("The results to compare must be at least one, all in one unit. Use to_unit() first.")
    ax = prepared_axes(ax, height=1.5 + 0.55 * len(results))
    for row, result in enumerate(results):
        _draw_row(ax, row, result)
    ax.axvline(0, color=MUTED, linewidth=1)
    ax.set_yticks(
        range(len(results)), labels=[_lines(short_direction(result), ROW_LETTERS) for result in results]
    )
    ax.set_ylim(len(results) - 0.4, -0.6)
    ax.margins(x=0.12)
    ax.grid(visible=False, axis="y")
    levels = sorted({percent(result.confidence) for result in results if result.interval is not None})
    interval = f", with {' and '.join(levels)} interval" if levels else ""
    ax.set_xlabel(f"transfer entropy ({results[0].unit}){interval}")
    return ax


def plot_history(result: TransferEntropyResult, ax: Axes | None = None) -> Axes:
    """How training went: training loss (thin, dashed) and validation loss (thick) of every network."""
    if not result.history:
        raise TreetError(
            f"The estimator {result.estimator!r} does not train, so it has no training history to plot."
        )
    ax = prepared_axes(ax)
    networks = list(dict.fromkeys(_network(history) for history in result.history))
    for history in result.history:
        _draw_history(ax, history, networks.index(_network(history)))
    ax.set_xlabel("training step")
    ax.set_ylabel("loss (nats)")
    add_title(ax, f"Training for {short_direction(result)}")
    add_legend(ax)
    return ax


def plot_series(recording: Recording, ax: Axes | None = None) -> Axes:
    """The first time steps of the first trial, one row a channel, each drawn over its own range."""
    shown = recording.trials[0][:FIRST_STEPS]
    ax = prepared_axes(ax, height=1.2 + 0.6 * len(recording.names))
    for row, values in enumerate(np.where(np.isfinite(shown), shown, np.nan).T):
        low, high = (0.0, 1.0) if np.isnan(values).all() else (np.nanmin(values), np.nanmax(values))
        ax.plot(row + 0.4 - 0.8 * (values - low) / (high - low or 1.0), color=LOOKS[row % 2][0], linewidth=1)
    names = [_lines(listed([name]), ROW_LETTERS) for name in recording.names]
    ax.set_yticks(range(len(names)), labels=names)
    ax.set_ylim(len(recording.names) - 0.4, -0.6)
    ax.margins(x=0.01)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("time step (each series over its own range)")
    return ax


def plot_results(results: Sequence[TransferEntropyResult]) -> Figure:
    """One figure for everything: the values beside each other, then each direction over time."""
    if len(results) == 1:
        return figure_of(plot_result(results[0]))
    over_time = [result for result in results if result.local is not None]
    heights = [1.5 + 0.55 * len(results), *(3.4 for _ in over_time)]
    figure = Figure(figsize=(WIDTH, sum(heights)), layout="constrained")
    axes = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    plot_both(results, axes[0])
    for result, ax in zip(over_time, axes[1:], strict=True):
        plot_result(result, ax)
    return figure


def check_ending(path: str | Path) -> None:
    """Raise unless ``path`` ends like a picture that can be written."""
    ending = Path(path).suffix.lower()
    if ending not in ENDINGS:
        raise TreetError(f"A picture must end in {', '.join(ENDINGS)}. Got {str(path)!r} instead.")


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the ending of ``path``."""
    check_ending(path)
    kind = Path(path).suffix[1:].lower()
    figure.draw_without_rendering()  # the ticks are final only after a first layout
    picture = io.BytesIO()
    with rc_context({"svg.hashsalt": "treet"}):
        figure.savefig(picture, dpi=150, format=kind, metadata=METADATA.get(kind))
    write_bytes(path, picture.getvalue())


def svg_text(figure: Figure) -> str:
    """The figure as an ``<svg>`` element of an HTML page: text stays text, and nothing points elsewhere.

    The same figure gives the same element.
    """
    buffer = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "treet"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # the browser has its own fonts
        figure.draw_without_rendering()  # the ticks are final only after a first layout
        figure.savefig(buffer, format="svg", transparent=True, metadata=NO_METADATA)
    element = buffer.getvalue()
    element = element[element.index("<svg") :]
    element = re.sub(r' xmlns(:xlink)?="[^"]*"', "", element, count=2)  # HTML knows them
    return re.sub(r'<g id="[^"]*"', "<g", element)  # two pictures on one page must not share names


def figure_of(ax: Axes) -> Figure:
    """The figure that ``ax`` was drawn on."""
    figure = ax.get_figure(root=True)
    if figure is None:
        raise TreetError("These axes were removed from their figure: draw the plot again.")
    return figure


def prepared_axes(ax: Axes | None, height: float = 3.4) -> Axes:
    """``ax``, or the axes of a new figure, with the common look."""
    if ax is None:
        ax = Figure(figsize=(WIDTH, height), layout="constrained").add_subplot()
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(MUTED)
    ax.grid(visible=True, color=RULE, linewidth=0.7)
    ax.set_axisbelow(True)
    ax.tick_params(colors=MUTED, labelcolor=INK, labelsize=9)
    for label in (ax.xaxis.label, ax.yaxis.label):
        label.set(color=INK, fontsize=10)
    return ax


def _plain(text: str) -> str:
    """Names from data are shown as they are: a dollar sign does not start a formula."""
    return text.replace("$", r"\$")


def short_direction(result: TransferEntropyResult | ScanResult) -> str:
    """``source -> target | condition``, with long lists of names shortened."""
    return direction(result.source, result.target, result.condition, listed)


def listed(names: Sequence[str]) -> str:
    together = ", ".join(names)
    if len(together) <= MOST_LETTERS:
        return together
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    room = MOST_LETTERS - len(more)
    return (names[0] if len(names[0]) <= room else f"{names[0][: room - 2]}..") + more


def _lines(text: str, letters: int) -> str:
    return _plain(textwrap.fill(text, letters, break_on_hyphens=False))


def add_title(ax: Axes, text: str) -> None:
    ax.set_title(_lines(text, TITLE_LETTERS), loc="left", color=INK, fontsize=11, fontweight="bold")


def _draw_local(ax: Axes, local: Floats) -> None:
    time = np.arange(len(local), dtype=float)
    stretch = -(-len(local) // MOST_POINTS)
    if stretch == 1:
        ax.plot(time, local, color=ESTIMATE, linewidth=1, marker=".", markersize=3, label="local value")
        return
    cuts = np.arange(stretch, len(local), stretch)
    centres = [part.mean() for part in np.split(time, cuts)]
    low, mean, high = np.array([_summary(part) for part in np.split(local, cuts)]).T
    ax.fill_between(
        centres, low, high, color=ESTIMATE, alpha=0.16, linewidth=0, label="middle 80% of local values"
    )
    ax.plot(centres, mean, color=ESTIMATE, linewidth=1.3, label=f"mean over {stretch} time steps")


def _summary(chunk: Floats) -> tuple[float, float, float]:
    """The 10 % quantile, the mean and the 90 % quantile of the values that are there."""
    there = chunk[np.isfinite(chunk)]
    if not len(there):
        return np.nan, np.nan, np.nan
    low, high = np.quantile(there, [0.1, 0.9])
    return float(low), float(there.mean()), float(high)


def _draw_value(ax: Axes, result: TransferEntropyResult) -> None:
    ax.axhline(0, color=MUTED, linewidth=1)
    label = f"TE = {result.te:.4g} {result.unit}"
    if result.interval is not None:
        low, high = result.interval
        ax.axhspan(low, high, color=OTHER, alpha=0.3, linewidth=0)
        label += f", {percent(result.confidence)} interval {low:.4g} .. {high:.4g}"
    ax.axhline(result.te, color=OTHER, linewidth=1.6, linestyle=(0, (6, 2)), label=label)


def _draw_row(ax: Axes, row: int, result: TransferEntropyResult) -> None:
    colour, marker = LOOKS[row % 2]
    if result.interval is not None:
        low, high = result.interval
        ax.plot(
            [low, high], [row, row], color=colour, linewidth=2, marker="|", markersize=11, markeredgewidth=2
        )
    ax.plot([result.te], [row], color=colour, marker=marker, markersize=7)
    text = f"{result.te:.4g}" + ("" if result.converged else "\nnot converged")
    beside = ax.get_yaxis_transform()
    ax.annotate(
        text, (1, row), (6, 0), beside, textcoords="offset points", va="center", color=INK, fontsize=9
    )


def _network(history: History) -> str:
    """What was trained, without the number of the fold: one look in the picture."""
    return history.label.split(",")[0]


def _draw_history(ax: Axes, history: History, look: int) -> None:
    colour, marker = LOOKS[look % len(LOOKS)]
    name = _plain(_network(history))
    ax.plot(
        history.step, history.train, color=colour, linewidth=0.8, linestyle="--", label=f"{name}, training"
    )
    ax.plot(
        history.step,
        history.validation,
        color=colour,
        linewidth=1.5,
        marker=marker,
        markersize=3.5,
        markevery=max(1, len(history.step) // 8),
        label=f"{name}, validation",
    )


def add_legend(ax: Axes) -> None:
    """A legend below the axes, over no data, with each label once."""
    handles, labels = ax.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    ax.legend(
        once.values(),
        once.keys(),
        loc="upper left",
        bbox_to_anchor=(-0.01, -0.19),
        ncols=2,
        fontsize=8.5,
        frameon=False,
        labelcolor=INK,
        borderaxespad=0,
    )
