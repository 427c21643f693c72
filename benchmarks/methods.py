"""Every estimator on what users have: short recordings of many kinds, with histories from 1 to 20.

python benchmarks/methods.py [--only SUBSTRING] [--again] [--quick] [--results DIR]
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from formatting import Section, count, fixed, signed, table
from harness import Benchmark, Case, Row, exact_value, grouped, in_words
from treet.lags import Lags
from treet.processes import VAR, BivariateLinear, HeavyTailed, Process, SineMap, Threshold

PROCESSES: dict[str, Process] = {
    "threshold": Threshold(),
    "linear": BivariateLinear(),
    "VAR": VAR(),
    "map": SineMap(),
    "heavy tails": HeavyTailed(),
    **{f"threshold, {copies} copies": Threshold(copies=copies) for copies in (2, 5, 10)},
    **{f"threshold, {redundant} redundant": Threshold(redundant=redundant) for redundant in (1, 4, 9)},
}
SAMPLES = (1000, 3000, 10_000, 30_000)
HISTORIES = (1, 5, 20)
SEEDS = (0, 1)
METHODS: dict[str, dict[str, Any]] = {
    **{name: {} for name in ("treet", "dine", "tene", "copula", "ksg", "kernel", "gaussian")},
    "symbolic": {"permutations": 0},
}

MOST_SAMPLES = {"kernel": 10_000}
"""Above, a method takes minutes."""
LONGEST = {"symbolic": 5}
"""Above, no combination of past symbols is seen twice."""


def cases(
    processes: Sequence[str], samples: Sequence[int], histories: Sequence[int], seeds: Sequence[int]
) -> list[Case]:
    return [
        {"process": process, "n": n, "history": history, "coupled": coupled, "seed": seed, "method": method}
        for n in samples
        for seed in seeds
        for history in histories
        for process in processes
        for coupled in (True, False)
        for method in METHODS
        if n <= MOST_SAMPLES.get(method, n) and history <= LONGEST.get(method, history)
    ]


def measure(case: Case) -> Row:
    from treet.api import transfer_entropy

    process, lags = PROCESSES[case["process"]], Lags(case["history"], case["history"])
    pair = process.source_names, process.target_names
    source, target = pair if case["coupled"] else pair[::-1]
    recording = process.sample(case["n"], case["seed"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # kept with the result
        result = transfer_entropy(
            recording.select(source),
            recording.select(target),
            estimator=case["method"],
            target_history=lags.target_history,
            source_history=lags.source_history,
            random_state=case["seed"],
            **METHODS[case["method"]],
        )
    exact, (low, high) = exact_value(process, lags, source, target), result.interval or (math.nan, math.nan)
    return {
        "direction": f"{in_words(source)} -> {in_words(target)}",
        "te": result.te,
        "exact": exact,
        "error": result.te - exact,
        "std_error": result.std_error,
        "covered": bool(low <= exact <= high),
        "doubts": len(result.warnings),
        "converged": result.converged,
        "seconds": round(result.seconds, 3),
    }


def section(rows: Sequence[Row]) -> Section:
    parts = [_summary(rows)]
    for (n, history), group in grouped(rows, "n", "history"):
        title = f"### {count(n)} samples, history {history}: mean absolute error (nats)"
        parts.append(f"{title}\n\n{_errors(group)}")
    return Section("\n\n".join(parts), tuple(_lost(rows)))


def _summary(rows: Sequence[Row]) -> str:
    header = ["method", "mean absolute error", "covered by the 95% interval", "mean bias uncoupled"]
    lines = []
    for (method,), group in grouped(rows, "method"):
        back = [row["error"] for row in group if not row["coupled"]]
        lines.append(
            [
                method,
                fixed(float(np.mean([abs(row["error"]) for row in group]))),
                f"{100 * float(np.mean([row['covered'] for row in group])):.0f}%",
                signed(float(np.mean(back))) if back else "-",
                fixed(float(np.mean([row["seconds"] for row in group])), 2),
                fixed(max(row["peak_mb"] for row in group), 0),
            ]
        )
    return table([*header, "mean seconds", "peak (MB)"], lines)


def _errors(rows: Sequence[Row]) -> str:
    methods = [name for name in METHODS if any(row["method"] == name for row in rows)]
    lines = []
    for (process, _), group in grouped(rows, "process", "coupled"):
        found = _by_method(group)
        best = min(found.values())
        cells = [_cell(found.get(method), best) for method in methods]
        lines.append([process, group[0]["direction"], fixed(group[0]["exact"]), *cells])
    return table(["process", "direction", "exact", *methods], lines)


def _by_method(group: Sequence[Row]) -> dict[str, float]:
    return {
        method: float(np.mean([abs(row["error"]) for row in found]))
        for (method,), found in grouped(group, "method")
    }


def _cell(error: float | None, best: float) -> str:
    if error is None:
        return "-"
    return f"**{error:.4f}**" if error == best else f"{error:.4f}"


def _lost(rows: Sequence[Row]) -> list[str]:
    """Coupled settings with a history of 5 or more in which the default has not the least error or a tie."""
    won, lost = 0, []
    chosen = [row for row in rows if row["coupled"] and row["history"] >= 5]
    for (process, n, history), group in grouped(chosen, "process", "n", "history"):
        found = _by_method(group)
        if "treet" not in found or len(found) < 2:
            continue
        best = min(found, key=found.__getitem__)
        slack = float(np.mean([row["std_error"] for row in group if row["method"] == "treet"]))
        if found["treet"] <= found[best] + slack:
            won += 1
        else:
            lost.append(f"{process}, {count(n)} samples, history {history}: {best} is closer than treet.")
    if won >= 9 * (won + len(lost)) / 10:
        return []
    return [f"treet is first or tied in {won} of {won + len(lost)} settings with history 5 or more.", *lost]


BENCHMARK = Benchmark(
    script=__file__,
    what="Every estimator on short recordings of many kinds, in both directions.",
    cases=cases(list(PROCESSES), SAMPLES, HISTORIES, SEEDS),
    quick=cases(["threshold"], (500,), (1,), (0,)),
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
