"""Surrogates: copies of a recording that keep what a series is by itself and lose what it tells of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from treet.checks import check_choice
from treet.data import Recording, as_recording, check_same_shape
from treet.errors import TreetError

Floats = NDArray[np.float64]
Generator = np.random.Generator

NEAREST = 0.05
"""Of a trial: shifts smaller than this at either end would leave the series beside where it was."""

LEAST_SAMPLES = 8
"""Of a trial whose spectrum is to be kept."""

IAAFT_STEPS = 200


class Surrogate(Protocol):
    """Anything that turns a recording into another one of the same shape, by random numbers."""

    def __call__(self, recording: Recording, generator: Generator, /) -> Any: ...


def circular_shift(recording: Recording, generator: Generator) -> Recording:
    """Every trial rotated in time by an offset of its own, all channels together.

    Keeps each channel's values, its circular autocorrelation and what the channels have to do with each
    other; loses where the series stands in time. The offset lies at least ``NEAREST`` of the trial away from
    none. Gaps stay where they are: the rows without a gap rotate among themselves.

    >>> from treet.data import as_recording
    >>> recording = as_recording([1.0, 2.0, 3.0, 4.0], "x")
    >>> sorted(circular_shift(recording, np.random.default_rng(0)).trials[0].ravel().tolist())
    [1.0, 2.0, 3.0, 4.0]
    """

    def rotated(rows: Floats) -> Floats:
        least = max(1, round(NEAREST * len(rows)))
        return np.roll(rows, int(generator.integers(least, len(rows) - least + 1)), axis=0)

    return _each_trial(recording, rotated, least=2)


def half_shift(recording: Recording) -> Recording:
    """Every trial rotated by half of its length: as far from where it was as it can be. No random numbers."""
    return _each_trial(recording, lambda rows: np.roll(rows, len(rows) // 2, axis=0), least=2)


def block_permutation(recording: Recording, generator: Generator) -> Recording:
    """Every trial cut into about ``sqrt(samples)`` blocks of nearly equal length, in a random order.

    Keeps the values and, within blocks, everything; loses dependence over longer times. Gaps stay where they
    are: the rows without a gap are what is cut.
    """

    def permuted(rows: Floats) -> Floats:
        blocks = np.array_split(rows, max(2, round(len(rows) ** 0.5)))
        return np.concatenate([blocks[number] for number in generator.permutation(len(blocks))])

    return _each_trial(recording, permuted, least=2)


def iaaft(recording: Recording, generator: Generator) -> Recording:
    """Iterated amplitude adjusted Fourier transform surrogates (Schreiber and Schmitz 1996, 2000).

    Every trial keeps the values of each channel exactly and its power spectrum, and the cross spectra between
    channels, closely; everything nonlinear is lost. All channels are given the same change of phase. A trial
    with a gap has no spectrum: an error.
    """
    for number, trial in enumerate(recording.trials):
        if not np.isfinite(trial).all():
            raise TreetError(
                f"IAAFT surrogates need series without gaps. Trial {number} of {', '.join(recording.names)} "
                "has NaN in it. Fill the gaps or use circular_shift."
            )
        if len(trial) < LEAST_SAMPLES:
            raise TreetError(
                f"IAAFT surrogates need at least {LEAST_SAMPLES} samples in every trial. "
                f"Got {len(trial)} in trial {number}. Use trial_shuffle or longer trials."
            )
    return _each_trial(recording, lambda rows: _iaaft(rows, generator), least=LEAST_SAMPLES)


def _iaaft(rows: Floats, generator: Generator) -> Floats:
    ordered, spectrum = np.sort(rows, axis=0), np.fft.rfft(rows, axis=0)
    amplitude, phase = np.abs(spectrum), np.angle(spectrum)
    surrogate, before = generator.permutation(rows, axis=0), None
    for _ in range(IAAFT_STEPS):
        # The change of phase, one for all channels, that comes closest to what the values ask for.
        asked = np.exp(1j * (np.angle(np.fft.rfft(surrogate, axis=0)) - phase)).sum(axis=1, keepdims=True)
        changed = amplitude * np.exp(1j * (phase + np.angle(asked)))
        ranks = np.fft.irfft(changed, len(rows), axis=0).argsort(axis=0).argsort(axis=0)
        surrogate = np.take_along_axis(ordered, ranks, axis=0)
        if before is not None and np.array_equal(before, ranks):
            break
        before = ranks
    return surrogate


def trial_shuffle(recording: Recording, generator: Generator) -> Recording:
    """The trials in a random order, each whole, gaps and all: any order is as likely, also the given one.

    Keeps everything within a trial, such as what a stimulus evokes; loses which trial of the source belongs
    to which of the target. At least two trials, all of one length.
    """
    lengths = sorted({len(trial) for trial in recording.trials})
    if len(recording.trials) < 2:
        raise TreetError("trial_shuffle needs at least two trials. Got one: use circular_shift instead.")
    if len(lengths) > 1:
        raise TreetError(
            f"trial_shuffle needs trials of one length. Got lengths from {lengths[0]} to {lengths[-1]}: "
            "cut them to one length or use circular_shift."
        )
    order = generator.permutation(len(recording.trials))
    trials = tuple(recording.trials[number] for number in order)
    return Recording(trials, recording.names, recording.sampling_rate)


def _each_trial(recording: Recording, move: Callable[[Floats], Floats], least: int) -> Recording:
    """Every trial with its complete rows put through ``move`` where there are ``least``; others stay."""
    trials = []
    for trial in recording.trials:
        moved, complete = trial.copy(), np.isfinite(trial).all(axis=1)
        if complete.sum() >= least:
            moved[complete] = move(trial[complete])
        trials.append(moved)
    return Recording(tuple(trials), recording.names, recording.sampling_rate)


SURROGATES: dict[str, Surrogate] = {
    "circular_shift": circular_shift,
    "block_permutation": block_permutation,
    "iaaft": iaaft,
    "trial_shuffle": trial_shuffle,
}


def make_surrogate(method: str | Surrogate, recording: Recording, generator: Generator) -> Recording:
    """A surrogate of ``recording`` by a method's name, or by a callable ``(recording, generator)``.

    What a callable gives is read by ``as_recording`` and must have the recording's shape.
    """
    if not callable(method):
        check_choice("method", method, SURROGATES)
        method = SURROGATES[method]
    surrogate = as_recording(method(recording, generator), "surrogate")
    check_same_shape({"source": recording, "surrogate": surrogate})
    if surrogate.n_channels != recording.n_channels:
        raise TreetError(
            f"A surrogate must have the channels of the source, {recording.n_channels}. "
            f"Got {surrogate.n_channels}: let the method return what it was given, moved."
        )
    return Recording(surrogate.trials, recording.names, recording.sampling_rate)
