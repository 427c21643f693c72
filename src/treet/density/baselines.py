"""Models of a conditional density to compare with, behind one contract: ``fit`` and ``density``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.spatial import KDTree
from scipy.special import logsumexp
from torch import Tensor, nn
from torch.nn import functional

from treet.checks import check_whole
from treet.data import as_recording
from treet.density.conditional import Alone, ConditionalDensity
from treet.density.fitted import Averaged, Model, Terms, alone, linear_mixture
from treet.density.univariate import Floats, Mixtures, Rows
from treet.errors import MissingExtraError, TreetError
from treet.estimators.critic_pair import batches_of_rows
from treet.estimators.presets import PRESETS
from treet.lags import SourcelessLags
from treet.nn.anchor import LinearAnchor
from treet.nn.density_critic import ChannelLinear, mixture_terms
from treet.nn.regimes import log_normal
from treet.series import Scaler, Series
from treet.training import train
from treet.windows import Role, Windows

VALIDATION_SHARE = 0.12
SEEN: tuple[Role, ...] = ("target",)
JUDGED = 1000
"""Windows on which bandwidths are chosen."""

Self = TypeVar("Self", bound="Baseline")


class Baseline(ABC):
    """A model of ``p(y_t | y_{t-1} .. y_{t-memory})`` for a target of one channel."""

    memory: int

    def fit(self: Self, target: Any) -> Self:
        """Learn from a recording: whatever ``as_recording`` takes."""
        self._fit(self._windows(target))
        return self

    def density(self, target: Any) -> ConditionalDensity:
        """The densities of any recording, which should not be the one of the fit."""
        if not hasattr(self, "fitted_"):
            raise TreetError(f"This {type(self).__name__} is not fitted. Call fit first.")
        return self._density(self._windows(target))

    @abstractmethod
    def _fit(self, windows: Windows) -> None:
        """Set ``fitted_``."""

    @abstractmethod
    def _density(self, windows: Windows) -> ConditionalDensity:
        """The densities of all windows."""

    def _windows(self, target: Any) -> Windows:
        memory = check_whole("memory", self.memory, 1)
        recording = as_recording(target, "target")
        if recording.n_channels != 1:
            raise TreetError(
                f"{type(self).__name__} takes a target of one channel. Got {recording.n_channels} channels: "
                "fit one model for each."
            )
        return Windows.of(None, recording, None, SourcelessLags(memory))


class _Network(Baseline):
    """Fitted are a torch module with ``mixture(pasts, present)`` and the scales that it was trained with."""

    fitted_: tuple[Any, Scaler]

    def _density(self, windows: Windows) -> ConditionalDensity:
        mixture, scaler = self.fitted_
        model = Model.of(mixture, windows, scaler, SEEN)
        factors = Averaged([model], windows.positions, np.zeros((1, len(windows)), np.int64))
        return ConditionalDensity(alone(factors), windows)


class LinearGaussian(_Network):
    """A Gaussian whose mean is linear in the past, by the sparse or ridge regression of ``LinearAnchor``.

    >>> from treet.processes.hidden_markov import HiddenMarkov
    >>> process = HiddenMarkov()
    >>> model = LinearGaussian(memory=3).fit(process.sample(5000, random_state=0).select("y"))
    >>> new = process.sample(5000, random_state=1).select("y")
    >>> gap = process.density(new, memory=3).logpdf() - model.density(new).logpdf()
    >>> bool(abs(gap.mean()) < 0.01)
    True
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory

    def _fit(self, windows: Windows) -> None:
        training, validation, scaler, series = prepared(windows)
        anchor = LinearAnchor(self.memory, 1)
        anchor.fit(*(batches_of_rows(series, part, SEEN) for part in (training, validation)))
        self.fitted_ = partial(linear_mixture, anchor), scaler


class MixtureDensityNetwork(_Network):
    """A network that gives the weights, means and scales of ``components`` Gaussians (Bishop, 1994).

    Two hidden layers of ``width`` on the raw window; trained as the default critics are, by maximum
    likelihood.
    """

    def __init__(
        self, memory: int, components: int = 5, width: int = 64, random_state: int | None = None
    ) -> None:
        self.memory = memory
        self.components = components
        self.width = width
        self.random_state = random_state

    def _fit(self, windows: Windows) -> None:
        components = check_whole("components", self.components, 1)
        width = check_whole("width", self.width, 1)
        training, validation, scaler, series = prepared(windows)
        seed = np.random.SeedSequence(self.random_state).generate_state(1)[0]
        generator = torch.Generator().manual_seed(int(seed))
        network = _MixtureNetwork(self.memory, components, width, generator)

        def loss(positions: Tensor) -> tuple[Tensor]:
            return (-network.log_density(series.pasts(positions, SEEN), series.present(positions)).mean(),)

        @torch.no_grad()
        def validate() -> float:
            return loss(validation)[0].item()

        schedule = PRESETS["default"].schedule
        train(network, loss, validate, training, schedule, generator, "mixture density network")
        self.fitted_ = network.requires_grad_(False).mixture, scaler


class _MixtureNetwork(nn.Module):
    def __init__(self, memory: int, components: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.components = components
        self.first = ChannelLinear(1, memory, width)
        self.second = ChannelLinear(1, width, width)
        self.last = ChannelLinear(1, width, 3 * components)
        for layer in (self.first, self.second, self.last):
            layer.reset(1.0, generator)

    def log_density(self, pasts: Mapping[str, Tensor], present: Tensor) -> Tensor:
        """(batch,) of ``present`` (batch, 1)."""
        log_weights, means, log_scales = self._terms(pasts)
        terms = log_weights + log_normal(present[..., None] - means, log_scales)
        return torch.logsumexp(terms, -1).sum(-1)

    def mixture(self, pasts: Mapping[str, Tensor], present: Tensor) -> Terms:
        log_weights, means, log_scales = self._terms(pasts)
        return log_weights, means, log_scales.exp()

    def _terms(self, pasts: Mapping[str, Tensor]) -> Terms:
        hidden = functional.silu(self.first(pasts["target"].flatten(1)[None]))
        hidden = functional.silu(self.second(hidden))
        return mixture_terms(self.last(hidden).transpose(0, 1), self.components)


class ConditionalKernel(Baseline):
    """Kernel estimation: ``sum_i K(past - past_i) N(y; y_i, width^2) / sum_i K(past - past_i)``.

    Gaussian kernels on standardised values. Both bandwidths maximise the likelihood of values that are left
    out. Only the ``neighbours`` nearest pasts count, found by a tree: the others weigh next to nothing, and
    with all of them the cost would grow with the square of the recording. What libraries offer does that, or
    gives no mixture to integrate.
    """

    fitted_: tuple[Scaler, KDTree, Floats, Floats]

    def __init__(self, memory: int, neighbours: int = 256) -> None:
        self.memory = memory
        self.neighbours = neighbours

    def _fit(self, windows: Windows) -> None:
        check_whole("neighbours", self.neighbours, 1)
        scaler = Scaler.of(windows, windows.positions)
        past, present = standardised(windows, scaler)
        tree = KDTree(past)
        judged = np.unique(np.linspace(0, len(past) - 1, JUDGED).astype(np.int64))
        square, near = self._near(tree, past[judged], 1 + self.neighbours)
        near_itself = near == judged[:, None]
        values, truth = present[near], present[judged][:, None]

        def loss(log_widths: Floats) -> float:
            wide, width = np.exp(log_widths)
            weights = np.where(near_itself, -np.inf, -square / (2 * wide**2))
            terms = weights - (truth - values) ** 2 / (2 * width**2)
            score = logsumexp(terms, axis=1) - logsumexp(weights, axis=1) - np.log(width)
            return -float(np.maximum(score, -1e3).mean())

        best = minimize(
            loss, np.log([0.3, 0.5]), method="Nelder-Mead", options={"xatol": 0.01, "fatol": 1e-5}
        )
        self.fitted_ = scaler, tree, present, np.exp(best.x)

    @staticmethod
    def _near(tree: KDTree, past: Floats, count: int) -> tuple[Floats, Rows]:
        """(rows, count) twice: squared distances and numbers of the nearest pasts."""
        distance, near = tree.query(past, np.arange(1, 1 + min(count, tree.n)))
        return distance**2, near

    def _density(self, windows: Windows) -> ConditionalDensity:
        scaler, tree, values, (wide, width) = self.fitted_
        past, _ = standardised(windows, scaler)
        square, near = self._near(tree, past, self.neighbours)
        means = scaler.mean[0] + scaler.std[0] * values[near].T
        stds = np.broadcast_to(scaler.std[0] * width, means.shape)
        mixture = Mixtures.of(-square.T / (2 * wide**2), means, stds)
        return ConditionalDensity(Alone(mixture), windows)


class KalmanFilter(Baseline):
    """An autoregressive state of ``order`` seen in noise, fitted by maximum likelihood; sees the whole past.

    The state space models of statsmodels (``UnobservedComponents``) do the work: the longest trial is fitted.
    ``parameters`` are taken as they are where they are given, for a process with mean zero: the variance of
    the noise, the variance of what drives the state, and its ``order`` coefficients.
    """

    memory = 1
    """The first value of a trial has no past."""

    fitted_: tuple[float, Floats]

    def __init__(self, order: int = 1, parameters: Sequence[float] | None = None) -> None:
        self.order = order
        self.parameters = parameters

    def _fit(self, windows: Windows) -> None:
        if self.parameters is not None:
            self.fitted_ = 0.0, self._given(self.parameters)
            return
        values = max(_trials(windows), key=len)
        mean = float(np.nanmean(values))
        found = self._model(values - mean).fit(disp=False)
        self.fitted_ = mean, np.asarray(found.params)

    def _given(self, parameters: Sequence[float]) -> Floats:
        needed = 2 + check_whole("order", self.order, 1)
        if len(parameters) != needed or not min(parameters[:2]) > 0:
            raise TreetError(
                f"parameters must be two variances above 0 and order={self.order} coefficients. "
                f"Got {list(parameters)} instead."
            )
        return np.asarray(parameters, np.float64)

    def _model(self, values: Floats) -> Any:
        order = check_whole("order", self.order, 1)
        try:
            structural = import_module("statsmodels.tsa.statespace.structural")
        except ImportError as error:
            raise MissingExtraError("KalmanFilter", "baselines") from error
        return structural.UnobservedComponents(values, irregular=True, autoregressive=order)

    def _density(self, windows: Windows) -> ConditionalDensity:
        mean, parameters = self.fitted_
        found = [self._model(values - mean).filter(parameters).filter_results for values in _trials(windows)]
        means = mean + np.concatenate([part.forecasts[0] for part in found])[windows.valid]
        variances = np.concatenate([part.forecasts_error_cov[0, 0] for part in found])[windows.valid]
        mixture = Mixtures.of(np.zeros((1, len(means))), means[None], np.sqrt(variances)[None])
        return ConditionalDensity(Alone(mixture), windows)


def prepared(windows: Windows) -> tuple[Tensor, Tensor, Scaler, Series]:
    """Positions to train on and to stop by, the last of the recording, and the standardised series."""
    positions = windows.positions
    cut = len(positions) - max(1, round(VALIDATION_SHARE * len(positions)))
    scaler = Scaler.of(windows, positions[:cut])
    training, validation = (torch.from_numpy(part) for part in (positions[:cut], positions[cut:]))
    return training, validation, scaler, Series(windows, scaler)


def standardised(windows: Windows, scaler: Scaler) -> tuple[Floats, Floats]:
    """Pasts (windows, memory) and present values (windows,)."""
    past = (windows.flat_past("target") - scaler.mean[0]) / scaler.std[0]
    return past, (windows.present()[:, 0] - scaler.mean[0]) / scaler.std[0]


def _trials(windows: Windows) -> list[Floats]:
    edges = np.flatnonzero(np.diff(windows.trial)) + 1
    return np.split(windows.values[:, 0], edges)
