"""Transfer entropy from time series: values, intervals, local values and pictures.

>>> import treet
>>> recording = treet.simulate("threshold", 2000, random_state=0)
>>> result = treet.transfer_entropy(recording.select("x"), recording.select("y"), memory=2, random_state=0)
>>> result.direction, result.te > 0.3
('x -> y', True)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from treet.api import transfer_entropy
    from treet.capacity.api import channel_capacity
    from treet.capacity.channels import Channel
    from treet.capacity.result import CapacityResult
    from treet.data import Recording, as_recording
    from treet.density.api import conditional_density
    from treet.density.result import DensityResult
    from treet.errors import MissingExtraError, NotConvergedWarning, TreetError, UnreliableEstimateWarning
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
    from treet.lag_scan import ScanResult, scan
    from treet.lags import Lags
    from treet.processes.registry import make_process, simulate
    from treet.readers import read_recording
    from treet.results import TransferEntropyResult
    from treet.statistics.significance import Significance, paired_test, surrogate_test
    from treet.study import Study
    from treet.training import History
    from treet.writers import write_recording

__all__ = [
    "DINE",
    "KSG",
    "MINE",
    "TENE",
    "TREET",
    "CapacityResult",
    "Channel",
    "CopulaTE",
    "DensityResult",
    "DiscreteTE",
    "GaussianTE",
    "History",
    "KernelTE",
    "Lags",
    "MissingExtraError",
    "NotConvergedWarning",
    "Recording",
    "ScanResult",
    "Significance",
    "Study",
    "SymbolicTE",
    "TransferEntropyEstimator",
    "TransferEntropyResult",
    "TreetError",
    "UnreliableEstimateWarning",
    "__version__",
    "as_recording",
    "channel_capacity",
    "conditional_density",
    "make_process",
    "paired_test",
    "read_recording",
    "scan",
    "simulate",
    "surrogate_test",
    "transfer_entropy",
    "write_recording",
]

# Torch takes seconds to load. A name is imported when it is first used, so that the command line answers
# --help and mistakes at once.
_HOMES = {
    "DINE": "estimators.recurrent",
    "KSG": "estimators.nearest",
    "MINE": "estimators.mine",
    "TENE": "estimators.tene",
    "TREET": "estimators.neural",
    "CapacityResult": "capacity.result",
    "Channel": "capacity.channels",
    "CopulaTE": "estimators.copula",
    "DensityResult": "density.result",
    "DiscreteTE": "estimators.discrete",
    "GaussianTE": "estimators.gaussian",
    "History": "training",
    "KernelTE": "estimators.kernel",
    "Lags": "lags",
    "MissingExtraError": "errors",
    "NotConvergedWarning": "errors",
    "Recording": "data",
    "ScanResult": "lag_scan",
    "Significance": "statistics.significance",
    "Study": "study",
    "SymbolicTE": "estimators.symbolic",
    "TransferEntropyEstimator": "estimators.base",
    "TransferEntropyResult": "results",
    "TreetError": "errors",
    "UnreliableEstimateWarning": "errors",
    "as_recording": "data",
    "channel_capacity": "capacity.api",
    "conditional_density": "density.api",
    "make_process": "processes.registry",
    "paired_test": "statistics.significance",
    "read_recording": "readers",
    "scan": "lag_scan",
    "simulate": "processes.registry",
    "surrogate_test": "statistics.significance",
    "transfer_entropy": "api",
    "write_recording": "writers",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("treet.versions").treet_version()
    if name not in _HOMES:
        raise AttributeError(f"module 'treet' has no attribute {name!r}")
    value = getattr(import_module(f"treet.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
