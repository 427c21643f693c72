"""The command ``treet``: parse, call the library, print."""

from __future__ import annotations

import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.console import Console
from rich.table import Table

from treet.errors import MissingExtraError, NotConvergedWarning, TreetError, UnreliableEstimateWarning
from treet.versions import treet_version

if TYPE_CHECKING:
    from treet.data import Recording
    from treet.readers import Table as DataTable
    from treet.results import TransferEntropyResult

# The libraries behind the commands take seconds to load. Each command imports what it needs, so that --help
# and mistakes in the command line are answered at once.

INTERRUPTED = 130
BAD_INPUT = 2
UsageError = cast("type[Exception]", typer.BadParameter.__base__)  # typer gives it no public name

INTRODUCTION = """
Transfer entropy from time series: how much the past of a source tells about the present of a target \
that the target's own past does not tell.

Every number comes with its direction (source -> target), an interval, and the past that was used. \
Results go to standard output; progress, warnings and errors go to standard error.
"""
EPILOG = """
[bold]Examples[/bold]

  treet demo
  treet estimate data.csv --source heart --target breath --both
  treet estimate data.csv -s x -t y --memory 30 --json > result.json
  treet simulate threshold -o data.csv --samples 10000

[bold]Exit status[/bold]

  0    success
  2    bad input, with one line on standard error
  130  interrupted: no half-written file stays
"""
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
  treet estimate data.csv -s x -t y --both --unit bits --plot both.png
"""
SIMULATE_EPILOG = """
[bold]Processes[/bold] and their parameters for --set

  threshold     x drives y while y is high
                rho, threshold, copies, redundant
  linear        x' = b_x x + noise, y' = b_y y + c x + noise
                b_x, b_y, c, std_x, std_y
  delayed       linear, with the coupling many steps late
                coupling, delay, source_decay, target_decay, copies
  var           any stable vector autoregression
                coefficients, noise_covariance, channels, source, target
  map           a noisy sine map whose phase x moves
                gain, coupling, noise_std
  heavy-tailed  a linear drive with rare large values
                freedom, coupling, decay, noise_scale

[bold]Examples[/bold]

  treet simulate threshold -o data.csv --samples 10000
  treet simulate threshold -o data.npz --set rho=0.5 --set copies=3 --seed 7
  treet simulate var -o data.parquet --set 'coefficients=[[0.4,0],[0.5,0.8]]'
"""
DEMO = """
Simulate a coupled pair of series, estimate both directions, and show what comes out.

The source x drives the target y only while y is high, and nothing flows back. Both true values are known, \
and the table shows them beside the estimates. Afterwards the folder holds the series (CSV), a picture (PNG) \
and a report (HTML); the last line printed is the report's path.
"""


def _option(*names: str, help: str, panel: str | None = None, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, metavar=metavar)


SERIES, PAST, METHOD, OUTPUT = "Series", "Past", "Method", "Output"

Data = Annotated[Path, typer.Argument(help="CSV, TSV, TXT, Parquet, NPY, NPZ or HDF5.", metavar="DATA")]
Source = Annotated[
    list[str],
    _option("--source", "-s", help="Channel by name or index. Repeat for more.", panel=SERIES),
]
Target = Annotated[
    list[str],
    _option("--target", "-t", help="Channel by name or index. Repeat for more.", panel=SERIES),
]
Condition = Annotated[
    list[str] | None,
    _option("--condition", "-c", help="Channel whose past is known too. Repeat for more.", panel=SERIES),
]
TrialColumn = Annotated[str | None, _option(help="Column that tells trials apart.", panel=SERIES)]
Both = Annotated[bool, _option("--both", help="Estimate both directions.", panel=SERIES)]
Memory = Annotated[int | None, _option(help="Short for target L, source L + 1, delay 0.", panel=PAST)]
TargetHistory = Annotated[int | None, _option(help="Values of the target. Default: 5.", panel=PAST)]
SourceHistory = Annotated[int | None, _option(help="Values of the source. Default: 5.", panel=PAST)]
Delay = Annotated[
    int | None, _option(help="Steps back to the newest value of the source. Default: 1.", panel=PAST)
]
ConditionHistory = Annotated[
    int | None, _option(help="Values of the condition. Default: as many as of the source.", panel=PAST)
]
Estimator = Annotated[str, _option(help="See: treet estimators.", panel=METHOD)]
Preset = Annotated[str | None, _option(help="default, or paper: as published.", panel=METHOD)]
Device = Annotated[str | None, _option(help="auto, cpu, cuda, ... Default: auto.", panel=METHOD)]
Confidence = Annotated[float, _option(help="Of the interval.", panel=METHOD)]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")]
Unit = Annotated[str, _option(help="nats or bits.", panel=OUTPUT)]
AsJson = Annotated[
    bool, _option("--json", help="Print exactly one JSON object; with --both, a list of two.", panel=OUTPUT)
]
Save = Annotated[Path | None, _option(help="Save the fitted estimator.", panel=OUTPUT, metavar="FILE")]
Plot = Annotated[
    Path | None, _option(help="Draw a picture: .png, .svg or .pdf.", panel=OUTPUT, metavar="FILE")
]
Html = Annotated[
    Path | None, _option(help="Write a report, one page that opens offline.", panel=OUTPUT, metavar="FILE")
]
Process = Annotated[str, typer.Argument(help="One of the processes below.", metavar="NAME")]
Series = Annotated[
    Path, _option("--output", "-o", help="File: .csv, .tsv, .parquet, .npy or .npz.", metavar="FILE")
]
Samples = Annotated[int, typer.Option(help="Time steps of each trial.")]
Trials = Annotated[int, typer.Option(help="Independent trials.")]
Settings = Annotated[
    list[str] | None,
    _option("--set", help="A parameter of the process. Repeat for more.", metavar="KEY=VALUE"),
]
Folder = Annotated[Path, _option("--output", "-o", help="Folder for what it writes.", metavar="DIR")]

app = typer.Typer(
    name="treet",
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: the console entry point."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = typer.main.get_command(app)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name may have letters that a terminal has not
    try:
        with _plain_warnings():
            status = command.main(words, "treet", standalone_mode=False, obj=shlex.join(["treet", *words]))
        print(end="", flush=True)
    except UsageError as error:
        return _fail(cast("typer.BadParameter", error).format_message())
    except (TreetError, MissingExtraError) as error:
        return _fail(str(error))
    except MemoryError as error:
        return _fail(f"There is not enough memory. {error}")
    except OSError as error:  # of files it is a TreetError by now
        with suppress(OSError):
            sys.stdout.close()  # else Python tries once more to write, and complains
        return _fail(f"Cannot write to standard output: {error.strerror or error}.")
    except (KeyboardInterrupt, typer.Abort):
        status = INTERRUPTED
    if status == INTERRUPTED:
        _say("interrupted")
    return int(status or 0)


@app.callback(invoke_without_command=True, epilog=EPILOG, help=INTRODUCTION)
def _treet(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        print(f"treet {treet_version()}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


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
    unit: Unit = "nats",
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    as_json: AsJson = False,
    save: Save = None,
    plot: Plot = None,
    html: Html = None,
) -> None:
    parameters: dict[str, Any] = {
        "memory": memory,
        "target_history": target_history,
        "source_history": source_history,
    }
    parameters |= {"delay": delay, "condition_history": condition_history, "preset": preset, "device": device}
    parameters |= {"unit": unit, "confidence": confidence, "random_state": seed}
    directions = [(source, target), (target, source)] if both else [(source, target)]
    methods = [_make(estimator, parameters) for _ in directions]
    _check_outputs(methods, data, save, plot, html)
    table = _read(data)
    for method, (sources, targets) in zip(methods, directions, strict=True):
        conditions = table.recording(condition, "condition", trial_column) if condition else None
        method.fit(
            table.recording(sources, "source", trial_column),
            table.recording(targets, "target", trial_column),
            conditions,
        )
    results = [method.result_ for method in methods]
    _print_results(results, as_json)
    _write_all(
        (save, lambda path: methods[0].save(path)),
        (plot, lambda path: _draw(results, path)),
        (
            html,
            lambda path: _report(
                results, path, context.obj, table.recording([*source, *target], "series", trial_column)
            ),
        ),
    )


@app.command(epilog=SIMULATE_EPILOG)
def simulate(
    name: Process,
    output: Series,
    samples: Samples = 10_000,
    trials: Trials = 1,
    seed: Seed = 0,
    settings: Settings = None,
) -> None:
    """Write a simulated series whose transfer entropy is known."""
    from treet.lags import Lags
    from treet.processes import make_process
    from treet.writers import check_data_ending, write_recording

    check_data_ending(output)
    process = make_process(name, **dict(_setting(text) for text in settings or ()))
    write_recording(process.sample(samples, seed, trials), output)
    print(f"{output}: {samples * trials} samples of {', '.join(process.names)}")
    exact = process.transfer_entropy(Lags())
    if exact is not None:
        direction = f"{', '.join(process.source_names)} -> {', '.join(process.target_names)}"
        print(f"{direction}  exact TE = {exact:.4g} nats  ({Lags()})")


@app.command(help=DEMO)
def demo(output: Folder = Path("treet-demo")) -> None:
    from treet.demo import demonstrate

    shown = demonstrate(output)
    table = Table(
        "direction", "TE (nats)", "95% interval", "exact", "windows", "seconds", title="Threshold process"
    )
    for result, exact in zip(shown.results, shown.exact, strict=True):
        low, high = result.interval or (float("nan"), float("nan"))
        known = "" if exact is None else f"{exact:.4f}"
        table.add_row(
            result.direction,
            f"{result.te:.4f}",
            f"{low:.4f} .. {high:.4f}",
            known,
            f"{result.n_windows:,}",
            f"{result.seconds:.1f}",
        )
    Console().print(table)
    print(
        f"series   {shown.data}\npicture  {shown.picture}\nOpen the report in a browser:\n{shown.report}",
        flush=True,
    )


@app.command()
def estimators() -> None:
    """List the methods: what each assumes, what it costs, and when to use it."""
    from treet.estimators.registry import ESTIMATORS

    table = Table("name", "what it is", "assumes", "cost", "use it when", show_lines=True)
    for name, kind in ESTIMATORS.items():
        table.add_row(name, kind.summary, kind.assumes, kind.cost, kind.use_when)
    Console().print(table)


def _make(name: str, parameters: dict[str, Any]) -> Any:
    from treet.estimators.registry import make

    return make(name, **{key: value for key, value in parameters.items() if value is not None})


def _check_outputs(
    methods: Sequence[Any], data: Path, save: Path | None, plot: Path | None, html: Path | None
) -> None:
    """Raise before any work for outputs that could not be written afterwards."""
    if save is not None and len(methods) > 1:
        raise TreetError("--save holds one direction: leave out --both.")
    if save is not None and not hasattr(methods[0], "save"):
        raise TreetError(
            f"--save does not apply to the estimator {methods[0].name!r}: it keeps no fitted model."
        )
    if plot is not None:
        from treet.plots import check_ending

        check_ending(plot)
    files = [os.path.realpath(path) for path in (data, save, plot, html) if path is not None]
    for path in files:
        if files.count(path) > 1:
            raise TreetError(f"DATA, --save, --plot and --html must be different files. Got {path} twice.")


def _read(path: Path) -> DataTable:
    from treet.readers import read_table

    return read_table(path)


def _print_results(results: Sequence[TransferEntropyResult], as_json: bool) -> None:
    if not as_json:
        print("\n".join(map(str, results)), flush=True)
        return
    objects = [json.loads(result.to_json()) for result in results]
    print(json.dumps(objects[0] if len(objects) == 1 else objects, indent=2), flush=True)


def _draw(results: Sequence[TransferEntropyResult], path: Path) -> None:
    from treet.plots import plot_results, save_figure

    save_figure(plot_results(results), path)


def _report(results: Sequence[TransferEntropyResult], path: Path, command: str, series: Recording) -> None:
    from treet.report import write_report

    write_report(results, path, command, series)


def _write_all(*outputs: tuple[Path | None, Callable[[Path], None]]) -> None:
    """Write what can be written, then raise for all that cannot."""
    errors = []
    for path, write in outputs:
        try:
            if path is not None:
                write(path)
        except TreetError as error:
            errors.append(str(error))
    if errors:
        raise TreetError(" ".join(errors))


def _setting(text: str) -> tuple[str, Any]:
    """``key=value`` with the value as JSON where it is JSON, as text elsewhere."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise TreetError(f"--set must be given as key=value. Got {text!r} instead.")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings as one plain line each, and every one of ours, whatever was shown before."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        _say(f"warning: {message}")

    with warnings.catch_warnings():
        for category in (NotConvergedWarning, UnreliableEstimateWarning):
            warnings.simplefilter("always", category)
        warnings.showwarning = show
        yield


def _say(text: str) -> None:
    """One line on standard error, where there is one: print would take standard output instead."""
    if sys.stderr is not None:
        print(f"treet: {' '.join(text.split())}", file=sys.stderr, flush=True)


def _fail(message: str) -> int:
    _say(message)
    return BAD_INPUT
