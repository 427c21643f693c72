"""Processes by name: what ``treet simulate`` offers."""

from __future__ import annotations

from inspect import signature
from typing import Any

from treet.data import Recording
from treet.errors import TreetError
from treet.processes.base import Process, RandomState
from treet.processes.heavy_tailed import HeavyTailed
from treet.processes.linear import VAR, BivariateLinear, DelayedLinear
from treet.processes.maps import SineMap
from treet.processes.threshold import Threshold

PROCESSES: dict[str, type[Process]] = {
    "threshold": Threshold,
    "linear": BivariateLinear,
    "var": VAR,
    "map": SineMap,
    "delayed": DelayedLinear,
    "heavy-tailed": HeavyTailed,
}


def make_process(name: str, /, **parameters: Any) -> Process:
    """The process called ``name`` with its ``parameters``.

    >>> make_process("threshold", rho=0.5)
    Threshold(rho=0.5, threshold=0.0, copies=1, redundant=0)
    """
    if name not in PROCESSES:
        raise TreetError(f"There is no process {name!r}. Choose one of {', '.join(PROCESSES)}.")
    process = PROCESSES[name]
    known = list(signature(process).parameters)
    unknown = [key for key in parameters if key not in known]
    if unknown:
        raise TreetError(
            f"Process {name!r} has no parameter {', '.join(unknown)}. Known: {', '.join(known)}."
        )
    return process(**parameters)


def simulate(
    name: str, n_samples: int, random_state: RandomState = None, n_trials: int = 1, **parameters: Any
) -> Recording:
    """A stationary sample of the process called ``name`` with its ``parameters``.

    >>> simulate("linear", 1000, random_state=0, c=0.3).names
    ('x', 'y')
    """
    return make_process(name, **parameters).sample(n_samples, random_state, n_trials)
