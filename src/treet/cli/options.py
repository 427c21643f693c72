"""The options that several commands share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from treet.errors import TreetError


def option(*names: str, help: str, panel: str | None = None, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, metavar=metavar)


SERIES, PAST, METHOD, OUTPUT = "Series", "Past", "Method", "Output"

Data = Annotated[Path, typer.Argument(help="CSV, TSV, TXT, Parquet, NPY, NPZ or HDF5.", metavar="DATA")]
Source = Annotated[
    list[str],
    option("--source", "-s", help="Channel by name or index. Repeat for more.", panel=SERIES),
]
Target = Annotated[
    list[str],
    option("--target", "-t", help="Channel by name or index. Repeat for more.", panel=SERIES),
]
Condition = Annotated[
    list[str] | None,
    option("--condition", "-c", help="Channel whose past is known too. Repeat for more.", panel=SERIES),
]
TrialColumn = Annotated[str | None, option(help="Column that tells trials apart.", panel=SERIES)]
Both = Annotated[bool, option("--both", help="Estimate both directions.", panel=SERIES)]
Memory = Annotated[int | None, option(help="Short for target L, source L + 1, delay 0.", panel=PAST)]
TargetHistory = Annotated[int | None, option(help="Values of the target. Default: 5.", panel=PAST)]
SourceHistory = Annotated[int | None, option(help="Values of the source. Default: 5.", panel=PAST)]
Delay = Annotated[
    int | None, option(help="Steps back to the newest value of the source. Default: 1.", panel=PAST)
]
ConditionHistory = Annotated[
    int | None, option(help="Values of the condition. Default: as many as of the source.", panel=PAST)
]
Estimator = Annotated[str, option(help="See: treet estimators.", panel=METHOD)]
Preset = Annotated[str | None, option(help="default, or paper: as published.", panel=METHOD)]
Device = Annotated[str | None, option(help="auto, cpu, cuda, ... Default: auto.", panel=METHOD)]
Confidence = Annotated[float, option(help="Of the interval.", panel=METHOD)]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same numbers.")]
Unit = Annotated[str, option(help="nats or bits.", panel=OUTPUT)]
AsJson = Annotated[
    bool, option("--json", help="Print exactly one JSON object; with --both, a list of two.", panel=OUTPUT)
]
Test = Annotated[
    str | None,
    option(help="Gives a p-value: paired (one more fit), or surrogate (99).", panel=METHOD),
]
Save = Annotated[Path | None, option(help="Save the fitted estimator.", panel=OUTPUT, metavar="FILE")]
Plot = Annotated[
    Path | None, option(help="Draw a picture: .png, .svg or .pdf.", panel=OUTPUT, metavar="FILE")
]
Html = Annotated[
    Path | None, option(help="Write a report, one page that opens offline.", panel=OUTPUT, metavar="FILE")
]
Folder = Annotated[Path, option("--output", "-o", help="Folder for what it writes.", metavar="DIR")]
ProcessSettings = Annotated[
    list[str] | None,
    option("--set", help="A parameter of the process. Repeat for more.", metavar="KEY=VALUE"),
]
EstimatorSettings = Annotated[
    list[str] | None,
    option(
        "--set",
        help="A parameter of the estimator's own. Repeat for more.",
        panel=METHOD,
        metavar="KEY=VALUE",
    ),
]


def made_estimator(name: str, options: Mapping[str, Any], settings: Sequence[str] | None) -> Any:
    """The estimator with the ``options`` that were given and those of ``--set``."""
    from treet.estimators.registry import make

    own = parsed_settings(settings)
    twice = [key for key in own if key in options]
    if twice:
        raise TreetError(f"--set does not take {', '.join(twice)}: there is an option of that name.")
    return make(name, **{key: value for key, value in options.items() if value is not None}, **own)


def parsed_range(name: str, text: str | None) -> list[int] | None:
    """The whole numbers of ``5``, ``1..4`` or ``1,2,10..12``.

    >>> parsed_range("delay", "1,2,10..12")
    [1, 2, 10, 11, 12]
    """
    if text is None:
        return None
    found = [number for part in text.split(",") for number in _numbers(name, part)]
    return list(dict.fromkeys(found))


def _numbers(name: str, part: str) -> range:
    ends = part.strip().split("..")
    if len(ends) > 2 or not all(end.isdecimal() for end in ends) or int(ends[0]) > int(ends[-1]):
        raise TreetError(
            f"--{name.replace('_', '-')} takes whole numbers such as 5, 1..4 or 1,2,10..12. Got {part!r}."
        )
    return range(int(ends[0]), int(ends[-1]) + 1)


def parsed_settings(settings: Sequence[str] | None) -> dict[str, Any]:
    """The values given with ``--set``, by key."""
    return dict(_setting(text) for text in settings or ())


def _setting(text: str) -> tuple[str, Any]:
    """``key=value`` with the value as JSON where it is JSON, as text elsewhere."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise TreetError(f"--set must be given as key=value. Got {text!r} instead.")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value
