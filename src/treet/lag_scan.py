"""Transfer entropy over a grid of lags: which delay, how much history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treet.checks import check_whole
from treet.data import Recording
from treet.errors import TreetError
from treet.estimators.base import TransferEntropyEstimator
from treet.estimators.registry import make
from treet.files import write_text
from treet.lags import Lags
from treet.results import Unit, direction, percent
from treet.statistics.significance import check_test, fit_and_test
from treet.study import Study, data_digest
from treet.windows import Windows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
Axis = int | Iterable[int] | None
AXES = ("memory", "target_history", "source_history", "delay", "condition_history")
"""What can vary, under the names of the estimators' parameters."""


@dataclass(frozen=True)
class ScanCell:
    """The estimate under one choice of lags, in the scan's unit."""

    lags: Lags
    te: float
    std_error: float | None
    interval: tuple[float, float] | None
    p_value: float | None
    n_windows: int
    converged: bool
    seconds: float
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class ScanResult:
    """The transfer entropy ``source -> target`` over a grid of lags, one cell for each."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    condition: tuple[str, ...]
    cells: tuple[ScanCell, ...]
    estimator: str
    settings: dict[str, Any]
    unit: Unit
    confidence: float
    same_windows: bool

    @property
    def best(self) -> ScanCell:
        """The cell with the largest value; the first of them where several have it.

        As the maximum of many values it tends to be too high: its interval does not allow for the choice.
        """
        return max(self.cells, key=lambda cell: cell.te)

    @property
    def direction(self) -> str:
        """``source -> target``, and what it is conditional on."""
        return direction(self.source, self.target, self.condition)

    def to_frame(self) -> pd.DataFrame:
        """One row a cell: the lags, then value, error, interval, p-value and how it was found."""
        import pandas as pd

        return pd.DataFrame([_row(cell) for cell in self.cells])

    def to_json(self, path: str | Path | None = None) -> str:
        """The scan as JSON text, also written to ``path`` where one is given."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["cells"] = [_row(cell) | {"warnings": list(cell.warnings)} for cell in self.cells]
        text = json.dumps(values, indent=2, allow_nan=False, default=str)
        if path is not None:
            write_text(path, text + "\n")
        return text

    def plot(self, ax: Axes | None = None) -> Axes:
        """The value over the lag that varies most, with intervals; one line for each choice of the others."""
        from treet.scan_plot import plot_scan

        return plot_scan(self, ax)

    def to_html(self, path: str | Path, command: str | None = None) -> None:
        """Write one self-contained HTML page: the largest value, the curve, the table, how to repeat it."""
        from treet.report.scans import write_scan_report

        write_scan_report([self], path, command)

    def varying(self) -> dict[str, list[int]]:
        """The parameters of the lags that differ between cells, with their values in order."""
        rows = [asdict(cell.lags) for cell in self.cells]
        found = {name: sorted({row[name] for row in rows if row[name] is not None}) for name in rows[0]}
        return {name: values for name, values in found.items() if len(values) > 1}

    def __str__(self) -> str:
        best = self.best
        line = f"{self.direction}  largest TE = {best.te:.4g} {self.unit}"
        if best.interval is not None:
            low, high = best.interval
            line += f", {percent(self.confidence)} interval {low:.4g} .. {high:.4g}"
        return f"{line}  ({best.lags}; {len(self.cells)} choices of lags; {self.estimator})"


def _row(cell: ScanCell) -> dict[str, Any]:
    low, high = cell.interval or (None, None)
    return {
        **asdict(cell.lags),
        "te": cell.te,
        "std_error": cell.std_error,
        "low": low,
        "high": high,
        "p_value": cell.p_value,
        "n_windows": cell.n_windows,
        "converged": cell.converged,
        "seconds": cell.seconds,
        "warnings": "; ".join(cell.warnings),
    }


def scan(
    source: Any,
    target: Any,
    condition: Any = None,
    *,
    memory: Axis = None,
    target_history: Axis = None,
    source_history: Axis = None,
    delay: Axis = None,
    condition_history: Axis = None,
    estimator: str | TransferEntropyEstimator = "treet",
    same_windows: bool = True,
    test: str | None = None,
    resume: str | Path | None = None,
    **parameters: Any,
) -> ScanResult:
    """The transfer entropy ``source -> target`` for every combination of the given lags.

    Each of ``memory`` (the paper's l), ``target_history``, ``source_history``, ``delay`` and
    ``condition_history`` is a whole number or several of them, such as ``range(1, 11)``.

    ``estimator``     a name, or an estimator to copy; ``parameters`` are set on it.
    ``same_windows``  every cell is estimated from the same present time steps, those that have their whole
                      past under the longest lags of all. Cells then differ in what is seen of the past, not
                      in which stretch of the recording they are about. False: each cell uses all it can.
    ``test``          "paired" or "surrogate": every cell gets the p-value of that test against no transfer
                      entropy, uncorrected for the number of cells; see ``correct``.
    ``resume``        an SQLite file in which each cell is stored as soon as it is there. The same call with
                      the same file continues after an interruption; other data, other settings or another
                      version of this package are computed anew, beside what the file holds.

    >>> from treet import TREET, simulate
    >>> recording = simulate("threshold", 500, random_state=0)
    >>> quick = TREET(folds=2, random_state=0)
    >>> found = scan(recording.select("x"), recording.select("y"), memory=1, estimator=quick)
    >>> len(found.cells), found.best.lags.memory
    (1, 1)
    """
    grid = _grid(
        {
            "memory": memory,
            "target_history": target_history,
            "source_history": source_history,
            "delay": delay,
            "condition_history": condition_history,
        }
    )
    fitter = _estimator(estimator, parameters)
    roles = fitter.recordings(source, target, condition)
    check_test(test)
    longest = max(grid, key=lambda lags: lags.span)
    least_span = longest.span if same_windows else 0
    Windows.of(*roles, longest, least_span)  # lags that do not fit the recording fail before the work

    def outcome(case: Mapping[str, Any]) -> dict[str, Any]:
        fresh = fitter.fresh(**case["lags"])
        result = fit_and_test(fresh, *roles, test=test, least_span=least_span).result_
        return {field.name: getattr(result, field.name) for field in fields(ScanCell) if field.name != "lags"}

    known = _description(fitter, roles) | {"least_span": least_span, "test": test}
    cases = [{"lags": asdict(lags)} | known for lags in grid]
    sources, targets, conditions = roles
    label = f"scan of {direction(sources.names, targets.names)}"
    outcomes = Study(resume).run(cases, outcome, label)
    return ScanResult(
        source=sources.names,
        target=targets.names,
        condition=() if conditions is None else conditions.names,
        cells=tuple(_cell(lags, values) for lags, values in zip(grid, outcomes, strict=True)),
        estimator=fitter.name,
        settings=fitter._settings(),
        unit=fitter.unit,
        confidence=fitter.confidence,
        same_windows=same_windows,
    )


def _grid(axes: Mapping[str, Axis]) -> list[Lags]:
    """Every combination, checked, each once."""
    choices = [_choices(name, axis) for name, axis in axes.items()]
    return list(dict.fromkeys(Lags.resolve(*combination) for combination in product(*choices)))


def _choices(name: str, axis: Axis) -> list[int | None]:
    if axis is None:
        return [None]
    values = list(axis) if isinstance(axis, Iterable) else [axis]
    if not values:
        raise TreetError(f"{name} has no values to scan over. Give at least one, or leave it out.")
    return [check_whole(name, value, 0) for value in values]


def _estimator(
    estimator: str | TransferEntropyEstimator, parameters: Mapping[str, Any]
) -> TransferEntropyEstimator:
    """A new estimator without lags and with ``parameters``, which are the estimator's own."""
    if isinstance(estimator, str):
        fresh = make(estimator, **parameters)
        fresh.shared = {}
        return fresh
    fresh = estimator.fresh()
    fresh.shared = {}
    unknown = [name for name in parameters if name not in fresh.parameters()]
    if unknown:
        raise TreetError(f"{', '.join(unknown)} does not apply to the estimator {fresh.name!r}.")
    given = [name for name in AXES if getattr(fresh, name) is not None]
    if given:
        raise TreetError(f"The estimator of a scan must not set {', '.join(given)}: give them to the scan.")
    fresh.set_params(**parameters)
    return fresh


def _description(
    fitter: TransferEntropyEstimator, roles: tuple[Recording, Recording, Recording | None]
) -> dict[str, Any]:
    """What decides the value of a cell beside its lags."""
    parameters = fitter.get_params(deep=False)
    return {
        "data": data_digest(*roles),
        "estimator": f"{type(fitter).__module__}.{type(fitter).__qualname__}",
        "parameters": {name: value for name, value in parameters.items() if name not in AXES},
    }


def _cell(lags: Lags, values: Mapping[str, Any]) -> ScanCell:
    """A cell from what JSON kept of it."""
    interval = None if values["interval"] is None else tuple(values["interval"])
    return ScanCell(**{**values, "lags": lags, "interval": interval, "warnings": tuple(values["warnings"])})
