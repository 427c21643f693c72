"""The one-call form."""

from __future__ import annotations

from typing import Any

from treet.estimators.registry import make
from treet.results import TransferEntropyResult
from treet.statistics.significance import fit_and_test


def transfer_entropy(
    source: Any,
    target: Any,
    condition: Any = None,
    *,
    estimator: str = "treet",
    test: str | None = None,
    **parameters: Any,
) -> TransferEntropyResult:
    """The transfer entropy ``source -> target``, given ``condition`` where there is one.

    ``source``, ``target`` and ``condition`` are whatever ``as_recording`` takes: arrays, lists of trials,
    DataFrames, xarray or MNE objects. ``parameters`` are the estimator's: ``memory`` or ``target_history``,
    ``source_history``, ``delay``; ``unit``, ``confidence``, ``random_state``, ...

    ``test`` gives the result a p-value against no transfer entropy: "paired", with one extra fit, or
    "surrogate", with 99; see ``paired_test`` and ``surrogate_test``, which take more settings. Without it
    the p-value is the estimator's own, where it has one ("gaussian", "discrete", "symbolic").

    >>> from treet.processes import simulate
    >>> recording = simulate("threshold", 2000, random_state=0)
    >>> result = transfer_entropy(recording.select("y"), recording.select("x"), memory=2, random_state=0)
    >>> abs(result.te) < 0.02
    True
    """
    return fit_and_test(make(estimator, **parameters), source, target, condition, test=test).result_
