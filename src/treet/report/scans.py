"""The page of a scan over lags: the largest value, the curve, the table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from treet.errors import TreetError
from treet.files import write_text
from treet.plots import plot_series
from treet.report import page
from treet.report.words import NOT_SETTLED
from treet.results import percent
from treet.scan_plot import plot_scans, scan_lines, varied_most

if TYPE_CHECKING:
    from treet.data import Recording
    from treet.lag_scan import ScanCell, ScanResult

CAUTION = (
    "The largest of many values tends to be too high, and its interval does not allow for the choice: read "
    "the whole curve, and confirm a delay or a history that was chosen here on other data. p-values are not "
    "corrected for their number. Transfer entropy is not proof of a cause: a third series that drives both "
    "can produce it."
)


def write_scan_report(
    results: Sequence[ScanResult],
    path: str | Path,
    command: str | None = None,
    series: Recording | None = None,
) -> None:
    """Write one HTML file that opens offline, for one scan or several over the same lags."""
    if not results:
        raise TreetError("A report needs at least one scan. Got none.")
    title = f"Scan: {'; '.join(result.direction for result in results)}"
    doubts = [
        (f"{result.direction}, {cell.lags}", doubt)
        for result in results
        for cell in result.cells
        for doubt in _doubts(cell)
    ]
    calls = command or "\n".join(map(_python_call, results))
    sections = [
        *(_answer(result) for result in results),
        _picture(results),
        "" if series is None else page.figure(plot_series(series), "The start of the series themselves."),
        *(page.section(result.direction, _table(result)) for result in results),
        page.section("What to keep in mind", page.cautions(doubts, CAUTION)),
        page.section("To repeat this", page.repeat(calls)),
    ]
    write_text(path, page.page(title, "Transfer entropy by lags", sections))


def _answer(result: ScanResult) -> str:
    amount = f"{result.best.te:.4g} {result.unit}"
    rest = f"{_interval_words(result)}: {result.best.lags}."
    return page.answer(f"{result.direction} is largest with", amount, rest, _meaning(result))


def _interval_words(result: ScanResult) -> str:
    interval = result.best.interval
    return "" if interval is None else f", {percent(result.confidence)} interval {_joined(interval)}"


def _joined(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.4g} to {interval[1]:.4g}"


def _meaning(result: ScanResult) -> str:
    above = sum(cell.interval is not None and cell.interval[0] > 0 for cell in result.cells)
    words = f"Of {len(result.cells)} choices of lags, {above} have an interval that lies above zero."
    p_values = [cell.p_value for cell in result.cells if cell.p_value is not None]
    return f"{words} The smallest of {len(p_values)} p-values is {min(p_values):.3g}." if p_values else words


def _picture(results: Sequence[ScanResult]) -> str:
    along = varied_most(results)
    marks = [
        (float(getattr(cell.lags, along)), cell.te, f"{label}: {_cell_words(cell, results[0].unit)}")
        for label, cells in scan_lines(results).items()
        for cell in cells
    ]
    caption = "Each choice of lags with its interval; point at one to read it."
    return page.figure(plot_scans(results), caption, marks)


def _cell_words(cell: ScanCell, unit: str) -> str:
    words = f"{cell.lags}, {cell.te:.4g} {unit}"
    if cell.interval is not None:
        words += f", interval {_joined(cell.interval)}"
    return words if cell.p_value is None else f"{words}, p = {cell.p_value:.3g}"


def _doubts(cell: ScanCell) -> list[str]:
    settled = cell.converged or any("converge" in note for note in cell.warnings)
    return [*cell.warnings, *([] if settled else [NOT_SETTLED])]


def _table(result: ScanResult) -> str:
    level = f"{percent(result.confidence)} interval"
    rows = [
        (
            str(cell.lags),
            f"{cell.te:.4g}",
            _joined(cell.interval),
            "" if cell.p_value is None else f"{cell.p_value:.3g}",
            f"{cell.n_windows:,}",
            f"{cell.seconds:.1f}",
        )
        for cell in result.cells
    ]
    return page.table(("past", f"TE ({result.unit})", level, "p", "windows", "seconds"), rows)


def _python_call(result: ScanResult) -> str:
    lags = {
        name: getattr(result.cells[0].lags, name) for name in ("target_history", "source_history", "delay")
    }
    parameters = {"estimator": result.estimator, **lags, **result.varying(), **result.settings}
    given = [f"{name}={value!r}" for name, value in parameters.items() if value is not None]
    series = "source, target, condition" if result.condition else "source, target"
    return f"treet.scan({series}, {', '.join(given)})  # {' '.join(result.direction.split())}"
