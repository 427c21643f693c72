"""The estimator ``ksg``: transfer entropy from counts of nearest neighbours."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.special import digamma

from treet.checks import check_number, check_whole
from treet.errors import TreetError
from treet.estimators.base import Estimate, Floats, TransferEntropyEstimator
from treet.estimators.neighbours import ALL, Integers, Reals, Sweep, dimension, spaces, tree_is_cheaper
from treet.progress import progress
from treet.results import Unit
from treet.series import Scaler
from treet.windows import Windows

# A box of half-width r adds the variance r^2 / 3 of a uniform density to what it looks at: 8 % at 0.5.
WIDEST_RADIUS = 0.5
# Ties broken by noise are this many of its standard deviations apart at most, over a hundred dimensions.
NOISE_REACH = 10.0
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
    cost: ClassVar[str] = "half a second at 10,000 samples, half a minute at 100,000, whatever the history"
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
        search = _search_tree if tree_is_cheaper(scaled) else _sweep_pairs
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

    def _notes(self, windows: Windows, radius: Reals) -> Iterator[str]:
        typical = float(np.median(radius))
        if typical > WIDEST_RADIUS:
            yield (
                f"The nearest neighbours are {typical:.2g} standard deviations away ({dimension(windows)} "
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

    radius: Reals
    counts: Integers


def _search_tree(windows: Windows, neighbours: int, theiler: int) -> _Found:
    """By k-d trees of the joint space and of its three subspaces."""
    # Time steps, with the trials further apart than ``theiler``.
    clock = windows.positions + windows.trial[windows.positions] * (theiler + 1)
    *parts, joint = spaces(windows)
    radius = _distance_of_neighbour(joint, neighbours, theiler, clock)
    return _Found(radius, np.array([_count_closer(points, radius, theiler, clock) for points in parts]))


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
    sweep = Sweep.over(windows, theiler)
    with progress("neighbours", 2 * sweep.time) as advance:
        (radius,) = sweep.nearest(neighbours, [ALL], advance)
        counts = sweep.counts(radius, advance)
    return _Found(radius[windows.valid], counts[:, windows.valid])
