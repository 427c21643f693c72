"""Simulated series with an exactly known transfer entropy."""

from treet.processes.base import Process
from treet.processes.heavy_tailed import HeavyTailed
from treet.processes.linear import VAR, BivariateLinear, DelayedLinear
from treet.processes.maps import SineMap
from treet.processes.registry import PROCESSES, make_process, simulate
from treet.processes.threshold import Threshold

__all__ = [
    "PROCESSES",
    "VAR",
    "BivariateLinear",
    "DelayedLinear",
    "HeavyTailed",
    "Process",
    "SineMap",
    "Threshold",
    "make_process",
    "simulate",
]
