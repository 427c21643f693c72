"""Tests of a transfer entropy against none, for any estimator, and corrections for many tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student

from treet.checks import check_choice, check_whole
from treet.data import Recording
from treet.errors import NotConvergedWarning, TreetError, UnreliableEstimateWarning
from treet.lags import Lags
from treet.progress import progress
from treet.results import TransferEntropyResult
from treet.statistics.score_test import score_test
from treet.statistics.surrogates import Surrogate, half_shift, make_surrogate

if TYPE_CHECKING:
    from treet.estimators.base import TransferEntropyEstimator

Floats = NDArray[np.float64]

SHARE_OF_SCORE = 0.9
"""Of the error of the first kind that the paired test allows: the rest is for the difference of the fits."""

STRETCHES = 8
"""Of the recording, whose mean differences are compared with their spread."""

SETTINGS = {"paired": (), "surrogate": ("n_surrogates", "method", "n_jobs")}
"""What may be set about each test."""

CORRECTIONS = ("benjamini-hochberg", "holm")


@dataclass(frozen=True)
class Significance:
    """A test of "the source tells the target nothing".

    ``estimator``     fitted on the real source.
    ``result``        its result, with ``p_value``.
    ``effective_te``  the value minus the mean of ``surrogate_te``, in the result's unit.
    ``surrogate_te``  the values with a surrogate in place of the source, one a fit.
    ``parts``         the p-values that ``p_value`` is put together from; empty where there is one only.
    """

    estimator: TransferEntropyEstimator
    method: str
    surrogate_te: tuple[float, ...]
    parts: dict[str, float]

    @classmethod
    def of(
        cls,
        fitted: TransferEntropyEstimator,
        p_value: float,
        method: str,
        surrogate_te: tuple[float, ...],
        parts: dict[str, float],
    ) -> Significance:
        """Of an estimator, whose result gets the p-value and what the test found."""
        effective = fitted.result_.te - float(np.mean(surrogate_te))
        tested = replace(fitted.result_, p_value=p_value, test=method, effective_te=effective)
        fitted._set_fitted(tested)
        return cls(fitted, method, surrogate_te, parts)

    @property
    def result(self) -> TransferEntropyResult:
        return self.estimator.result_

    @property
    def p_value(self) -> float:
        return cast("float", self.result.p_value)

    @property
    def effective_te(self) -> float:
        return cast("float", self.result.effective_te)

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain Python values: those of the result and those of the test."""
        return self.result.to_dict() | {
            "surrogate_te": list(self.surrogate_te),
            "p_value_parts": dict(self.parts),
        }

    def __str__(self) -> str:
        count = len(self.surrogate_te)
        many = "1 surrogate" if count == 1 else f"{count} surrogates"
        return (
            f"{self.result}; {self.method} test against {many}: "
            f"effective TE = {self.effective_te:.4g} {self.result.unit}"
        )


def paired_test(
    estimator: TransferEntropyEstimator,
    source: Any,
    target: Any,
    condition: Any = None,
    *,
    least_span: int = 0,
) -> Significance:
    """A test with two fits: one on the source, one on the source rotated by half of every trial.

    Both fits have the same ``random_state``, windows and folds, and share what does not see the source, so
    that what is learned of the target alone cancels in ``d_t``, the difference of their local values at time
    t. Half a trial is as far as a rotation can move the source from where it was, it keeps all dependence
    within the source but at one seam, and no random number decides the result. Two one-sided p-values are
    put together:

    ``difference``  of the mean of ``d_t`` against zero, by the t-test of the means over ``STRETCHES``
                    stretches of time (Ibragimov and Mueller 2010), which holds for correlated ``d_t`` and for
                    stretches that differ in spread; 1 where all ``d_t`` are zero.
    ``score``       of ``score_test``, a cheap test that is exact where the source is independent, linear and
                    piecewise linear changes of the target in the source. Where neither fit finds anything,
                    as critics mostly do where there is nothing, all ``d_t`` are zero and only it can tell how
                    surprising the data are.

        p = min(1, p_score / 0.9, p_difference / 0.1)

    By Bonferroni's inequality with unequal shares the error of the first kind stays below its level.
    ``least_span`` is that of ``fit``.

    >>> from treet import TREET, simulate
    >>> recording = simulate("threshold", 500, random_state=0)
    >>> estimator = TREET(memory=1, folds=2, random_state=0)
    >>> paired_test(estimator, recording.select("x"), recording.select("y")).p_value < 0.05
    True
    """
    case = _Case.of(estimator, source, target, condition, least_span)
    fitted = case.fitted()
    result = fitted.result_
    if result.local is None:
        raise TreetError(
            f"The paired test needs local values, which {result.estimator!r} has not. Use surrogate_test."
        )
    moved = case.quietly(half_shift(case.source))
    differences = np.concatenate(result.local) - np.concatenate(cast("tuple[Floats, ...]", moved.local))
    generator = np.random.default_rng(fitted.random_state)
    parts = {
        "difference": _p_of_mean(differences[np.isfinite(differences)]),
        "score": case.score_p_value(result.lags, generator),
    }
    p_value = min(1.0, parts["score"] / SHARE_OF_SCORE, parts["difference"] / (1 - SHARE_OF_SCORE))
    return Significance.of(fitted, p_value, "paired", (moved.te,), parts)


def surrogate_test(
    estimator: TransferEntropyEstimator,
    source: Any,
    target: Any,
    condition: Any = None,
    n_surrogates: int = 99,
    method: str | Surrogate = "circular_shift",
    n_jobs: int = 1,
    *,
    least_span: int = 0,
) -> Significance:
    """The estimator fitted again on each of ``n_surrogates`` surrogates of the source.

        p = (1 + number of surrogate values at or above the value) / (1 + n_surrogates)

    ``method``  "circular_shift", "block_permutation", "iaaft", "trial_shuffle", or a callable
                ``(recording, generator)`` that returns a recording of the same shape.
    ``n_jobs``  processes, as in joblib. Each takes seconds to start, and estimators that train use all cores
                by themselves and share what does not see the source within one process: more than one pays
                for slow estimators on a single core only.
    ``least_span``  that of ``fit``.

    The smallest p-value is ``1 / (1 + n_surrogates)``. Surrogates of the source lose what it has to do with
    the condition and with the target's past as well: where these are strongly coupled to it the test is as
    good as the estimator's handling of them.
    """
    n_surrogates = check_whole("n_surrogates", n_surrogates, 1)
    case = _Case.of(estimator, source, target, condition, least_span)
    generators = np.random.default_rng(case.estimator.random_state).spawn(n_surrogates)
    # One that does not apply fails before the work.
    make_surrogate(method, case.source, np.random.default_rng(0))
    fitted = case.fitted()
    from joblib import Parallel, delayed

    with progress(f"surrogates of {fitted.result_.direction}", n_surrogates) as advance:
        values = []
        fits = Parallel(n_jobs=n_jobs, return_as="generator")(
            delayed(_surrogate_value)(case, method, generator) for generator in generators
        )
        for value in fits:
            values.append(value)
            advance(1)
    count = sum(value >= fitted.result_.te for value in values)
    return Significance.of(fitted, (1 + count) / (1 + n_surrogates), _name(method), tuple(values), {})


TESTS: dict[str, Callable[..., Significance]] = {"paired": paired_test, "surrogate": surrogate_test}


def check_test(test: str | None) -> None:
    if test is not None:
        check_choice("test", test, TESTS)


def fit_and_test(
    estimator: TransferEntropyEstimator,
    source: Any,
    target: Any,
    condition: Any = None,
    *,
    test: str | None = None,
    least_span: int = 0,
    **settings: Any,
) -> TransferEntropyEstimator:
    """The estimator, fitted, with the p-value of ``test`` in its result: "paired", "surrogate" or None.

    ``settings`` are those of the test. Without a test the p-value is the estimator's own, where it has one.
    """
    check_test(test)
    if test is None:
        if settings:
            raise TreetError(f"{', '.join(settings)} does not apply without a test. Set test.")
        return estimator.fit(source, target, condition, least_span=least_span)
    unknown = [name for name in settings if name not in SETTINGS[test]]
    if unknown:
        raise TreetError(f"{', '.join(unknown)} does not apply to the {test} test. Leave it out.")
    found = TESTS[test](estimator, source, target, condition, least_span=least_span, **settings)
    return found.estimator


def correct(p_values: ArrayLike, method: Literal["benjamini-hochberg", "holm"]) -> Floats:
    """p-values adjusted for the number of tests, in the shape of ``p_values``; NaN is not a test.

    "benjamini-hochberg": rejecting where the adjusted value is at most q keeps the expected share of false
    among all rejections at or below q, for independent or positively dependent tests (1995).
    "holm": rejecting where it is at most alpha keeps the probability of any false rejection at or below
    alpha, whatever the dependence (1979).

    >>> correct([0.01, 0.02, 0.03, 0.5], "benjamini-hochberg").round(4).tolist()
    [0.04, 0.04, 0.04, 0.5]
    >>> correct([0.01, 0.02, 0.03, 0.5], "holm").round(4).tolist()
    [0.04, 0.06, 0.06, 0.5]
    """
    check_choice("method", method, CORRECTIONS)
    given = np.asarray(p_values, dtype=np.float64)
    if ((given < 0) | (given > 1)).any():
        raise TreetError(
            f"p-values must lie between 0 and 1. Got {given.min():g} .. {given.max():g} instead."
        )
    tests = np.flatnonzero(~np.isnan(given))
    order = tests[np.argsort(given.flat[tests], kind="stable")]
    ranked, count = given.flat[order], len(order)
    adjusted = np.full(given.size, np.nan)
    if method == "holm":
        adjusted[order] = np.maximum.accumulate(ranked * (count - np.arange(count)))
    else:
        adjusted[order] = np.minimum.accumulate((ranked * count / np.arange(1, count + 1))[::-1])[::-1]
    return np.asarray(np.minimum(adjusted, 1.0).reshape(given.shape))


def _p_of_mean(values: Floats) -> float:
    """One-sided, of the mean against zero, from the means over ``STRETCHES`` stretches."""
    means = np.array([part.mean() for part in np.array_split(values, min(STRETCHES, len(values)))])
    spread = means.std(ddof=1) / len(means) ** 0.5
    if spread == 0:
        return 1.0
    return float(student.sf(means.mean() / spread, len(means) - 1))


@dataclass(frozen=True)
class _Case:
    """What is to be tested: an estimator that is not fitted, with a seed, and recordings."""

    estimator: TransferEntropyEstimator
    source: Recording
    target: Recording
    condition: Recording | None
    least_span: int

    @classmethod
    def of(
        cls,
        estimator: TransferEntropyEstimator,
        source: Any,
        target: Any,
        condition: Any,
        least_span: int,
    ) -> _Case:
        recordings = estimator.recordings(source, target, condition)
        seeded = estimator.fresh()
        if seeded.random_state is None:  # all fits must draw the same random numbers
            seeded.random_state = int(np.random.default_rng().integers(2**31))
        seeded.shared = {} if seeded.shared is None else seeded.shared
        return cls(seeded, *recordings, least_span)

    def fitted(self, source: Recording | None = None) -> TransferEntropyEstimator:
        """A fit on ``source``, or on the real one."""
        parts = (self.source if source is None else source, self.target, self.condition)
        return self.estimator.fresh().fit(*parts, least_span=self.least_span)

    def quietly(self, source: Recording) -> TransferEntropyResult:
        """Doubts about a surrogate's value are not the user's."""
        with warnings.catch_warnings():
            for kind in (UnreliableEstimateWarning, NotConvergedWarning):
                warnings.simplefilter("ignore", kind)
            return self.fitted(source).result_

    def score_p_value(self, lags: Lags, generator: np.random.Generator) -> float:
        parts = (self.source, self.target, self.condition)
        return score_test(*parts, lags, generator, least_span=self.least_span).p_value


def _surrogate_value(case: _Case, method: str | Surrogate, generator: np.random.Generator) -> float:
    return case.quietly(make_surrogate(method, case.source, generator)).te


def _name(method: str | Surrogate) -> str:
    return method if isinstance(method, str) else getattr(method, "__name__", type(method).__name__)
