"""``treet estimate`` and ``treet estimators``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer
from rich.console import Console
from rich.table import Table

from treet.cli.entry import app
from treet.cli.options import (
    AsJson,
    Both,
    Condition,
    ConditionHistory,
    Confidence,
    Data,
    Delay,
    Device,
    Estimator,
    EstimatorSettings,
    Html,
    Memory,
    Plot,
    Preset,
    Save,
    Seed,
    Source,
    SourceHistory,
    Target,
    TargetHistory,
    Test,
    TrialColumn,
    Unit,
    made_estimator,
)
from treet.cli.outputs import check_files, print_results, write_all
from treet.errors import TreetError

if TYPE_CHECKING:
    from treet.data import Recording
    from treet.results import TransferEntropyResult

ESTIMATE = """
Estimate the transfer entropy from a source to a target.

By default the 5 last values of the target are known, and the question is what the 5 values of the source \
before the present add. Slow or late coupling needs a longer past: set --target-history, --source-history \
and --delay, or --memory alone. Take the shortest past that covers the coupling: a longer one needs more data.
"""
ESTIMATE_EPILOG = """
[bold]Examples[/bold]

  treet estimate data.csv --source x --target y
  treet estimate data.csv -s x -t y --condition z --delay 3 --html report.html
  treet estimate eeg.parquet -s C3 -s C4 -t F3 --trial-column trial
  treet estimate data.npz -s 0 -t 1 --memory 30 --preset paper --json
  treet estimate data.csv -s x -t y --both --test paired --plot both.png
  treet estimate data.csv -s x -t y --estimator ksg --set neighbours=8
"""


@app.command(help=ESTIMATE, epilog=ESTIMATE_EPILOG)
def estimate(
    context: typer.Context,
    data: Data,
    source: Source,
    target: Target,
    condition: Condition = None,
    trial_column: TrialColumn = None,
    both: Both = False,
    memory: Memory = None,
    target_history: TargetHistory = None,
    source_history: SourceHistory = None,
    delay: Delay = None,
    condition_history: ConditionHistory = None,
    estimator: Estimator = "treet",
    preset: Preset = None,
    device: Device = None,
    settings: EstimatorSettings = None,
    test: Test = None,
    unit: Unit = "nats",
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    as_json: AsJson = False,
    save: Save = None,
    plot: Plot = None,
    html: Html = None,
) -> None:
    from treet.readers import read_table
    from treet.statistics.significance import check_test, fit_and_test

    check_test(test)
    parameters: dict[str, Any] = {
        "memory": memory,
        "target_history": target_history,
        "source_history": source_history,
    }
    parameters |= {"delay": delay, "condition_history": condition_history, "preset": preset, "device": device}
    parameters |= {"unit": unit, "confidence": confidence, "random_state": seed}
    directions = [(source, target), (target, source)] if both else [(source, target)]
    methods = [made_estimator(estimator, parameters, settings) for _ in directions]
    _check_save(methods, save)
    check_files(data=data, save=save, plot=plot, html=html)
    table = read_table(data)
    read = partial(table.recording, trial_column=trial_column, symbols=methods[0].takes_symbols)
    fitted = []
    for method, (sources, targets) in zip(methods, directions, strict=True):
        conditions = read(condition, "condition") if condition else None
        parts = read(sources, "source"), read(targets, "target"), conditions
        fitted.append(fit_and_test(method, *parts, test=test))
    results = [method.result_ for method in fitted]
    print_results(results, as_json)
    write_all(
        (save, lambda path: cast("Any", fitted[0]).save(path)),
        (plot, lambda path: _draw(results, path)),
        (html, lambda path: _report(results, path, context.obj, read([*source, *target], "series"))),
    )


@app.command()
def estimators() -> None:
    """List the methods: what each assumes, what it costs, and when to use it."""
    from treet.estimators.registry import ESTIMATORS

    table = Table("name", "what it is", "assumes", "cost", "use it when", show_lines=True)
    for name, kind in ESTIMATORS.items():
        table.add_row(name, kind.summary, kind.assumes, kind.cost, kind.use_when)
    Console().print(table)


def _check_save(methods: Sequence[Any], save: Path | None) -> None:
    """Raise before any work for a file that could not be written afterwards."""
    if save is not None and len(methods) > 1:
        raise TreetError("--save holds one direction: leave out --both.")
    if save is not None and not hasattr(methods[0], "save"):
        raise TreetError(
            f"--save does not apply to the estimator {methods[0].name!r}: it keeps no fitted model."
        )


def _draw(results: Sequence[TransferEntropyResult], path: Path) -> None:
    from treet.plots import plot_results, save_figure

    save_figure(plot_results(results), path)


def _report(results: Sequence[TransferEntropyResult], path: Path, command: str, series: Recording) -> None:
    from treet.report import write_report

    write_report(results, path, command, series)
