"""Whether a scan over delays finds the one there is.

python benchmarks/delays.py [--only SUBSTRING] [--again] [--quick] [--results DIR]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import numpy as np

from formatting import Section, count, fixed, share, table
from harness import Benchmark, Case, Row, grouped
from treet.lag_scan import scan
from treet.processes import DelayedLinear

DELAY, LONGEST, SAMPLES = 20, 30, 10_000
SEEDS = range(10)
ESTIMATORS = ("treet", "gaussian")
HEADER = ["estimator", "samples", "delays tried", "found exactly", "largest elsewhere", "seconds a scan"]


def cases(samples: int, seeds: Sequence[int], estimators: Sequence[str]) -> list[Case]:
    return [
        {"estimator": estimator, "delay": DELAY, "longest": LONGEST, "n": samples, "seed": seed}
        for estimator in estimators
        for seed in seeds
    ]


def measure(case: Case) -> Row:
    recording = DelayedLinear(delay=case["delay"]).sample(case["n"], case["seed"])
    started = time.perf_counter()
    found = scan(
        recording.select("x"),
        recording.select("y"),
        delay=range(1, case["longest"] + 1),
        source_history=1,
        target_history=2,
        estimator=case["estimator"],
        random_state=case["seed"],
    )
    seconds = time.perf_counter() - started
    others = [cell.te for cell in found.cells if cell is not found.best]
    return {
        "found": found.best.lags.delay,
        "te": found.best.te,
        "next": max(others),
        "seconds": round(seconds, 2),
    }


def section(rows: Sequence[Row]) -> Section:
    lines, missed = [], []
    for (estimator,), group in grouped(rows, "estimator"):
        hits = [row["found"] == row["delay"] for row in group]
        lines.append(
            [
                str(estimator),
                count(group[0]["n"]),
                str(group[0]["longest"]),
                share(hits),
                fixed(max(row["next"] / row["te"] for row in group), 2),
                fixed(float(np.mean([row["seconds"] for row in group])), 1),
            ]
        )
        if not all(hits):
            missed.append(f"{estimator}: the delay is found in {share(hits)} seeds only.")
    text = (
        f"A linear process whose source acts after {DELAY} steps. *Largest elsewhere*: the second largest "
        "value of a scan as a part of the largest, at worst. The source is autocorrelated, so that "
        f"neighbouring delays tell something too.\n\n{table(HEADER, lines)}"
    )
    return Section(text, tuple(missed))


BENCHMARK = Benchmark(
    script=__file__,
    what="Whether the delay with the largest transfer entropy is the one at which the source acts.",
    cases=cases(SAMPLES, SEEDS, ESTIMATORS),
    quick=cases(1000, SEEDS[:1], ESTIMATORS[1:]),
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
