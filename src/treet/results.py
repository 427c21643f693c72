"""What an estimate returns: one frozen object that prints, plots and saves itself."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from treet.checks import check_choice
from treet.files import write_text
from treet.lags import Lags

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from treet.training import History

Unit = Literal["nats", "bits"]
NATS_PER = {"nats": 1.0, "bits": math.log(2.0)}


def check_unit(unit: str) -> None:
    check_choice("unit", unit, NATS_PER)


def percent(confidence: float) -> str:
    """``95%`` for 0.95, ``99.9%`` for 0.999."""
    return f"{100 * confidence:.6g}%"


def direction(
    source: Sequence[str],
    target: Sequence[str],
    condition: Sequence[str] = (),
    listed: Callable[[Sequence[str]], str] = ", ".join,
) -> str:
    """``source -> target | condition``, each list of names as ``listed`` writes it.

    >>> direction(["a", "b"], ["c"], ["d"])
    'a, b -> c | d'
    """
    words = f"{listed(source)} -> {listed(target)}"
    return f"{words} | {listed(condition)}" if condition else words


def json_text(values: dict[str, Any], path: str | Path | None) -> str:
    """``values`` as JSON text, also written to ``path`` where one is given."""
    text = json.dumps(plain(values), indent=2, allow_nan=False, default=str)
    if path is not None:
        write_text(path, text + "\n")
    return text


@dataclass(frozen=True)
class TransferEntropyResult:
    """The transfer entropy ``source -> target``: TE = D_XY - D_Y, with how sure we are of it.

    ``std_error``, ``interval``, ``d_y``, ``d_xy``, ``local`` and ``p_value`` are None for methods that have
    none. ``local`` holds one array a trial, (time,), NaN where a time step has no window. Where the value was
    tested against surrogates of the source ``test`` says how, and ``effective_te`` is it less their mean.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    condition: tuple[str, ...]
    te: float
    lags: Lags
    n_windows: int
    estimator: str
    std_error: float | None = None
    interval: tuple[float, float] | None = None
    confidence: float = 0.95
    unit: Unit = "nats"
    d_y: float | None = None
    d_xy: float | None = None
    p_value: float | None = None
    test: str | None = None
    effective_te: float | None = None
    converged: bool = True
    seconds: float = 0.0
    seed: int | None = None
    warnings: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    local: tuple[NDArray[np.float64], ...] | None = None
    history: tuple[History, ...] = ()

    @property
    def direction(self) -> str:
        """``source -> target``, and what it is conditional on."""
        return direction(self.source, self.target, self.condition)

    def to_unit(self, unit: Unit) -> TransferEntropyResult:
        """The same result in nats or bits."""
        check_unit(unit)
        scale = NATS_PER[self.unit] / NATS_PER[unit]

        def scaled(value: float | None) -> float | None:
            return None if value is None else value * scale

        return replace(
            self,
            unit=unit,
            te=self.te * scale,
            std_error=scaled(self.std_error),
            interval=None if self.interval is None else (self.interval[0] * scale, self.interval[1] * scale),
            d_y=scaled(self.d_y),
            d_xy=scaled(self.d_xy),
            effective_te=scaled(self.effective_te),
            local=None if self.local is None else tuple(trial * scale for trial in self.local),
        )

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain Python values: what ``treet estimate --json`` prints."""
        return {
            "source": list(self.source),
            "target": list(self.target),
            "condition": list(self.condition),
            "te": self.te,
            "std_error": self.std_error,
            "interval": None if self.interval is None else list(self.interval),
            "confidence": self.confidence,
            "unit": self.unit,
            "p_value": self.p_value,
            "test": self.test,
            "effective_te": self.effective_te,
            "d_y": self.d_y,
            "d_xy": self.d_xy,
            "target_history": self.lags.target_history,
            "source_history": self.lags.source_history,
            "condition_history": len(self.lags.condition_lags) if self.condition else None,
            "delay": self.lags.delay,
            "n_windows": self.n_windows,
            "estimator": self.estimator,
            "settings": dict(self.settings),
            "converged": self.converged,
            "warnings": list(self.warnings),
            "seconds": self.seconds,
            "seed": self.seed,
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """The numbers as JSON text, also written to ``path`` where one is given."""
        return json_text(self.to_dict(), path)

    def to_frame(self) -> pd.DataFrame:
        """One row for each time step: trial, time, local_te; methods without local values give none."""
        import pandas as pd

        trials = self.local or ()
        return pd.DataFrame(
            {
                "trial": np.repeat(np.arange(len(trials)), [len(trial) for trial in trials]),
                "time": np.concatenate([np.arange(len(trial)) for trial in trials] or [np.zeros(0, int)]),
                "local_te": np.concatenate([*trials] or [np.zeros(0)]),
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """The local transfer entropy over time with the value and its interval."""
        from treet.plots import plot_result

        return plot_result(self, ax)

    def to_html(self, path: str | Path, command: str | None = None) -> None:
        """Write one self-contained HTML page: the value, the picture, how it was found, how to repeat it."""
        from treet.report import write_report

        write_report([self], path, command)

    def __str__(self) -> str:
        line = f"{self.direction}  TE = {self.te:.4g} {self.unit}"
        if self.interval is not None:
            low, high = self.interval
            line += f", {percent(self.confidence)} interval {low:.4g} .. {high:.4g}"
        if self.p_value is not None:
            line += f", p = {self.p_value:.3g}"
        line += f"  ({self.lags}; {self.n_windows} windows; {self.estimator})"
        return line if self.converged else f"{line}  NOT CONVERGED"


def plain(value: Any) -> Any:
    """What JSON knows: NumPy's numbers become Python's; NaN and infinity become null."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
