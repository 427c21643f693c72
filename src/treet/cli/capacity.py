"""``treet capacity`` and ``treet channels``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from treet.cli.entry import app
from treet.cli.options import OUTPUT, Confidence, Html, Plot, Seed, Unit, option
from treet.cli.outputs import check_files, write_all
from treet.errors import TreetError

if TYPE_CHECKING:
    from treet.capacity.channels import Channel
    from treet.capacity.result import CapacityResult

CAPACITY = """
Find the capacity of a channel: the largest transfer entropy that a neural generator of its inputs reaches.

The generator is trained through two critics; the value is then read from fresh sequences by critics trained \
anew, and printed with the exact capacity where that is known.
"""
CAPACITY_EPILOG = """
[bold]Examples[/bold]

  treet capacity awgn --snr-db 0
  treet capacity ma --alpha 0.5 --feedback --memory 30
  treet capacity gma --delay-steps 100 --memory 100
  treet capacity awgn --peak 1.5 --plot course.png
  treet capacity trapdoor --feedback --unit bits --json
  treet capacity mine.py:Fading --power 2
"""

SHORT = {"gma": "delayed-tap"}
"""Names of the paper for channels that are called otherwise here."""

ALPHA = {"ma": "coefficients", "ar": "coefficients", "delayed-tap": "coefficient"}
"""What --alpha sets, by channel."""

CHANNEL, INPUT = "Channel", "Input"

Named = Annotated[
    str, typer.Argument(help="See: treet channels. Or your own: FILE.py:NAME.", metavar="CHANNEL")
]
Alpha = Annotated[float | None, option(help="Coefficient of ma, ar and gma. Default: 0.5.", panel=CHANNEL)]
DelaySteps = Annotated[int | None, option(help="Delay of gma. Default: 100.", panel=CHANNEL)]
Dim = Annotated[int | None, option(help="Components of awgn. Default: 1.", panel=CHANNEL)]
Feedback = Annotated[bool, option("--feedback", help="Inputs may depend on past outputs.", panel=INPUT)]
SnrDb = Annotated[float | None, option(help="Power over the variance of the noise.", panel=INPUT)]
Power = Annotated[float | None, option(help="Limit on the mean square. Default: 1.", panel=INPUT)]
Peak = Annotated[float | None, option(help="Limit on the size of every value.", panel=INPUT)]
Memory = Annotated[int | None, option(help="Past values that count. Default: 30.", panel=INPUT)]
Critic = Annotated[
    str | None, option(help="treet or dine: attention or an LSTM. Default: treet.", panel=INPUT)
]
Kind = Annotated[
    str | None,
    option("--generator", help="transformer, lstm or iid. Default: transformer.", panel=INPUT),
]
Json = Annotated[bool, option("--json", help="Print exactly one JSON object.", panel=OUTPUT)]


@app.command(help=CAPACITY, epilog=CAPACITY_EPILOG)
def capacity(
    context: typer.Context,
    channel: Named,
    alpha: Alpha = None,
    delay_steps: DelaySteps = None,
    dim: Dim = None,
    feedback: Feedback = False,
    snr_db: SnrDb = None,
    power: Power = None,
    peak: Peak = None,
    memory: Memory = None,
    critic: Critic = None,
    generator: Kind = None,
    unit: Unit = "nats",
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    as_json: Json = False,
    plot: Plot = None,
    html: Html = None,
) -> None:
    check_files(plot=plot, html=html)
    from treet.capacity.api import channel_capacity

    made = _channel(channel, alpha, delay_steps, dim)
    result = channel_capacity(
        made,
        memory,
        feedback,
        _power(made, snr_db, power),
        peak,
        critic=critic,  # type: ignore[arg-type]  # checked there
        generator=generator,  # type: ignore[arg-type]  # checked there
        unit=unit,  # type: ignore[arg-type]
        confidence=confidence,
        random_state=seed,
    )
    print(result.to_json() if as_json else result, flush=True)
    write_all(
        (plot, lambda path: _draw(result, path)),
        (html, lambda path: result.to_html(path, context.obj)),
    )


@app.command()
def channels() -> None:
    """List the channels whose capacity can be found."""
    from treet.capacity.registry import CHANNELS

    table = Table("name", "what it is")
    for name, kind in CHANNELS.items():
        table.add_row(name, kind.summary)
    Console().print(table)


def _channel(name: str, alpha: float | None, delay_steps: int | None, dim: int | None) -> Channel:
    from treet.capacity.own_channel import load_channel
    from treet.capacity.registry import make_channel

    name = SHORT.get(name, name)
    parameters: dict[str, Any] = {}
    if alpha is not None:
        if name not in ALPHA:
            raise TreetError(f"--alpha does not apply to the channel {name!r}: it is for ma, ar and gma.")
        parameters[ALPHA[name]] = (alpha,) if ALPHA[name] == "coefficients" else alpha
    if delay_steps is not None:
        parameters["delay"] = delay_steps
    if dim is not None:
        parameters["dimension"] = dim
    return load_channel(name, **parameters) if ":" in name else make_channel(name, **parameters)


def _power(channel: Channel, snr_db: float | None, power: float | None) -> float | None:
    """The power that was given, by itself or relative to the channel's noise."""
    if snr_db is None:
        return power
    if power is not None:
        raise TreetError("--snr-db and --power say the same thing: give one of them.")
    variance = getattr(channel, "variance", None)
    if variance is None:
        raise TreetError(f"--snr-db needs a noise variance, and {channel.name!r} has none: give --power.")
    return float(variance) * 10 ** (snr_db / 10)


def _draw(result: CapacityResult, path: Path) -> None:
    from treet.plots import figure_of, save_figure

    save_figure(figure_of(result.plot()), path)
