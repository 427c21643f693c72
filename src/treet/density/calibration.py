"""Whether densities keep their word: probability integral transform, coverage, log score, distances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kstest

from treet.density.conditional import ConditionalDensity
from treet.density.univariate import Floats
from treet.errors import TreetError
from treet.statistics.intervals import standard_error

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)
BINS = 20
UNCORRELATED = 0.05
"""An autocorrelation that a test for independent values bears."""


@dataclass(frozen=True)
class Calibration:
    """How a density fared on the recording that it was made for.

    ``pit``        (steps,) or (steps, channels): ``F(y_t | past)``, uniform where the density is right
                   (of several channels each given those before it).
    ``counts``     (bins,) of ``pit`` in equal bins between 0 and 1.
    ``statistic``  of Kolmogorov and Smirnov's test that ``pit`` is uniform, on every ``spacing``-th step;
                   ``p_value`` is its p-value.
    ``coverage``   by level, the share of central intervals of that level that held the value.
    ``log_score``  the mean of ``log p(y_t | past)`` in nats, with its standard error.
    ``gain``       the log score above that of another density, with its standard error; None without one.
    """

    pit: Floats
    counts: NDArray[np.int64]
    statistic: float
    p_value: float
    spacing: int
    coverage: dict[float, float]
    log_score: float
    std_error: float
    gain: float | None = None
    gain_std_error: float | None = None

    def __str__(self) -> str:
        held = ", ".join(f"{level:.0%}: {share:.1%}" for level, share in self.coverage.items())
        line = f"log score {self.log_score:.4g} +- {self.std_error:.2g} nats; intervals held {held}; "
        line += f"uniform transform p = {self.p_value:.3g} (every {self.spacing}. step)"
        if self.gain is None:
            return line
        return f"{line}; {self.gain:+.4g} +- {self.gain_std_error:.2g} nats against the other"


def calibrate(
    density: ConditionalDensity, against: ConditionalDensity | None = None, levels: Sequence[float] = LEVELS
) -> Calibration:
    """How ``density`` fared, also ``against`` another density of the same time steps.

    The test needs independent values, and those of a density that does not see the whole past are not. They
    are thinned to every ``spacing``-th: at that lag the autocorrelation of the transform, and of its distance
    from 1/2, first falls below 0.05 or below what chance gives.

    >>> from treet.processes.hidden_markov import HiddenMarkov
    >>> process = HiddenMarkov()
    >>> seen = process.sample(2000, random_state=0).select("y")
    >>> found = calibrate(process.density(seen, memory=3), against=process.density(seen, memory=3))
    >>> found.p_value > 0.01, round(found.coverage[0.9], 1), found.gain
    (True, 0.9, 0.0)
    """
    pit, score = density.cdf(), density.logpdf()
    gain, gain_error = _gain(density, score, against)
    spacing = _spacing(density, pit.reshape(len(pit), -1))
    distance = np.abs(pit - 0.5)
    test = kstest(pit[::spacing].ravel(), "uniform")
    return Calibration(
        pit=pit,
        counts=np.histogram(pit, BINS, (0.0, 1.0))[0],
        statistic=float(test.statistic),
        p_value=float(test.pvalue),
        spacing=spacing,
        coverage={level: float((distance <= level / 2).mean()) for level in levels},
        log_score=float(score.mean()),
        std_error=standard_error(density.on_time_axis(score)),
        gain=gain,
        gain_std_error=gain_error,
    )


def _gain(
    density: ConditionalDensity, score: Floats, against: ConditionalDensity | None
) -> tuple[float | None, float | None]:
    if against is None:
        return None, None
    if not np.array_equal(density.positions, against.positions):
        raise TreetError(
            f"Both densities must be of the same time steps. Got {len(density)} and {len(against)} steps"
            "; fit both with the same memory, or take the common ones by density[steps]."
        )
    difference = score - against.logpdf()
    return float(difference.mean()), standard_error(density.on_time_axis(difference))


def _spacing(density: ConditionalDensity, pit: Floats) -> int:
    """How many steps apart ``pit`` (steps, channels), and its distance from 1/2, are uncorrelated."""
    columns = [part for column in pit.T for part in (column, np.abs(column - 0.5))]
    return max(_first_uncorrelated(density.on_time_axis(values - values.mean())) for values in columns)


def _first_uncorrelated(trials: Sequence[Floats]) -> int:
    """The first lag whose autocorrelation is small, or not to be told from none."""
    line = np.concatenate(trials)
    variance, count = np.nanmean(line**2), np.isfinite(line).sum()
    limit = max(UNCORRELATED, 2 / math.sqrt(count))
    longest = max(map(len, trials))
    for lag in range(1, longest):
        products = np.concatenate([trial[lag:] * trial[: max(0, len(trial) - lag)] for trial in trials])
        products = products[np.isfinite(products)]
        if not len(products) or abs(products.mean()) <= limit * variance:
            return lag
    return longest


@dataclass(frozen=True)
class Distances:
    """Mean divergence and total variation from the true densities to a model's, with standard errors."""

    kl: float
    tv: float
    kl_std_error: float
    tv_std_error: float


def distances(log_true: Floats, density: ConditionalDensity) -> Distances:
    """How far ``density`` is from the density that the recording was drawn from.

    ``log_true`` (steps,) is the log of the true density at what was observed. With ``y_t ~ p_t``

        KL = E[log p_t - log q_t],   TV = 1 - E[min(1, q_t / p_t)]

    are means over the recording: no integral is needed.
    """
    difference = log_true - density.logpdf()
    apart = 1 - np.minimum(1.0, np.exp(-difference))
    errors = [standard_error(density.on_time_axis(values)) for values in (difference, apart)]
    return Distances(float(difference.mean()), float(apart.mean()), *errors)
