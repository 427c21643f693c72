"""How often the tests of significance reject where there is nothing, and where there is something.

python benchmarks/significance.py [--only SUBSTRING] [--again] [--quick] [--results DIR]
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Sequence

import numpy as np

from formatting import Section, count, fixed, share, table
from harness import Benchmark, Case, Row, grouped
from treet.data import Recording
from treet.errors import NotConvergedWarning, UnreliableEstimateWarning
from treet.estimators.registry import make
from treet.processes import BivariateLinear, HeavyTailed, Process, Threshold
from treet.statistics.significance import fit_and_test

SAMPLES = 2000
ALPHA = 0.05
LOW, HIGH, POWER = 0.02, 0.085, 0.95
"""To reach: the share of rejections where there is nothing, and at least where there is something."""

LAGS = {"target_history": 5, "source_history": 5, "delay": 1}
COUPLED: dict[str, Process] = {"threshold 1": Threshold(threshold=1), "linear": BivariateLinear()}
BACKWARDS: dict[str, Process] = {"threshold, back": Threshold(), "heavy tails, back": HeavyTailed()}
NULL = ("autocorrelated", *BACKWARDS, "common driver")

TESTS: dict[str, tuple[str, str, int | None, int]] = {
    "paired": ("treet", "paired", None, 50),
    "surrogate, gaussian": ("gaussian", "surrogate", 99, 25),
    "surrogate, ksg": ("ksg", "surrogate", 19, 25),
}
"""By name: the estimator, the test, surrogates, and pairs of each kind without coupling."""

COUPLED_PAIRS = 40
HEADER = ["test", "pairs", "n", "rejected", "to reach", "seconds a pair"]


def cases() -> list[Case]:
    null = [(test, kind, seed) for test, (*_, n) in TESTS.items() for seed in range(n) for kind in NULL]
    coupled = [("paired", kind, seed) for seed in range(COUPLED_PAIRS) for kind in COUPLED]
    return [_case(*words) for words in (*null, *coupled)]


def _case(test: str, kind: str, seed: int) -> Case:
    return {"test": test, "pair": kind, "coupled": kind in COUPLED, "n": SAMPLES, "seed": seed}


def series(kind: str, n: int, seed: int) -> tuple[Recording, Recording, Recording | None]:
    """Source, target and condition."""
    if kind in COUPLED or kind in BACKWARDS:
        process = (COUPLED | BACKWARDS)[kind]
        names = [process.source_names, process.target_names]
        recording = process.sample(n, seed)
        source, target = (recording.select(name) for name in (names if kind in COUPLED else names[::-1]))
        return source, target, None
    noise = np.random.default_rng(seed).normal(size=(3, n))
    if kind == "autocorrelated":
        return _named("x", _smoothed(noise[0], 0.95)), _named("y", _smoothed(noise[1], 0.95)), None
    driver = _smoothed(noise[2], 0.8)
    x, y = (np.roll(driver, lag) + 0.5 * own for lag, own in ((1, noise[0]), (2, noise[1])))
    return _named("x", x), _named("y", y), _named("z", driver)


def _named(name: str, values: np.ndarray) -> Recording:
    return Recording((values[:, None],), (name,))


def _smoothed(noise: np.ndarray, decay: float) -> np.ndarray:
    """An AR(1) process."""
    values = np.zeros(len(noise))
    for t in range(1, len(noise)):
        values[t] = decay * values[t - 1] + noise[t]
    return values


def measure(case: Case) -> Row:
    estimator, test, surrogates, _ = TESTS[case["test"]]
    settings = {} if surrogates is None else {"n_surrogates": surrogates}
    parts = series(case["pair"], case["n"], case["seed"])
    started = time.perf_counter()
    with warnings.catch_warnings():
        for category in (NotConvergedWarning, UnreliableEstimateWarning):
            warnings.simplefilter("ignore", category)
        fresh = make(estimator, random_state=case["seed"], **LAGS)
        result = fit_and_test(fresh, *parts, test=test, **settings).result_
    return {
        "te": result.te,
        "effective_te": result.effective_te,
        "p_value": result.p_value,
        "rejected": (result.p_value or 0.0) <= ALPHA,
        "seconds": round(time.perf_counter() - started, 2),
    }


def section(rows: Sequence[Row]) -> Section:
    text = (
        f"Share of pairs of series with a p-value of at most {ALPHA}. Pairs without coupling: independent "
        "AR(1) processes with the coefficient 0.95; the direction without coupling of the threshold process "
        "and of the heavy-tailed one; two series with a common driver, given it. Pairs with coupling: "
        "the threshold process with the threshold 1 (0.13 nats) and the linear one (0.126). Histories of "
        "five samples.\n\n"
        f"{table(HEADER, _lines(rows))}"
    )
    return Section(text, tuple(_missed(rows)))


def _lines(rows: Sequence[Row]) -> list[list[str]]:
    lines = []
    for (test, coupled), group in grouped(rows, "test", "coupled"):
        aim = f"at least {POWER:.0%}" if coupled else f"{LOW:.0%} to {HIGH:.1%}"
        kinds = [(str(kind), part) for (kind,), part in grouped(group, "pair")]
        for kind, part in [*kinds, ("together", group)]:
            seconds = fixed(float(np.mean([row["seconds"] for row in part])), 1)
            rejected = share([row["rejected"] for row in part])
            lines.append([test, kind, count(part[0]["n"]), rejected, aim, seconds])
    return lines


def _missed(rows: Sequence[Row]) -> list[str]:
    found = []
    for (test, coupled), group in grouped(rows, "test", "coupled"):
        rate = float(np.mean([row["rejected"] for row in group]))
        reached = rate >= POWER if coupled else LOW <= rate <= HIGH
        if not reached:
            kind = "with" if coupled else "without"
            found.append(f"{test}: {rate:.1%} of {len(group)} pairs {kind} coupling are rejected.")
    return found


BENCHMARK = Benchmark(
    script=__file__,
    what="How often the tests of significance reject, with transfer entropy and without.",
    cases=cases(),
    quick=[_case("surrogate, gaussian", "autocorrelated", 0)],
    measure=measure,
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
