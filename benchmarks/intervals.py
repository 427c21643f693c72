"""How often the 95 % interval holds the exact transfer entropy.

python benchmarks/intervals.py [--only SUBSTRING] [--again] [--quick] [--results DIR]
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from formatting import Section, count, fixed, share, signed, table
from harness import Benchmark, Case, Row, estimate, exact_value, grouped
from treet.lags import Lags
from treet.processes import BivariateLinear, Process, Threshold

SEEDS = range(100)
REQUIRED = 0.9
"""Of the intervals must hold the truth. Of 100 exact ones fewer do so about once in 90 times."""

SCENARIOS: dict[str, tuple[Process, Lags, int]] = {
    "threshold, memory 2": (Threshold(), Lags.from_memory(2), 5000),
    "linear, 5 lags": (BivariateLinear(), Lags(5, 5), 5000),
}
QUICK: dict[str, tuple[Process, Lags, int]] = {
    "threshold, memory 2, quick": (Threshold(), Lags.from_memory(2), 1000)
}

HEADER = ["case", "lags", "samples", "exact", "bias", "spread", "standard error", "covered", "seconds"]


def cases(scenarios: Mapping[str, tuple[Process, Lags, int]], seeds: Sequence[int]) -> list[Case]:
    return [
        {"case": name, "process": repr(process), "lags": str(lags), "n": n, "seed": seed}
        for name, (process, lags, n) in scenarios.items()
        for seed in seeds
    ]


def measure(case: Case) -> Row:
    process, lags, n = (SCENARIOS | QUICK)[case["case"]]
    recording = process.sample(n, case["seed"])
    source, target = process.source_names, process.target_names
    result = estimate(recording, source, target, lags, case["seed"])
    exact, (low, high) = exact_value(process, lags, source, target), result.interval or (math.nan, math.nan)
    return {
        "direction": result.direction,
        "te": result.te,
        "exact": exact,
        "std_error": result.std_error,
        "interval_low": low,
        "interval_high": high,
        "confidence": result.confidence,
        "covered": low <= exact <= high,
        "seconds": round(result.seconds, 2),
        "converged": result.converged,
    }


def section(rows: Sequence[Row]) -> Section:
    groups = [(name, group) for (name,), group in grouped(rows, "case")]
    text = (
        "*Bias* is the mean of the estimates less the exact value, *spread* their standard deviation over "
        "the seeds, *standard error* the mean of those that were reported.\n\n"
        f"{table(HEADER, ([name, *_summary(group)] for name, group in groups))}"
    )
    return Section(text, tuple(sentence for name, group in groups for sentence in _missed(name, group)))


def _summary(group: Sequence[Row]) -> list[str]:
    first, found = group[0], [row["te"] for row in group]
    return [
        first["lags"],
        count(first["n"]),
        fixed(first["exact"]),
        signed(float(np.mean(found)) - first["exact"]),
        fixed(float(np.std(found, ddof=1)) if len(found) > 1 else None),
        fixed(float(np.mean([row["std_error"] for row in group]))),
        share([row["covered"] for row in group]),
        fixed(float(np.mean([row["seconds"] for row in group])), 1),
    ]


def _missed(name: str, group: Sequence[Row]) -> list[str]:
    covered, not_converged = sum(row["covered"] for row in group), sum(not row["converged"] for row in group)
    required = math.ceil(REQUIRED * len(group))
    found = []
    if covered < required:
        found.append(
            f"{name}: {covered} of {len(group)} intervals hold the exact value, at least {required} should."
        )
    if not_converged:
        found.append(f"{name}: {not_converged} of {len(group)} trainings did not converge.")
    return found


BENCHMARK = Benchmark(
    script=__file__,
    what="How many of the 95 % intervals of the default estimate hold the exact transfer entropy.",
    cases=cases(SCENARIOS, SEEDS),
    quick=cases(QUICK, SEEDS[:1]),
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
