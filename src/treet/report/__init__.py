"""One self-contained HTML page: the answer first, then the picture, then how it was found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.axes import Axes

from treet.errors import TreetError
from treet.files import write_text
from treet.plots import (
    ESTIMATE,
    INK,
    MUTED,
    OTHER,
    RULE,
    VIOLET,
    figure_of,
    plot_both,
    plot_history,
    plot_result,
    plot_series,
    svg_text,
)
from treet.report.words import answer, doubts, facts, meaning, python_call
from treet.results import TransferEntropyResult
from treet.versions import versions

if TYPE_CHECKING:
    from treet.data import Recording

__all__ = ["write_report"]

# The page's own colours take the place of the picture's, so that pictures follow light and dark.
VARIABLES = {
    ESTIMATE: "--estimate",
    OTHER: "--other",
    VIOLET: "--violet",
    INK: "--ink",
    MUTED: "--muted",
    RULE: "--rule",
}
# Nothing is fetched and nothing runs, whatever the data's names contain.
POLICY = "default-src 'none'; style-src 'unsafe-inline'"
CAUTION = (
    "Transfer entropy says how much the past of the source improves a prediction of the target that already "
    "knows the target's own past. It is not proof of a cause: a third series that drives both can produce "
    "it. Estimates can fall below zero by chance; they are not cut off, so that their intervals stay honest."
)


def write_report(
    results: Sequence[TransferEntropyResult],
    path: str | Path,
    command: str | None = None,
    series: Recording | None = None,
) -> None:
    """Write one HTML file that opens offline, for one result or several to compare.

    ``command`` is what repeats it, by default the Python call; ``series`` is shown where it is given.
    All text that comes from data is escaped, and the page forbids the browser to load or run anything.
    """
    if not results:
        raise TreetError("A report needs at least one result. Got none.")
    title = f"Transfer entropy: {'; '.join(result.direction for result in results)}"
    sections = [
        _answers(results),
        _pictures(results, series),
        _section("How it was estimated", _facts_table(results)),
        _section("What to keep in mind", _doubts(results)),
        _diagnostics(results),
        _section("To repeat this", _repeat(results, command)),
    ]
    write_text(path, _page(title, "\n".join(sections)))


def _page(title: str, body: str) -> str:
    style = files("treet.report").joinpath("style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<h1>Transfer entropy</h1>\n{body}\n</body>\n</html>\n"
    )


def _section(heading: str, body: str) -> str:
    return f"<section>\n<h2>{escape(heading)}</h2>\n{body}\n</section>"


def _answers(results: Iterable[TransferEntropyResult]) -> str:
    return "\n".join(_answer(result) for result in results)


def _answer(result: TransferEntropyResult) -> str:
    direction, amount, sure = (escape(part) for part in answer(result))
    return (
        f'<p class="answer">{direction} carries <strong>{amount}</strong>{sure}</p>\n'
        f'<p class="meaning">{escape(meaning(result))}</p>'
    )


def _pictures(results: Sequence[TransferEntropyResult], series: Recording | None) -> str:
    drawn = [] if len(results) == 1 else [_figure(plot_both(results), "The directions beside each other.")]
    drawn += [
        _figure(plot_result(result), _caption(result))
        for result in results
        if result.local is not None or len(results) == 1
    ]
    if series is not None:
        drawn.append(_figure(plot_series(series), "The start of the series themselves."))
    return "\n".join(drawn)


def _caption(result: TransferEntropyResult) -> str:
    if result.local is None:
        return f"The value of {result.direction}."
    return f"Where in time {result.direction} carries information."


def _figure(axes: Axes, caption: str) -> str:
    words = escape(caption)
    drawing = svg_text(figure_of(axes)).replace("<svg ", f'<svg role="img" aria-label="{words}" ', 1)
    picture = f'<div class="wide">{_recoloured(drawing)}</div>'
    return f"<figure>\n{picture}\n<figcaption>{words}</figcaption>\n</figure>"


def _recoloured(drawing: str) -> str:
    for colour, variable in VARIABLES.items():
        drawing = re.sub(f"(fill|stroke): {colour}", rf"\1: var({variable})", drawing)
    return drawing


def _facts_table(results: Sequence[TransferEntropyResult]) -> str:
    columns = [facts(result) for result in results]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [(name, *(column.get(name, "") for column in columns)) for name in names]
    return _table(("", *(result.direction for result in results)), rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = (
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>"
        for row in rows
    )
    body = "\n".join(lines)
    return (
        f'<div class="wide"><table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'
    )


def _doubts(results: Sequence[TransferEntropyResult]) -> str:
    found = [
        f'<p class="alert"><strong>{escape(result.direction)}</strong>: {escape(doubt)}</p>'
        for result in results
        for doubt in doubts(result)
    ]
    found = found or ["<p>Nothing went wrong on the way.</p>"]
    return "\n".join([*found, f'<p class="note">{escape(CAUTION)}</p>'])


def _diagnostics(results: Iterable[TransferEntropyResult]) -> str:
    trained = [result for result in results if result.history]
    if not trained:
        return ""
    return _section(
        "Training", "\n".join(_figure(plot_history(result), _converged(result)) for result in trained)
    )


def _converged(result: TransferEntropyResult) -> str:
    done = sum(history.converged for history in result.history)
    return f"{result.direction}: the loss of {done} of {len(result.history)} networks had settled in the end."


def _repeat(results: Sequence[TransferEntropyResult], command: str | None) -> str:
    lines = command or "\n".join(python_call(result) for result in results)
    return f"<pre>{escape(lines)}</pre>\n{_table(('with', 'version'), list(versions().items()))}"
