"""The one-call form."""

from __future__ import annotations

from typing import Any

from treet.estimators.registry import make
from treet.results import TransferEntropyResult


def transfer_entropy(
    source: Any, target: Any, condition: Any = None, *, estimator: str = "treet", **parameters: Any
) -> TransferEntropyResult:
    """The transfer entropy ``source -> target``, given ``condition`` where there is one.

    ``source``, ``target`` and ``condition`` are whatever ``as_recording`` takes: arrays, lists of trials,
    DataFrames, xarray or MNE objects. ``parameters`` are the estimator's: ``memory`` or ``target_history``,
    ``source_history``, ``delay``; ``unit``, ``confidence``, ``random_state``, ...

    >>> from treet.processes import simulate
    >>> recording = simulate("threshold", 2000, random_state=0)
    >>> result = transfer_entropy(recording.select("y"), recording.select("x"), memory=2, random_state=0)
    >>> abs(result.te) < 0.02
    True
    """
    return make(estimator, **parameters).fit(source, target, condition).result_
