"""The paper's first table: estimators on the threshold process, by threshold and memory."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from treet.checks import check_choice
from treet.errors import NotConvergedWarning, UnreliableEstimateWarning
from treet.estimators.registry import make
from treet.lags import Lags
from treet.processes import Threshold
from treet.reproduce.runs import Part, run
from treet.study import Case, Outcome

if TYPE_CHECKING:
    import pandas as pd

LABEL = "te-benchmark"
THRESHOLDS = (-3, -2, -1, 0, 1, 2, 3)
MEMORIES = (1, 2, 4, 7, 9, 19, 49, 99)
SAMPLES = 100_000
PAPER_PRESET = "treet, paper preset"

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "treet": ("treet", {}),
    PAPER_PRESET: ("treet", {"preset": "paper"}),
    **{name: (name, {}) for name in ("dine", "tene", "copula", "ksg", "kernel", "gaussian")},
    "symbolic": ("symbolic", {"permutations": 0}),
}
"""By their name in the table: the estimator and its parameters."""

LONGEST = {"kernel": 2, "symbolic": 2}
"""Memories beyond which a method has next to no neighbour or repetition left, even in so many samples."""

PAPER_CELLS = tuple((0, memory) for memory in (1, 9, 49))
"""Of the paper's preset, whose training takes long."""

QUICK_METHODS = ("treet", "tene", "copula", "ksg", "gaussian")
QUICK_THRESHOLDS, QUICK_MEMORIES, QUICK_SAMPLES = (-1, 0, 1), (1, 9, 49), 10_000

SHARE, PAPER_SHARE, ORACLE_ERRORS = 0.01, 0.03, 2.0
"""To reach: this share of the exact value (of the paper's figure, for its preset), or so many standard errors
of an oracle that knows every exact local value."""


def cases(quick: bool = False, methods: Sequence[str] | None = None, seed: int = 0) -> list[Case]:
    """Every cell to fill in, the short memories first; ``quick`` is a ninth of them on fewer samples."""
    for method in methods or ():
        check_choice("method", method, METHODS)
    chosen = methods or (QUICK_METHODS if quick else tuple(METHODS))
    grid = [
        (threshold, memory)
        for memory in (QUICK_MEMORIES if quick else MEMORIES)
        for threshold in (QUICK_THRESHOLDS if quick else THRESHOLDS)
    ]
    samples = QUICK_SAMPLES if quick else SAMPLES
    return [
        {"method": method, "threshold": threshold, "memory": memory, "samples": samples, "seed": seed}
        for threshold, memory in grid
        for method in chosen
        if _defined(method, threshold, memory)
    ]


def _defined(method: str, threshold: int, memory: int) -> bool:
    if method == PAPER_PRESET:
        return (threshold, memory) in PAPER_CELLS
    return memory <= LONGEST.get(method, memory)


def measure(case: Case) -> Outcome:
    """One cell: the estimate in nats, and what the exact local values of the same data say."""
    process, lags = Threshold(threshold=case["threshold"]), Lags.from_memory(case["memory"])
    recording = process.sample(case["samples"], case["seed"])
    name, parameters = METHODS[case["method"]]
    estimator = make(name, memory=case["memory"], random_state=case["seed"], **parameters)
    with warnings.catch_warnings():
        for category in (NotConvergedWarning, UnreliableEstimateWarning):
            warnings.simplefilter("ignore", category)  # kept with the result
        result = estimator.fit(recording.select("x"), recording.select("y")).result_
    local = np.concatenate(process.local_transfer_entropy(recording, lags) or ())
    variance = process.local_variance(lags) or 0.0
    return {
        "te": result.te,
        "std_error": result.std_error,
        "interval": None if result.interval is None else list(result.interval),
        "exact": process.transfer_entropy(lags),
        "oracle_te": float(np.nanmean(local)),
        "oracle_std_error": math.sqrt(variance / result.n_windows),
        "seconds": round(result.seconds, 2),
        "converged": result.converged,
        "warnings": list(result.warnings),
    }


@dataclass(frozen=True)
class TeBenchmark:
    """The filled-in cells: one row each, the case and what was measured, flat."""

    rows: tuple[dict[str, Any], ...]

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row["method"] for row in self.rows))

    def of(self, method: str) -> tuple[dict[str, Any], ...]:
        return tuple(row for row in self.rows if row["method"] == method)

    def to_frame(self) -> pd.DataFrame:
        """One row a cell."""
        import pandas as pd

        return pd.DataFrame([{**row, **judged(row)} for row in self.rows])


def judged(row: dict[str, Any]) -> dict[str, Any]:
    """The error of a cell, its limit, whether it is within, and the paper's own figure."""
    published = paper_figure(row["method"], row["threshold"], row["memory"])
    if row["method"] == PAPER_PRESET and published is not None:
        target, limit = published, PAPER_SHARE * published
    else:
        target, limit = row["exact"], max(SHARE * row["exact"], ORACLE_ERRORS * row["oracle_std_error"])
    return {
        "error": row["te"] - row["exact"],
        "limit": limit,
        "within": abs(row["te"] - target) <= limit,
        "published": published,
    }


def paper_figure(method: str, threshold: int, memory: int) -> float | None:
    """What the paper reports for a cell, in nats; infinite where it says that the estimate diverged.

    >>> paper_figure("treet", 0, 9), paper_figure("tene", 0, 99), paper_figure("ksg", 0, 9)
    (0.403, inf, None)
    """
    table = _published()
    of_method = table["estimates"].get("treet" if method == PAPER_PRESET else method, {})
    row = of_method.get(str(memory))
    if row is None or threshold not in table["thresholds"]:
        return None
    value = float(row[table["thresholds"].index(threshold)])
    return math.copysign(math.inf, value) if abs(value) == 999 else value


@cache
def _published() -> dict[str, Any]:
    text = files("treet.reproduce").joinpath("te_benchmark.json").read_text(encoding="utf-8")
    return cast("dict[str, Any]", json.loads(text))


def te_benchmark(
    folder: str | Path | None = None,
    *,
    quick: bool = False,
    methods: Sequence[str] | None = None,
    seed: int = 0,
    part: Part | None = None,
) -> TeBenchmark:
    """Fill in the table; what the stores in ``folder`` hold already is not computed again.

    >>> benchmark = te_benchmark(quick=True, methods=["gaussian"])
    >>> len(benchmark.rows), benchmark.rows[0]["te"] < benchmark.rows[0]["exact"]
    (9, True)
    """
    return TeBenchmark(tuple(run(LABEL, cases(quick, methods, seed), measure, folder, part)))
