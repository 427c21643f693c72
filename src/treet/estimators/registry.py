"""Estimators by name: what ``--estimator`` and ``estimator=`` offer."""

from __future__ import annotations

from typing import Any

from treet.errors import TreetError
from treet.estimators.base import TransferEntropyEstimator
from treet.estimators.copula import CopulaTE
from treet.estimators.discrete import DiscreteTE
from treet.estimators.gaussian import GaussianTE
from treet.estimators.kernel import KernelTE
from treet.estimators.mine import MINE
from treet.estimators.nearest import KSG
from treet.estimators.neural import TREET
from treet.estimators.recurrent import DINE
from treet.estimators.symbolic import SymbolicTE
from treet.estimators.tene import TENE

KINDS: tuple[type[TransferEntropyEstimator], ...] = (
    *(TREET, DINE, TENE, MINE),
    *(CopulaTE, KSG, KernelTE),
    *(GaussianTE, DiscreteTE, SymbolicTE),
)
ESTIMATORS = {kind.name: kind for kind in KINDS}


def make(name: str, /, **parameters: Any) -> TransferEntropyEstimator:
    """The estimator called ``name`` with its ``parameters``; one that does not apply is an error.

    >>> make("treet", memory=30).memory
    30
    """
    if name not in ESTIMATORS:
        raise TreetError(f"There is no estimator {name!r}. Choose one of {', '.join(ESTIMATORS)}.")
    known = ESTIMATORS[name].parameters()
    unknown = [key for key in parameters if key not in known]
    if unknown:
        raise TreetError(
            f"{', '.join(unknown)} does not apply to the estimator {name!r}. It has: {', '.join(known)}."
        )
    return ESTIMATORS[name](**parameters)
