"""The densities of a recording: one frozen object that prints, plots and saves itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from treet.checks import check_whole
from treet.density.calibration import Calibration
from treet.density.conditional import ConditionalDensity
from treet.density.univariate import Floats
from treet.errors import TreetError
from treet.lags import Lags
from treet.results import json_text, percent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class DensityResult:
    """``p(y_t | past)`` at every time step, and how it fared against a linear Gaussian predictor.

    Each time step has the density of critics that did not train on it.

    ``density``      the densities themselves, for anything that is not in the table.
    ``linear``       those of the linear Gaussian predictor from the same past.
    ``quantiles``    the levels of the table and of the band.
    ``calibration``  log score, its gain over ``linear``, probability integral transform and its test.
    """

    target: str
    source: tuple[str, ...]
    condition: tuple[str, ...]
    lags: Lags
    density: ConditionalDensity
    linear: ConditionalDensity
    quantiles: tuple[float, ...]
    calibration: Calibration
    converged: bool = True
    seconds: float = 0.0
    seed: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def past(self) -> str:
        """What the target is given, such as ``past of y, x``."""
        return f"past of {', '.join([self.target, *self.source, *self.condition])}"

    @property
    def band(self) -> tuple[float, float] | None:
        """The probability between the outer quantiles, and how often the target lay there.

        None for a single quantile.
        """
        low, high = self.quantiles[0], self.quantiles[-1]
        if low == high:
            return None
        pit = self.calibration.pit
        return high - low, float(((pit >= low) & (pit <= high)).mean())

    def at(self, time: int, trial: int = 0) -> ConditionalDensity:
        """The density at one time step of a trial."""
        step = self._step(time, trial)
        return self.density[step : step + 1]

    def _step(self, time: int, trial: int) -> int:
        trials = self.density.on_time_axis(np.arange(len(self.density), dtype=float))
        check_step(trials, time, trial)
        step = trials[trial][time]
        if np.isnan(step):
            raise TreetError(
                f"Time step {time} has no density: its value or a part of its past is missing ({self.lags})."
            )
        return int(step)

    def row(self, time: int, trial: int = 0) -> dict[str, float]:
        """The table's numbers at one time step."""
        step = self._step(time, trial)
        columns = self._columns(slice(step, step + 1))
        return {"trial": trial, "time": time} | {name: float(values[0]) for name, values in columns.items()}

    def to_frame(self) -> pd.DataFrame:
        """One row for each time step, NaN where it has not its whole past.

        ``trial, time, value, mean, std``, the quantiles as ``q0.05, ..``, ``log_score`` in nats,
        ``linear_log_score`` of the linear predictor, and ``anomaly``, which is ``-log p(y_t | past)``.
        """
        import pandas as pd

        columns = self._columns(slice(None))
        spread = {name: self.density.on_time_axis(values) for name, values in columns.items()}
        lengths = [len(trial) for trial in spread["value"]]
        where = {
            "trial": np.repeat(np.arange(len(lengths)), lengths),
            "time": np.concatenate([np.arange(length) for length in lengths]),
        }
        return pd.DataFrame(where | {name: np.concatenate(trials) for name, trials in spread.items()})

    def _columns(self, steps: slice) -> dict[str, Floats]:
        """(steps,) each, by the name of the column."""
        density, score = self.density[steps], self.density[steps].logpdf()
        found = density.quantile(np.array(self.quantiles))
        return {
            "value": density.observed,
            "mean": density.mean(),
            "std": np.sqrt(density.variance()),
            **{f"q{level:g}": values for level, values in zip(self.quantiles, found, strict=True)},
            "log_score": score,
            "linear_log_score": self.linear[steps].logpdf(),
            "anomaly": -score,
        }

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain Python values: what ``treet density --json`` prints."""
        found, band = self.calibration, self.band
        return {
            "target": self.target,
            "source": list(self.source),
            "condition": list(self.condition),
            "target_history": self.lags.target_history,
            "source_history": self.lags.source_history if self.source else None,
            "condition_history": len(self.lags.condition_lags) if self.condition else None,
            "delay": self.lags.delay if self.source or self.condition else None,
            "n_windows": len(self.density),
            "unit": "nats",
            "log_score": found.log_score,
            "std_error": found.std_error,
            "gain_over_linear": found.gain,
            "gain_std_error": found.gain_std_error,
            "pit_statistic": found.statistic,
            "pit_p_value": found.p_value,
            "pit_spacing": found.spacing,
            "quantiles": list(self.quantiles),
            "band": None if band is None else {"probability": band[0], "covered": band[1]},
            "settings": dict(self.settings),
            "converged": self.converged,
            "seconds": self.seconds,
            "seed": self.seed,
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """The summary as JSON text, also written to ``path`` where one is given."""
        return json_text(self.to_dict(), path)

    def plot(self, ax: Axes | None = None, time: int | None = None, trial: int = 0) -> Axes:
        """A fan chart of the first time steps, or the density at one ``time`` step of a ``trial``."""
        from treet.density.plots import plot_density, plot_one

        if time is None:
            return plot_density(self.density, ax)
        return plot_one(self.at(time, trial), self.quantiles, time, ax)

    def to_html(self, path: str | Path, command: str | None = None) -> None:
        """Write one self-contained HTML page: the value, the picture, how it was found, how to repeat it."""
        from treet.report.density import write_density_report

        write_density_report(self, path, command)

    def __str__(self) -> str:
        found, band = self.calibration, self.band
        line = f"{self.target} given the {self.past}  "
        line += f"log score {found.log_score:.4g} +- {found.std_error:.2g} nats, "
        line += f"{found.gain:+.4g} against a linear Gaussian"
        if band is not None:
            line += f"; {band[1]:.1%} in the {percent(round(band[0], 6))} band"
        line += f"; transform uniform p = {found.p_value:.2g}"
        line += f"  ({self.lags}; {len(self.density)} windows)"
        return line if self.converged else f"{line}  NOT CONVERGED"


def check_step(trials: Sequence[Floats], time: int, trial: int) -> None:
    """Raise unless ``trial`` and its time step ``time`` are there."""
    if check_whole("trial", trial, 0) >= len(trials):
        raise TreetError(f"trial must be below {len(trials)}. Got {trial} instead.")
    if check_whole("time", time, 0) >= len(trials[trial]):
        raise TreetError(
            f"time must be below {len(trials[trial])}, the length of the trial. Got {time} instead."
        )
