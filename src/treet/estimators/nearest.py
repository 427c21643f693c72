"""The estimator ``ksg``: transfer entropy from counts of nearest neighbours."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import digamma

from treet.checks import check_number, check_whole
from treet.errors import TreetError
from treet.estimators.base import Estimate, Floats, TransferEntropyEstimator
from treet.progress import progress
from treet.results import Unit
from treet.series import Scaler
from treet.windows import ROLES, Role, Windows

Integers = NDArray[np.int64]

# A box of half-width r adds the variance r^2 / 3 of a uniform density to what it looks at: 8 % at 0.5.
WIDEST_RADIUS = 0.5
# Ties broken by noise are this many of its standard deviations apart at most, over a hundred dimensions.
NOISE_REACH = 10.0
# Time steps that are worked on at a time, so that the arrays fit the cache, and shifts between two of them.
SEGMENT = 32_768
BLOCK = 127
# Neighbours that a tree is asked for at a time, so that the answer does not fill the memory.
LARGEST_ANSWER = 4_000_000


class KSG(TransferEntropyEstimator):
    """Transfer entropy from nearest neighbours (Kraskov, Stoegbauer and Grassberger; Frenzel and Pompe).

    The conditional mutual information of the present ``y`` and the source's past ``x``, given ``z``, the past
    of the target and of the condition, with all distances in the max norm of the standardised channels
    (Frenzel and Pompe, Phys. Rev. Lett. 99, 204101, 2007):

        TE = psi(k) + < psi(n_z + 1) - psi(n_yz + 1) - psi(n_xz + 1) >

    ``k`` is ``neighbours``; ``n_z``, ``n_yz`` and ``n_xz`` are the numbers of other windows that lie strictly
    closer in ``z``, in ``(y, z)`` and in ``(x, z)`` than the k-th nearest in ``(y, x, z)``. A window's local
    value is ``psi(k)`` plus what stands inside ``< >``; the standard error follows from the local values.

    The value is nearly free of bias in few dimensions, and is biased towards zero in many: for the threshold
    process of 0.415 nats and 10,000 samples it is 0.42 at history 1, 0.22 at 5, 0.10 at 10 and 0.03 at 30.
    The interval knows nothing of that bias. A note says when the neighbours are too far away.

    ``memory`` (the paper's l) or ``target_history``, ``source_history``, ``delay``: the past that is seen.
    ``neighbours``   k: more of them give less variance and more bias.
    ``theiler``      windows at most this many steps apart are no neighbours (Theiler's correction): for
                     series sampled so densely that the nearest in space are merely the nearest in time.
    ``noise``        breaks ties: its standard deviation in standard deviations of each channel.
    ``random_state`` the seed of the noise.

    >>> from treet.processes import Threshold
    >>> recording = Threshold().sample(2000, random_state=0)
    >>> estimator = KSG(target_history=1, source_history=1, random_state=0)
    >>> estimator.fit(recording.select("x"), recording.select("y")).te_ > 0.3
    True
    """

    name: ClassVar[str] = "ksg"
    summary: ClassVar[str] = "counts of nearest neighbours in the max norm"
    assumes: ClassVar[str] = "continuous values; a joint dimension of about six or less"
    cost: ClassVar[str] = "a second at 10,000 samples, a minute at 100,000, whatever the history"
    use_when: ClassVar[str] = "histories are short, coupling may be nonlinear, samples are few"

    def __init__(
        self,
        memory: int | None = None,
        target_history: int | None = None,
        source_history: int | None = None,
        delay: int | None = None,
        condition_history: int | None = None,
        *,
        neighbours: int = 4,
        theiler: int = 0,
        noise: float = 1e-8,
        unit: Unit = "nats",
        confidence: float = 0.95,
        random_state: int | None = None,
    ) -> None:
        self.memory = memory
        self.target_history = target_history
        self.source_history = source_history
        self.delay = delay
        self.condition_history = condition_history
        self.neighbours = neighbours
        self.theiler = theiler
        self.noise = noise
        self.unit = unit
        self.confidence = confidence
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_whole("neighbours", self.neighbours, 1)
        check_whole("theiler", self.theiler, 0)
        check_number("noise", self.noise)
        if self.noise < 0:
            raise TreetError(f"noise must not be below 0. Got {self.noise!r} instead.")

    def _estimate(self, windows: Windows) -> Estimate:
        self._check_enough(len(windows))
        scaled = self._scaled(windows)
        search = _search_tree if _tree_is_cheaper(scaled) else _sweep_pairs
        found = search(scaled, self.neighbours, self.theiler)
        n_z, n_yz, n_xz = digamma(found.counts + 1)
        local = digamma(self.neighbours) + n_z - n_yz - n_xz
        return Estimate(te=float(local.mean()), local=local, notes=tuple(self._notes(scaled, found.radius)))

    def _check_enough(self, n_windows: int) -> None:
        needed = self.neighbours + 2 * self.theiler + 1
        if n_windows < needed:
            raise TreetError(
                f"Too few windows for neighbours={self.neighbours} and theiler={self.theiler}: {n_windows}. "
                f"At least {needed} are needed. Use a longer recording or fewer neighbours."
            )

    def _scaled(self, windows: Windows) -> Windows:
        """The same windows of standardised channels, with the noise that breaks ties."""
        scaler = Scaler.of(windows, windows.positions)
        generator = np.random.default_rng(self.random_state)
        noise = self.noise * generator.normal(size=windows.values.shape)
        return replace(windows, values=(windows.values - scaler.mean) / scaler.std + noise)

    def _notes(self, windows: Windows, radius: Floats) -> Iterator[str]:
        typical = float(np.median(radius))
        if typical > WIDEST_RADIUS:
            yield (
                f"The nearest neighbours are {typical:.2g} standard deviations away ({_dimension(windows)} "
                f"dimensions, {len(windows)} windows): too far to tell the densities apart, so the value is "
                "biased towards zero. Use shorter histories, fewer channels or a longer recording."
            )
        if typical <= NOISE_REACH * self.noise:
            yield (
                f"Most windows have neighbours that differ by no more than the noise (noise={self.noise:g}). "
                "This estimator is for continuous values: use another one for counts and categories."
            )


class _Found(NamedTuple):
    """What both searches find.

    ``radius``  (windows,): the distance of the k-th neighbour in the joint space.
    ``counts``  (3, windows): how many windows are strictly closer in z, in (y, z) and in (x, z).
    """

    radius: Floats
    counts: Integers


def _dimension(windows: Windows) -> int:
    """The dimension of the joint space of the present and all pasts."""
    pasts = sum(
        windows.width(role) * len(windows.lags.of(role)) for role in ("target", "source", "condition")
    )
    return windows.width("target") + pasts


def _tree_is_cheaper(windows: Windows) -> bool:
    """Whether a tree search costs less than all pairs of time steps.

    Pairs cost about the same in every dimension, a tree about ``sqrt(3)`` times more with each one. Measured
    on two processes, they are on a par for some 7,000 windows in five dimensions, 20,000 in seven and 100,000
    in nine.
    """
    per_window = 450 * 3 ** (_dimension(windows) / 2)
    return bool(len(windows.values) ** 2 > len(windows) * per_window)


def _search_tree(windows: Windows, neighbours: int, theiler: int) -> _Found:
    """By k-d trees of the joint space and of its three subspaces."""
    y, x = windows.present(), windows.flat_past("source")
    z = np.hstack([windows.flat_past("target"), windows.flat_past("condition")])
    # Time steps, with the trials further apart than ``theiler``.
    clock = windows.positions + windows.trial[windows.positions] * (theiler + 1)
    radius = _distance_of_neighbour(np.hstack([y, x, z]), neighbours, theiler, clock)
    spaces = (z, np.hstack([y, z]), np.hstack([x, z]))
    return _Found(radius, np.array([_count_closer(points, radius, theiler, clock) for points in spaces]))


def _distance_of_neighbour(points: Floats, neighbours: int, theiler: int, clock: Integers) -> Floats:
    """(windows,): the distance of the k-th nearest of ``points`` (windows, dimensions) that counts."""
    # The nearest of all is the point itself, and all those that do not count may come before the k-th.
    enough = neighbours + 1 + 2 * theiler
    tree, radius = cKDTree(points), np.empty(len(points))
    for rows in np.array_split(np.arange(len(points)), math.ceil(len(points) * enough / LARGEST_ANSWER)):
        distance, index = tree.query(points[rows], enough, p=np.inf, workers=-1)
        distance[np.abs(clock[index] - clock[rows, None]) <= theiler] = np.inf
        radius[rows] = np.partition(distance, neighbours - 1, axis=1)[:, neighbours - 1]
    return radius


def _count_closer(points: Floats, radius: Floats, theiler: int, clock: Integers) -> Integers:
    """(windows,): how many of the other ``points`` that count lie strictly within ``radius`` of each."""
    # The tree counts what is at most this far away; below zero nothing is, not even the point itself.
    just_below = np.nextafter(radius, -np.inf)
    within = cKDTree(points).query_ball_point(points, just_below, p=np.inf, workers=-1, return_length=True)
    counts: Integers = np.maximum(within - 1, 0)
    for step in range(1, theiler + 1):
        distance = np.abs(points[step:] - points[:-step]).max(axis=1)
        distance[clock[step:] - clock[:-step] > theiler] = np.inf
        counts[step:] -= distance < radius[step:]
        counts[:-step] -= distance < radius[:-step]
    return counts


def _sweep_pairs(windows: Windows, neighbours: int, theiler: int) -> _Found:
    """By all pairs of time steps: once for the radius, once more for the counts."""
    sweep = _Sweep.over(windows, theiler)
    with progress("neighbours", 2 * sweep.time) as advance:
        radius = sweep.radius(neighbours, advance)
        counts = sweep.counts(radius, advance)
    return _Found(radius[windows.valid], counts[:, windows.valid])


@dataclass(frozen=True)
class _Reach:
    """A series seen at some lags: ``channels`` (channels, span + 2 time), the time axis twice round.

    The distance of two windows in it is a maximum over the lags, and along one shift between the windows the
    next pair of windows shares all of these lags but one: a maximum that slides along the time axis.
    """

    channels: Floats
    span: int
    lags: range

    @classmethod
    def of(cls, series: Floats, lags: range, span: int) -> _Reach:
        """From a series (time, channels); what is missing is never read by a valid window."""
        around = np.nan_to_num(series).T
        return cls(np.concatenate([around[:, -span:], around, around], axis=1), span, lags)

    def distance(self, first: int, last: int, shift: int, room: Floats) -> Floats:
        """(last - first,): how far the windows t and t + shift are apart, t from ``first``; in ``room``."""
        start, stop = first + self.span - self.lags[-1], last + self.span - self.lags[0]
        apart, spare = room[:, : stop - start]
        _gap(self.channels[0], start, stop, shift, apart)
        for channel in self.channels[1:]:
            np.maximum(apart, _gap(channel, start, stop, shift, spare), out=apart)
        return _sliding_maximum(apart, spare, len(self.lags))


def _gap(channel: Floats, start: int, stop: int, shift: int, out: Floats) -> Floats:
    np.subtract(channel[start:stop], channel[start + shift : stop + shift], out=out)
    return np.abs(out, out=out)


def _sliding_maximum(values: Floats, spare: Floats, width: int) -> Floats:
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
class _Sweep:
    """All pairs of time steps t and t + shift (mod time), for every shift up to half the time axis.

    One shift is a pass over short contiguous arrays that stay in the cache, whatever the history, and each
    pair serves both of its windows. What belongs to the later window of a pair stands at t + shift without
    the modulus: arrays are twice as long as the time axis and folded at the end.

    ``absent``  (2 time,): infinite where a time step has no window, else zero.
    ``trial``   (2 time,): the number of the trial, another one in the second round.
    """

    time: int
    theiler: int
    present: _Reach
    source: _Reach
    others: tuple[_Reach, ...]
    absent: Floats
    trial: Integers

    @classmethod
    def over(cls, windows: Windows, theiler: int) -> _Sweep:
        def reach(role: Role, lags: range) -> _Reach:
            return _Reach.of(windows.values[:, windows.columns(role)], lags, windows.span)

        pasts = {role: reach(role, windows.lags.of(role)) for role in ROLES if windows.width(role)}
        return cls(
            time=len(windows.valid),
            theiler=theiler,
            present=reach("target", range(1)),
            source=pasts.pop("source"),
            others=tuple(pasts.values()),
            absent=np.tile(np.where(windows.valid, 0.0, np.inf), 2),
            trial=np.concatenate([windows.trial, windows.trial + windows.trial[-1] + 1]),
        )

    def _blocks(self, advance: Callable[[float], None]) -> Iterator[Iterator[tuple[int, int, int]]]:
        """Blocks of at most ``BLOCK`` pieces (first, last, shift): the pairs of first <= t < last."""
        half = self.time // 2
        for first, last in self._segments():
            for start in range(1, half + 1, BLOCK):
                shifts = range(start, min(start + BLOCK, half + 1))
                # At half of an even number of steps t and t + shift change places: each pair once.
                ends = (min(last, half) if 2 * shift == self.time else last for shift in shifts)
                yield ((first, end, shift) for end, shift in zip(ends, shifts, strict=True) if end > first)
                advance((last - first) * len(shifts) / half)

    def _segments(self) -> list[tuple[int, int]]:
        """The time axis in pieces of about the same length."""
        edges = np.linspace(0, self.time, 1 + math.ceil(self.time / SEGMENT)).astype(int)
        return list(pairwise(edges.tolist()))

    def _room(self) -> Floats:
        """Where distances are worked out: nothing is allocated for a pair."""
        return np.empty((6, min(self.time, SEGMENT) + self.present.span + 1))

    def _distances(self, first: int, last: int, shift: int, room: Floats) -> tuple[Floats, Floats, Floats]:
        """Distances in z, (y, z) and (x, z), each (last - first,), infinite for what is no pair."""
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
        return z, np.maximum(yz, z, out=yz), np.maximum(xz, z, out=xz)

    def radius(self, neighbours: int, advance: Callable[[float], None]) -> Floats:
        """(time,): the distance of the k-th neighbour in the joint space."""
        best, room = np.full((neighbours, 2 * self.time), np.inf), self._room()
        for block in self._blocks(advance):
            for first, last, shift in block:
                _, yz, xz = self._distances(first, last, shift, room)
                joint = np.maximum(yz, xz, out=xz)
                _insert(best[:, first:last], joint)
                _insert(best[:, first + shift : last + shift], joint)
        both = best.reshape(2 * neighbours, self.time)
        nearest: Floats = np.partition(both, neighbours - 1, axis=0)[neighbours - 1]
        return nearest

    def counts(self, radius: Floats, advance: Callable[[float], None]) -> Integers:
        """(3, time): how many are strictly closer than ``radius`` (time,) in z, (y, z) and (x, z)."""
        total = np.zeros((3, self.time), np.int64)
        twice, room = np.tile(radius, 2), self._room()
        closer = np.empty(room.shape[1], np.bool_)
        for block in self._blocks(advance):
            # Bytes are fast to add to, and a block adds to each at most twice a shift: never above 255.
            few = np.zeros((3, 2 * self.time), np.uint8)
            for first, last, shift in block:
                for space, distance in zip(few, self._distances(first, last, shift, room), strict=True):
                    for start in (first, first + shift):
                        rows = slice(start, start + last - first)
                        inside = np.less(distance, twice[rows], out=closer[: last - first])
                        space[rows] += inside.view(np.uint8)
            total += few[:, : self.time]
            total += few[:, self.time :]
        return total


def _insert(best: Floats, distance: Floats) -> None:
    """Put ``distance`` (windows,) in its place among ``best`` (neighbours, windows), where it has one."""
    columns = np.flatnonzero(distance < best[-1])
    candidate = distance[columns]
    for rank in best:
        held = rank[columns]
        rank[columns] = np.minimum(held, candidate)
        candidate = np.maximum(held, candidate)
