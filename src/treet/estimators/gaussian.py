"""The estimator ``gaussian``: Granger causality as a transfer entropy, in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq
from scipy.optimize import brentq
from scipy.stats import chi2, f, ncx2

from treet.checks import check_choice
from treet.errors import TreetError
from treet.estimators.base import Estimate, Floats, TransferEntropyEstimator
from treet.lags import Lags
from treet.results import Unit
from treet.statistics.intervals import standard_error
from treet.windows import ROLES, Role, Windows

Columns = NDArray[np.int64]
ORDERS = ("given", "bic")

# The square of the share of the target's spread, 1e-10, below which a residual is rounding.
_NO_NOISE = 1e-20


class GaussianTE(TransferEntropyEstimator):
    """Transfer entropy of linear Gaussian series: half of Granger's log ratio (Barnett, Barrett, Seth 2009).

        TE = (log det S_Y - log det S_XY) / 2

    with the residual covariances, (channels, channels) over the n windows, of the least-squares predictions
    with an intercept of the target from its own and the condition's past (S_Y) and from the source's past too
    (S_XY). For other series this is the part of the transfer entropy that linear prediction sees.

    The value is the maximum-likelihood one (Barnett and Bossomaier 2012), as other packages report it: never
    below zero, and too high by about ``c / (2 n)``, where c is the number of the source's coefficients. It is
    not corrected, so that ``2 n TE`` stays the statistic of the test. The interval allows for this.

    ``local_te_``  the in-sample log likelihood ratio of the two predictions in each window.
    ``d_y_``       ``(log det S - log det S_Y) / 2`` with the target's own covariance S: the divergence of the
                   first prediction from a Gaussian with the mean and the covariance of the target;
                   ``d_xy_`` that of the second, so that ``TE = D_XY - D_Y``.
    ``interval_``  by inversion of Geweke's (1982) noncentral chi-square ``2 n TE ~ chi2(c, 2 n TE_true)``,
                   its spread scaled to that of the local values; its ends are never below zero. Where little
                   is coupled and c is large it lies below the value, and a note says so.

    ``order``  "given": the histories as given. "bic": they are upper limits, and Schwarz's criterion chooses
               first ``target_history`` for the target without the source, since what too short a past of its
               own misses would count as the source's, then ``source_history``. The result states the choice;
               the p-value takes it as given, and the condition keeps its history.
    ``test``   the p-value: "f" (exact for Gaussian noise and a scalar target, Rao's approximation for a
               vector) or "chi2" (the likelihood ratio, for many windows).

    Columns of the past that are linear functions of others are left out of the count of coefficients.

    >>> from treet.processes import BivariateLinear
    >>> recording = BivariateLinear().sample(2000, random_state=0)
    >>> forth = GaussianTE(memory=2).fit(recording.select("y"), recording.select("x")).result_
    >>> back = GaussianTE(memory=2).fit(recording.select("x"), recording.select("y")).result_
    >>> forth.te > 0.1, forth.p_value < 1e-9, back.te < 0.01
    (True, True, True)
    """

    name: ClassVar[str] = "gaussian"
    summary: ClassVar[str] = "linear regression in closed form (Granger causality)"
    assumes: ClassVar[str] = "linear coupling with Gaussian noise; more windows than coefficients"
    cost: ClassVar[str] = "well below a second; linear in the samples, quadratic in the history"
    use_when: ClassVar[str] = "coupling is linear, or a first look with a p-value is wanted"

    def __init__(
        self,
        memory: int | None = None,
        target_history: int | None = None,
        source_history: int | None = None,
        delay: int | None = None,
        condition_history: int | None = None,
        *,
        order: str = "given",
        test: str = "f",
        unit: Unit = "nats",
        confidence: float = 0.95,
        random_state: int | None = None,
    ) -> None:
        self.memory = memory
        self.target_history = target_history
        self.source_history = source_history
        self.delay = delay
        self.condition_history = condition_history
        self.order = order
        self.test = test
        self.unit = unit
        self.confidence = confidence
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_choice("order", self.order, ORDERS)
        check_choice("test", self.test, TESTS)

    def _windows(self, source: Any, target: Any, condition: Any, lags: Lags, least_span: int = 0) -> Windows:
        """The windows of the lags that are used: with "bic" they are chosen on the windows of ``lags``."""
        windows = super()._windows(source, target, condition, lags, least_span)
        if self.order == "given":
            return windows
        return super()._windows(source, target, condition, _lags_by_bic(windows), least_span)

    def _estimate(self, windows: Windows) -> Estimate:
        regression = _Regression.of(windows)
        without, both = (regression.fit(columns) for columns in regression.nested(windows.lags))
        comparison = _compare(regression, without, both)
        local = regression.local_values(without, both)
        std_error = standard_error(windows.on_time_axis(local))
        interval = comparison.interval(std_error, self.confidence)
        return Estimate(
            te=comparison.te,
            local=local,
            std_error=std_error,
            interval=interval,
            d_y=regression.divergence(without),
            d_xy=regression.divergence(both),
            p_value=TESTS[self.test](comparison),
            notes=(*_collinear(both), *comparison.doubts(interval)),
        )


@dataclass(frozen=True)
class _Fit:
    """One prediction: ``columns`` of the regressors, (columns, target channels) coefficients, the residuals'
    covariance, (target channels, target channels), and how many of the columns are linearly independent."""

    columns: Columns
    coefficients: Floats
    covariance: Floats
    rank: int


@dataclass(frozen=True)
class _Regression:
    """Least squares on any columns of the past, all from one QR factorisation.

    ``past``      (windows, columns): condition, target, source; each role by lag, newest first.
    ``present``   (windows, target channels). Both are standardised, which stands for the intercept.
    ``triangle``  (columns + target channels, same): R of both side by side. A rotation of the windows leaves
                  least squares as it is, so R has the place of the data in every fit.
    ``widths``    how many channels each role has.
    """

    past: Floats
    present: Floats
    triangle: Floats
    widths: dict[Role, int]
    lags: Lags

    @classmethod
    def of(cls, windows: Windows) -> _Regression:
        order: tuple[Role, ...] = ("condition", "target", "source")
        past = _standardised(np.hstack([windows.flat_past(role) for role in order]))
        present = _standardised(windows.present())
        _check_enough(len(past), past.shape[1], present.shape[1])
        triangle = np.asarray(np.linalg.qr(np.hstack([past, present]), mode="r"))
        widths: dict[Role, int] = {role: windows.width(role) for role in ROLES}
        return cls(past, present, triangle, widths, windows.lags)

    def nested(self, lags: Lags) -> tuple[Columns, Columns]:
        """The columns under ``lags`` (no longer than its own) without and with the source's."""
        conditions = self.widths["condition"] * len(self.lags.condition_lags)
        targets, sources = (self.widths[role] * len(lags.of(role)) for role in ("target", "source"))
        first_source = conditions + self.widths["target"] * self.lags.target_history
        without = np.arange(conditions + targets)
        return without, np.r_[without, first_source + np.arange(sources)]

    def fit(self, columns: Columns) -> _Fit:
        n, width = self.present.shape
        past, present = self.triangle[:, columns], self.triangle[:, -width:]
        coefficients, _, rank, _ = lstsq(past, present, cond=n * np.finfo(float).eps)
        residual = present - past @ coefficients
        return _Fit(columns, coefficients, residual.T @ residual / n, int(rank))

    def bic(self, columns: Columns) -> float:
        """Schwarz's criterion, up to a constant: ``n log det S + log(n) x coefficients``."""
        fit, (n, width) = self.fit(columns), self.present.shape
        return float(n * np.linalg.slogdet(fit.covariance)[1] + math.log(n) * width * fit.rank)

    def divergence(self, fit: _Fit) -> float:
        """``(log det S - log det S_fit) / 2`` with the target's own covariance S."""
        own = self.present.T @ self.present / len(self.present)
        return float(np.linalg.slogdet(own)[1] - np.linalg.slogdet(fit.covariance)[1]) / 2

    def local_values(self, without: _Fit, both: _Fit) -> Floats:
        """(windows,): the log likelihood ratio of the two predictions."""
        return self._log_likelihood(both) - self._log_likelihood(without)

    def _log_likelihood(self, fit: _Fit) -> Floats:
        """(windows,), without the constant ``-d log(2 pi) / 2``."""
        residual = self.present - self.past[:, fit.columns] @ fit.coefficients
        distance = np.einsum("ni,in->n", residual, np.linalg.solve(fit.covariance, residual.T))
        return np.asarray(-(distance + np.linalg.slogdet(fit.covariance)[1]) / 2)


@dataclass(frozen=True)
class _Comparison:
    """Two nested predictions compared over ``n`` windows.

    ``width``  the target's channels; ``added``  the source's independent columns; ``spare``  the windows left
    over by the coefficients of both series.
    """

    te: float
    n: int
    width: int
    added: int
    spare: int

    @property
    def coefficients(self) -> int:
        """How many coefficients the source has: the degrees of freedom of ``2 n TE``."""
        return self.width * self.added

    def interval(self, std_error: float, confidence: float) -> tuple[float, float]:
        """Every transfer entropy under which the value found is neither too high nor too low.

        ``2 m TE / s ~ chi2(c, 2 m TE_true / s)``, noncentral, with m the spare windows instead of n, as in an
        F test, and ``s = n std_error^2 / (2 TE)``. Geweke's form has s = 1 and with it the variance 2 TE / n:
        that of small values in homoscedastic noise. A larger value of a Gaussian process has the variance
        (1 - exp(-2 TE)) / n or, where the local values are correlated, one that only they tell.
        """
        if not self.coefficients:
            return 0.0, 0.0
        scale = self.n * std_error**2 / (2 * self.te) if self.te > 0 else 0.0
        # Geweke's where there is no spread to go by.
        per_nat = 2 * self.spare / (scale or 1.0)
        tails = (0.5 + confidence / 2, 0.5 - confidence / 2)
        low, high = (_noncentrality(per_nat * self.te, self.coefficients, tail) / per_nat for tail in tails)
        return low, high

    def doubts(self, interval: tuple[float, float]) -> tuple[str, ...]:
        bias = self.coefficients / (2 * self.n)
        # A value far below its bias is a matter of chance, with few coefficients.
        if self.te <= max(interval[1], bias / 2) or not self.coefficients:
            return ()
        return (
            f"The value lies above its interval: the {self.coefficients} coefficients of the source raise it "
            f"by about {bias:.2g} nats even where nothing is coupled. "
            "Use a shorter source_history or order='bic'.",
        )


def _compare(regression: _Regression, without: _Fit, both: _Fit) -> _Comparison:
    if np.linalg.eigvalsh(both.covariance)[0] < _NO_NOISE:
        raise TreetError(
            "The target, or a linear mix of its channels, is predicted without any error: the transfer "
            "entropy of Gaussian series has no finite value then. Leave out channels that are linear "
            "functions of others, or use another estimator."
        )
    n, width = regression.present.shape
    te = regression.divergence(both) - regression.divergence(without)
    return _Comparison(te, n, width, both.rank - without.rank, n - both.rank - 1)


def _f_test(comparison: _Comparison) -> float:
    """Rao's F of Wilks' ratio ``exp(-2 TE)``: for a scalar target the F test of nested regressions."""
    p, q = comparison.width, comparison.added
    free = p**2 + q**2 - 5
    root = math.sqrt((p**2 * q**2 - 4) / free) if free > 0 else 1.0
    above, below = p * q, (comparison.spare + q - (p + q + 1) / 2) * root - (p * q - 2) / 2
    return float(f.sf(math.expm1(2 * comparison.te / root) * below / above, above, below)) if q else 1.0


def _chi2_test(comparison: _Comparison) -> float:
    """The likelihood ratio ``2 n TE`` against a chi-square."""
    c = comparison.coefficients
    return float(chi2.sf(2 * comparison.n * comparison.te, c)) if c else 1.0


TESTS: dict[str, Callable[[_Comparison], float]] = {"f": _f_test, "chi2": _chi2_test}


def _noncentrality(statistic: float, degrees: int, tail: float) -> float:
    """The noncentrality under which a chi-square is at most ``statistic`` with the probability ``tail``.

    Zero where it is less probable than that even without noncentrality.
    """

    def excess(noncentrality: float) -> float:
        return float(ncx2.cdf(statistic, degrees, noncentrality)) - tail

    # Ten standard deviations above: nearly all of the distribution lies beyond the statistic.
    highest = statistic + 10 * math.sqrt(2 * degrees + 4 * statistic) + 100
    return float(brentq(excess, 0, highest)) if excess(0) > 0 else 0.0


def _lags_by_bic(windows: Windows) -> Lags:
    """The lags, no longer than those of ``windows``, that Schwarz's criterion prefers."""
    regression, most = _Regression.of(windows), windows.lags
    # Unless it is set, the condition's history would follow the source's.
    condition = len(most.condition_lags) if windows.width("condition") else None
    most = replace(most, condition_history=condition)
    shorter = [replace(most, target_history=history) for history in most.target_lags]
    lags = min(shorter, key=lambda lags: regression.bic(regression.nested(lags)[0]))
    shorter = [replace(lags, source_history=history + 1) for history in range(most.source_history)]
    return min(shorter, key=lambda lags: regression.bic(regression.nested(lags)[1]))


def _standardised(values: Floats) -> Floats:
    """(windows, columns) with mean 0 and standard deviation 1; what stands still becomes 0."""
    centred = values - values.mean(axis=0)
    spread = centred.std(axis=0)
    return np.asarray(centred / np.where(spread > 0, spread, 1.0))


def _check_enough(n: int, columns: int, width: int) -> None:
    # One more for the intercept, and residuals of full rank.
    if n <= columns + width + 1:
        raise TreetError(
            f"Too few windows for these lags: {columns} columns of the past and {width} of the present need "
            f"at least {columns + width + 2} windows. Got {n}: use a shorter history or a longer recording."
        )


def _collinear(fit: _Fit) -> tuple[str, ...]:
    redundant = len(fit.columns) - fit.rank
    if not redundant:
        return ()
    return (
        f"{redundant} of the {len(fit.columns)} columns of the past are linear functions of the others and "
        "tell nothing more. Look for channels that are copies, sums or perfectly periodic.",
    )
