"""The paper's density experiments: models of a hidden Markov process against its exact densities."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np
from scipy.stats import t as student

from treet.data import Recording
from treet.density.baselines import ConditionalKernel, LinearGaussian, MixtureDensityNetwork
from treet.density.calibration import calibrate, distances
from treet.density.conditional import ConditionalDensity
from treet.density.flow import NormalizingFlow, zuko
from treet.density.own_past import OwnPast, Patient
from treet.errors import NotConvergedWarning
from treet.estimators.recurrent import DINE
from treet.processes.hidden_markov import HiddenMarkov
from treet.reproduce.runs import Part, Row, run
from treet.study import Case, Outcome

if TYPE_CHECKING:
    import pandas as pd

NOISES, DELAYS = ("gaussian", "uniform"), (2, 5, 10, 15, 25, 50)
QUICK_DELAYS = (2, 10)
MEMORY, BEYOND_DELAY = 3, 5
"""Of case 1, and what case 2 sees beyond its delay."""

SAMPLES, HELD_OUT, TRIALS = 100_000, 20_000, 10
"""With more held-out data the test of calibration would see the sampling error of the fit itself."""

QUICK_SAMPLES, QUICK_TRIALS = 10_000, 1

MODELS = ("treet", "dine", "linear", "mdn", "kernel", "flow", "kalman")
FEWER_TRIALS = {"dine": 2, "kernel": 2}
"""Models whose fits, or whose densities of long pasts, take long."""

SLOW = ("dine",)
"""Left out of a quick run."""

LIMIT, DELAY_LIMIT = 0.005, 0.01
"""Nats above the optimum that are aimed at: in case 1, and in case 2."""

OPTIMUM_SAMPLES = 2**14
"""That the optimum for uniform noise is averaged over, at the most: its standard error is below 0.001."""

LEAST_P = 0.01
CONFIDENCE = 0.95

CONTEXTS = (0.1, 0.5, 0.9)
"""The pasts whose densities are drawn: by the quantile of their predicted mean."""

CURVE_POINTS = 81


def cases(label: str, quick: bool = False, seed: int = 0) -> list[Case]:
    """Every fit of ``label``: "density" (case 1 of the paper) or "density-delay" (case 2)."""
    delays = QUICK_DELAYS if quick else DELAYS
    settings = (
        [{"noise": noise, "delay": 0, "memory": MEMORY} for noise in NOISES]
        if label == "density"
        else [{"noise": "gaussian", "delay": k, "memory": k + BEYOND_DELAY} for k in delays]
    )
    samples, trials = (QUICK_SAMPLES, QUICK_TRIALS) if quick else (SAMPLES, TRIALS)
    return [
        {**setting, "model": model, "trial": trial, "samples": samples, "seed": seed}
        for trial in range(trials)
        for setting in settings
        for model in MODELS
        if trial < FEWER_TRIALS.get(model, trials) and not (quick and model in SLOW)
    ]


def process_of(case: Case) -> HiddenMarkov:
    """The process with the paper's parameters.

    >>> process_of({"noise": "gaussian", "delay": 0}).gain, process_of({"noise": "gaussian", "delay": 5}).gain
    (0.5, 0.9)
    """
    if case["delay"]:
        return HiddenMarkov(decay=0.001, delayed=0.9, state_delay=case["delay"], gain=0.9)
    return HiddenMarkov(noise=case["noise"])


def measure(case: Case) -> Outcome:
    """One fit: how far its densities of new data are from the truth, and how far the best ones are."""
    process, memory = process_of(case), case["memory"]
    generator = np.random.default_rng([case["seed"], case["trial"]])
    training = process.sample(case["samples"], generator)
    new = process.sample(min(case["samples"], HELD_OUT), generator)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NotConvergedWarning)
        densities = FITS[case["model"]](case, training)
    seconds = time.perf_counter() - started
    density, exact = densities(new), process.density(new.select("y"), memory)
    curves = _curves(exact, density) if case["trial"] == 0 else None
    seen = None if case["model"] == "kalman" else memory
    best = exact if seen else process.density(new.select("y"))
    return {
        **_compared(process, new, density, best, seen),
        **_calibrated(density),
        "seconds": round(seconds, 2),
        "converged": not caught,
        "curves": curves,
    }


def _compared(
    process: HiddenMarkov,
    new: Recording,
    density: ConditionalDensity,
    best: ConditionalDensity,
    memory: int | None,
) -> dict[str, float]:
    """Divergences from the truth as the optimum's, which is known, and the mean of what is above it.

    Both log densities are of the same data: their difference varies far less than the divergences do.
    """
    truth = process.given_state(new)[0][density.positions]
    found, least = distances(truth, density), distances(truth, best)
    excess = distances(best.logpdf(), density)
    optimum_kl, optimum_tv = _optimum(process, memory, min(OPTIMUM_SAMPLES, len(best)))
    return {
        "kl": optimum_kl + excess.kl,
        "tv": optimum_tv + found.tv - least.tv,
        "optimum_kl": optimum_kl,
        "optimum_tv": optimum_tv,
        "excess_kl": excess.kl,
        "excess_kl_std_error": excess.kl_std_error,
        "excess_tv": found.tv - least.tv,
    }


@cache
def _optimum(process: HiddenMarkov, memory: int | None, n_samples: int) -> tuple[float, float]:
    return process.exact_kl(memory, n_samples), process.exact_tv(memory, n_samples)


def _calibrated(density: ConditionalDensity) -> dict[str, float]:
    found = calibrate(density, levels=(0.9,))
    return {"pit_p": found.p_value, "pit_spacing": found.spacing, "covered_90": found.coverage[0.9]}


def _curves(exact: ConditionalDensity, density: ConditionalDensity) -> dict[str, Any]:
    """The exact and the model's density after a few pasts, on a grid."""
    order = np.argsort(exact.mean(), kind="stable")
    chosen = order[[int(level * len(order)) for level in CONTEXTS]]
    same = np.searchsorted(density.positions, exact.positions[chosen])
    few = exact[chosen]
    reach = 4 * float(np.sqrt(few.variance()).max())
    y = np.linspace(few.mean().min() - reach, few.mean().max() + reach, CURVE_POINTS)
    drawn = {"exact": few, "model": density[same]}
    return {"y": _rounded(y)} | {name: _rounded(one.pdf(y[:, None]).T) for name, one in drawn.items()}


def _rounded(values: Any) -> Any:
    return np.round(values, 5).tolist()


class Densities(Protocol):
    """A fitted model."""

    def __call__(self, new: Recording) -> ConditionalDensity:
        """Its densities of y in a new recording of x and y."""


def _treet(case: Case, training: Recording) -> Densities:
    estimator = Patient(memory=case["memory"], random_state=case["trial"])
    fitted = OwnPast(estimator).fit(training.select("y"))
    return lambda new: fitted.density(new.select("y"))


def _dine(case: Case, training: Recording) -> Densities:
    """Its critics are trained together: the hidden state is the source, which the critic of Y never sees."""
    fitted = DINE(memory=case["memory"], random_state=case["trial"])
    fitted.fit(training.select("x"), training.select("y"))
    return lambda new: fitted.density(new.select("x"), new.select("y"))


def _kalman(case: Case, training: Recording) -> Densities:
    """The filter with the true parameters, which takes all noise for Gaussian, and the whole past."""
    process = process_of(case)
    state, noise = process.variances
    linear = HiddenMarkov(
        process.decay, process.delayed, process.state_delay, process.gain, "gaussian", state, noise
    )
    return lambda new: linear.density(new.select("y"))


def _baseline(make: Callable[[Case], Any]) -> Callable[[Case, Recording], Densities]:
    def fit(case: Case, training: Recording) -> Densities:
        fitted = make(case).fit(training.select("y"))
        return lambda new: cast("ConditionalDensity", fitted.density(new.select("y")))

    return fit


FITS: dict[str, Callable[[Case, Recording], Densities]] = {
    "treet": _treet,
    "dine": _dine,
    "linear": _baseline(lambda case: LinearGaussian(case["memory"])),
    "mdn": _baseline(lambda case: MixtureDensityNetwork(case["memory"], random_state=case["trial"])),
    "kernel": _baseline(lambda case: ConditionalKernel(case["memory"])),
    "flow": _baseline(lambda case: NormalizingFlow(case["memory"], random_state=case["trial"])),
    "kalman": _kalman,
}


@dataclass(frozen=True)
class Summary:
    """The trials of one model in one setting: means, and an interval of the excess over them."""

    noise: str
    delay: int
    memory: int
    model: str
    trials: int
    kl: float
    tv: float
    optimum_kl: float
    optimum_tv: float
    excess_kl: float
    interval: tuple[float, float]
    excess_tv: float
    seconds: float
    pit_p: float
    uncalibrated: int
    published: tuple[float, float] | None

    @property
    def setting(self) -> str:
        return f"delay {self.delay}" if self.delay else f"{self.noise} noise"

    @property
    def within(self) -> bool:
        """Whether the excess is as small as aimed at."""
        return self.excess_kl <= (DELAY_LIMIT if self.delay else LIMIT)


@dataclass(frozen=True)
class DensityBenchmark:
    """What was measured: one row a fit, the case and its outcome, flat."""

    label: str
    rows: tuple[Row, ...]

    def to_frame(self) -> pd.DataFrame:
        """One row a fit, without the curves."""
        import pandas as pd

        return pd.DataFrame(list(self.rows)).drop(columns="curves")

    def summaries(self) -> list[Summary]:
        """One for each setting and model, in the order of the cases."""
        groups: dict[tuple[Any, ...], list[Row]] = {}
        for row in self.rows:
            groups.setdefault(tuple(row[name] for name in ("noise", "delay", "model")), []).append(row)
        ordered = sorted(groups.values(), key=lambda rows: (rows[0]["delay"], rows[0]["noise"]))
        return [_summary(rows) for rows in ordered]


def _summary(rows: Sequence[Row]) -> Summary:
    first = rows[0]
    means = ("kl", "tv", "optimum_kl", "optimum_tv", "excess_kl", "excess_tv", "seconds")
    known: dict[str, Any] = {name: first[name] for name in ("noise", "delay", "memory", "model")}
    known |= {name: float(np.mean([row[name] for row in rows])) for name in means}
    return Summary(
        **known,
        trials=len(rows),
        interval=_interval(rows),
        pit_p=float(np.median([row["pit_p"] for row in rows])),
        uncalibrated=sum(row["pit_p"] < LEAST_P for row in rows),
        published=paper_figures(first["noise"], first["delay"], first["model"]),
    )


def _interval(rows: Sequence[Row]) -> tuple[float, float]:
    """Of the mean excess: from its spread over trials, or of a single trial from its time steps."""
    values = [row["excess_kl"] for row in rows]
    if len(values) == 1:
        half = float(student.ppf(0.5 + CONFIDENCE / 2, math.inf)) * rows[0]["excess_kl_std_error"]
    else:
        scale = float(np.std(values, ddof=1)) / math.sqrt(len(values))
        half = float(student.ppf(0.5 + CONFIDENCE / 2, len(values) - 1)) * scale
    return float(np.mean(values)) - half, float(np.mean(values)) + half


def paper_figures(noise: str, delay: int, model: str) -> tuple[float, float] | None:
    """The divergence and the total variation that the paper prints.

    >>> paper_figures("uniform", 0, "treet"), paper_figures("gaussian", 50, "kalman")
    ((0.482, 0.296), (1.193, 0.597))
    """
    table = _published()
    if not delay:
        found = table["noise"][noise].get(model)
    elif model in table["delay"] and delay in table["delays"]:
        found = table["delay"][model][table["delays"].index(delay)]
    else:
        found = None
    return None if found is None else (found[0], found[1])


@cache
def _published() -> dict[str, Any]:
    text = files("treet.reproduce").joinpath("density.json").read_text(encoding="utf-8")
    return cast("dict[str, Any]", json.loads(text))


def density_benchmark(
    label: str,
    folder: str | Path | None = None,
    *,
    quick: bool = False,
    seed: int = 0,
    part: Part | None = None,
) -> DensityBenchmark:
    """Measure every fit; what the stores in ``folder`` hold already is not computed again."""
    zuko()  # if it is missing, say so at once
    return DensityBenchmark(label, tuple(run(label, cases(label, quick, seed), measure, folder, part)))
