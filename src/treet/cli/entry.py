"""The command ``treet``: how it starts, what it says of errors and warnings, and how it ends."""

from __future__ import annotations

import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import Annotated, Any, cast

import typer
from typer.core import TyperGroup

from treet.errors import MissingExtraError, NotConvergedWarning, TreetError, UnreliableEstimateWarning
from treet.versions import treet_version

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
  treet scan data.csv -s x -t y --delay 1..20 --html scan.html
  treet simulate threshold -o data.csv --samples 10000

[bold]Exit status[/bold]

  0    success
  2    bad input, with one line on standard error
  130  interrupted: no half-written file stays
"""

ORDER = ("demo", "estimate", "scan", "estimators", "density", "capacity", "channels")
"""Of the commands in the help: what most users come for; the others follow."""


class _Ordered(TyperGroup):
    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(self.commands, key=lambda name: (*ORDER, name).index(name))


app = typer.Typer(
    name="treet",
    cls=_Ordered,
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
