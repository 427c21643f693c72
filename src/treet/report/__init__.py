"""One self-contained HTML page: the answer first, then the picture, then how it was found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from treet.errors import TreetError
from treet.files import write_text
from treet.plots import plot_both, plot_history, plot_result, plot_series
from treet.report import page, words
from treet.results import TransferEntropyResult

if TYPE_CHECKING:
    from treet.data import Recording

__all__ = ["write_report"]

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
    All text that comes from data is escaped; the page loads nothing, and runs only a script of its own.
    """
    if not results:
        raise TreetError("A report needs at least one result. Got none.")
    title = f"Transfer entropy: {'; '.join(result.direction for result in results)}"
    doubts = [(result.direction, doubt) for result in results for doubt in words.doubts(result)]
    calls = command or "\n".join(map(words.python_call, results))
    sections = [
        *(_answer(result) for result in results),
        _pictures(results, series),
        page.section("How it was estimated", _facts_table(results)),
        page.section("What to keep in mind", page.cautions(doubts, CAUTION)),
        page.section("Training", _diagnostics(results)),
        page.section("To repeat this", page.repeat(calls)),
    ]
    write_text(path, page.page(title, "Transfer entropy", sections))


def _answer(result: TransferEntropyResult) -> str:
    direction, amount, sure = words.answer(result)
    return page.answer(f"{direction} carries", amount, sure, words.meaning(result))


def _pictures(results: Sequence[TransferEntropyResult], series: Recording | None) -> str:
    drawn = []
    if len(results) > 1:
        drawn.append(page.figure(plot_both(results), "The directions beside each other."))
    for result in results:
        if result.local is not None or len(results) == 1:
            drawn.append(page.figure(plot_result(result), _caption(result)))
        if result.local is not None:
            drawn.append(_explorer(result))
    if series is not None:
        drawn.append(page.figure(plot_series(series), "The start of the series themselves."))
    return "\n".join(drawn)


def _caption(result: TransferEntropyResult) -> str:
    if result.local is None:
        return f"The value of {result.direction}."
    return f"Where in time {result.direction} carries information."


def _explorer(result: TransferEntropyResult) -> str:
    local = np.concatenate(result.local or ())
    caption = f"{result.direction} time step by time step, to zoom into."
    return page.explorer(local, f"local transfer entropy {result.direction}", result.unit, caption)


def _facts_table(results: Sequence[TransferEntropyResult]) -> str:
    columns = [words.facts(result) for result in results]
    names = dict.fromkeys(name for column in columns for name in column)
    rows = [(name, *(column.get(name, "") for column in columns)) for name in names]
    return page.table(("", *(result.direction for result in results)), rows)


def _diagnostics(results: Iterable[TransferEntropyResult]) -> str:
    trained = [result for result in results if result.history]
    return "\n".join(page.figure(plot_history(result), _converged(result)) for result in trained)


def _converged(result: TransferEntropyResult) -> str:
    done = sum(history.converged for history in result.history)
    return f"{result.direction}: the loss of {done} of {len(result.history)} networks had settled in the end."
