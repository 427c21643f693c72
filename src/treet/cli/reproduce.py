"""``treet reproduce``: the experiments of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treet.cli.entry import app
from treet.cli.options import Folder, Seed, option

REPRODUCE = "Run an experiment of the paper again; an interrupted run continues where it was."
TE_BENCHMARK = """
The paper's first table: estimators on the threshold process, by threshold and memory.

Writes a table (CSV and Markdown) and a picture to the folder: value, error and seconds of every cell, with \
the exact value, the standard error of an oracle and the paper's own figure beside it. The whole table takes \
hours; results are kept in the folder as they come, and the same command continues an interrupted run.
"""

experiments = typer.Typer(help=REPRODUCE, no_args_is_help=True)
app.add_typer(experiments, name="reproduce")

Quick = Annotated[bool, typer.Option("--quick", help="Fewer cells and samples: some minutes.")]
Methods = Annotated[
    list[str] | None, option("--method", help="Only this estimator. Repeat for more.", metavar="NAME")
]


@experiments.callback()
def _reproduce() -> None:
    """A callback keeps the experiment's name a word of the command while there is only one."""


@experiments.command("te-benchmark", help=TE_BENCHMARK)
def te_benchmark(
    output: Folder = Path("treet-reproduce"),
    quick: Quick = False,
    methods: Methods = None,
    seed: Seed = 0,
) -> None:
    from treet.files import made_folder
    from treet.reproduce import te_benchmark as experiment
    from treet.reproduce.tables import write_te_benchmark

    experiment.cases(
        quick, methods, seed
    )  # a name that does not exist is an error before anything is written
    folder = made_folder(output)
    found = experiment.te_benchmark(folder / "results.sqlite", quick=quick, methods=methods, seed=seed)
    for method in found.methods:
        rows = found.of(method)
        within = sum(experiment.judged(row)["within"] for row in rows)
        print(f"{method}: {within} of {len(rows)} cells within their limit")
    print("\n".join(map(str, write_te_benchmark(found, folder))))
