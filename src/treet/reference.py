"""Reference densities q that the present value of the target is compared with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from treet.errors import TreetError

# Added to each variance, relative to it: keeps the covariance of channels that copy each other invertible.
_RIDGE = 1e-6


class Reference(Protocol):
    """A density of the target's present value that can be drawn from and evaluated.

    Points have the shape (*contexts, draws, channels). A density that is the same in every context takes any
    leading shape.
    """

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        """Points (*shape, channels), with ``shape`` = (*contexts, draws)."""

    def log_density(self, y: Tensor) -> Tensor:
        """(*contexts, draws): log q at the points ``y`` (*contexts, draws, channels)."""


@dataclass(frozen=True, eq=False)
class UniformBox:
    """The uniform density on a box, with ``low`` and ``high`` (channels,): the paper's reference.

    >>> box = UniformBox.around(torch.tensor([[0.0, 2.0], [4.0, 2.5]]))
    >>> box.sample((3, 10), torch.Generator().manual_seed(0)).shape
    torch.Size([3, 10, 2])
    >>> round(box.log_density(torch.tensor([1.0, 2.1])).exp().item(), 6)
    0.5
    """

    low: Tensor
    high: Tensor

    def __post_init__(self) -> None:
        if self.low.ndim != 1 or self.low.shape != self.high.shape or not bool((self.low < self.high).all()):
            raise TreetError(
                "A uniform box needs low and high of shape (channels,), each low below its high. "
                f"Got low={self.low.tolist()} and high={self.high.tolist()} instead."
            )

    @classmethod
    def around(cls, y: Tensor) -> UniformBox:
        """The bounding box of ``y`` (..., channels).

        A channel without width is given one: 1, or the size of its value where that is larger.
        """
        points = _points(y)
        low, high = points.amin(0), points.amax(0)
        margin = 0.5 * _missing_spread(high - low, points)
        return cls(low - margin, high + margin)

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        draws = torch.rand(
            (*shape, len(self.low)), generator=generator, device=generator.device, dtype=self.low.dtype
        )
        return self.low + (self.high - self.low) * draws.to(self.low.device)

    def log_density(self, y: Tensor) -> Tensor:
        _check_channels(y, len(self.low))
        inside = ((y >= self.low) & (y <= self.high)).all(-1)
        return torch.where(inside, -(self.high - self.low).log().sum(), -math.inf)


@dataclass(frozen=True, eq=False)
class Gaussian:
    """The normal density with ``mean`` (channels,) and covariance ``factor factor^T`` (lower triangular).

    >>> gaussian = Gaussian.of(torch.tensor([[-1.0], [1.0]]))
    >>> gaussian.sample((3, 10), torch.Generator().manual_seed(0)).shape
    torch.Size([3, 10, 1])
    >>> round(gaussian.log_density(torch.zeros(1)).item(), 4)
    -0.9189
    """

    mean: Tensor
    factor: Tensor

    def __post_init__(self) -> None:
        channels = self.mean.shape[-1] if self.mean.ndim == 1 else 0
        square = channels > 0 and self.factor.shape == (channels, channels)
        if not (square and bool((self.factor.diagonal() > 0).all()) and not bool(self.factor.triu(1).any())):
            raise TreetError(
                "A Gaussian needs a mean (channels,) and a lower triangular factor (channels, channels) "
                f"with a positive diagonal. Got {self.mean.tolist()} and {self.factor.tolist()} instead."
            )

    @classmethod
    def of(cls, y: Tensor) -> Gaussian:
        """Mean and covariance of ``y`` (..., channels), computed in float64.

        A channel without spread is given one, 1 or its value's own size where that is larger, and every
        variance is raised by a millionth, so that channels may copy each other: any positive density will do.
        """
        points = _points(y).to(torch.float64)
        centred = points - points.mean(0)
        covariance = centred.mT @ centred / len(points)
        variance = covariance.diagonal()
        extra = _RIDGE * variance + _missing_spread(variance.sqrt(), points).square()
        factor = torch.linalg.cholesky(covariance + extra.diag())
        return cls(points.mean(0).to(y), factor.to(y))

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return self.mean + _noise((*shape, len(self.mean)), self.mean, generator) @ self.factor.mT

    def log_density(self, y: Tensor) -> Tensor:
        _check_channels(y, len(self.mean))
        flat = (y - self.mean).reshape(-1, len(self.mean))
        standard = torch.linalg.solve_triangular(self.factor, flat.mT, upper=False).mT.reshape(y.shape)
        return _standard_normal(standard) - self.factor.diagonal().log().sum()


@dataclass(frozen=True, eq=False)
class GaussianGivenPast:
    """Independent normal densities y ~ N(mean, std^2), one for each context and channel.

    ``mean`` and ``std`` have the shape (*contexts, channels). Gradients flow through both.

    >>> given = GaussianGivenPast(mean=torch.zeros(4, 2), std=torch.ones(4, 2))
    >>> draws = given.sample((4, 10), torch.Generator().manual_seed(0))
    >>> draws.shape, given.log_density(draws).shape
    (torch.Size([4, 10, 2]), torch.Size([4, 10]))
    """

    mean: Tensor
    std: Tensor

    def __post_init__(self) -> None:
        if self.mean.shape != self.std.shape or self.mean.ndim == 0 or not bool((self.std > 0).all()):
            raise TreetError(
                "mean and std must have the same shape (*contexts, channels), and std must be positive. "
                f"Got shapes {tuple(self.mean.shape)} and {tuple(self.std.shape)}, with "
                f"{int((~(self.std > 0)).sum())} values of std that are not positive."
            )

    def sample(self, shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        self._check_contexts(tuple(shape[:-1]))
        noise = _noise((*shape, self.mean.shape[-1]), self.mean, generator)
        return self.mean[..., None, :] + self.std[..., None, :] * noise

    def log_density(self, y: Tensor) -> Tensor:
        _check_channels(y, self.mean.shape[-1])
        self._check_contexts(tuple(y.shape[:-2]))
        standard = (y - self.mean[..., None, :]) / self.std[..., None, :]
        return _standard_normal(standard) - self.std.log().sum(-1)[..., None]

    def _check_contexts(self, contexts: tuple[int, ...]) -> None:
        if contexts != tuple(self.mean.shape[:-1]):
            raise TreetError(
                f"This density was given for contexts of shape {tuple(self.mean.shape[:-1])}, followed by an "
                f"axis of draws. Got {contexts} instead."
            )


def _points(y: Tensor) -> Tensor:
    """(points, channels), detached: a reference fitted to data carries no gradient."""
    if y.ndim < 2 or y.numel() == 0 or not bool(torch.isfinite(y).all()):
        raise TreetError(
            "A reference density needs finite values of shape (..., channels), at least one point. "
            f"Got shape {tuple(y.shape)} with {int((~torch.isfinite(y)).sum())} values that are not finite."
        )
    return y.detach().reshape(-1, y.shape[-1])


def _missing_spread(spread: Tensor, points: Tensor) -> Tensor:
    """(channels,): zero, but max(1, size of the values) where ``spread`` is nothing but their rounding."""
    size = points.abs().amax(0)
    flat = spread <= 8 * torch.finfo(points.dtype).eps * size
    return torch.where(flat, size.clamp(min=1.0), 0.0)


def _noise(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal numbers; drawn on the generator's device: a seed means the same on every device."""
    return torch.randn(shape, generator=generator, device=generator.device, dtype=like.dtype).to(like.device)


def _standard_normal(standard: Tensor) -> Tensor:
    """log density of a standard normal vector, summed over the last axis."""
    return -0.5 * (standard.square() + math.log(2 * math.pi)).sum(-1)


def _check_channels(y: Tensor, channels: int) -> None:
    if y.ndim == 0 or y.shape[-1] != channels:
        raise TreetError(
            f"y must have {channels} channels on its last axis. Got shape {tuple(y.shape)} instead."
        )
