"""The estimator ``treet``: critics trained on part of the recording and read on the rest."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
import torch

from treet.errors import NotConvergedWarning, TreetError
from treet.estimators.base import Estimate, Floats, TransferEntropyEstimator
from treet.estimators.critic_pair import FittedFold
from treet.estimators.folds import on_every_fold
from treet.estimators.pairs import PAIRS
from treet.estimators.presets import Settings, resolve
from treet.parallel import Advance
from treet.results import NATS_PER, Unit
from treet.series import Scaler, Series
from treet.statistics.cross_fitting import Fold
from treet.windows import Windows

if TYPE_CHECKING:
    from treet.density.conditional import ConditionalDensity

Fitted = TypeVar("Fitted", bound="CrossFitted")

NOT_CONVERGED = (
    "Training ended at its step limit while the validation loss still moved (see the training history). "
    "Raise epochs before using the value."
)


class CrossFitted(TransferEntropyEstimator):
    """Base of estimators that train a pair of critics on every block of the recording but one.

    A subclass says by ``_resolved`` what its critics are and how they are trained.
    """

    def __init__(
        self,
        memory: int | None = None,
        target_history: int | None = None,
        source_history: int | None = None,
        delay: int | None = None,
        condition_history: int | None = None,
        *,
        reference: str | None = None,
        objective: str | None = None,
        folds: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        device: str = "auto",
        unit: Unit = "nats",
        confidence: float = 0.95,
        random_state: int | None = None,
    ) -> None:
        self.memory = memory
        self.target_history = target_history
        self.source_history = source_history
        self.delay = delay
        self.condition_history = condition_history
        self.reference = reference
        self.objective = objective
        self.folds = folds
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.unit = unit
        self.confidence = confidence
        self.random_state = random_state

    def _check_parameters(self) -> None:
        self._resolved()
        self._torch_device()

    @abstractmethod
    def _resolved(self) -> Settings:
        """What the critics are and how they are trained; raises for what makes no sense."""

    def _changes(self) -> dict[str, Any]:
        """The settings that were given, or None where they were not."""
        names = ("reference", "objective", "folds", "epochs", "batch_size", "learning_rate")
        return {name: getattr(self, name) for name in names}

    def _torch_device(self) -> torch.device:
        name = self.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            device = torch.device(name)
            # Also loads the linear algebra, which must not happen in two folds at once.
            torch.linalg.cholesky(torch.eye(1, device=device)).item()
        except (RuntimeError, AssertionError, TypeError) as error:
            first_line = next(iter(str(error).splitlines()), "")
            raise TreetError(
                f"device={self.device!r} cannot be used here: {first_line} Use 'auto' or 'cpu'."
            ) from error
        return device

    def _estimate(self, windows: Windows) -> Estimate:
        self.settings_ = self._resolved()
        self.folds_ = on_every_fold(self._fit_fold, windows, self.settings_.folds, self.random_state)
        return self._put_together(windows, self.folds_)

    def _fit_fold(self, windows: Windows, fold: Fold, seed: int, label: str, advance: Advance) -> FittedFold:
        generator = torch.Generator().manual_seed(seed)
        scaler = Scaler.of(windows, fold.train)
        series = Series(windows, scaler, self._torch_device())
        pair = PAIRS[self.settings_.critic](series, self.settings_).to(series.device)
        pair.shared = self.shared
        histories = pair.fit(series, fold, generator, label, advance)
        pair.shared = None
        test = torch.from_numpy(fold.test).to(series.device)
        y, xy = (part.numpy().astype(np.float64) for part in pair.divergences(series, test, generator))
        return FittedFold(pair, scaler, y, xy, histories)

    def _put_together(self, windows: Windows, fitted: Sequence[FittedFold]) -> Estimate:
        y, xy = (np.concatenate([getattr(fold, name) for fold in fitted]) for name in ("y", "xy"))
        histories = tuple(history for fold in fitted for history in fold.histories)
        converged = all(history.converged for history in histories)
        if not converged:
            warnings.warn(NOT_CONVERGED, NotConvergedWarning, stacklevel=4)
        local = xy - y
        return Estimate(
            te=float(local.mean()),
            local=local,
            resolution=_resolution(windows),
            d_y=float(y.mean()),
            d_xy=float(xy.mean()),
            converged=converged,
            history=histories,
        )

    def local_te(self, source: Any, target: Any, condition: Any = None) -> tuple[Floats, ...]:
        """The local transfer entropy of new data, one array a trial, by the mean over the folds' critics.

        NaN where a time step has not its whole past. In the estimator's unit.
        """
        if not hasattr(self, "folds_"):
            raise TreetError("This estimator is not fitted. Call fit first, or load a saved one.")
        windows = self._windows(source, target, condition, self.lags_)
        self._check_widths(windows)
        values = [self._local_of(fold, windows) for fold in self.folds_]
        nats = cast("Floats", np.mean(values, axis=0))
        return windows.on_time_axis(nats / NATS_PER[self.unit])

    def score(self, source: Any, target: Any, condition: Any = None) -> float:
        """The transfer entropy of new data under the fitted critics, in the estimator's unit."""
        return float(np.nanmean(np.concatenate(self.local_te(source, target, condition))))

    def density(
        self, source: Any, target: Any, condition: Any = None, at: str = "target"
    ) -> ConditionalDensity:
        """``p(y_t | past of y)``, or with the past of the source (``at="joint"``), for each time step.

        ``at="linear"`` is the linear Gaussian predictor from the past of y, to compare with.

        On the recording of the fit each time step has the density of the fold that held it out, on new data
        the mean of all folds' densities. That of critics which are trained against draws is normalised on a
        grid between the least and the largest value of the target, and zero elsewhere; the target must have
        one channel.
        """
        from treet.density.fitted import of_estimator

        return of_estimator(self, source, target, condition, at)

    def _local_of(self, fold: FittedFold, windows: Windows) -> Floats:
        series = Series(windows, fold.scaler, self._torch_device())
        positions = torch.from_numpy(windows.positions).to(series.device)
        y, xy = fold.pair.to(series.device).divergences(series, positions, torch.Generator().manual_seed(0))
        return cast("Floats", (xy - y).numpy().astype(np.float64))

    def _check_widths(self, windows: Windows) -> None:
        for role, names in (
            ("source", self.result_.source),
            ("target", self.result_.target),
            ("condition", self.result_.condition),
        ):
            width = windows.width(role)  # type: ignore[arg-type]
            if width != len(names):
                raise TreetError(
                    f"{role} must have {len(names)} channels, as in the fit. Got {width} instead."
                )

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to one file: tensors and JSON, nothing that can run."""
        from treet.estimators.saving import save

        save(self, path)

    @classmethod
    def load(cls: type[Fitted], path: str | Path) -> Fitted:
        """A fitted estimator from a file that ``save`` wrote."""
        from treet.estimators.saving import load

        return load(cls, path)


class TREET(CrossFitted):
    """Transfer entropy by Donsker-Varadhan critics with attention over the past (Luxembourg et al.).

        TE = D_XY - D_Y,   D_Y = KL(p(y_t | past of y) || q),   D_XY = KL(p(y_t | past of y and x) || q)

    A critic of each divergence is trained on all blocks of the recording but one and read on that one, so
    that every local value comes from data that trained nothing. ``preset="default"`` uses critics that are
    conditional densities (``DensityCritic``), ``preset="paper"`` the published network and training.

    ``memory`` (the paper's l) or ``target_history``, ``source_history``, ``delay``: the past that is seen.
    ``reference``    q: "uniform" (on the bounding box), "gaussian" or "gaussian given past".
    ``objective``    how critics of the paper's kind are trained: "dv", "per context" or "ranking".
    ``folds, epochs, batch_size, learning_rate``  the preset's where they are None.
    ``device``       "auto" (a GPU where there is one), "cpu", "cuda", ...
    ``random_state`` the same number gives the same result on the same machine.

    >>> from treet.processes import Threshold
    >>> recording = Threshold().sample(2000, random_state=0)
    >>> estimator = TREET(memory=2, random_state=0)
    >>> estimator.fit(recording.select("x"), recording.select("y")).te_ > 0.3
    True
    """

    name: ClassVar[str] = "treet"
    summary: ClassVar[str] = "neural critics with attention over the past, cross-fitted"
    assumes: ClassVar[str] = "a stationary process; some thousand samples"
    cost: ClassVar[str] = "seconds to a minute; linear in the samples and in the history"
    use_when: ClassVar[str] = "coupling may be nonlinear, histories long, series vectors"

    def __init__(
        self,
        memory: int | None = None,
        target_history: int | None = None,
        source_history: int | None = None,
        delay: int | None = None,
        condition_history: int | None = None,
        *,
        preset: str = "default",
        reference: str | None = None,
        objective: str | None = None,
        folds: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        device: str = "auto",
        unit: Unit = "nats",
        confidence: float = 0.95,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            memory,
            target_history,
            source_history,
            delay,
            condition_history,
            reference=reference,
            objective=objective,
            folds=folds,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            device=device,
            unit=unit,
            confidence=confidence,
            random_state=random_state,
        )
        self.preset = preset

    def _resolved(self) -> Settings:
        return resolve(self.preset, **self._changes())


def _resolution(windows: Windows) -> float:
    """Half of the smallest transfer entropy that can be told from none, a floor of the standard error.

    An input of the source enters a critic when it raises the log likelihood of the ``n`` windows by about
    ``log(n) / 2 + log(inputs)``. Below that both critics are one, the local values are all zero, and the
    spread of the local values alone would claim to know the transfer entropy exactly.
    """
    n, inputs = len(windows), len(windows.lags.source_lags) * windows.width("source")
    return (0.5 * math.log(n) + math.log(inputs)) / (2 * n)
