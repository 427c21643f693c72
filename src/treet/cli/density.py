"""``treet density``."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from treet.cli.entry import app
from treet.cli.options import (
    OUTPUT,
    SERIES,
    Condition,
    ConditionHistory,
    Data,
    Delay,
    Device,
    Html,
    Memory,
    Plot,
    Seed,
    SourceHistory,
    TargetHistory,
    TrialColumn,
    option,
)
from treet.cli.outputs import check_files, write_all
from treet.errors import TreetError

if TYPE_CHECKING:
    from treet.density.result import DensityResult

DENSITY = """
Find the conditional density of a target, given its own past and that of a source where there is one.

Writes a table with a row for each time step: the value; mean, standard deviation and quantiles of its \
density; its log score, that of a linear Gaussian predictor, and an anomaly score, which is minus the log \
score. Each time step has the density of critics that did not train on it.
"""
DENSITY_EPILOG = """
[bold]Examples[/bold]

  treet density data.csv --target y -o density.csv
  treet density data.csv -t y -s x --memory 3 -o density.parquet --plot fan.png
  treet density data.csv -t y --quantiles .01,.5,.99 --at 1200 -o density.csv --json
"""

One = Annotated[str, option("--target", "-t", help="Channel by name or index.", panel=SERIES)]
Sources = Annotated[
    list[str] | None,
    option("--source", "-s", help="Channel whose past counts too. Repeat for more.", panel=SERIES),
]
Output = Annotated[
    Path, option("--output", "-o", help="Table: .csv, .tsv or .parquet.", panel=OUTPUT, metavar="FILE")
]
Quantiles = Annotated[str, option(help="Levels, with commas between them.", panel=OUTPUT)]
At = Annotated[
    str | None,
    option(help="Print and draw this time step alone.", panel=OUTPUT, metavar="[TRIAL:]TIME"),
]
Json = Annotated[bool, option("--json", help="Print exactly one JSON object.", panel=OUTPUT)]


class Moment(NamedTuple):
    """A time step of a trial."""

    time: int
    trial: int


@app.command(help=DENSITY, epilog=DENSITY_EPILOG)
def density(
    context: typer.Context,
    data: Data,
    target: One,
    output: Output,
    source: Sources = None,
    condition: Condition = None,
    trial_column: TrialColumn = None,
    memory: Memory = None,
    target_history: TargetHistory = None,
    source_history: SourceHistory = None,
    delay: Delay = None,
    condition_history: ConditionHistory = None,
    device: Device = None,
    seed: Seed = 0,
    quantiles: Quantiles = "0.05,0.5,0.95",
    at: At = None,
    plot: Plot = None,
    html: Html = None,
    as_json: Json = False,
) -> None:
    moment, levels = _moment(at), _levels(quantiles)
    check_files(data=data, output=output, plot=plot, html=html)
    from treet.density.api import conditional_density
    from treet.density.result import check_step
    from treet.readers import read_table
    from treet.writers import check_table_ending, write_table

    check_table_ending(output)
    lags = {"memory": memory, "target_history": target_history, "source_history": source_history}
    lags |= {"delay": delay, "condition_history": condition_history}
    given = {name: value for name, value in {**lags, "device": device}.items() if value is not None}
    table = read_table(data)
    read = partial(table.recording, trial_column=trial_column)
    targets = read([target], "target")
    if moment is not None:
        check_step(targets.trials, *moment)
    found = conditional_density(
        targets,
        read(source, "source") if source else None,
        read(condition, "condition") if condition else None,
        quantiles=levels,
        random_state=seed,
        **given,
    )
    _print(found, moment, as_json)
    write_all(
        (output, lambda path: write_table(found.to_frame(), path)),
        (plot, lambda path: _draw(found, moment, path)),
        (html, lambda path: found.to_html(path, context.obj)),
    )


def _levels(text: str) -> tuple[float, ...]:
    from treet.density.api import checked_quantiles

    try:
        return checked_quantiles([float(word) for word in text.split(",")])
    except ValueError as error:
        if isinstance(error, TreetError):
            raise
        raise TreetError(f"--quantiles are numbers, such as .05,.5,.95. Got {text!r} instead.") from error


def _moment(text: str | None) -> Moment | None:
    """``--at``, checked."""
    if text is None:
        return None
    words = text.split(":")
    if len(words) > 2 or not all(word.isdecimal() for word in words):
        raise TreetError(f"--at is a time step, or TRIAL:TIME, both from 0 on. Got {text!r} instead.")
    return Moment(int(words[-1]), int(words[0]) if len(words) == 2 else 0)


def _print(found: DensityResult, moment: Moment | None, as_json: bool) -> None:
    row = found.row(*moment) if moment else None
    if as_json:
        print(json.dumps({**json.loads(found.to_json()), "at": row}, indent=2), flush=True)
        return
    print(found)
    if row is not None:
        print(", ".join(f"{name} {value:.6g}" for name, value in row.items()), flush=True)


def _draw(found: DensityResult, moment: Moment | None, path: Path) -> None:
    from treet.plots import figure_of, save_figure

    save_figure(figure_of(found.plot(None, *(moment or ()))), path)
