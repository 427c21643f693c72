"""The capacity of a discrete memoryless channel, between certified bounds.

References: Blahut, Computation of channel capacity and rate-distortion functions; Arimoto, An algorithm for
computing the capacity of arbitrary discrete memoryless channels: IEEE Trans. Inf. Theory 18 (1972).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from treet.capacity.noise import Floats
from treet.checks import check_number, check_whole
from treet.errors import TreetError


@dataclass(frozen=True, eq=False)
class CertifiedCapacity:
    """A capacity in nats: ``lower`` is attained by the best input found, ``upper`` holds for all.

    ``inputs``         (points,): the symbols or values of this input, without those of probability below 1e-6
                       for a real input; its mass points may show as a few neighbours.
    ``probabilities``  (points,): how often it takes them.
    """

    lower: float
    upper: float
    inputs: Floats
    probabilities: Floats

    @property
    def value(self) -> float:
        return (self.lower + self.upper) / 2

    @property
    def gap(self) -> float:
        return self.upper - self.lower


def discrete_capacity(
    channel: ArrayLike, tolerance: float = 1e-9, max_iterations: int = 200_000
) -> CertifiedCapacity:
    """The capacity of the memoryless channel with ``channel[x][y] = p(y|x)``, by Blahut and Arimoto.

    With ``D(x) = KL(p(.|x) || p(.))`` an input ``p(x)`` has the information ``sum_x p(x) D(x)`` and no input
    has more than ``max_x D(x)``; ``p(x)`` is multiplied by ``exp D(x)`` until both are within ``tolerance``.

    >>> found = discrete_capacity([[0.9, 0.1], [0.1, 0.9]])
    >>> round(found.value, 6), found.probabilities.tolist()
    (0.368064, [0.5, 0.5])
    """
    law = _check_channel(channel)
    check_number("tolerance", tolerance, above=0)
    probabilities = np.full(len(law), 1 / len(law))
    for _ in range(check_whole("max_iterations", max_iterations, 1)):
        divergence = rel_entr(law, probabilities @ law).sum(axis=1)
        lower, upper = float(probabilities @ divergence), float(divergence.max())
        if upper - lower <= tolerance:
            return CertifiedCapacity(lower, upper, np.arange(len(law), dtype=np.float64), probabilities)
        probabilities = probabilities * np.exp(divergence - upper)
        probabilities /= probabilities.sum()
    raise TreetError(
        f"The bounds on the capacity, {lower:.9g} and {upper:.9g}, are not within {tolerance:.1g} after "
        f"{max_iterations} iterations. Raise max_iterations or tolerance."
    )


def _check_channel(channel: ArrayLike) -> Floats:
    law = np.array(channel, dtype=np.float64)
    if law.ndim != 2 or law.size == 0:
        raise TreetError(f"channel must have the shape (inputs, outputs). Got {law.shape} instead.")
    if not (law >= 0).all() or not np.allclose(law.sum(axis=1), 1.0, atol=1e-9):
        raise TreetError("Every row of channel must be probabilities that add up to 1.")
    # An output that never comes carries nothing and would divide by zero.
    return law[:, law.any(axis=0)]
