"""The estimators ``ksg`` and ``copula`` and those of other packages, in one process on the same arrays.

    python benchmarks/peers.py [--only SUBSTRING] [--again] [--quick] [--results DIR]

The packages are the extra ``bench``: ``pip install 'transfer-entropy[bench]'``.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from formatting import Section, count, fixed, table
from harness import Benchmark, Case, Row, grouped
from treet.lags import Lags
from treet.processes import Threshold

Floats = NDArray[np.float64]

NEIGHBOURS = 4
SAMPLES = 10_000
HISTORIES = (1, 5, 10, 30)
SEEDS = (0, 1)


def _ksg(x: Floats, y: Floats, history: int) -> float:
    from treet.estimators.nearest import KSG

    estimator = KSG(target_history=history, source_history=history, neighbours=NEIGHBOURS, random_state=0)
    return float(estimator.fit(x, y).te_)


def _infomeasure(x: Floats, y: Floats, history: int) -> float:
    import infomeasure

    lengths = {"src_hist_len": history, "dest_hist_len": history}
    return float(infomeasure.transfer_entropy(x, y, approach="metric", k=NEIGHBOURS, **lengths))


def _tigramite(x: Floats, y: Floats, history: int) -> float:
    from tigramite.independence_tests.cmiknn import CMIknn

    def past(series: Floats) -> Floats:
        return sliding_window_view(series, history)[:-1].T

    array = np.vstack([past(x), y[history:][None], past(y)])
    roles = np.r_[np.zeros(history), 1, np.full(history, 2)].astype(int)
    return float(CMIknn(knn=NEIGHBOURS, workers=-1).get_dependence_measure(array, roles))


def _copula(x: Floats, y: Floats, history: int) -> float:
    from treet.estimators.copula import CopulaTE

    estimator = CopulaTE(target_history=history, source_history=history, random_state=0)
    return float(estimator.fit(x, y).te_)


def _copent(x: Floats, y: Floats, history: int) -> float | None:
    import copent

    return float(copent.transent(y, x)) if history == 1 else None


METHODS: dict[str, Callable[[Floats, Floats, int], float | None]] = {
    "ksg": _ksg,
    "infomeasure": _infomeasure,
    "tigramite": _tigramite,
    "copula": _copula,
    "copent": _copent,
}
SAME_WORK = ("infomeasure", "tigramite")
"""As ``ksg``. ``copent`` knows histories of one alone."""


def cases(samples: int, histories: Sequence[int], seeds: Sequence[int]) -> list[Case]:
    return [
        {"process": repr(Threshold()), "n": samples, "history": history, "seed": seed}
        for history in histories
        for seed in seeds
    ]


def measure(case: Case) -> Row:
    """Values, wall seconds and processor seconds of each, one after the other."""
    recording = Threshold().sample(case["n"], case["seed"])
    x, y = ((series - series.mean()) / series.std() for series in recording.trials[0].T)
    found: Row = {"exact": Threshold().transfer_entropy(Lags(case["history"], case["history"]))}
    warnings.simplefilter("ignore")  # that histories are long for nearest neighbours
    for name, method in METHODS.items():
        method(x[:200], y[:200], 1)  # imports and compilation are not what is compared
        wall, cpu = time.perf_counter(), time.process_time()
        found[name] = method(x, y, case["history"])
        found[f"{name}_seconds"] = round(time.perf_counter() - wall, 3)
        found[f"{name}_cpu_seconds"] = round(time.process_time() - cpu, 3)
    return found


def section(rows: Sequence[Row]) -> Section:
    header = ["history", "samples", "exact", *METHODS, *(f"{name} (s)" for name in METHODS), "times faster"]
    lines = []
    missed = []
    for (history,), group in grouped(rows, "history"):
        values, seconds = _means(group, ""), _means(group, "_seconds")
        faster = min(seconds[name] for name in SAME_WORK) / seconds["ksg"]
        lines.append(
            [
                count(history),
                count(group[0]["n"]),
                fixed(group[0]["exact"]),
                *(fixed(values.get(name)) for name in METHODS),
                *(fixed(seconds[name] if name in values else None, 2) for name in METHODS),
                fixed(faster, 1),
            ]
        )
        if faster < 1:
            missed.append(f"History {history}: ksg takes {1 / faster:.1f} times as long as the fastest peer.")
    text = (
        f"The threshold process, {NEIGHBOURS} neighbours, means over the seeds. *Times faster* is `ksg` than "
        f"the faster of infomeasure and tigramite, which do the same work.\n\n{table(header, lines)}"
    )
    return Section(text, tuple(missed))


def _means(group: Sequence[Row], suffix: str) -> dict[str, float]:
    """Of the methods that gave a value."""
    known = [name for name in METHODS if group[0][name] is not None]
    return {name: float(np.mean([row[f"{name}{suffix}"] for row in group])) for name in known}


BENCHMARK = Benchmark(
    script=__file__,
    what="Estimators of several packages on the same work, in one process.",
    cases=cases(SAMPLES, HISTORIES, SEEDS),
    quick=cases(500, (1, 2), (0,)),
    measure=measure,
    imports=("treet.estimators.nearest",),
)

if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
