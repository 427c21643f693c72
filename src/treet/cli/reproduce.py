"""``treet reproduce``: the experiments of the paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treet.cli.entry import app
from treet.cli.options import Folder, Seed, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from treet.reproduce.runs import Part, Row

REPRODUCE = "Run an experiment of the paper again; an interrupted run continues where it was."
TE_BENCHMARK = """
The paper's first table: estimators on the threshold process, by threshold and memory.

Writes a table (CSV and Markdown) and a picture to the folder: value, error and seconds of every cell, with \
the exact value, the standard error of an oracle and the paper's own figure beside it. The whole table takes \
hours; results are kept in the folder as they come, and the same command continues an interrupted run.
"""

APNEA = """
The apnea study: heart, breath and blood oxygen of a sleeping patient.

Transfer entropy in both directions by history, with intervals and p-values, by treet, ksg and gaussian; \
Schreiber's stretch; all three channels, each pair also given the third; local values around the return of \
breath. Needs the recordings: see treet datasets fetch apnea.
"""
DENSITY = """
Densities of the paper's hidden Markov process: KL and total variation from the true density, by noise.

Writes a table (CSV and Markdown) and a picture to the folder: each model with the exact optimum, what it \
has above it, seconds, calibration and the paper's own figures. The whole takes hours; results are kept in \
the folder as they come, and the same command continues an interrupted run.
"""
DELAY = """
Densities of the paper's hidden Markov process whose state returns after a delay, by delay.

Each model sees a past just longer than the delay. Writes what the experiment density does.
"""
CAPACITY = """
Capacities of Gaussian channels by signal to noise ratio and dimension, with and without feedback; white \
noise with a limit on the peak, the optical, the trapdoor and the Ising channel.

Writes tables (CSV and Markdown) and pictures to the folder: estimates of three seeds, exact values or \
bounds, and the published figures beside them. A training takes about a minute; the same command \
continues an interrupted run.
"""
MEMORY = """
The paper's second table: noise that comes back after 100 steps, by the memory of the estimator.

Writes a table (CSV and Markdown) and pictures to the folder: estimates beside the most that any input has \
at the memory, the capacity and the published figures, and which lag the estimator found to matter.
"""

experiments = typer.Typer(help=REPRODUCE, no_args_is_help=True)
app.add_typer(experiments, name="reproduce")

Quick = Annotated[bool, typer.Option("--quick", help="Fewer cells and samples: some minutes.")]
Methods = Annotated[
    list[str] | None, option("--method", help="Only this estimator. Repeat for more.", metavar="NAME")
]
PartOf = Annotated[
    str | None,
    option("--part", help="A share of the work, for one of several machines: 2/8.", metavar="NUMBER/COUNT"),
]


@experiments.command("te-benchmark", help=TE_BENCHMARK)
def te_benchmark(
    output: Folder = Path("treet-reproduce"),
    quick: Quick = False,
    methods: Methods = None,
    seed: Seed = 0,
    part: PartOf = None,
) -> None:
    from treet.reproduce import te_benchmark as experiment
    from treet.reproduce.tables import write_te_benchmark

    chosen = _part(part)
    found = experiment.te_benchmark(output, quick=quick, methods=methods, seed=seed, part=chosen)
    if _said_part(chosen, found.rows, output):
        return
    for method in found.methods:
        rows = found.of(method)
        within = sum(experiment.judged(row)["within"] for row in rows)
        print(f"{method}: {within} of {len(rows)} cells within their limit")
    print("\n".join(map(str, write_te_benchmark(found, output))))


@experiments.command("apnea", help=APNEA)
def apnea(
    output: Folder = Path("treet-reproduce"),
    quick: Quick = False,
    seed: Seed = 0,
    part: PartOf = None,
) -> None:
    from treet.reproduce import apnea as experiment
    from treet.reproduce.apnea_pages import write_apnea

    chosen = _part(part)
    rows = experiment.apnea(output, quick=quick, seed=seed, part=chosen)
    if _said_part(chosen, rows, output):
        return
    for estimator in dict.fromkeys(row["estimator"] for row in experiment.of_part(rows, "history")):
        apart = experiment.separated(rows, estimator)
        print(f"{estimator}: breath -> heart above heart -> breath, intervals apart, at histories {apart}")
    print("\n".join(map(str, write_apnea(rows, output))))


@experiments.command("density", help=DENSITY)
def density(
    output: Folder = Path("treet-reproduce"), quick: Quick = False, seed: Seed = 0, part: PartOf = None
) -> None:
    _density("density", output, quick, seed, part)


@experiments.command("density-delay", help=DELAY)
def density_delay(
    output: Folder = Path("treet-reproduce"), quick: Quick = False, seed: Seed = 0, part: PartOf = None
) -> None:
    _density("density-delay", output, quick, seed, part)


def _density(label: str, output: Path, quick: bool, seed: int, part: str | None) -> None:
    from treet.reproduce.density import density_benchmark
    from treet.reproduce.density_report import write_density

    chosen = _part(part)
    found = density_benchmark(label, output, quick=quick, seed=seed, part=chosen)
    if _said_part(chosen, found.rows, output):
        return
    for one in found.summaries():
        print(f"{one.setting}, {one.model}: {one.excess_kl:.5f} nats above the optimum {one.optimum_kl:.4f}")
    print("\n".join(map(str, write_density(found, output))))


@experiments.command(help=CAPACITY)
def capacity(
    output: Folder = Path("treet-reproduce"), quick: Quick = False, seed: Seed = 0, part: PartOf = None
) -> None:
    from treet.reproduce import capacity as experiment
    from treet.reproduce.capacity_tables import write_capacities

    chosen = _part(part)
    found = experiment.capacities(output, quick=quick, seed=seed, part=chosen)
    if _said_part(chosen, found.rows, output):
        return
    points = found.points("gaussian")
    print(f"{sum(point['within'] for point in points)} of {len(points)} Gaussian points within their limit")
    print("\n".join(map(str, write_capacities(found, output))))


@experiments.command(help=MEMORY)
def memory(
    output: Folder = Path("treet-reproduce"), quick: Quick = False, seed: Seed = 0, part: PartOf = None
) -> None:
    from treet.reproduce import memory as experiment
    from treet.reproduce.capacity_tables import write_by_memory

    chosen = _part(part)
    found = experiment.by_memory(output, quick=quick, seed=seed, part=chosen)
    if _said_part(chosen, found.rows, output):
        return
    within = sum(experiment.judged(row)["within"] for row in found.rows)
    print(f"{within} of {len(found.rows)} memories within their limit")
    print("\n".join(map(str, write_by_memory(found, output))))


def _part(text: str | None) -> Part | None:
    from treet.reproduce.runs import Part

    return None if text is None else Part.parse(text)


def _said_part(part: Part | None, rows: Sequence[Row], folder: Path) -> bool:
    """Whether only a part was computed, which has no page of its own; says then where it is."""
    if part is None:
        return False
    print(f"{len(rows)} results in {folder / part.store}")
    print("With the files of all parts in this folder, the command without --part puts them together.")
    return True
