"""The density of a target given its own past, where there is no source: the critic of Y alone."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from treet.data import as_recording, check_channels
from treet.density.conditional import ConditionalDensity
from treet.density.fitted import averaged, linear_mixture, slots_of
from treet.errors import NotConvergedWarning, TreetError
from treet.estimators.critic_pair import ROLES_Y
from treet.estimators.density_pair import fit_own_past
from treet.estimators.folds import on_every_fold
from treet.estimators.neural import NOT_CONVERGED, TREET
from treet.estimators.presets import Settings
from treet.lags import DEFAULT_HISTORY, SourcelessLags
from treet.nn.density_critic import DensityCritic
from treet.parallel import Advance
from treet.series import Scaler, Series
from treet.statistics.cross_fitting import Fold
from treet.training import History
from treet.windows import Windows

FIRST_EPOCHS, CYCLES = 8, 15
"""Of a training: passes in the first cycle, and how many times as many at the most (four cycles)."""


@dataclass(frozen=True)
class FittedCritic:
    """What one fold gave."""

    critic: DensityCritic
    scaler: Scaler
    histories: tuple[History, ...]


class Patient(TREET):
    """``TREET`` whose training is judged later: for the densities themselves, not for a difference of two.

    Densities with edges are learned slowly at first. The default schedule may then end on a plateau after a
    few hundred steps: one training in four on 100,000 samples with uniform noise did, 0.02 nats short. The
    first cycle is as long as eight passes over the data, unless ``epochs`` are given.
    """

    def _resolved(self) -> Settings:
        settings = super()._resolved()
        if self.epochs is not None or settings.critic != "density":
            return settings
        schedule = replace(settings.schedule, first_epochs=FIRST_EPOCHS, epochs=CYCLES * FIRST_EPOCHS)
        return replace(settings, schedule=schedule)


class OwnPast:
    """``p(y_t | past of y)``, or given the past of a condition as well, with the settings of a ``TREET``.

    The critic of Y is the one that the estimator would train for a transfer entropy, and the folds are cut in
    the same way; what the estimator says of a source must be left out. The target may have several channels.

    >>> from treet.processes.hidden_markov import HiddenMarkov
    >>> process = HiddenMarkov()
    >>> values = process.sample(1000, random_state=0).select("y")
    >>> estimator = TREET(memory=1, folds=2, epochs=126, batch_size=64, random_state=0)
    >>> density = OwnPast(estimator).fit(values).density(values)
    >>> bool(abs((process.density(values, memory=1).logpdf() - density.logpdf()).mean()) < 0.03)
    True
    """

    folds_: list[FittedCritic]

    def __init__(self, estimator: TREET) -> None:
        self.estimator = estimator

    def fit(self, target: Any, condition: Any = None) -> OwnPast:
        """Train a critic on every block of the recording but one, for each block."""
        self._check(condition is not None)
        self.lags_ = self._lags(condition is not None)
        windows = self._windows(target, condition)
        self.names_ = windows.names
        self.n_windows_ = len(windows)
        settings = self.estimator._resolved()
        self.folds_ = on_every_fold(self._fit_fold, windows, settings.folds, self.estimator.random_state)
        self.converged_ = all(history.converged for fold in self.folds_ for history in fold.histories)
        if not self.converged_:
            warnings.warn(NOT_CONVERGED, NotConvergedWarning, stacklevel=2)
        return self

    def _check(self, conditional: bool) -> None:
        self.estimator._check_common()
        self.estimator._check_parameters()
        if self.estimator._resolved().critic != "density":
            raise TreetError(
                f"preset={self.estimator.preset!r} trains its critics together and needs a source. "
                "Give one, or use preset='default'."
            )
        names = ("source_history",) if conditional else ("source_history", "delay", "condition_history")
        given = [name for name in names if getattr(self.estimator, name) is not None]
        if given:
            without = "a source" if conditional else "a source or a condition"
            raise TreetError(f"{', '.join(given)} was given without {without}. Leave it out or give one.")

    def _lags(self, conditional: bool) -> SourcelessLags:
        own = self.estimator
        memory, target, history = own.memory, own.target_history, own.condition_history
        if memory is not None and target is None and own.delay is None:
            target, delay, usual = memory, 0, memory + 1
        else:
            given = own._given_lags()  # also refuses a memory beside the others
            target, delay, usual = given.target_history, given.delay, DEFAULT_HISTORY
        return SourcelessLags(target, 0, delay, (history or usual) if conditional else None)

    def _windows(self, target: Any, condition: Any) -> Windows:
        targets = as_recording(target, "target")
        conditions = None if condition is None else as_recording(condition, "condition")
        check_channels(None, targets, conditions)
        return Windows.of(None, targets, conditions, self.lags_)

    def _fit_fold(
        self, windows: Windows, fold: Fold, seed: int, label: str, advance: Advance
    ) -> FittedCritic:
        settings, generator = self.estimator._resolved(), torch.Generator().manual_seed(seed)
        scaler = Scaler.of(windows, fold.train)
        series = Series(windows, scaler, self.estimator._torch_device())
        critic, histories = fit_own_past(series, fold, settings, generator, label, advance)
        return FittedCritic(critic, scaler, histories)

    def density(self, target: Any, condition: Any = None, linear: bool = False) -> ConditionalDensity:
        """The densities of a recording: those that held it out for that of the fit, their mean for others.

        ``linear``: of the linear Gaussian predictor from the same past.
        """
        if not hasattr(self, "folds_"):
            raise TreetError("This density is not fitted. Call fit first.")
        windows = self._windows(target, condition)
        if any(windows.width(role) != len(names) for role, names in self.names_.items()):
            raise TreetError("target and condition must have as many channels as in the fit.")
        scalers = [fold.scaler for fold in self.folds_]
        mixtures = [
            partial(linear_mixture, fold.critic.anchor) if linear else fold.critic.mixture
            for fold in self.folds_
        ]
        slots = slots_of(windows, scalers, self.n_windows_)
        return averaged(mixtures, scalers, windows, slots, ROLES_Y, self.estimator._torch_device())
