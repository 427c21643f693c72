"""``treet simulate`` and ``treet demo``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from treet.cli.entry import app
from treet.cli.options import Folder, ProcessSettings, Seed, option, parsed_settings

Process = Annotated[str, typer.Argument(help="One of the processes below.", metavar="NAME")]
Series = Annotated[
    Path, option("--output", "-o", help="File: .csv, .tsv, .parquet, .npy or .npz.", metavar="FILE")
]
Samples = Annotated[int, typer.Option(help="Time steps of each trial.")]
Trials = Annotated[int, typer.Option(help="Independent trials.")]

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


@app.command(epilog=SIMULATE_EPILOG)
def simulate(
    name: Process,
    output: Series,
    samples: Samples = 10_000,
    trials: Trials = 1,
    seed: Seed = 0,
    settings: ProcessSettings = None,
) -> None:
    """Write a simulated series whose transfer entropy is known."""
    from treet.lags import Lags
    from treet.processes import make_process
    from treet.writers import check_data_ending, write_recording

    check_data_ending(output)
    process = make_process(name, **parsed_settings(settings))
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
