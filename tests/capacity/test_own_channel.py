"""A channel from the user's own file: it loads, and what is wrong with it is said."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from treet.capacity.own_channel import load_channel
from treet.errors import TreetError

HEAD = """
from __future__ import annotations
from dataclasses import dataclass
import torch
from treet.capacity.channels import Channel
"""

GOOD = (
    HEAD
    + """
@dataclass(frozen=True)
class Echo(Channel):
    name = "echo"
    summary = "an echo and noise"
    gain: float = 0.5

    def initial_state(self, batch, generator, dtype=torch.float32):
        return (torch.zeros(batch, 1, dtype=dtype),)

    def step(self, x, state, noise):
        return x + self.gain * state[0] + noise, (x,)

READY = Echo(0.25)
NUMBER = 3
"""
)


@pytest.fixture
def write(tmp_path: Path):
    def written(text: str) -> str:
        path = tmp_path / "mine.py"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return written


def test_a_channel_from_a_file(write) -> None:
    file = write(GOOD)
    channel = load_channel(f"{file}:Echo", gain=2.0)
    assert channel.gain == 2.0
    x = torch.ones(3, 4, 1)
    quiet = channel.transmit(x, torch.Generator().manual_seed(0)) - channel.transmit(
        torch.zeros_like(x), torch.Generator().manual_seed(0)
    )
    torch.testing.assert_close(quiet[:, 0, 0], torch.tensor([1.0, 3.0, 3.0]))
    assert load_channel(f"{file}:READY").gain == 0.25
    assert channel.capacity(1.0) is None and channel.ceiling(3, 1.0) is None


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("Nothing", {}, "must be a subclass of treet.capacity.channels.Channel, or a channel that is made "
            "without parameters. Got nothing of that name instead."),
        ("NUMBER", {}, "Got 3 instead."),
        ("READY", {"gain": 1.0}, "without parameters. Got Echo(gain=0.25) instead."),
        ("Echo", {"gian": 1.0}, "has no parameter gian. Known: gain."),
    ],
)  # fmt: skip
def test_names_that_are_no_channel(write, name: str, parameters: dict[str, float], message: str) -> None:
    with pytest.raises(TreetError) as caught:
        load_channel(f"{write(GOOD)}:{name}", **parameters)
    assert message in str(caught.value)


@pytest.mark.parametrize("location", ["mine", "mine.py", "mine.txt:Echo", "mine.py:", "mine.py:a b"])
def test_locations_that_are_none(location: str) -> None:
    with pytest.raises(TreetError, match=r"must be given as FILE\.py:NAME"):
        load_channel(location)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TreetError, match="There is no file"):
        load_channel(f"{tmp_path / 'absent.py'}:Echo")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "import nothing_of_that_name",
            "line 1: ModuleNotFoundError: No module named 'nothing_of_that_name'",
        ),
        ("a = 1\n\nb = a / 0", "line 3: ZeroDivisionError: division by zero"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_import_errors_are_shown(write, text: str, message: str) -> None:
    with pytest.raises(TreetError) as caught:
        load_channel(f"{write(text)}:Echo")
    assert "could not be imported: " in str(caught.value)
    assert message in str(caught.value)


STEP = "return x + self.gain * state[0] + noise, (x,)"


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (
            "return (x + noise).mean(dim=0, keepdim=True), (x,)",
            "step 0 .* must have the shape \\(5, 1\\), got \\(1, 1\\)",
        ),
        ("return x + noise + (state[0] * 1e30) ** 9, (x,)", "step 1 .* NaN or infinite"),
        ("return (x + noise).detach(), (x,)", "step 0 .* no gradient in the input"),
        ("return torch.sqrt(x.detach() * 0 + x * 0) + noise, (x,)", "step 0 .* gradient .* not finite"),
        ("return x + noise * torch.rand(()), (x,)", "step 0 .* two calls .* differ"),
        ("state[0].add_(1); return x + noise, (x,)", "step 0 .* state was changed in place"),
        ("return x + noise, x", "step 0 .* must be a tuple of 1 tensors"),
        ("return x + noise, ()", "step 0 .* must be a tuple of 1 tensors"),
        ("return x @ torch.ones(2, 2), (x,)", "step 0 .* raised RuntimeError"),
    ],
)
def test_what_is_wrong_with_a_step(write, step: str, message: str) -> None:
    with pytest.raises(TreetError, match=message):
        load_channel(f"{write(GOOD.replace(STEP, step))}:Echo")


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("return torch.zeros(batch, 1)", "initial_state must return a tuple of tensors. Got Tensor"),
        ("return (1 / 0,)", "could not start: ZeroDivisionError"),
    ],
)
def test_what_is_wrong_with_a_start(write, start: str, message: str) -> None:
    text = GOOD.replace("return (torch.zeros(batch, 1, dtype=dtype),)", start)
    with pytest.raises(TreetError, match=message):
        load_channel(f"{write(text)}:Echo")


def test_noise_of_the_wrong_shape_and_symbols_outside_the_alphabet(write) -> None:
    noise = "    def sample_noise(self, length, batch, *_):\n        return torch.zeros(batch, length, 1)\n\n"
    with pytest.raises(TreetError, match=r"sample_noise must return .* Got \(5, 7, 1\)"):
        load_channel(f"{write(GOOD.replace('    def step', noise + '    def step'))}:Echo")
    symbols = "\n    differentiable = False\n    output_symbols = 2\n"
    with pytest.raises(TreetError, match=r"step 0 .* must be int64 symbols from 0 to 1"):
        load_channel(f"{write(GOOD.replace('    gain:', symbols + '    gain:'))}:Echo")
