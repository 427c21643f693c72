"""Settings that make no sense are refused with an error that says what was got."""

from __future__ import annotations

import math
from collections.abc import Iterable
from numbers import Integral, Real

from treet.errors import TreetError


def check_whole(name: str, value: object, least: int) -> int:
    """``value`` as an int; raises unless it is a whole number of at least ``least``.

    >>> check_whole("memory", 30, least=1)
    30
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise TreetError(f"{name} must be a whole number of at least {least}. Got {value!r} instead.")
    return int(value)


def check_number(name: str, value: object, above: float = -math.inf, below: float = math.inf) -> None:
    """Raise unless ``above < value < below``, a finite number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not above < float(value) < below:
        limits = "a finite number" if above == -math.inf else f"a finite number above {above:g}"
        limits += "" if below == math.inf else f" and below {below:g}"
        raise TreetError(f"{name} must be {limits}. Got {value!r} instead.")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise unless ``value`` is one of ``choices``."""
    known = tuple(choices)
    if value not in known:
        raise TreetError(f"{name} must be one of {', '.join(map(repr, known))}. Got {value!r} instead.")
