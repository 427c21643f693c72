"""The page of a capacity: the value, how the search went, how sure it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from treet.files import write_text
from treet.report import page
from treet.results import percent

if TYPE_CHECKING:
    from treet.capacity.result import CapacityResult

CAUTION = (
    "The value is the transfer entropy of the best input that the search found, read from sequences that "
    "nothing was trained on. But for its standard error it is a lower bound of the most that an input has at "
    "this memory: a better one may have been missed."
)


def write_capacity_report(result: CapacityResult, path: str | Path, command: str | None = None) -> None:
    """Write one HTML file that opens offline. ``command`` is what repeats it."""
    how = "with feedback" if result.feedback else "without feedback"
    low, high = result.interval
    rest = f", {percent(result.confidence)} interval {low:.4g} to {high:.4g}."
    amount = f"{result.value:.4g} {result.unit}"
    doubts = [(result.channel, note) for note in result.warnings]
    if not result.converged:
        doubts.append(
            (result.channel, "The search ended at its last round while the value was still rising.")
        )
    picture = ""
    if result.history is not None:
        picture = page.figure(
            result.plot(), "The value in the course of the search, and what is known of it."
        )
    sections = [
        page.answer(f"{result.channel} {how} carries", amount, rest, _meaning(result)),
        picture,
        page.section("How it was found", page.table(("", "value"), list(_facts(result).items()))),
        page.section("What to keep in mind", page.cautions(doubts, CAUTION)),
        page.section("To repeat this", page.repeat(command or _python_call(result))),
    ]
    write_text(path, page.page(f"Capacity of {result.channel}", "Capacity", sections))


def _meaning(result: CapacityResult) -> str:
    if result.exact is None:
        return "The exact capacity of this channel is not known."
    off = 100 * (result.value / result.exact - 1)
    return f"The exact capacity is {result.exact:.4g} {result.unit}: the value is {off:+.2f} % from it."


def _facts(result: CapacityResult) -> dict[str, str]:
    values = {
        "capacity": result.value,
        "standard error": result.std_error,
        "exact capacity": result.exact,
        "most that any input has at this memory": result.ceiling,
        "of a Gaussian input with the same covariances": result.gaussian,
    }
    rows = {name: f"{value:.5g} {result.unit}" for name, value in values.items() if value is not None}
    plain = {
        "memory": result.memory,
        "power": result.power,
        "measured power": result.measured_power,
        "signal to noise ratio (dB)": result.snr_db,
        "peak": result.peak,
        **result.settings,
    }
    rows |= {name: _short(value) for name, value in plain.items() if value is not None}
    return rows | {"seed": str(result.seed), "seconds": f"{result.seconds:.1f}"}


def _short(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _python_call(result: CapacityResult) -> str:
    given = {
        "memory": result.memory,
        "feedback": result.feedback,
        "power": result.power,
        "peak": result.peak,
        "unit": result.unit,
        "random_state": result.seed,
    }
    words = [f"{name}={value!r}" for name, value in given.items() if value is not None]
    return f"treet.channel_capacity(channel, {', '.join(words)})  # {' '.join(result.channel.split())}"
