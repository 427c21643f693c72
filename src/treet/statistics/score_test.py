"""A cheap, calibrated test of whether the source tells anything, by scores and shifts of the source."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, zip_longest

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import rankdata

from treet.data import Recording
from treet.lags import Lags
from treet.statistics.surrogates import circular_shift
from treet.windows import Role, Windows

Floats = NDArray[np.float64]

N_SHIFTS = 199
TAILS = (0.25, 0.05)
WINDOWS_PER_COLUMN = 10
"""At least so many windows for each column that explains the target without the source."""

MOST_VALUES = 2**20
"""In the matrix of what the source may change: more windows than it holds are thinned out evenly."""

LEAST_SHARE = 1e-9
"""Of its square that a column keeps beside the target's past: with less it is a copy of it."""


@dataclass(frozen=True)
class Score:
    """The largest gain in log likelihood that a small change promises, in nats, and how likely by chance."""

    statistic: float
    p_value: float


def score_test(
    source: Recording,
    target: Recording,
    condition: Recording | None,
    lags: Lags,
    generator: np.random.Generator,
    n_shifts: int = N_SHIFTS,
    least_span: int = 0,
) -> Score:
    """A test of conditional independence of the target's present and the source's past, in milliseconds.

    Every channel is replaced by its normal scores. ``r`` is what a regression leaves of the target's present
    value. Its terms are, for each past value ``a`` of target and condition, ``a``, ``a^2``, and ``a`` where
    the target's newest past value lies in a tail. The same terms of the source, less what these explain of
    them, are ``h_j``. The statistic is the largest of the score statistics

        U_j^2 / (2 V_j),   U_j = sum_t g_t h_jt,   V_j = sum_t g_t^2 h_jt^2,   g = r or r^2 (less its mean)

    each of which is half a chi-square where the source tells nothing. What the largest of them is worth is
    learned from ``n_shifts`` circular shifts of the source: exact where it is independent of all else, and
    close where it is not, since the ``U_j^2 / V_j`` do not depend on what the past explains of the source.

    >>> from treet.processes import Threshold
    >>> recording = Threshold().sample(500, random_state=0)
    >>> x, y, generator = recording.select("x"), recording.select("y"), np.random.default_rng(0)
    >>> score_test(x, y, None, Lags(2, 2), generator).p_value
    0.005
    """
    source, target = normal_scores(source), normal_scores(target)
    condition = None if condition is None else normal_scores(condition)
    explained = _Explained(Windows.of(source, target, condition, lags, least_span))

    def largest(moved: Recording) -> float:
        return explained.largest_score(Windows.of(moved, target, condition, lags, least_span))

    statistic = largest(source)
    count = sum(largest(circular_shift(source, generator)) >= statistic for _ in range(n_shifts))
    return Score(statistic, (1 + count) / (1 + n_shifts))


def normal_scores(recording: Recording) -> Recording:
    """Every channel through its ranks to a standard normal: what no increasing change of it can alter."""
    line = np.concatenate(recording.trials)
    there = np.isfinite(line)
    ranks = rankdata(line, axis=0, nan_policy="omit")
    scores = np.where(there, ndtri((ranks - 0.5) / there.sum(axis=0)), np.nan)
    edges = np.cumsum([len(trial) for trial in recording.trials])[:-1]
    return Recording(tuple(np.split(scores, edges)), recording.names, recording.sampling_rate)


class _Explained:
    """What the target's own past, and the condition's, leave of the target, and would leave of the source."""

    def __init__(self, windows: Windows) -> None:
        newest = windows.past("target")[:, 0]
        edges = [side for share in TAILS for side in _tails(newest, share)]
        columns = windows.width("source") * len(windows.lags.source_lags) * (2 + newest.shape[1] * len(edges))
        self.every = -(-len(windows) * columns // MOST_VALUES)
        self.edges = np.hstack(edges)[:: self.every].astype(np.float64)
        both = zip_longest(self._terms(windows, "target"), self._terms(windows, "condition"))
        known = np.hstack([np.ones((len(self.edges), 1)), self.edges, *chain(*both)])
        self.basis = _orthonormal(known[:, : max(1, len(known) // WINDOWS_PER_COLUMN)])
        residual = self._rest(windows.present()[:: self.every])
        self.residuals = np.hstack([residual, self._rest(residual**2)])

    def _terms(self, windows: Windows, role: Role) -> list[Floats]:
        past = windows.flat_past(role)[:: self.every]
        return [past, past**2, *(past * edge[:, None] for edge in self.edges.T)]

    def _rest(self, columns: Floats) -> Floats:
        rest: Floats = columns - self.basis @ (self.basis.T @ columns)
        return rest

    def largest_score(self, windows: Windows) -> float:
        terms = np.hstack(self._terms(windows, "source"))
        rest = self._rest(terms)
        new = (rest**2).sum(axis=0) > LEAST_SHARE * (terms**2).sum(axis=0)
        squares = (self.residuals.T @ rest) ** 2
        variances = (self.residuals**2).T @ rest**2
        scores = np.divide(squares, 2 * variances, out=np.zeros_like(squares), where=new & (variances > 0))
        return float(scores.max())


def _tails(newest: Floats, share: float) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(windows, channels) twice: the lowest and the highest ``share`` of the values."""
    low, high = np.quantile(newest, (share, 1 - share), axis=0)
    return newest <= low, newest >= high


def _orthonormal(columns: Floats) -> Floats:
    """A basis of what the columns span."""
    left, sizes, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(left[:, sizes > LEAST_SHARE * sizes[0]])
