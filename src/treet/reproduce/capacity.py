"""Capacities by optimisation: the paper's Gaussian channels, and others with known capacities or bounds."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.stats import kstest

from treet.capacity.api import channel_capacity
from treet.capacity.channels import Channel
from treet.capacity.closed_form import mckellips_bound, poisson_lower_bound, poisson_upper_bound
from treet.capacity.discrete_channels import Optical
from treet.capacity.registry import make_channel
from treet.errors import NotConvergedWarning, UnreliableEstimateWarning
from treet.reproduce.runs import Part, Row, run
from treet.study import Case, Outcome

if TYPE_CHECKING:
    import pandas as pd

    from treet.capacity.result import CapacityResult

LABEL = "capacity"
MEMORY, SEEDS = 30, 3

SNR_DB = tuple(range(-20, 20, 5))
DIMENSIONS = tuple(range(1, 7))
CURVES = (("awgn", False), ("ma", False), ("ma", True), ("ar", False), ("ar", True))
PEAKS, PEAK_MEMORY = (0.5, 1.0, 1.5, 2.0, 3.0), 1
INTENSITIES, DARK = (1.0, 3.0, 10.0, 30.0), 1.0
DISCRETE = ("trapdoor", "ising")

QUICK_SNR_DB, QUICK_DIMENSIONS, QUICK_PEAKS = (0,), (1, 2), (1.0,)

SHARE, LEAST_LIMIT, ERRORS = 0.01, 0.001, 2.0
"""To reach: this share of the exact value, or so many nats; and none above it by so many of its errors."""

MAP_SAMPLES = 2000
"""Of the noise and the input that it becomes."""


def cases(quick: bool = False, seed: int = 0) -> list[Case]:
    """Every training, all points with the first seed before the next one; ``quick``: some, with one seed."""
    seeds = range(seed, seed + (1 if quick else SEEDS))
    return [{**point, "seed": number} for number in seeds for point in _points(quick)]


def _points(quick: bool) -> Iterator[dict[str, Any]]:
    for name, feedback in CURVES:
        for snr_db in QUICK_SNR_DB if quick else SNR_DB:
            yield gaussian_point(name, 1, feedback, snr_db)
    for dimension in (QUICK_DIMENSIONS if quick else DIMENSIONS)[1:]:  # one component is a point of the curve
        yield gaussian_point("awgn", dimension, False, 0)
    for peak in QUICK_PEAKS if quick else PEAKS:
        yield {"experiment": "peak", "channel": "awgn", "peak": peak, "memory": PEAK_MEMORY}
    for peak in INTENSITIES:
        yield {"experiment": "optical", "channel": "optical", "peak": peak}
    for name in DISCRETE:
        yield {"experiment": "discrete", "channel": name, "feedback": True}


def gaussian_point(channel: str, dimension: int, feedback: bool, snr_db: int) -> dict[str, Any]:
    """A point of the paper's experiments: the case without its seed."""
    where = {"channel": channel, "dimension": dimension, "feedback": feedback, "snr_db": snr_db}
    return {"experiment": "gaussian", **where, "memory": MEMORY}


def measure(case: Case) -> Outcome:
    """One training, or for the optical channel, which has no gradient, the certified optimum of its input."""
    experiment, seed = case["experiment"], case["seed"]
    if experiment == "gaussian":
        parameters = {"dimension": case["dimension"]} if case["channel"] == "awgn" else {}
        channel = make_channel(case["channel"], **parameters)
        power = 10 ** (case["snr_db"] / 10)
        found = trained(channel, case["memory"], case["feedback"], power, random_state=seed)
        return {**measured(found), **_noise_map(case, found)}
    if experiment == "peak":
        found = trained(make_channel("awgn"), case["memory"], peak=case["peak"], random_state=seed)
        return {**measured(found), "upper": mckellips_bound(case["peak"])}
    if experiment == "optical":
        return _optical(case["peak"])
    return measured(trained(make_channel(case["channel"]), feedback=True, random_state=seed))


def trained(channel: Channel, *given: Any, **named: Any) -> CapacityResult:
    """``channel_capacity`` without its warnings, which are kept with the result."""
    with warnings.catch_warnings():
        for category in (NotConvergedWarning, UnreliableEstimateWarning):
            warnings.simplefilter("ignore", category)
        return channel_capacity(channel, *given, **named)


def measured(result: CapacityResult) -> Outcome:
    """What the tables show of a result."""
    return {
        "value": result.value,
        "std_error": result.std_error,
        "exact": result.exact,
        "ceiling": result.ceiling,
        "gaussian": result.gaussian,
        "seconds": round(result.seconds, 2),
        "converged": result.converged,
        "warnings": list(result.warnings),
    }


def _optical(peak: float) -> Outcome:
    channel = Optical(peak=peak, dark=DARK)
    bounds = {"lower": poisson_lower_bound(peak, DARK), "upper": poisson_upper_bound(peak, DARK)}
    nothing = {"seconds": 0.0, "converged": True, "warnings": [], "std_error": 0.0}
    return {"value": channel.capacity(), "exact": channel.capacity(), **bounds, **nothing}


def _noise_map(case: Case, result: CapacityResult) -> Outcome:
    """Of white noise at 0 dB: noise and input, and how probable such inputs are if they are Gaussian."""
    if case["channel"] != "awgn" or case["dimension"] != 1 or case["snr_db"] != 0:
        return {}
    noise, x = (part[:, 0] for part in result.generator.noise_and_inputs(MAP_SAMPLES, case["seed"]))
    test = kstest(x / math.sqrt(np.mean(x**2)), "norm")
    return {"map": [noise.tolist(), x.tolist()], "normal_p": float(test.pvalue)}


@dataclass(frozen=True)
class Capacities:
    """What was measured: one row each, the case and its outcome, flat."""

    rows: tuple[Row, ...]

    def of(self, experiment: str) -> tuple[Row, ...]:
        return tuple(row for row in self.rows if row["experiment"] == experiment)

    def points(self, experiment: str) -> list[Row]:
        """One row a point: the mean over its seeds, and the verdict on it."""
        rows = sorted(self.of(experiment), key=_place)
        return [mean_row(list(group)) for _, group in groupby(rows, key=_place)]

    def to_frame(self) -> pd.DataFrame:
        """One row a training."""
        import pandas as pd

        return pd.DataFrame([{name: row[name] for name in row if name != "map"} for row in self.rows])


PLACE = ("channel", "dimension", "feedback", "snr_db", "peak", "memory")


def _place(row: Row) -> tuple[Any, ...]:
    """What makes a point: everything in the case but the seed."""
    return tuple(-math.inf if row.get(name) is None else row[name] for name in PLACE)


def mean_row(rows: Sequence[Row]) -> Row:
    """The rows of one point as one: means over the seeds, and whether the mean is as near as it should be.

    >>> row = {"value": 0.40, "std_error": 0.001, "exact": 0.402, "seconds": 9.0, "converged": True}
    >>> mean = mean_row([{**row, "warnings": []}, {**row, "warnings": [], "value": 0.402}])
    >>> round(mean["value"], 3), round(mean["error"], 4), mean["within"], mean["above"]
    (0.401, -0.001, True, False)
    """
    value = float(np.mean([row["value"] for row in rows]))
    std_error = float(np.sqrt(np.mean([row["std_error"] ** 2 for row in rows]) / len(rows)))
    exact = rows[0]["exact"]
    return {
        **rows[0],
        "value": value,
        "std_error": std_error,
        "error": value - exact,
        "within": abs(value - exact) <= max(SHARE * exact, LEAST_LIMIT),
        "above": value > exact + ERRORS * std_error + 1e-9,
        "seconds": max(row["seconds"] for row in rows),
        "doubts": sum(bool(row["warnings"]) or not row["converged"] for row in rows),
        "seeds": len(rows),
    }


def published_capacity(row: Row, method: str = "treet") -> float | None:
    """What was published for a point of ``row``, in nats, None where nothing was.

    >>> published_capacity(gaussian_point("ma", 1, True, -20))
    0.05521
    """
    names = ("channel", "dimension", "feedback", "snr_db")
    for known in published()["gaussian"]:
        if all(known[name] == row.get(name) for name in names):
            return cast("float | None", known.get(method))
    return None


@cache
def published() -> dict[str, Any]:
    """The figures of the paper and of its reference implementation."""
    text = files("treet.reproduce").joinpath("capacity.json").read_text(encoding="utf-8")
    return cast("dict[str, Any]", json.loads(text))


def capacities(
    folder: str | Path | None = None, *, quick: bool = False, seed: int = 0, part: Part | None = None
) -> Capacities:
    """All trainings; what the stores in ``folder`` hold already is not computed again."""
    return Capacities(tuple(run(LABEL, cases(quick, seed), measure, folder, part)))
