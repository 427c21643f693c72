"""How time and memory grow with the samples and with the memory, of an estimate and of attention alone.

python benchmarks/growth.py [--only SUBSTRING] [--again] [--quick] [--results DIR]
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence

import torch

from formatting import Section, count, fixed, power, steepest, table
from harness import Benchmark, Case, Row, estimate, exact_value
from treet.lags import Lags
from treet.nn.attention import FixedPastAttention
from treet.processes import Threshold

SAMPLES = (10_000, 30_000, 100_000, 300_000, 1_000_000)
MEMORIES = (5, 20, 50, 100, 200, 400)
LENGTHS = (1000, 3000, 10_000, 30_000, 100_000)
WIDTH = 32
REPEATS = 5

LINEAR = 1.1
"""A power law with an exponent of up to this is called linear growth."""
FLAT = 1.5
"""Memory use that grows by no more than this factor over all sizes is called flat."""


def _estimates(part: str, samples: Sequence[int], memories: Sequence[int]) -> list[Case]:
    return [{"part": part, "n": n, "memory": memory, "seed": 0} for n in samples for memory in memories]


def _attention(part: str, lengths: Sequence[int], memories: Sequence[int]) -> list[Case]:
    return [{"part": part, "length": length, "memory": memory} for length in lengths for memory in memories]


def measure(case: Case) -> Row:
    return attention(case) if case["part"].startswith("attention") else whole_estimate(case)


def whole_estimate(case: Case) -> Row:
    """Seconds of an estimate of the threshold process, and steps of all its trainings together."""
    process, lags = Threshold(), Lags.from_memory(case["memory"])
    recording = process.sample(case["n"], case["seed"])
    source, target = process.source_names, process.target_names
    result = estimate(recording, source, target, lags, case["seed"])
    steps = sum(history.step[-1] for history in result.history)
    return {
        "seconds": round(result.seconds, 2),
        "trainings": len(result.history),
        "steps": steps,
        "seconds_a_step": result.seconds / steps,
        "te": result.te,
        "exact": exact_value(process, lags, source, target),
        "converged": result.converged,
    }


def attention(case: Case) -> Row:
    """The median of several forward and backward passes over one sequence, after one to warm up.

    On one thread, as in an estimate, where every fold has one.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)
    length, memory = case["length"], case["memory"]
    module = FixedPastAttention(WIDTH, 1, memory)
    past = torch.randn(1, memory + length - 1, WIDTH, requires_grad=True)
    present = torch.randn(1, length, 1, WIDTH, requires_grad=True)
    seconds = []
    for _ in range(1 + REPEATS):
        started = time.perf_counter()
        module(past, present).square().mean().backward()
        seconds.append(time.perf_counter() - started)
    return {"seconds": statistics.median(seconds[1:]), "width": WIDTH, "threads": 1}


def section(rows: Sequence[Row]) -> Section:
    parts = {part: [row for row in rows if row["part"] == part] for part in PARTS}
    texts, missed = [], []
    for part, found in parts.items():
        axis, title = PARTS[part]
        if found:
            texts.append(f"### {title}\n\n{_table(axis, found)}\n\n{_growth(axis, found)}")
            missed += _missed(part, axis, found)
    return Section("\n\n".join(texts), tuple(missed))


PARTS = {
    "samples": ("n", "An estimate against the number of samples"),
    "memory": ("memory", "An estimate against the memory"),
    "attention, length": ("length", "Attention, forward and backward, against the length of the sequence"),
    "attention, memory": ("memory", "Attention, forward and backward, against the memory"),
    "quick": ("n", "A quick estimate"),
    "attention, quick": ("length", "A quick pass of attention"),
}
"""By part: what grows, and the title of its table."""


def _table(axis: str, rows: Sequence[Row]) -> str:
    fixed_axis = next(name for name in ("memory", "n", "length") if name in rows[0] and name != axis)
    header = [TITLES[axis], TITLES[fixed_axis], "seconds"]
    of_estimates = ["steps", "ms a step"] if "steps" in rows[0] else []
    return table(
        [*header, *of_estimates, "peak (MB)", "added to imports (MB)"],
        ([count(row[axis]), count(row[fixed_axis]), *_costs(row)] for row in rows),
    )


TITLES = {"n": "samples", "memory": "memory", "length": "length"}


def _costs(row: Row) -> list[str]:
    steps = [count(row["steps"]), fixed(1000 * row["seconds_a_step"], 2)] if "steps" in row else []
    digits = 1 if "steps" in row else 4
    return [fixed(row["seconds"], digits), *steps, fixed(row["peak_mb"], 0), fixed(row["added_mb"], 0)]


def _growth(axis: str, rows: Sequence[Row]) -> str:
    if len(rows) < 2:
        return "One size alone shows no growth."
    size = [row[axis] for row in rows]
    seconds = [row["seconds"] for row in rows]
    text = (
        f"Time grows like the {TITLES[axis]} to the power of {power(size, seconds):.2f} (between two "
        f"neighbouring rows at the most {steepest(size, seconds):.2f})"
    )
    if "steps" in rows[0]:
        text += f", time a step to {power(size, [row['seconds_a_step'] for row in rows]):.2f}"
    return f"{text}; from the first row to the last the peak of memory grows {_peak_factor(rows):.2f} times."


def _peak_factor(rows: Sequence[Row]) -> float:
    return float(rows[-1]["peak_mb"] / rows[0]["peak_mb"])


def _missed(part: str, axis: str, rows: Sequence[Row]) -> list[str]:
    found = [
        f"{part}, {TITLES[axis]} {count(row[axis])}: training did not converge."
        for row in rows
        if not row.get("converged", True)
    ]
    if len(rows) > 1:
        exponent = power([row[axis] for row in rows], [row["seconds"] for row in rows])
        if exponent > LINEAR:
            found.append(f"{part}: time grows like the power {exponent:.2f}, above {LINEAR}.")
        if part == "samples" and _peak_factor(rows) > FLAT:
            found.append(f"{part}: the peak of memory grows {_peak_factor(rows):.2f} times, above {FLAT}.")
    return found


BENCHMARK = Benchmark(
    script=__file__,
    what="How time and memory grow with the samples and with the memory, on the threshold process.",
    cases=[
        *_estimates("samples", SAMPLES, [10]),
        *_estimates("memory", [20_000], MEMORIES),
        *_attention("attention, length", LENGTHS, [30]),
        *_attention("attention, memory", [10_000], MEMORIES),
    ],
    quick=[*_estimates("quick", [1000], [2]), *_attention("attention, quick", [1000], [5])],
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
