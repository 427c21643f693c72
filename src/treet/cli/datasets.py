"""``treet datasets``."""

from __future__ import annotations

from typing import Annotated

import typer

from treet.cli.entry import app

DATASETS = "Fetch recordings to try things on. Nothing is downloaded unless this is asked for."
FETCH = """
Download a recording, once, check it and keep it.

apnea: heart rate, chest volume and blood oxygen of a sleeping patient, 2 x 17,000 samples at 2 Hz. In \
Python it is then treet.datasets.load_apnea(). The environment variable TREET_DATA names a folder to keep \
data in, or one that has them already.
"""

datasets = typer.Typer(help=DATASETS, no_args_is_help=True)
app.add_typer(datasets, name="datasets")

Dataset = Annotated[str, typer.Argument(help="apnea.", metavar="NAME")]


@datasets.callback()
def _datasets() -> None:
    """A callback keeps ``fetch`` a word of the command."""


@datasets.command(help=FETCH)
def fetch(name: Dataset) -> None:
    from treet.datasets import fetch as fetch_files

    found = fetch_files(name)
    print("\n".join(map(str, found.paths)))
    print(f"\nPlease cite:\n{found.citation}\n\nLicence: {found.licence}")
