"""The one-call form: the capacity of a channel by optimisation, with an honest estimate of it."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass, replace
from typing import Any, Literal, cast

import torch

from treet.capacity.ascent import Ascent
from treet.capacity.channels import Channel
from treet.capacity.critics import CRITICS, CriticKind, Critics, Made, drawn
from treet.capacity.discrete_channels import FiniteState
from treet.capacity.evaluation import Evaluation, evaluate
from treet.capacity.generator import KINDS, NOISES, Generator, Limits
from treet.capacity.noise import Floats
from treet.capacity.optimise import Schedule, Search
from treet.capacity.own_channel import check_channel
from treet.capacity.policy import (
    Law,
    Policy,
    PolicySchedule,
    PolicySearch,
    SymbolStreams,
    evaluate_policy,
    relative_values,
)
from treet.capacity.result import CapacityResult, Sample, TrainedGenerator
from treet.capacity.streams import Streams
from treet.checks import check_choice, check_number, check_whole
from treet.errors import NotConvergedWarning, TreetError, UnreliableEstimateWarning
from treet.parallel import Advance
from treet.progress import progress
from treet.results import Unit, check_unit
from treet.statistics.intervals import normal_interval

MEMORY = 30
"""The paper's."""

SEARCH_SHARE = 0.8
"""Of the progress bar."""

APART = 4.0
"""Standard errors between the value and its second opinion from covariances that are not by chance."""


def channel_capacity(
    channel: Channel,
    memory: int | None = None,
    feedback: bool = False,
    power: float | None = None,
    peak: float | None = None,
    *,
    critic: CriticKind | None = None,
    generator: Literal["transformer", "lstm", "iid"] | None = None,
    noise: Literal["uniform", "gaussian"] | None = None,
    schedule: Schedule | PolicySchedule | None = None,
    samples: int = 1_500_000,
    unit: Unit = "nats",
    confidence: float = 0.95,
    random_state: int = 0,
) -> CapacityResult:
    """The largest transfer entropy through ``channel`` that a neural generator of its inputs reaches.

    ``TE(l) = I(X_{t-l} .. X_t ; Y_t | Y_{t-l} .. Y_{t-1})`` with ``memory=l`` (30), maximised over the law of
    ``X`` by gradients through two critics; with ``feedback`` the law may depend on past outputs. ``power``
    bounds ``E|X_t|^2`` (1 where neither it nor a limit on the values is given), ``peak`` every ``|X_t,i|``.
    The value is read from ``samples`` fresh windows by critics trained anew; the generator was chosen without
    them. ``critic`` is "treet" (attention, the default) or "dine" (an LSTM): the network that looks for what
    is not linear and Gaussian. ``generator`` is "transformer" (the default), "lstm" or "iid", its ``noise``
    "uniform" (the default) or "gaussian".

    Channels with finite alphabets have a network of the receiver's belief for an input law, which keeps the
    whole past: none of the settings of the input, of its generator and of the critics apply to them.

    Reference: Luxembourg, Tsur and Permuter, TREET: TRansfer Entropy Estimation via Transformers (2024).

    >>> from treet.capacity.gaussian_channels import AWGN
    >>> quick = Schedule(windows=500, rounds=2, most_rounds=2, batch=8, span=8, final_steps=2)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     found = channel_capacity(AWGN(), memory=2, power=1.0, schedule=quick, samples=1000)
    >>> round(found.exact, 4), found.generator.sample(10)[0].shape
    (0.3466, (10, 1))
    """
    _check_common(channel, feedback, samples, unit, confidence, random_state)
    inputs: dict[str, Any] = {"memory": memory, "power": power, "peak": peak}
    inputs |= {"critic": critic, "generator": generator, "noise": noise}
    random = torch.Generator().manual_seed(random_state)
    problem: _Symbols | _Values
    if isinstance(channel, FiniteState):
        problem = _Symbols(channel, feedback, inputs, schedule, random)
    else:
        problem = _Values(channel, feedback, inputs, schedule, random)
    return _solve(problem, samples, confidence, random_state).to_unit(unit)


def _solve(problem: _Symbols | _Values, samples: int, confidence: float, seed: int) -> CapacityResult:
    """The search, and the value of what it found, in nats."""
    started, search = time.perf_counter(), problem.search
    with progress(f"capacity of {problem.channel.name}", 1.0) as advance:
        history = search.run(lambda share: advance(SEARCH_SHARE * share))
        found = problem.evaluate(samples, lambda share: advance((1 - SEARCH_SHARE) * share))
    notes = _notes(search, found)
    _warn(search, notes)
    return CapacityResult(
        channel=str(problem.channel),
        feedback=problem.feedback,
        value=found.value,
        std_error=found.std_error,
        interval=normal_interval(found.value, found.std_error, confidence),
        generator=TrainedGenerator(problem.sampler()),
        gaussian=found.gaussian,
        confidence=confidence,
        measured_power=found.power,
        converged=search.converged,
        seconds=time.perf_counter() - started,
        seed=seed,
        warnings=notes,
        history=history,
        attention=found.attention,
        influence=found.influence,
        **problem.facts(samples),
    )


class _Values:
    """A channel of real numbers: a generator trained through critics."""

    def __init__(
        self,
        channel: Channel,
        feedback: bool,
        inputs: Mapping[str, Any],
        schedule: object,
        random: torch.Generator,
    ) -> None:
        given: dict[str, Any] = {
            "memory": MEMORY,
            "critic": "treet",
            "generator": "transformer",
            "noise": "uniform",
        }
        given |= {name: value for name, value in inputs.items() if value is not None}
        self.memory = check_whole("memory", given["memory"], 1)
        self.critic: CriticKind = given["critic"]
        check_choice("critic", self.critic, CRITICS)
        check_choice("generator", given["generator"], KINDS)
        check_choice("noise", given["noise"], NOISES)
        if feedback and given["generator"] == "iid":
            raise TreetError("An i.i.d. generator does not see feedback. Take 'transformer' or 'lstm'.")
        self.peak = inputs["peak"]
        self.channel = _with_peak(channel, self.peak)
        self.limits = _limits(self.channel, inputs["power"], self.peak)
        self.kinds: dict[str, Any] = {"kind": given["generator"], "noise": given["noise"]}
        self.schedule = _checked_schedule(schedule, Schedule)
        check_channel(self.channel)
        self.feedback, self.random = feedback, random
        self._build()

    def _build(self) -> None:
        dims = (self.memory, self.channel.input_dim, self.channel.output_dim)
        self.generator = drawn(
            lambda: Generator(*dims, self.limits, feedback=self.feedback, **self.kinds), self.random
        )
        critics = drawn(lambda: Critics(*dims, self.critic), self.random)
        self.search = Search(self.channel, self.generator, critics, self.schedule, self.random)

    def evaluate(self, samples: int, advance: Advance) -> Evaluation:
        steps = self.schedule.final_steps
        return evaluate(self.generator, self.channel, samples, steps, self.random, advance, self.critic)

    def facts(self, samples: int) -> dict[str, Any]:
        power = self.limits.power
        variance = getattr(self.channel, "variance", None)
        # Under a peak that the channel does not know of its capacity is another one.
        known = self.limits.bounded == (self.channel.input_range is not None)
        settings: dict[str, Any] = {
            "critic": self.critic,
            "generator": self.kinds["kind"],
            "noise": self.kinds["noise"],
        }
        settings["samples"] = samples
        return {
            "exact": self.channel.capacity(power, self.feedback) if known else None,
            "ceiling": self.channel.ceiling(self.memory, power, self.feedback) if known else None,
            "memory": self.memory,
            "power": power,
            "peak": self.peak,
            "snr_db": None if power is None or variance is None else 10 * math.log10(power / variance),
            "settings": settings | asdict(self.schedule),
        }

    def sampler(self) -> Sample:
        def sample(n: int, seed: int) -> tuple[Floats, Floats, Floats]:
            streams = Streams(self.generator, self.channel, 1, torch.Generator().manual_seed(seed))
            segment = streams.run(n)
            noise, values = (
                part[0, self.memory :].double().numpy() for part in (segment.noise, segment.values)
            )
            width = self.generator.input_dim
            return noise, values[:, :width], values[:, width:]

        return sample


class _Symbols:
    """A channel with finite alphabets: an input law of the receiver's belief."""

    def __init__(
        self,
        channel: FiniteState,
        feedback: bool,
        inputs: Mapping[str, Any],
        schedule: object,
        random: torch.Generator,
    ) -> None:
        given = [name for name, value in inputs.items() if value is not None]
        if given:
            raise TreetError(
                f"{', '.join(given)} do not apply to {channel.name!r}: its inputs are symbols, and the "
                "receiver's belief holds the whole past. Leave them out."
            )
        law = Law(channel.law)
        if law.states > 1 and not feedback:
            raise TreetError(
                f"The input of {channel.name!r}, which has a state, can be optimised with feedback alone. "
                "Set feedback."
            )
        self.channel, self.feedback, self.random = channel, feedback, random
        self.schedule = _checked_schedule(schedule, PolicySchedule)
        self.policy = drawn(lambda: Policy(law), random)
        values = drawn(lambda: relative_values(law), random)
        self.search = PolicySearch(self.policy, values, self.schedule, random)

    def evaluate(self, samples: int, advance: Advance) -> Evaluation:
        return Evaluation(*evaluate_policy(self.policy, self.channel, samples, self.random, advance))

    def facts(self, samples: int) -> dict[str, Any]:
        return {
            "exact": self.channel.capacity(feedback=self.feedback),
            "ceiling": None,
            "settings": {"samples": samples} | asdict(self.schedule),
        }

    def sampler(self) -> Sample:
        def sample(n: int, seed: int) -> tuple[Floats, Floats, Floats]:
            streams = SymbolStreams(self.policy, self.channel, 1, torch.Generator().manual_seed(seed))
            symbols = streams.run(n)[0][0].double().numpy()
            return symbols[:, :0], symbols[:, :1], symbols[:, 1:]

        return sample


def _check_common(
    channel: Channel, feedback: bool, samples: int, unit: str, confidence: float, random_state: int
) -> None:
    if not isinstance(channel, Channel):
        raise TreetError(f"channel must be a treet.capacity.channels.Channel. Got {channel!r} instead.")
    check_whole("samples", samples, 1000)
    check_unit(unit)
    check_number("confidence", confidence, above=0, below=1)
    check_whole("random_state", random_state, 0)
    if feedback and not channel.allows_feedback:
        raise TreetError(f"The channel {channel.name!r} has no feedback. Leave feedback out.")
    if not channel.differentiable and not isinstance(channel, FiniteState):
        raise TreetError(
            f"The channel {channel.name!r} has no gradient in its input, so that no generator can be trained "
            "through it."
        )


def _checked_schedule(schedule: object, kind: type[Made]) -> Made:
    schedule = kind() if schedule is None else schedule
    if not isinstance(schedule, kind):
        raise TreetError(f"schedule must be a {kind.__name__} for this channel. Got {schedule!r} instead.")
    return schedule


def _with_peak(channel: Channel, peak: float | None) -> Channel:
    """``channel``, with ``peak`` set where it has such a field: its exact capacity is then that under it."""
    if peak is None:
        return channel
    check_number("peak", peak, above=0)
    plain = cast("Any", channel)
    knows = is_dataclass(plain) and "peak" in {known.name for known in fields(plain)}
    return cast("Channel", replace(plain, peak=peak)) if knows else channel


def _limits(channel: Channel, power: float | None, peak: float | None) -> Limits:
    bounds = channel.input_range or (None if peak is None else (-peak, peak))
    if power is not None:
        check_number("power", power, above=0)
    elif bounds is None:
        power = 1.0
    return Limits(power, *(bounds or (None, None)))


def _notes(search: Ascent, found: Evaluation) -> tuple[str, ...]:
    notes = []
    if search.diverged:
        notes.append("The training diverged; the value is that of the best point before.")
    if found.gaussian is not None and found.value < found.gaussian - APART * found.std_error:
        notes.append(
            f"The value is below that of a Gaussian input with the same covariances, {found.gaussian:.4g} "
            "nats: the generator or the critics are not yet at their best."
        )
    return tuple(notes)


def _warn(search: Ascent, notes: tuple[str, ...]) -> None:
    for note in notes:
        warnings.warn(note, UnreliableEstimateWarning, stacklevel=4)
    if not search.converged and not search.diverged:
        warnings.warn(
            "The search ended at its last round while the value was still rising: raise most_rounds.",
            NotConvergedWarning,
            stacklevel=4,
        )
