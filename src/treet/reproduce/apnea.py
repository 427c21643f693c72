"""The apnea study: heart, breath and blood oxygen of a sleeping patient."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from treet.data import Recording
from treet.datasets import load_apnea
from treet.errors import NotConvergedWarning, UnreliableEstimateWarning
from treet.estimators.registry import make
from treet.reproduce.runs import Part, Row, run
from treet.results import TransferEntropyResult
from treet.statistics.significance import fit_and_test
from treet.study import Case, Outcome

Floats = NDArray[np.float64]

LABEL = "apnea"
HISTORIES = tuple(range(3, 16))
QUICK_HISTORIES = (3, 9, 15)
SOURCE_HISTORY, DELAY = 2, 1
"""The paper's: two past values of the source, without its present one."""

ESTIMATORS = ("treet", "ksg", "gaussian")
PAIR = (("breath", "heart"), ("heart", "breath"))
CHANNELS = ("heart", "breath", "oxygen")

CHANNEL_HISTORY = 5
"""Past values of the target where all three channels are looked at, and of the condition."""

SCHREIBER = slice(2350, 3550)
"""Of the first recording: the stretch that transfer entropy was introduced with (Schreiber 2000)."""
SCHREIBER_ESTIMATORS = ("kernel", "ksg", "gaussian", "treet")

SMOOTHED, AROUND = 10, 60
"""Time steps over which the depth of breath is taken, and shown before and after an event."""


def cases(quick: bool = False, seed: int = 0) -> list[Case]:
    """What is estimated: by history, in Schreiber's stretch, and between all three channels."""
    histories = QUICK_HISTORIES if quick else HISTORIES
    estimators = ESTIMATORS[1:] if quick else ESTIMATORS
    found = [
        _case("history", estimator, *pair, None, history, seed)
        for estimator in estimators
        for history in histories
        for pair in PAIR
    ]
    found += [
        _case("schreiber", estimator, *pair, None, 1, seed)
        for estimator in SCHREIBER_ESTIMATORS
        if not (quick and estimator == "treet")
        for pair in PAIR
    ]
    return found + [
        _case("channels", estimators[0], source, target, condition, CHANNEL_HISTORY, seed)
        for source in CHANNELS
        for target in CHANNELS
        if source != target
        for condition in (None, *({*CHANNELS} - {source, target}))
    ]


def _case(
    part: str, estimator: str, source: str, target: str, condition: str | None, history: int, seed: int
) -> Case:
    return {
        "part": part,
        "estimator": estimator,
        "source": source,
        "target": target,
        "condition": condition,
        "target_history": history,
        "seed": seed,
    }


def measure(case: Case) -> Outcome:
    """One value with its interval and p-value, in nats."""
    recording = load_apnea()
    schreiber = case["part"] == "schreiber"
    if schreiber:
        recording = replace(recording, trials=(recording.trials[0][SCHREIBER],))
    source_history = 1 if schreiber else SOURCE_HISTORY
    lags = {"target_history": case["target_history"], "source_history": source_history, "delay": DELAY}
    estimator = make(case["estimator"], random_state=case["seed"], **lags)
    parts = [None if case[role] is None else recording.select(case[role]) for role in ROLES]
    with warnings.catch_warnings():
        for category in (NotConvergedWarning, UnreliableEstimateWarning):
            warnings.simplefilter("ignore", category)  # kept with the result
        # The same present values for every history.
        least_span = max(HISTORIES) if case["part"] == "history" else 0
        test = None if case["estimator"] == "gaussian" else "paired"
        result = fit_and_test(estimator, *parts, test=test, least_span=least_span).result_
    events = _around_events(result, recording) if _shows_events(case) else None
    return _numbers(result) | {"around_events": events}


ROLES = ("source", "target", "condition")


def _numbers(result: TransferEntropyResult) -> Outcome:
    low, high = result.interval or (None, None)
    return {
        "te": result.te,
        "low": low,
        "high": high,
        "p_value": result.p_value,
        "effective_te": result.effective_te,
        "n_windows": result.n_windows,
        "converged": result.converged,
        "warnings": list(result.warnings),
        "seconds": round(result.seconds, 2),
    }


def _shows_events(case: Case) -> bool:
    pair = (case["source"], case["target"])
    return case["part"] == "channels" and case["condition"] is None and pair in PAIR


def _around_events(result: TransferEntropyResult, recording: Recording) -> dict[str, list[float]]:
    """Means of the local values, and their standard errors, by time from the return of breath."""
    rows = []
    for local, values in zip(result.local or (), recording.trials, strict=True):
        for event in breath_returns(values[:, CHANNELS.index("breath")]):
            if AROUND <= event < len(local) - AROUND:
                rows.append(local[event - AROUND : event + AROUND + 1])
    table = np.array(rows)
    error = np.nanstd(table, axis=0) / math.sqrt(max(1, len(table)))
    return {
        "mean": np.nanmean(table, axis=0).tolist(),
        "std_error": error.tolist(),
        "events": [float(len(table))],
    }


def breath_returns(breath: Floats) -> list[int]:
    """Where deep breath begins after a pause: (time,) -> time steps.

    The depth is the standard deviation over ``SMOOTHED`` time steps. Breath pauses where it falls below half
    its median, and returns where it next rises above the median.

    >>> time = np.arange(400)
    >>> breath_returns(np.sin(time) * np.where((time > 100) & (time < 150), 0.01, 1.0))
    [159]
    """
    windows = np.lib.stride_tricks.sliding_window_view(breath, SMOOTHED)
    depth = windows.std(axis=1)
    middle = float(np.median(depth))
    events, pausing = [], False
    for time, value in enumerate(depth.tolist(), start=SMOOTHED - 1):
        if value < middle / 2:
            pausing = True
        elif pausing and value > middle:
            pausing = False
            events.append(time)
    return events


def apnea(
    folder: str | Path | None = None, *, quick: bool = False, seed: int = 0, part: Part | None = None
) -> list[Row]:
    """The rows of the study; what the stores in ``folder`` hold already is not computed again.

    The recordings are found as ``treet.datasets.load_apnea`` finds them.
    """
    load_apnea()  # where there are none, this says so before any work
    return run(LABEL, cases(quick, seed), measure, folder, part)


def of_part(rows: Sequence[Row], part: str) -> list[Row]:
    return [row for row in rows if row["part"] == part]


def separated(rows: Sequence[Row], estimator: str) -> list[int]:
    """The histories at which breath -> heart lies above heart -> breath with no overlap of the intervals."""
    found: dict[tuple[str, int], Row] = {
        (row["source"], row["target_history"]): row
        for row in of_part(rows, "history")
        if row["estimator"] == estimator
    }
    histories = sorted({history for _, history in found})
    return [k for k in histories if found["breath", k]["low"] > found["heart", k]["high"]]


@cache
def published() -> dict[str, list[float]]:
    """The points of the paper's figure, in nats, by history; its values below zero were set to zero."""
    text = files("treet.reproduce").joinpath("apnea.json").read_text(encoding="utf-8")
    return cast("dict[str, Any]", json.loads(text))
