"""The page of conditional densities: how well they predict, the fan, where the target surprised."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from treet.files import write_text
from treet.report import page
from treet.report.words import NOT_SETTLED
from treet.results import percent

if TYPE_CHECKING:
    from treet.density.result import DensityResult

LEAST_P = 0.01
CAUTION = (
    "Every density comes from a fit that held its time step out. The log score of a continuous value depends "
    "on the value's unit: compare it with that of another model of the same series, not with zero."
)


def write_density_report(result: DensityResult, path: str | Path, command: str | None = None) -> None:
    """Write one HTML file that opens offline. ``command`` is what repeats it."""
    found = result.calibration
    amount = f"{found.log_score:.4g} nats"
    rest = f" a time step, {found.gain:+.4g} against a linear Gaussian predictor."
    doubts = [] if result.converged else [(result.target, NOT_SETTLED)]
    if found.p_value < LEAST_P:
        doubts.append((result.target, f"The densities are not calibrated: p = {found.p_value:.2g}."))
    score = np.concatenate(result.density.on_time_axis(-result.density.logpdf()))
    sections = [
        page.answer(
            f"{result.target} given the {result.past} is predicted with", amount, rest, _meaning(result)
        ),
        page.figure(result.plot(), "The densities over the first time steps."),
        page.explorer(
            score, f"anomaly score of {result.target}", "nats", "How surprising each time step was."
        ),
        page.section("How it was found", page.table(("", "value"), list(_facts(result).items()))),
        page.section("What to keep in mind", page.cautions(doubts, CAUTION)),
        page.section("To repeat this", page.repeat(command or _python_call(result))),
    ]
    write_text(path, page.page(f"Densities of {result.target}", "Conditional densities", sections))


def _meaning(result: DensityResult) -> str:
    band = result.band
    words = (
        "" if band is None else f"The {percent(round(band[0], 6))} band holds {band[1]:.1%} of the values. "
    )
    return (
        f"{words}If the densities are right, values are spread evenly over their quantiles: {_even(result)}."
    )


def _even(result: DensityResult) -> str:
    p_value = result.calibration.p_value
    return f"{'nothing' if p_value >= LEAST_P else 'this'} speaks against it, p = {p_value:.2g}"


def _facts(result: DensityResult) -> dict[str, str]:
    found = result.calibration
    rows = {
        "log score": f"{found.log_score:.5g} nats",
        "its standard error": f"{found.std_error:.2g} nats",
        "more than a linear Gaussian": f"{found.gain:.5g} nats",
        "past that was used": str(result.lags),
        "windows": f"{len(result.density):,}",
    }
    rows |= {name: str(value) for name, value in result.settings.items() if value is not None}
    return rows | {"seed": str(result.seed), "seconds": f"{result.seconds:.1f}"}


def _python_call(result: DensityResult) -> str:
    series = ["target", *(["source"] if result.source else []), *(["condition"] if result.condition else [])]
    given = {"target_history": result.lags.target_history, "random_state": result.seed}
    words = [*series[:1], *(f"{name}={name}" for name in series[1:])]
    words += [f"{name}={value!r}" for name, value in given.items()]
    return f"treet.conditional_density({', '.join(words)})  # {' '.join(result.target.split())}"
