"""``treet scan``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from treet.cli.entry import app
from treet.cli.options import (
    METHOD,
    OUTPUT,
    PAST,
    AsJson,
    Both,
    Condition,
    Confidence,
    Data,
    Device,
    Estimator,
    EstimatorSettings,
    Html,
    Plot,
    Preset,
    Seed,
    Source,
    Target,
    Test,
    TrialColumn,
    Unit,
    made_estimator,
    option,
    parsed_range,
)
from treet.cli.outputs import check_files, write_all

if TYPE_CHECKING:
    from treet.data import Recording
    from treet.lag_scan import ScanResult

SCAN = """
Estimate the transfer entropy for many choices of the past: which delay, how much history.

Every past is given as a number, a range or a list: 5, 1..15 or 1,2,5..8; all combinations are estimated, on \
the same present values. The largest of many values tends to be too high: look at the whole curve, and take \
--test for p-values of each.
"""
SCAN_EPILOG = """
[bold]Examples[/bold]

  treet scan data.csv -s x -t y --delay 1..20 --source-history 1
  treet scan data.csv -s x -t y --both --target-history 3..15 --html scan.html
  treet scan data.csv -s x -t y --memory 1..30 --resume scan.sqlite
"""
RANGE = "RANGE"

Memories = Annotated[str | None, option("--memory", help="The paper's l.", panel=PAST, metavar=RANGE)]
TargetHistories = Annotated[
    str | None, option("--target-history", help="Values of the target.", panel=PAST, metavar=RANGE)
]
SourceHistories = Annotated[
    str | None, option("--source-history", help="Values of the source.", panel=PAST, metavar=RANGE)
]
Delays = Annotated[
    str | None, option("--delay", help="Steps back to the source's newest value.", panel=PAST, metavar=RANGE)
]
ConditionHistories = Annotated[
    str | None, option("--condition-history", help="Values of the condition.", panel=PAST, metavar=RANGE)
]
AllWindows = Annotated[
    bool,
    option("--all-windows", help="Each choice uses all time steps it can.", panel=METHOD),
]
Resume = Annotated[
    Path | None,
    option("--resume", help="Keeps results; the same command continues.", panel=OUTPUT, metavar="FILE"),
]
TableFile = Annotated[
    Path | None, option("--output", "-o", help="Write the table as CSV.", panel=OUTPUT, metavar="FILE")
]


@app.command(help=SCAN, epilog=SCAN_EPILOG)
def scan(
    context: typer.Context,
    data: Data,
    source: Source,
    target: Target,
    condition: Condition = None,
    trial_column: TrialColumn = None,
    both: Both = False,
    memory: Memories = None,
    target_history: TargetHistories = None,
    source_history: SourceHistories = None,
    delay: Delays = None,
    condition_history: ConditionHistories = None,
    all_windows: AllWindows = False,
    estimator: Estimator = "treet",
    preset: Preset = None,
    device: Device = None,
    settings: EstimatorSettings = None,
    test: Test = None,
    unit: Unit = "nats",
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    resume: Resume = None,
    output: TableFile = None,
    as_json: AsJson = False,
    plot: Plot = None,
    html: Html = None,
) -> None:
    from treet.lag_scan import scan as scan_lags
    from treet.readers import read_table

    lags = {
        "memory": memory,
        "target_history": target_history,
        "source_history": source_history,
        "delay": delay,
        "condition_history": condition_history,
    }
    axes = {name: parsed_range(name, text) for name, text in lags.items()}
    parameters = {"preset": preset, "device": device, "unit": unit, "confidence": confidence}
    method = made_estimator(estimator, parameters | {"random_state": seed}, settings)
    check_files(data=data, resume=resume, output=output, plot=plot, html=html)
    read = partial(read_table(data).recording, trial_column=trial_column, symbols=method.takes_symbols)
    results = [
        scan_lags(
            read(sources, "source"),
            read(targets, "target"),
            read(condition, "condition") if condition else None,
            **axes,
            estimator=method,
            same_windows=not all_windows,
            test=test,
            resume=resume,
        )
        for sources, targets in ([(source, target), (target, source)] if both else [(source, target)])
    ]
    _print(results, as_json)
    write_all(
        (output, lambda path: _write_table(results, path)),
        (plot, lambda path: _draw(results, path)),
        (html, lambda path: _report(results, path, context.obj, read([*source, *target], "series"))),
    )


def _print(results: Sequence[ScanResult], as_json: bool) -> None:
    if as_json:
        objects = [json.loads(result.to_json()) for result in results]
        print(json.dumps(objects[0] if len(objects) == 1 else objects, indent=2), flush=True)
        return
    for result in results:
        print(result, flush=True)
        Console().print(_table(result))


def _table(result: ScanResult) -> Table:
    """The lags that vary, the value with its interval, and the p-value where there is one."""
    varying = list(result.varying())
    tested = any(cell.p_value is not None for cell in result.cells)
    table = Table(
        *(name.replace("_", " ") for name in varying),
        f"TE ({result.unit})",
        "interval",
        *(["p"] if tested else []),
    )
    for cell in result.cells:
        interval = "" if cell.interval is None else "{:.4g} .. {:.4g}".format(*cell.interval)
        p_value = [] if not tested else ["" if cell.p_value is None else f"{cell.p_value:.3g}"]
        lags = [str(getattr(cell.lags, name)) for name in varying]
        table.add_row(*lags, f"{cell.te:.4g}", interval, *p_value, style=None if cell.converged else "dim")
    return table


def _write_table(results: Sequence[ScanResult], path: Path) -> None:
    import pandas as pd

    from treet.files import write_text

    frames = [result.to_frame().assign(direction=result.direction) for result in results]
    write_text(path, pd.concat(frames).to_csv(index=False))


def _draw(results: Sequence[ScanResult], path: Path) -> None:
    from treet.plots import figure_of, save_figure
    from treet.scan_plot import plot_scans

    save_figure(figure_of(plot_scans(results)), path)


def _report(results: Sequence[ScanResult], path: Path, command: str, series: Recording) -> None:
    from treet.report.scans import write_scan_report

    write_scan_report(results, path, command, series)
