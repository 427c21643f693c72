"""A normalising flow as a model of a conditional density, by the library zuko."""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

import numpy as np
import torch
from scipy.special import ndtr, ndtri
from torch import Tensor, nn

from treet.checks import check_whole
from treet.density.baselines import SEEN, Baseline, prepared, standardised
from treet.density.conditional import Alone, ConditionalDensity
from treet.density.univariate import LOG_2_PI, REACH, Floats, Rows, Univariate
from treet.errors import MissingExtraError
from treet.estimators.presets import PRESETS
from treet.nn.weights import draw_uniform
from treet.series import Scaler
from treet.training import train
from treet.windows import Windows

NODES = 401
"""Of the normal variable, between minus and plus ``REACH``, for moments and the entropy."""

VALUES = 2**20
"""That are mapped at once."""


class NormalizingFlow(Baseline):
    """``z = f(y; past)`` is standard normal: an affine map and then a monotone rational-quadratic spline.

        p(y | past) = N(f(y; past); 0, 1) f'(y; past)

    A network on the raw window gives the parameters of each map (Durkan et al., Neural Spline Flows, 2019).
    Trained as the default critics are, by maximum likelihood.

    >>> from treet.processes.hidden_markov import HiddenMarkov
    >>> process = HiddenMarkov()
    >>> values, new = (process.sample(500, seed).select("y") for seed in (0, 1))
    >>> density = NormalizingFlow(memory=1, bins=4, width=8, random_state=0).fit(values).density(new)
    >>> bool(abs((process.density(new, memory=1).logpdf() - density.logpdf()).mean()) < 0.1)
    True
    """

    fitted_: tuple[_Flow, Scaler]

    def __init__(self, memory: int, bins: int = 8, width: int = 64, random_state: int | None = None) -> None:
        self.memory = memory
        self.bins = bins
        self.width = width
        self.random_state = random_state

    def _fit(self, windows: Windows) -> None:
        bins, width = check_whole("bins", self.bins, 2), check_whole("width", self.width, 1)
        training, validation, scaler, series = prepared(windows)
        seed = np.random.SeedSequence(self.random_state).generate_state(1)[0]
        generator = torch.Generator().manual_seed(int(seed))
        flow = _Flow(self.memory, bins, width)
        flow.reset(generator)

        def loss(positions: Tensor) -> tuple[Tensor]:
            past = series.pasts(positions, SEEN)["target"].flatten(1)
            return (-flow.log_density(past, series.present(positions)).mean(),)

        @torch.no_grad()
        def validate() -> float:
            return loss(validation)[0].item()

        train(flow, loss, validate, training, PRESETS["default"].schedule, generator, "normalizing flow")
        self.fitted_ = flow.requires_grad_(False).double(), scaler

    def _density(self, windows: Windows) -> ConditionalDensity:
        flow, scaler = self.fitted_
        # Oldest first, as in training.
        past, _ = standardised(windows, scaler)
        return ConditionalDensity(
            Alone(Flowed(flow, past[:, ::-1].copy(), float(scaler.mean[0]), float(scaler.std[0]))), windows
        )


def zuko() -> tuple[Any, Any]:
    """The parts of the library that are used; raises where it is not installed."""
    try:
        return import_module("zuko.flows.gaussianization"), import_module("zuko.transforms")
    except ImportError as error:
        raise MissingExtraError("NormalizingFlow", "flows") from error


class _Flow(nn.Module):
    def __init__(self, memory: int, bins: int, width: int) -> None:
        super().__init__()
        layers, transforms = zuko()
        network: dict[str, Any] = {"hidden_features": (width, width), "activation": nn.SiLU}
        spline, shapes = transforms.MonotonicRQSTransform, [(bins,), (bins,), (bins - 1,)]
        with torch.random.fork_rng(devices=()):  # zuko draws weights from the global state; reset does anew
            self.affine = layers.ElementWiseTransform(1, memory, **network)
            self.spline = layers.ElementWiseTransform(1, memory, spline, shapes, **network)

    def reset(self, generator: torch.Generator) -> None:
        for weight in self.parameters():
            draw_uniform(weight, weight.shape[-1] ** -0.5, generator)

    def log_density(self, past: Tensor, present: Tensor) -> Tensor:
        """(.., batch) of ``present`` (.., batch, 1)."""
        residual, log_scale = self.affine(past).call_and_ladj(present)
        z, log_slope = self.spline(past).call_and_ladj(residual)
        return cast("Tensor", log_scale + log_slope - 0.5 * (z[..., 0].square() + LOG_2_PI))

    def normal(self, past: Tensor, present: Tensor) -> Tensor:
        """(.., batch): ``f`` of ``present`` (.., batch, 1)."""
        return cast("Tensor", self.spline(past)(self.affine(past)(present))[..., 0])

    def inverse(self, past: Tensor, z: Tensor) -> Tensor:
        """(.., batch): what ``f`` maps to ``z`` (.., batch, 1)."""
        return cast("Tensor", self.affine(past).inv(self.spline(past).inv(z))[..., 0])


class Flowed(Univariate):
    """The densities of a flow after ``past`` (steps, memory), in units of ``scale`` around ``shift``.

    Density, distribution function, quantiles and samples are those of the flow; moments and the entropy are
    sums over the normal variable, to about 1e-4 of the spread.
    """

    def __init__(self, flow: _Flow, past: Floats, shift: float, scale: float) -> None:
        self.flow, self.past, self.shift, self.scale = flow, past, shift, scale

    def __len__(self) -> int:
        return len(self.past)

    def __getitem__(self, steps: Rows | slice) -> Flowed:
        return Flowed(self.flow, self.past[steps], self.shift, self.scale)

    def logpdf(self, y: Floats) -> Floats:
        return self._mapped(self.flow.log_density, (y - self.shift) / self.scale) - math.log(self.scale)

    def cdf(self, y: Floats) -> Floats:
        return np.asarray(ndtr(self._mapped(self.flow.normal, (y - self.shift) / self.scale)))

    def quantile(self, q: Floats) -> Floats:
        return self._inverse(np.asarray(ndtri(q)))

    def sample(self, size: int, generator: np.random.Generator) -> Floats:
        return self._inverse(generator.standard_normal((size, len(self))))

    def _inverse(self, z: Floats) -> Floats:
        return self.shift + self.scale * self._mapped(self.flow.inverse, z)

    @torch.no_grad()
    def _mapped(self, function: Callable[[Tensor, Tensor], Tensor], values: Floats) -> Floats:
        """(.., steps): ``function`` of the pasts and ``values``, which broadcast to that shape."""
        values = np.broadcast_to(values, np.broadcast_shapes(np.shape(values), (len(self),)))
        size = max(1, VALUES * len(self) // max(1, values.size))
        found = [
            function(
                torch.from_numpy(self.past[start : start + size]),
                torch.tensor(values[..., start : start + size, None]),
            )
            for start in range(0, len(self), size)
        ]
        return np.asarray(torch.cat(found, -1).numpy())

    @property
    def mean(self) -> Floats:
        return self._expected(lambda part, y: y)

    @property
    def variance(self) -> Floats:
        return self._expected(lambda part, y: (y - part.mean) ** 2)

    def entropy(self) -> Floats:
        return self._expected(lambda part, y: -part.logpdf(y))

    def _expected(self, function: Callable[[Flowed, Floats], Floats]) -> Floats:
        """(steps,): the mean of ``function`` of the densities and values (nodes, steps) of the target."""
        z = np.linspace(-REACH, REACH, NODES)
        weights = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
        size = VALUES // NODES
        parts = [self[start : start + size] for start in range(0, len(self), size)]
        return np.concatenate([weights @ function(part, part._inverse(z[:, None])) for part in parts])
