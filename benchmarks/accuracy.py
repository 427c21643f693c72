"""How far the default estimate is from the exact transfer entropy, how long it takes, and in how much memory.

    python benchmarks/accuracy.py [--only SUBSTRING] [--again] [--quick] [--results DIR]

Every process is estimated in its coupled direction and in the other one, in which nothing flows.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from formatting import Section, count, fixed, largest, several, share, signed, table
from harness import Benchmark, Case, Names, Row, estimate, exact_value, grouped, in_words
from treet.data import Recording
from treet.lags import Lags
from treet.processes import BivariateLinear, DelayedLinear, Process, Threshold

SEEDS = (0, 1, 2)
"""Each of the data and of the training that goes with it."""

REVERSE_LIMIT = 0.002
"""Nats: so much may be found where nothing flows, if it is more than two of the reported standard errors."""


@dataclass(frozen=True)
class Scenario:
    """A process, what is seen of it, and what is to be reached.

    The error may be the ``share`` of the exact value, or two standard errors of the oracle if these are more.
    """

    process: Process
    lags: Lags
    n: int
    share: float
    seconds_limit: float | None = None

    def direction(self, coupled: bool) -> tuple[Names, Names]:
        """Source and target."""
        pair = self.process.source_names, self.process.target_names
        return pair if coupled else pair[::-1]


def _threshold(level: float, memory: int, n: int, seconds_limit: float | None = None) -> Scenario:
    return Scenario(Threshold(threshold=level), Lags.from_memory(memory), n, 0.01, seconds_limit)


def _linear(process: Process, target_history: int, source_history: int) -> Scenario:
    return Scenario(process, Lags(target_history, source_history), 50_000, 0.02)


SCENARIOS = {
    "threshold 0, memory 30": _threshold(0.0, 30, 100_000, 60),
    "threshold 0, memory 99": _threshold(0.0, 99, 100_000, 120),
    "threshold 0, memory 10, few samples": _threshold(0.0, 10, 10_000, 30),
    **{f"threshold {level}, memory 1": _threshold(level, 1, 100_000) for level in range(-3, 4)},
    "linear, weak coupling": _linear(BivariateLinear(c=0.1), 5, 5),
    "linear, medium coupling": _linear(BivariateLinear(c=0.3), 5, 5),
    "linear, strong coupling": _linear(BivariateLinear(c=0.5), 5, 5),
    "linear, delay of 20 steps": _linear(DelayedLinear(delay=20), 5, 25),
    "linear, 5 x 5 channels": _linear(DelayedLinear(delay=1, copies=5), 5, 5),
}
QUICK = {"threshold 0, memory 2, quick": _threshold(0.0, 2, 1000)}


def cases(scenarios: Mapping[str, Scenario], seeds: Sequence[int]) -> list[Case]:
    return [
        {
            "case": name,
            "process": repr(scenario.process),
            "direction": " -> ".join(map(in_words, scenario.direction(coupled))),
            "coupled": coupled,
            "lags": str(scenario.lags),
            "n": scenario.n,
            "seed": seed,
        }
        for name, scenario in scenarios.items()
        for coupled in (True, False)
        for seed in seeds
    ]


def measure(case: Case) -> Row:
    scenario = (SCENARIOS | QUICK)[case["case"]]
    source, target = scenario.direction(case["coupled"])
    recording = scenario.process.sample(scenario.n, case["seed"])
    result = estimate(recording, source, target, scenario.lags, case["seed"])
    exact = exact_value(scenario.process, scenario.lags, source, target)
    oracle_std_error, oracle_te = oracle(scenario, recording, result.n_windows) if exact else (0.0, 0.0)
    error, limit = result.te - exact, error_limit(scenario, exact, oracle_std_error, result.std_error)
    low, high = result.interval or (None, None)
    return {
        "te": result.te,
        "exact": exact,
        "error": error,
        "relative_error": error / exact if exact else None,
        "oracle_std_error": oracle_std_error,
        "oracle_te": oracle_te,
        "std_error": result.std_error,
        "interval_low": low,
        "interval_high": high,
        "limit": limit,
        "within": abs(error) <= limit,
        "seconds": round(result.seconds, 2),
        "seconds_limit": scenario.seconds_limit,
        "converged": result.converged,
        "windows": result.n_windows,
    }


def oracle(scenario: Scenario, recording: Recording, n_windows: int) -> tuple[float | None, float | None]:
    """The standard error and the estimate of one who knows every exact local value of these data.

    Where nothing flows all local values are zero, and so are both.
    """
    variance = scenario.process.local_variance(scenario.lags)
    local = scenario.process.local_transfer_entropy(recording, scenario.lags)
    return (
        None if variance is None else math.sqrt(variance / n_windows),
        None if local is None else float(np.nanmean(np.concatenate(local))),
    )


def error_limit(
    scenario: Scenario, exact: float, oracle_std_error: float | None, std_error: float | None
) -> float:
    if exact == 0.0:
        return max(2 * (std_error or 0.0), REVERSE_LIMIT)
    return max(scenario.share * exact, 2 * (oracle_std_error or 0.0))


def section(rows: Sequence[Row]) -> Section:
    coupled = [row for row in rows if row["coupled"]]
    reverse = [row for row in rows if not row["coupled"]]
    text = (
        "Largest of the seeds where there is one number for several. *Error* is the distance to the exact "
        "value, *to the oracle* that to the mean of the exact local values on the same data: what is left of "
        "the error when the luck of the sample is taken away. *Limit* is the larger of a share of the exact "
        "value and two standard errors of the oracle.\n\n"
        f"{_coupled_table(coupled)}\n\n"
        "The other direction, in which the exact value is 0. *Limit* is the larger of two reported standard "
        f"errors and {REVERSE_LIMIT} nats.\n\n"
        f"{_reverse_table(reverse)}"
    )
    return Section(text, tuple(sentence for row in rows for sentence in _missed(row)))


def _coupled_table(rows: Sequence[Row]) -> str:
    header = ["case", "direction", "lags", "samples", "exact", "estimates", "error", "to the oracle", "limit"]
    return table(
        [*header, "within", "seconds", "limit (s)", "peak (MB)"],
        (
            [
                *_about(group),
                fixed(group[0]["exact"]),
                several([row["te"] for row in group]),
                largest(abs(row["error"]) for row in group),
                largest(_to_the_oracle(row) for row in group),
                *_reached(group),
            ]
            for _, group in grouped(rows, "case", "direction")
        ),
    )


def _reverse_table(rows: Sequence[Row]) -> str:
    header = ["case", "direction", "lags", "samples", "estimates", "standard errors", "limit"]
    return table(
        [*header, "within", "seconds", "limit (s)", "peak (MB)"],
        (
            [
                *_about(group),
                several([row["te"] for row in group], 5),
                several([row["std_error"] for row in group], 5),
                *_reached(group),
            ]
            for _, group in grouped(rows, "case", "direction")
        ),
    )


def _about(group: Sequence[Row]) -> list[str]:
    first = group[0]
    return [first["case"], first["direction"], first["lags"], count(first["n"])]


def _reached(group: Sequence[Row]) -> list[str]:
    return [
        several(sorted({row["limit"] for row in group})),
        share([row["within"] for row in group]),
        largest((row["seconds"] for row in group), 1),
        fixed(group[0]["seconds_limit"], 0),
        largest((row["peak_mb"] for row in group), 0),
    ]


def _to_the_oracle(row: Row) -> float | None:
    return None if row["oracle_te"] is None else abs(row["te"] - row["oracle_te"])


def _missed(row: Row) -> list[str]:
    which = f"{row['case']}, {row['direction']}, seed {row['seed']}"
    found = []
    if not row["within"]:
        found.append(f"{which}: the error is {signed(row['error'])}, the limit {fixed(row['limit'])}.")
    if row["seconds_limit"] is not None and row["seconds"] > row["seconds_limit"]:
        found.append(f"{which}: it took {row['seconds']:.1f} s, the limit is {row['seconds_limit']:.0f} s.")
    if not row["converged"]:
        found.append(f"{which}: training did not converge.")
    return found


BENCHMARK = Benchmark(
    script=__file__,
    what="The default estimate against exact transfer entropies, in the coupled direction and in the other.",
    cases=cases(SCENARIOS, SEEDS),
    quick=cases(QUICK, SEEDS[:1]),
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
