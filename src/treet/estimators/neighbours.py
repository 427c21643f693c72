"""Nearest neighbours among the windows of a series, by all pairs of time steps: fast in many dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from joblib import cpu_count
from numpy.typing import NDArray

from treet.parallel import Advance, run_together
from treet.windows import ROLES, Floats, Role, Windows

Integers = NDArray[np.int64]
Reals = NDArray[np.floating[Any]]
# Blocks of pieces (first, last, shift): the pairs of the time steps t and t + shift, first <= t < last.
Blocks = Iterable[Iterable[tuple[int, int, int]]]
Result = TypeVar("Result")

# The spaces that distances are worked out in are, in this order: that of the past of target and condition;
# that with the present; that with the source's past; and that of all.
ALL = 3

# Time steps that are worked on at a time, so that the arrays fit the cache, and shifts between two of them.
SEGMENT = 131_072
BLOCK = 127
# Only one thread at a time gets to the interpreter, which hands it the next time steps to work on: each has
# to have enough of them, and more threads would wait for each other.
STEPS_PER_THREAD = 8_192
MOST_THREADS = 8
# The share of values that single precision has to keep apart.
LEAST_APART = 0.99


def dimension(windows: Windows) -> int:
    """The dimension of the space of the present and all pasts."""
    pasts = sum(windows.width(role) * len(windows.lags.of(role)) for role in ROLES)
    return windows.width("target") + pasts


def tree_is_cheaper(windows: Windows) -> bool:
    """Whether a search and three counts by trees cost less than all pairs of time steps.

    Pairs cost about the same in every dimension, a tree up to twice as much with each one. Measured on two
    processes, they are on a par for some 15,000 windows in five dimensions and 60,000 in seven.
    """
    return bool(len(windows.values) ** 2 > 500 * 2 ** dimension(windows) * len(windows))


def spaces(windows: Windows) -> Iterator[Floats]:
    """The points of the windows in each of the four spaces, in their order: (windows, dimensions) each."""
    y, x = windows.present(), windows.flat_past("source")
    z = np.hstack([windows.flat_past("target"), windows.flat_past("condition")])
    yield z
    yield np.hstack([y, z])
    yield np.hstack([x, z])
    yield np.hstack([y, x, z])


@dataclass(frozen=True)
class _Reach:
    """A series seen at some lags: ``channels`` (channels, span + 2 time), the time axis twice round.

    The distance of two windows in it is a maximum over the lags, and along one shift between the windows the
    next pair of windows shares all of these lags but one: a maximum that slides along the time axis.
    """

    channels: Reals
    span: int
    lags: range

    @classmethod
    def of(cls, series: Reals, lags: range, span: int) -> _Reach:
        """From a series (time, channels); what is missing is never read by a valid window."""
        around = np.nan_to_num(series).T
        return cls(np.concatenate([around[:, -span:], around, around], axis=1), span, lags)

    def distance(self, first: int, last: int, shift: int, room: Reals) -> Reals:
        """(last - first,): how far the windows t and t + shift are apart, t from ``first``; in ``room``."""
        start, stop = first + self.span - self.lags[-1], last + self.span - self.lags[0]
        apart, spare = room[:, : stop - start]
        _gap(self.channels[0], start, stop, shift, apart)
        for channel in self.channels[1:]:
            np.maximum(apart, _gap(channel, start, stop, shift, spare), out=apart)
        return _sliding_maximum(apart, spare, len(self.lags))


def _gap(channel: Reals, start: int, stop: int, shift: int, out: Reals) -> Reals:
    np.subtract(channel[start:stop], channel[start + shift : stop + shift], out=out)
    return np.abs(out, out=out)


def _sliding_maximum(values: Reals, spare: Reals, width: int) -> Reals:
    """(values - width + 1,): the maximum of every ``width`` values in a row; both arrays are overwritten.

    Each round doubles the width that is covered, so that thirty lags cost five rounds.

    >>> _sliding_maximum(np.array([3.0, 1.0, 2.0, 0.0, 5.0]), np.zeros(5), 3)
    array([3., 2., 5.])
    """
    covered = 1
    while covered < width:
        step = min(covered, width - covered)
        maximum = np.maximum(values[:-step], values[step:], out=spare[: len(values) - step])
        values, spare = maximum, values
        covered += step
    return values


@dataclass(frozen=True)
class Sweep:
    """All pairs of time steps t and t + shift (mod time), for every shift up to half the time axis.

    One shift is a pass over short contiguous arrays that stay in the cache, whatever the history, and each
    pair serves both of its windows. What belongs to the later window of a pair stands at t + shift without
    the modulus: arrays are twice as long as the time axis and folded at the end. The shifts are shared out
    among threads; distances are compared and numbers of windows added, so that their order does not matter.

    ``theiler`` windows of a trial at most this many steps apart are no pair.
    ``absent``  (2 time,): infinite where a time step has no window, else zero.
    ``trial``   (2 time,): the number of the trial, another one in the second round.
    """

    time: int
    theiler: int
    present: _Reach
    source: _Reach
    others: tuple[_Reach, ...]
    absent: Reals
    trial: Integers

    @classmethod
    def over(cls, windows: Windows, theiler: int = 0) -> Sweep:
        values = _as_short_as_possible(windows.values)

        def reach(role: Role, lags: range) -> _Reach:
            return _Reach.of(values[:, windows.columns(role)], lags, windows.span)

        pasts = {role: reach(role, windows.lags.of(role)) for role in ROLES if windows.width(role)}
        return cls(
            time=len(windows.valid),
            theiler=theiler,
            present=reach("target", range(1)),
            source=pasts.pop("source"),
            others=tuple(pasts.values()),
            absent=np.tile(np.where(windows.valid, 0.0, np.inf).astype(values.dtype), 2),
            trial=np.concatenate([windows.trial, windows.trial + windows.trial[-1] + 1]),
        )

    def nearest(self, neighbours: int, spaces: Sequence[int], advance: Advance) -> Reals:
        """(spaces, time): the distance of the k-th neighbour in each of ``spaces``."""

        def search(blocks: Blocks) -> Reals:
            best = np.full((len(spaces), neighbours, 2 * self.time), np.inf, self.absent.dtype)
            room = self._room()
            for first, last, shift in (piece for block in blocks for piece in block):
                distances = self._distances(first, last, shift, room)
                for held, space in zip(best, spaces, strict=True):
                    _insert(held[:, first:last], distances[space])
                    _insert(held[:, first + shift : last + shift], distances[space])
            return best.reshape(len(spaces), 2 * neighbours, self.time)

        found = np.concatenate(self._share_out(search, advance), axis=1)
        kth: Reals = np.partition(found, neighbours - 1, axis=1)[:, neighbours - 1]
        return kth

    def counts(self, radius: Reals, advance: Advance) -> Integers:
        """(3, time): how many are strictly closer than ``radius`` (time,) in all spaces but the last."""
        twice = np.tile(radius, 2)

        def count(blocks: Blocks) -> Integers:
            total, room = np.zeros((3, self.time), np.int64), self._room()
            closer = np.empty(room.shape[1], np.bool_)
            for block in blocks:
                # Bytes are fast to add to, and a block adds to each at most twice a shift: never above 255.
                few = np.zeros((3, 2 * self.time), np.uint8)
                for first, last, shift in block:
                    distances = self._distances(first, last, shift, room)
                    for space, distance in zip(few, distances[:ALL], strict=True):
                        for start in (first, first + shift):
                            rows = slice(start, start + last - first)
                            inside = np.less(distance, twice[rows], out=closer[: last - first])
                            space[rows] += inside.view(np.uint8)
                total += few[:, : self.time]
                total += few[:, self.time :]
            return total

        counts: Integers = np.sum(self._share_out(count, advance), axis=0)
        return counts

    def _share_out(self, work: Callable[[Blocks], Result], advance: Advance) -> list[Result]:
        """What ``work`` makes of each thread's share of the pairs."""
        half = self.time // 2
        blocks = [range(start, min(start + BLOCK, half + 1)) for start in range(1, half + 1, BLOCK)]
        threads = min(cpu_count(), MOST_THREADS, math.ceil(self.time / STEPS_PER_THREAD))

        def task(share: list[range], advance: Advance) -> Result:
            return work(self._pieces(share, advance))

        return run_together([partial(task, blocks[i::threads]) for i in range(threads)], advance)

    def _pieces(self, blocks: list[range], advance: Advance) -> Iterator[Iterator[tuple[int, int, int]]]:
        half = self.time // 2
        for first, last in self._segments():
            for shifts in blocks:
                # At half of an even number of steps t and t + shift change places: each pair once.
                ends = (min(last, half) if 2 * shift == self.time else last for shift in shifts)
                yield ((first, end, shift) for end, shift in zip(ends, shifts, strict=True) if end > first)
                advance((last - first) * len(shifts) / half)

    def _segments(self) -> list[tuple[int, int]]:
        """The time axis in pieces of about the same length."""
        edges = np.linspace(0, self.time, 1 + math.ceil(self.time / SEGMENT)).astype(int)
        return list(pairwise(edges.tolist()))

    def _room(self) -> Reals:
        """Where distances are worked out: nothing is allocated for a pair."""
        return np.empty((7, min(self.time, SEGMENT) + self.present.span + 1), self.absent.dtype)

    def _distances(self, first: int, last: int, shift: int, room: Reals) -> tuple[Reals, ...]:
        """Distances in the four spaces, each (last - first,), infinite for what is no pair."""
        early, late = slice(first, last), slice(first + shift, last + shift)
        z = self.others[0].distance(first, last, shift, room[0:2])
        np.maximum(z, self.absent[early], out=z)
        np.maximum(z, self.absent[late], out=z)
        if shift <= self.theiler:
            z[self.trial[early] == self.trial[late]] = np.inf
        for other in self.others[1:]:
            np.maximum(z, other.distance(first, last, shift, room[2:4]), out=z)
        yz = self.present.distance(first, last, shift, room[2:4])
        xz = self.source.distance(first, last, shift, room[4:6])
        np.maximum(yz, z, out=yz)
        np.maximum(xz, z, out=xz)
        return z, yz, xz, np.maximum(yz, xz, out=room[6, : last - first])


def _as_short_as_possible(values: Reals) -> Reals:
    """``values`` (time, channels) in single precision, twice as fast, if it keeps the values apart."""
    short = values.astype(np.float32)
    there = [channel[np.isfinite(channel)] for channel in short.T]
    apart = all(len(np.unique(channel)) >= LEAST_APART * len(channel) for channel in there)
    return short if apart else values


def _insert(best: Reals, distance: Reals) -> None:
    """Put ``distance`` (windows,) in its place among ``best`` (neighbours, windows), where it has one."""
    columns = np.flatnonzero(distance < best[-1])
    candidate = distance[columns]
    for rank in best:
        held = rank[columns]
        rank[columns] = np.minimum(held, candidate)
        candidate = np.maximum(held, candidate)
