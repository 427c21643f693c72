"""Linear Gaussian processes: any stable vector autoregression, and the common ones by name."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from treet.checks import check_number, check_whole
from treet.errors import TreetError
from treet.lags import Lags
from treet.processes.base import Direction, Floats, Process, numbered
from treet.processes.dynamics import Dynamics, Variables, check_noisy
from treet.windows import Role, Windows


class Linear(Process):
    """A process with linear dynamics and Gaussian noise: everything about it is exact.

    With the error covariances ``S_Y`` of the target predicted from its own past (and the condition's) and
    ``S_XY`` of the target predicted from the source's past as well,
    ``TE = (log det S_Y - log det S_XY) / 2`` and the local values have the variance
    ``d - tr(S_Y^{-1} S_XY)`` for a target of ``d`` channels.
    """

    @property
    @abstractmethod
    def dynamics(self) -> Dynamics:
        """The recursion, in the order of ``names``."""

    def _trial(self, n_samples: int, generator: np.random.Generator) -> Floats:
        return self.dynamics.sample(n_samples, generator)

    def _variables(self, lags: Lags, direction: Direction, roles: Sequence[Role]) -> Variables:
        channels = {role: [self.names.index(name) for name in getattr(direction, role)] for role in roles}
        return [(channel, lag) for role in roles for lag in lags.of(role) for channel in channels[role]]

    def _predictors(self, lags: Lags, direction: Direction) -> tuple[tuple[Floats, Floats], ...]:
        """Coefficients and error covariance without and with the source."""
        present = [(self.names.index(name), 0) for name in direction.target]
        without = self._variables(lags, direction, ("target", "condition"))
        both = without + self._variables(lags, direction, ("source",))
        predictors = tuple(self.dynamics.predictor(present, past) for past in (without, both))
        check_noisy(predictors[1][1], self.dynamics.covariance(present, present))
        return predictors

    def _transfer_entropy(self, lags: Lags, direction: Direction) -> float:
        (_, s_y), (_, s_xy) = self._predictors(lags, direction)
        # A value below zero can only be rounding.
        return max(0.0, float(np.linalg.slogdet(s_y)[1] - np.linalg.slogdet(s_xy)[1]) / 2)

    def local_variance(self, lags: Lags) -> float:
        (_, s_y), (_, s_xy) = self._predictors(lags, self._direction(None, None, None))
        return max(0.0, len(s_y) - float(np.trace(np.linalg.solve(s_y, s_xy))))

    def _local_values(self, windows: Windows) -> Floats:
        predictors = self._predictors(windows.lags, self._direction(None, None, None))
        past = windows.flat_past("target")
        pasts = (past, np.hstack([past, windows.flat_past("source")]))
        y, xy = (
            _log_density(windows.present() - seen @ coefficients.T, covariance)
            for seen, (coefficients, covariance) in zip(pasts, predictors, strict=True)
        )
        return xy - y


@dataclass(frozen=True)
class VAR(Linear):
    """Any stable vector autoregression ``v_t = sum_i A_i v_{t-i} + e_t`` with Gaussian noise.

    ``coefficients``      (order, d, d): ``coefficients[i - 1][a][b]`` is the effect of channel b on channel a
                          after i steps; a (d, d) matrix is one of order 1.
    ``noise_covariance``  (d, d), the identity by default; it may be singular.
    ``channels``          names, ``v1 .. vd`` by default.
    ``source, target``    the channels of the coupled direction; the first and the last by default.

    >>> from treet.lags import Lags
    >>> process = VAR([[0.4, 0.0], [0.5, 0.8]], channels=("x", "y"))
    >>> round(process.transfer_entropy(Lags(5, 5)), 4)
    0.1256
    """

    coefficients: ArrayLike = (((0.5, 0.0), (0.3, 0.4)), ((-0.3, 0.0), (0.2, 0.2)))
    noise_covariance: ArrayLike | None = None
    channels: Sequence[str] | None = None
    source: str | Sequence[str] | None = None
    target: str | Sequence[str] | None = None

    def __post_init__(self) -> None:
        coefficients = _as_array("coefficients", self.coefficients)
        coefficients = coefficients[None] if coefficients.ndim == 2 else coefficients
        if coefficients.ndim != 3 or coefficients.size == 0 or coefficients.shape[1] != coefficients.shape[2]:
            raise TreetError(
                f"coefficients must have the shape (order, channels, channels). "
                f"Got {coefficients.shape} instead."
            )
        dimension = coefficients.shape[1]
        if dimension < 2:
            raise TreetError("A VAR needs at least two channels, a source and a target. Got 1 instead.")
        noise = np.eye(dimension) if self.noise_covariance is None else self.noise_covariance
        noise = _check_noise(noise, dimension)
        self._set(coefficients=_frozen(coefficients), noise_covariance=_frozen(noise))
        _check_stable(self.dynamics)
        self._set_names(dimension)

    def _set(self, **values: object) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _set_names(self, dimension: int) -> None:
        channels = (
            tuple(f"v{i + 1}" for i in range(dimension)) if self.channels is None else tuple(self.channels)
        )
        if len(channels) != dimension or len(set(channels)) != dimension:
            raise TreetError(f"channels must be {dimension} different names. Got {', '.join(channels)}.")
        self._set(channels=channels)
        self._set(source=self._channels("source", channels[0] if self.source is None else self.source))
        self._set(target=self._channels("target", channels[-1] if self.target is None else self.target))
        self._direction(None, None, None)

    @cached_property
    def dynamics(self) -> Dynamics:
        return Dynamics(np.array(self.coefficients), np.array(self.noise_covariance))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.channels or ())

    @property
    def source_names(self) -> tuple[str, ...]:
        return tuple(self.source or ())

    @property
    def target_names(self) -> tuple[str, ...]:
        return tuple(self.target or ())


@dataclass(frozen=True)
class BivariateLinear(Linear):
    """``x' = b_x x + c y + e_x``, ``y' = b_y y + e_y``: the direction ``y -> x``.

    >>> from treet.lags import Lags
    >>> round(BivariateLinear().transfer_entropy(Lags(5, 5)), 4)
    0.1256
    """

    b_x: float = 0.8
    b_y: float = 0.4
    c: float = 0.5
    std_x: float = 1.0
    std_y: float = 1.0

    def __post_init__(self) -> None:
        for name in ("b_x", "b_y"):
            check_number(name, getattr(self, name), above=-1, below=1)
        check_number("c", self.c)
        for name in ("std_x", "std_y"):
            check_number(name, getattr(self, name), above=0)

    @property
    def names(self) -> tuple[str, ...]:
        return ("x", "y")

    @property
    def source_names(self) -> tuple[str, ...]:
        return ("y",)

    @property
    def target_names(self) -> tuple[str, ...]:
        return ("x",)

    @cached_property
    def dynamics(self) -> Dynamics:
        coefficients = np.array([[[self.b_x, self.c], [0.0, self.b_y]]])
        return Dynamics(coefficients, np.diag([self.std_x**2, self.std_y**2]))


@dataclass(frozen=True)
class DelayedLinear(Linear):
    """``y_t = target_decay y_{t-1} + coupling x_{t-delay} + e`` with ``x_t = source_decay x_{t-1} + e``.

    The direction is ``x -> y``, the noise is of unit variance, and ``copies`` independent copies make source
    and target vectors. With ``source_decay = 0`` the source is white: lags that do not hold source lag
    ``delay`` then see nothing of it.

    >>> from treet.lags import Lags
    >>> process = DelayedLinear(delay=20, source_decay=0.0)
    >>> [round(process.transfer_entropy(Lags(5, source_history)), 4) for source_history in (20, 19)]
    [0.1116, 0.0]
    """

    coupling: float = 0.5
    delay: int = 20
    source_decay: float = 0.5
    target_decay: float = 0.5
    copies: int = 1

    def __post_init__(self) -> None:
        check_number("coupling", self.coupling)
        check_whole("delay", self.delay, 1)
        check_whole("copies", self.copies, 1)
        for name in ("source_decay", "target_decay"):
            check_number(name, getattr(self, name), above=-1, below=1)

    @property
    def source_names(self) -> tuple[str, ...]:
        return numbered("x", self.copies)

    @property
    def target_names(self) -> tuple[str, ...]:
        return numbered("y", self.copies)

    @cached_property
    def dynamics(self) -> Dynamics:
        pair = np.zeros((self.delay, 2, 2))
        pair[0] = np.diag([self.source_decay, self.target_decay])
        pair[self.delay - 1, 1, 0] = self.coupling
        copies = np.eye(self.copies)
        return Dynamics(np.array([np.kron(matrix, copies) for matrix in pair]), np.eye(2 * self.copies))


def _as_array(name: str, values: ArrayLike) -> Floats:
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TreetError(f"{name} must be numbers in a rectangular array: {error}.") from error
    if not np.isfinite(array).all():
        raise TreetError(f"{name} must be finite. Got NaN or an infinite number: replace it.")
    return array


def _frozen(array: Floats) -> tuple[object, ...]:
    """Nested tuples, so that a process can be compared, hashed and printed."""
    return tuple(_frozen(row) if row.ndim else float(row) for row in array)


def _check_noise(values: ArrayLike, dimension: int) -> Floats:
    noise = _as_array("noise_covariance", values)
    if noise.shape != (dimension, dimension):
        raise TreetError(
            f"noise_covariance must have the shape ({dimension}, {dimension}). Got {noise.shape} instead."
        )
    if not np.allclose(noise, noise.T):
        raise TreetError("noise_covariance must be symmetric. Make it equal to its transpose.")
    smallest = float(np.linalg.eigvalsh(noise).min())
    if smallest < -1e-12 * max(1.0, float(np.abs(noise).max())):
        raise TreetError(
            f"noise_covariance must have no negative eigenvalue. Got one of {smallest:.3g}: "
            "check its correlations."
        )
    return noise


def _check_stable(dynamics: Dynamics) -> None:
    radius = dynamics.spectral_radius
    if radius >= 1:
        raise TreetError(
            f"The process is not stable: the spectral radius of its companion matrix must be below 1. "
            f"Got {radius:.4g}: make the coefficients smaller."
        )


def _log_density(residual: Floats, covariance: Floats) -> Floats:
    """The log density of centred Gaussian rows, without the constant ``-d log(2 pi) / 2``."""
    distance = np.einsum("ni,ni->n", residual, np.linalg.solve(covariance, residual.T).T)
    return np.asarray(-(distance + np.linalg.slogdet(covariance)[1]) / 2)
