"""The estimator ``kernel``: transfer entropy from densities that count or weigh neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np
import torch
from scipy.spatial import cKDTree

from treet.checks import check_choice, check_number
from treet.errors import TreetError
from treet.estimators.base import Estimate, Floats, TransferEntropyEstimator
from treet.results import Unit
from treet.series import Scaler
from treet.windows import Windows

BOX_BANDWIDTH = 0.5

# Pairs of windows held at once: some ten MB of work space, whatever the number of windows.
_PAIRS_AT_ONCE = 1_000_000

# Above this share of windows on their own, what is left over no longer stands for the recording.
_LARGEST_LONELY_SHARE = 0.1


class KernelTE(TransferEntropyEstimator):
    """Transfer entropy from kernel densities (Schreiber 2000; Kaiser and Schreiber 2002).

        TE = mean log (p(y, z, x) p(z)) / (p(y, z) p(z, x))

    over the windows, with y the target's present, z its past and the condition's, x the source's past. Each
    density at a window is the sum of the kernel over all other windows; every channel is standardised first.

    ``kernel``     "box": how many windows lie within ``bandwidth`` in every coordinate. "gaussian": the sum
                   of ``exp(-distance^2 / (2 bandwidth^2))``, a product kernel.
    ``bandwidth``  in standard deviations, the same for all coordinates and all four densities, so that the
                   kernel's normalisation cancels. None is 0.5 for the box and, for the Gaussian kernel,
                   Silverman's rule ``(4 / ((d + 2) n))^{1 / (d + 4)}`` for n windows of d numbers.

    The value is that of the smoothed series: at history 1 of the threshold process, where 0.415 is exact,
    10,000 samples give 0.34 to 0.37. The standard error and the interval know nothing of this. The fewer
    samples fall to a window's neighbourhood, as in long histories, the less the value means.

    A window without any other in its box has no local value: it is NaN and left out of the mean. Where the
    neighbours or weights of many windows sum to less than one, a note says so. Windows that overlap in time
    count as neighbours like all others.

    >>> from treet.processes import BivariateLinear
    >>> recording = BivariateLinear().sample(2000, random_state=0)
    >>> estimator = KernelTE(target_history=1, source_history=1)
    >>> forth = estimator.fit(recording.select("y"), recording.select("x")).te_
    >>> back = estimator.fit(recording.select("x"), recording.select("y")).te_
    >>> forth > 0.05 > back
    True
    """

    name: ClassVar[str] = "kernel"
    summary: ClassVar[str] = "kernel densities with a box or a Gaussian kernel"
    assumes: ClassVar[str] = "a stationary process; histories of one or two samples"
    cost: ClassVar[str] = "seconds for ten thousand samples; quadratic in the samples"
    use_when: ClassVar[str] = "results with a fixed resolution are to be compared with earlier work"

    def __init__(
        self,
        memory: int | None = None,
        target_history: int | None = None,
        source_history: int | None = None,
        delay: int | None = None,
        condition_history: int | None = None,
        *,
        kernel: str = "box",
        bandwidth: float | None = None,
        unit: Unit = "nats",
        confidence: float = 0.95,
        random_state: int | None = None,
    ) -> None:
        self.memory = memory
        self.target_history = target_history
        self.source_history = source_history
        self.delay = delay
        self.condition_history = condition_history
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.unit = unit
        self.confidence = confidence
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_choice("kernel", self.kernel, KERNELS)
        if self.bandwidth is not None:
            check_number("bandwidth", self.bandwidth, above=0)

    def _estimate(self, windows: Windows) -> Estimate:
        y, z, x = _coordinates(windows)
        joint = np.hstack([y, z, x])
        log_sums, default = KERNELS[self.kernel]
        bandwidth = default(*joint.shape) if self.bandwidth is None else float(self.bandwidth)
        all_near, y_near, x_near, past_near = (
            log_sums(np.hstack(parts) / bandwidth) for parts in ((joint,), (y, z), (z, x), (z,))
        )
        _check_any(all_near, bandwidth)
        local = np.where(np.isfinite(all_near), all_near, np.nan) - y_near - x_near + past_near
        return Estimate(te=float(np.nanmean(local)), local=local, notes=_lonely(all_near, bandwidth))


def _coordinates(windows: Windows) -> tuple[Floats, Floats, Floats]:
    """The target's present, its past with the condition's, the source's past: (windows, numbers) each."""
    scaler = Scaler.of(windows, windows.positions)
    scaled = replace(windows, values=(windows.values - scaler.mean) / scaler.std)
    past = np.hstack([scaled.flat_past("target"), scaled.flat_past("condition")])
    return scaled.present(), past, scaled.flat_past("source")


def _box(points: Floats) -> Floats:
    """(windows,): the log of how many other points lie within 1 in every coordinate; -inf for none."""
    counts = cKDTree(points).query_ball_point(points, 1.0, p=math.inf, return_length=True, workers=-1) - 1
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(counts))


def _gaussian(points: Floats) -> Floats:
    """(windows,): the log of the sum of ``exp(-distance^2 / 2)`` over the other points, block by block."""
    tensor = torch.from_numpy(points)
    half_squares = tensor.square().sum(1) / 2
    log_sums = torch.empty_like(half_squares)
    step = max(1, _PAIRS_AT_ONCE // len(points))
    for start in range(0, len(points), step):
        rows = slice(start, start + step)
        log_weights = (tensor[rows] @ tensor.T).sub_(half_squares[rows, None]).sub_(half_squares)
        log_weights.diagonal(start).fill_(-math.inf)
        log_sums[rows] = log_weights.logsumexp(1)
    return log_sums.numpy()


def _silverman(n: int, d: int) -> float:
    return float((4 / ((d + 2) * n)) ** (1 / (d + 4)))


def _fixed(n: int, d: int) -> float:
    return BOX_BANDWIDTH


# How the other points around each one are summed up, and the bandwidth for n points of d numbers.
KERNELS: dict[str, tuple[Callable[[Floats], Floats], Callable[[int, int], float]]] = {
    "box": (_box, _fixed),
    "gaussian": (_gaussian, _silverman),
}


def _check_any(log_sums: Floats, bandwidth: float) -> None:
    if not np.isfinite(log_sums).any():
        raise TreetError(
            f"No window of the {len(log_sums)} has another one within the bandwidth of {bandwidth:.3g} "
            "standard deviations. Use shorter histories, a larger bandwidth or a longer recording."
        )


def _lonely(log_sums: Floats, bandwidth: float) -> tuple[str, ...]:
    share = float((log_sums < 0).mean())
    if share <= _LARGEST_LONELY_SHARE:
        return ()
    return (
        f"{share:.0%} of the windows have less than one neighbour within the bandwidth of {bandwidth:.3g} "
        "standard deviations, and the value means little. Use shorter histories, a larger bandwidth or a "
        "longer recording.",
    )
