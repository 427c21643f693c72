"""Channels by name: what ``treet capacity`` offers."""

from __future__ import annotations

from inspect import signature
from typing import Any

from treet.capacity.channels import Channel
from treet.capacity.discrete_channels import BinaryErasure, BinarySymmetric, Ising, Optical, Trapdoor
from treet.capacity.gaussian_channels import ARMA, AWGN, AutoRegressive, DelayedTap, MovingAverage, Saturating
from treet.errors import TreetError

CHANNELS: dict[str, type[Channel]] = {
    channel.name: channel
    for channel in (
        AWGN,
        MovingAverage,
        AutoRegressive,
        ARMA,
        DelayedTap,
        Saturating,
        Optical,
        BinarySymmetric,
        BinaryErasure,
        Trapdoor,
        Ising,
    )
}


def make_channel(name: str, /, **parameters: Any) -> Channel:
    """The channel called ``name`` with its ``parameters``.

    >>> make_channel("ma", coefficients=(0.3,))
    MovingAverage(coefficients=(0.3,), variance=1.0)
    """
    if name not in CHANNELS:
        raise TreetError(
            f"There is no channel {name!r}. Choose one of {', '.join(CHANNELS)}, "
            "or your own from a file as FILE.py:NAME."
        )
    return build_channel(CHANNELS[name], repr(name), parameters)


def build_channel(kind: type[Channel], called: str, parameters: dict[str, Any]) -> Channel:
    """``kind(**parameters)``; raises with the known parameters where one does not exist."""
    known = list(signature(kind).parameters)
    unknown = [key for key in parameters if key not in known]
    if unknown:
        raise TreetError(
            f"Channel {called} has no parameter {', '.join(unknown)}. Known: {', '.join(known) or 'none'}."
        )
    return kind(**parameters)
