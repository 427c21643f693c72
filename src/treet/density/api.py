"""The one-call form: the conditional density of a target given its past, and a source's if there is one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from treet.data import as_recording
from treet.density.calibration import calibrate
from treet.density.conditional import ConditionalDensity
from treet.density.own_past import OwnPast, Patient
from treet.density.result import DensityResult
from treet.errors import TreetError
from treet.estimators.neural import TREET
from treet.estimators.registry import make
from treet.lags import Lags

QUANTILES = (0.05, 0.5, 0.95)


def conditional_density(
    target: Any,
    source: Any = None,
    condition: Any = None,
    *,
    quantiles: Sequence[float] = QUANTILES,
    **parameters: Any,
) -> DensityResult:
    """``p(y_t | past of y)``, given the past of ``source`` and ``condition`` too where there are any.

    ``target``, ``source`` and ``condition`` are whatever ``as_recording`` takes; the target has one channel.
    ``parameters`` are those of ``TREET``: ``memory`` or ``target_history``, ``source_history``, ``delay``;
    ``random_state``, ... ``quantiles`` are the levels of the table, in ascending order.

    >>> from treet.processes import simulate
    >>> x, y = (simulate("threshold", 500, random_state=0).select(name) for name in "xy")
    >>> found = conditional_density(y, x, memory=1, folds=2, epochs=126, batch_size=64, random_state=0)
    >>> list(found.to_frame().columns)[:5], found.calibration.gain > 0.1
    (['trial', 'time', 'value', 'mean', 'std'], True)
    """
    started = time.perf_counter()
    levels = checked_quantiles(quantiles)
    targets = as_recording(target, "target")
    if targets.n_channels != 1:
        raise TreetError(
            f"A density takes one target channel. Got {targets.n_channels}: choose one, or take "
            "estimator.density(..), which gives the joint density of several."
        )
    estimator = Patient(**make("treet", **parameters).get_params())
    fit = _own_past if source is None else _joint
    density, linear, lags, converged = fit(estimator, source, targets, condition)
    return DensityResult(
        target=targets.names[0],
        source=density.windows.names["source"],
        condition=density.windows.names["condition"],
        lags=lags,
        density=density,
        linear=linear,
        quantiles=levels,
        calibration=calibrate(density, against=linear),
        converged=converged,
        seconds=time.perf_counter() - started,
        seed=parameters.get("random_state"),
        settings=estimator._settings(),
    )


Found = tuple[ConditionalDensity, ConditionalDensity, Lags, bool]
"""The density, that of the linear predictor, the lags, and whether training converged."""


def _own_past(estimator: TREET, source: None, target: Any, condition: Any) -> Found:
    fitted = OwnPast(estimator).fit(target, condition)
    density, linear = (fitted.density(target, condition, linear) for linear in (False, True))
    return density, linear, fitted.lags_, fitted.converged_


def _joint(estimator: TREET, source: Any, target: Any, condition: Any) -> Found:
    if estimator._resolved().critic != "density":
        raise TreetError(f"preset={estimator.preset!r} has no linear predictor of both pasts. Leave it out.")
    estimator.fit(source, target, condition)
    density, linear = (estimator.density(source, target, condition, at) for at in ("joint", "linear joint"))
    return density, linear, estimator.lags_, estimator.converged_


def checked_quantiles(quantiles: Sequence[float]) -> tuple[float, ...]:
    """Levels between 0 and 1 in ascending order, each once; raises for anything else."""
    levels = tuple(map(float, quantiles))
    inside = all(0 < level < 1 for level in levels)
    if not levels or not inside or list(levels) != sorted(set(levels)):
        raise TreetError(f"quantiles must ascend and lie between 0 and 1. Got {list(levels)} instead.")
    return levels
