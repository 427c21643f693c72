"""A channel of the user's own, from a Python file, with checks that say what is wrong with it."""

from __future__ import annotations

import sys
import traceback
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from treet.capacity.channels import Channel, State
from treet.capacity.registry import build_channel
from treet.errors import TreetError

LENGTH, BATCH = 7, 5
"""A trial run; coprime, so that swapped axes are seen."""


def load_channel(location: str, /, **parameters: Any) -> Channel:
    """The channel at ``location``, ``FILE.py:NAME``, made with ``parameters`` and checked.

    NAME is a subclass of :class:`~treet.capacity.channels.Channel`, or a ready channel, which takes no
    parameters. The file is run: load only files that you trust.
    """
    file, colon, name = location.rpartition(":")
    if not colon or not name.isidentifier() or not file.endswith(".py"):
        raise TreetError(f"A channel of your own must be given as FILE.py:NAME. Got {location!r} instead.")
    found = getattr(_run_file(Path(file)), name, None)
    if isinstance(found, type) and issubclass(found, Channel):
        channel = build_channel(found, location, parameters)
    elif isinstance(found, Channel) and not parameters:
        channel = found
    else:
        raise TreetError(
            f"{location} must be a subclass of treet.capacity.channels.Channel, or a channel that is made "
            f"without parameters. Got {'nothing of that name' if found is None else repr(found)} instead."
        )
    check_channel(channel)
    return channel


def _run_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise TreetError(f"There is no file {path}. Give a channel of your own as FILE.py:NAME.")
    # Dataclasses look their module up by its name.
    name = f"_treet_channel_{path.stem}"
    specification = spec_from_file_location(name, path)
    assert specification is not None and specification.loader is not None  # it ends in .py
    module = module_from_spec(specification)
    sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise TreetError(f"{path} could not be imported: {_where(error, path)}") from error
    return module


def _where(error: Exception, path: Path) -> str:
    """The error in a line, with the last line of ``path`` that led to it."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == path]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {error}"


def check_channel(channel: Channel) -> None:
    """Send a short batch through ``channel``; raises with the step and what was wrong there.

    Every output must be (batch, output_dim), finite, in the alphabet, with a gradient in the input where the
    channel is differentiable; the state must not be changed in place; and the same input, state and noise
    must give the same output, so that nothing is kept on the channel or drawn behind its back.
    """
    generator = torch.Generator().manual_seed(0)
    inputs = _trial_inputs(channel, generator)
    state, noise = _prepared(channel, generator)
    outputs = []
    for time, (x, noise_t) in enumerate(zip(inputs, noise, strict=True)):
        before = tuple(part.clone() for part in state)
        y, following = _checked_step(channel, x, state, noise_t, time)
        again, _ = _checked_step(channel, x, state, noise_t, time)
        if not all(torch.equal(a, b) for a, b in zip(before, state, strict=True)):
            _refuse(channel, time, "the state was changed in place: return a new one")
        if not torch.equal(y, again):
            _refuse(
                channel,
                time,
                "two calls with the same input, state and noise differ: keep nothing on the channel",
            )
        outputs.append(y)
        state = following
    if channel.differentiable:
        _check_gradients(channel, inputs, outputs)


def _trial_inputs(channel: Channel, generator: torch.Generator) -> list[Tensor]:
    """LENGTH tensors (BATCH, input_dim): zeros of symbols, or values in the range."""
    shape = (BATCH, channel.input_dim)
    if channel.input_symbols is not None:
        return [torch.zeros(shape, dtype=torch.int64) for _ in range(LENGTH)]
    low, high = channel.input_range or (-1.0, 1.0)
    drawn = torch.rand((LENGTH, *shape), generator=generator)
    return [(low + (high - low) * x).requires_grad_() for x in drawn]


def _prepared(channel: Channel, generator: torch.Generator) -> tuple[State, Tensor]:
    try:
        state = channel.initial_state(BATCH, generator)
        noise = channel.sample_noise(LENGTH, BATCH, generator)
    except Exception as error:
        raise TreetError(
            f"The channel {channel!r} could not start: {type(error).__name__}: {error}. "
            "Check initial_state and sample_noise."
        ) from error
    if not isinstance(state, tuple) or not all(isinstance(part, Tensor) for part in state):
        raise TreetError(f"initial_state must return a tuple of tensors. Got {type(state).__name__} instead.")
    if not isinstance(noise, Tensor) or noise.shape[:2] != (LENGTH, BATCH):
        raise TreetError(
            f"sample_noise must return a tensor (length, batch, ..). Got {_shape(noise)} instead."
        )
    return state, noise


def _checked_step(
    channel: Channel, x: Tensor, state: State, noise: Tensor, time: int
) -> tuple[Tensor, State]:
    try:
        y, following = channel.step(x, state, noise)
    except Exception as error:
        raise TreetError(
            f"step {time} of the channel {channel!r} raised {type(error).__name__}: {error}"
        ) from error
    if not isinstance(y, Tensor) or y.shape != (BATCH, channel.output_dim):
        _refuse(
            channel, time, f"the output must have the shape ({BATCH}, {channel.output_dim}), got {_shape(y)}"
        )
    if not torch.isfinite(y).all():
        _refuse(channel, time, "the output holds NaN or infinite values")
    symbols = channel.output_symbols
    if symbols is not None and (y.dtype != torch.int64 or bool(((y < 0) | (y >= symbols)).any())):
        _refuse(channel, time, f"the output must be int64 symbols from 0 to {symbols - 1}")
    if not isinstance(following, tuple) or len(following) != len(state):
        _refuse(channel, time, f"the state that is returned must be a tuple of {len(state)} tensors")
    return y, following


def _check_gradients(channel: Channel, inputs: list[Tensor], outputs: list[Tensor]) -> None:
    """A differentiable channel lets a gradient through from each output to some input."""
    for time, y in enumerate(outputs):
        if not y.requires_grad:
            _refuse(
                channel, time, "the output has no gradient in the input: do not detach, or set differentiable"
            )
        gradients = torch.autograd.grad(y.sum(), inputs[: time + 1], retain_graph=True, allow_unused=True)
        known = [gradient for gradient in gradients if gradient is not None]
        if not known or not all(bool(torch.isfinite(gradient).all()) for gradient in known):
            _refuse(channel, time, "the gradient of the output in the inputs is missing or not finite")


def _refuse(channel: Channel, time: int, what: str) -> None:
    raise TreetError(f"step {time} of the channel {channel!r}: {what}.")


def _shape(value: object) -> str:
    return str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__
