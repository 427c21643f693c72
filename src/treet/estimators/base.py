"""The contract of every estimator: parameters in the constructor, ``fit``, and fitted attributes."""

from __future__ import annotations

import math
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from treet.checks import check_number, check_whole
from treet.data import Recording, as_recording, check_channels
from treet.errors import UnreliableEstimateWarning
from treet.lags import Lags
from treet.results import TransferEntropyResult, Unit, check_unit
from treet.statistics.intervals import normal_interval, standard_error
from treet.windows import Windows

if TYPE_CHECKING:
    from treet.training import History


Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """What a method found, in nats: the part of a result that differs between methods.

    ``local`` (windows,) are the local values in the order of ``Windows.positions``; where it is given, the
    standard error and the interval follow from it unless the method sets ``std_error`` itself. What the
    method cannot see at all, ``resolution``, is added to their square. ``interval`` is one that holds better
    than the normal one, at the estimator's ``confidence``.
    """

    te: float
    local: NDArray[np.float64] | None = None
    std_error: float | None = None
    resolution: float = 0.0
    interval: tuple[float, float] | None = None
    d_y: float | None = None
    d_xy: float | None = None
    p_value: float | None = None
    converged: bool = True
    notes: tuple[str, ...] = ()
    history: tuple[History, ...] = ()


class TransferEntropyEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """Base class: turns ``fit(source, target, condition)`` into windows and an ``Estimate`` into a result.

    Every estimator has these parameters: ``memory`` (the paper's l) or ``target_history``,
    ``source_history``, ``delay``; ``condition_history``; ``unit``, ``confidence`` and ``random_state``.
    A subclass stores its parameters in ``__init__`` and implements ``_estimate``.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    assumes: ClassVar[str]
    cost: ClassVar[str]
    use_when: ClassVar[str]
    takes_symbols: ClassVar[bool] = False

    memory: int | None
    target_history: int | None
    source_history: int | None
    delay: int | None
    condition_history: int | None
    unit: Unit
    confidence: float
    random_state: int | None

    shared: dict[Any, Any] | None = None
    """What fits on the same target and condition may share, such as critics that do not see the source."""

    @abstractmethod
    def _estimate(self, windows: Windows) -> Estimate:
        """The estimate from validated windows, in nats."""

    def _check_parameters(self) -> None:
        """Raise ``TreetError`` for settings of this estimator that make no sense, before any work."""

    def fit(
        self, source: Any, target: Any, condition: Any = None, *, least_span: int = 0
    ) -> TransferEntropyEstimator:
        """Estimate the transfer entropy ``source -> target``, given ``condition`` where there is one.

        Only time steps with ``least_span`` complete ones before them are used: fits under different lags
        with the same ``least_span`` see the same present values.
        """
        started = time.perf_counter()
        lags = self._check_common()
        self._check_parameters()
        windows = self._windows(source, target, condition, lags, check_whole("least_span", least_span, 0))
        estimate = self._estimate(windows)
        for note in estimate.notes:
            warnings.warn(note, UnreliableEstimateWarning, stacklevel=2)
        self._store(windows, estimate, time.perf_counter() - started)
        return self

    def fresh(self, **changes: Any) -> TransferEntropyEstimator:
        """A copy that is not fitted, with some parameters changed, which shares what this one shares."""
        copy = cast("TransferEntropyEstimator", clone(self)).set_params(**changes)
        copy.shared = self.shared
        return cast("TransferEntropyEstimator", copy)

    def _check_common(self) -> Lags:
        check_unit(self.unit)
        check_number("confidence", self.confidence, above=0, below=1)
        if self.random_state is not None:
            check_whole("random_state", self.random_state, 0)
        return self._given_lags()

    def _given_lags(self) -> Lags:
        return Lags.resolve(
            self.memory, self.target_history, self.source_history, self.delay, self.condition_history
        )

    def _windows(self, source: Any, target: Any, condition: Any, lags: Lags, least_span: int = 0) -> Windows:
        return Windows.of(*self.recordings(source, target, condition), lags, least_span)

    def recordings(
        self, source: Any, target: Any, condition: Any
    ) -> tuple[Recording, Recording, Recording | None]:
        """What ``fit`` is given, as recordings; raises where they do not belong together."""
        sources, targets = self.as_recording(source, "source"), self.as_recording(target, "target")
        conditions = None if condition is None else self.as_recording(condition, "condition")
        check_channels(sources, targets, conditions)
        return sources, targets, conditions

    def as_recording(self, series: Any, role: str) -> Recording:
        return as_recording(series, role)

    def _store(self, windows: Windows, estimate: Estimate, seconds: float) -> None:
        std_error = estimate.std_error
        if std_error is None and estimate.local is not None:
            std_error = math.hypot(standard_error(windows.on_time_axis(estimate.local)), estimate.resolution)
        nats = TransferEntropyResult(
            source=windows.names["source"],
            target=windows.names["target"],
            condition=windows.names["condition"],
            te=float(estimate.te),
            lags=windows.lags,
            n_windows=len(windows),
            estimator=self.name,
            std_error=std_error,
            interval=self._interval(estimate, std_error),
            confidence=self.confidence,
            d_y=estimate.d_y,
            d_xy=estimate.d_xy,
            p_value=estimate.p_value,
            converged=estimate.converged,
            seconds=seconds,
            seed=None if self.random_state is None else int(self.random_state),
            warnings=estimate.notes,
            settings=self._settings(),
            local=None if estimate.local is None else windows.on_time_axis(estimate.local),
            history=estimate.history,
        )
        self._set_fitted(nats.to_unit(self.unit))

    def _interval(self, estimate: Estimate, std_error: float | None) -> tuple[float, float] | None:
        if estimate.interval is not None or std_error is None:
            return estimate.interval
        return normal_interval(estimate.te, std_error, self.confidence)

    def _set_fitted(self, result: TransferEntropyResult) -> None:
        """The fitted attributes, all from one result."""
        self.result_ = result
        self.lags_, self.n_windows_ = result.lags, result.n_windows
        self.te_, self.std_error_, self.interval_ = (
            self.result_.te,
            self.result_.std_error,
            self.result_.interval,
        )
        self.d_y_, self.d_xy_ = self.result_.d_y, self.result_.d_xy
        self.local_te_, self.history_ = self.result_.local, self.result_.history
        self.converged_, self.seconds_ = self.result_.converged, self.result_.seconds

    def _settings(self) -> dict[str, Any]:
        """The parameters that are this method's own, for the record."""
        common = set(TransferEntropyEstimator.__annotations__)
        return {key: value for key, value in self.get_params(deep=False).items() if key not in common}

    @classmethod
    def parameters(cls) -> Sequence[str]:
        """The names of the constructor's parameters."""
        return cast("Sequence[str]", cls._get_param_names())
