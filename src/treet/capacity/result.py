"""What an optimisation of the input returns: one frozen object that prints, samples and saves itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treet.capacity.noise import Floats
from treet.checks import check_whole
from treet.results import NATS_PER, Unit, check_unit, json_text, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from treet.training import History

Sample = Callable[[int, int], tuple[Floats, Floats, Floats]]


@dataclass(frozen=True)
class TrainedGenerator:
    """The input law that was found.

    >>> import numpy as np
    >>> generator = TrainedGenerator(lambda n, seed: (np.zeros((n, 1)), np.ones((n, 1)), np.ones((n, 2))))
    >>> generator.sample(5)[1].shape
    (5, 2)
    """

    draw: Sample

    def sample(self, n: int, random_state: int = 0) -> tuple[Floats, Floats]:
        """Inputs (n, input_dim) and the channel's outputs (n, output_dim), one stretch of time."""
        return self._drawn(n, random_state)[1:]

    def noise_and_inputs(self, n: int, random_state: int = 0) -> tuple[Floats, Floats]:
        """The generator's noise and the inputs made of it: (n, input_dim) each, one stretch of time."""
        return self._drawn(n, random_state)[:2]

    def _drawn(self, n: int, random_state: int) -> tuple[Floats, Floats, Floats]:
        return self.draw(check_whole("n", n, 1), check_whole("random_state", random_state, 0))


@dataclass(frozen=True)
class CapacityResult:
    """The largest transfer entropy through a channel that a generator of inputs was found to have.

    ``value``      on fresh sequences, by critics that were trained on others with the generator fixed.
    ``exact``      the capacity of the channel, and ``ceiling`` the most that any input has at this memory;
                   None where they are not known.
    ``gaussian``   the transfer entropy of a Gaussian process with the covariances of the generated one, where
                   the channel adds Gaussian noise: a second opinion that no network had a part in.
    ``attention``  (layers, heads, memory + 1): mean weights of the critic that sees input and output, oldest
                   value first.
    ``influence``  (memory + 1,): how strongly its log density reacts to each step, oldest first: where the
                   channel's memory is.
    """

    channel: str
    feedback: bool
    value: float
    std_error: float
    interval: tuple[float, float]
    exact: float | None
    ceiling: float | None
    generator: TrainedGenerator
    gaussian: float | None = None
    confidence: float = 0.95
    unit: Unit = "nats"
    memory: int | None = None
    power: float | None = None
    peak: float | None = None
    measured_power: float | None = None
    snr_db: float | None = None
    converged: bool = True
    seconds: float = 0.0
    seed: int = 0
    warnings: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    history: History | None = None
    attention: Floats | None = None
    influence: Floats | None = None

    @property
    def peak_lag(self) -> int | None:
        """The lag of the past step that matters most to the output; None for channels of symbols."""
        return None if self.influence is None else len(self.influence) - 1 - int(self.influence[:-1].argmax())

    def to_unit(self, unit: Unit) -> CapacityResult:
        """The same result in nats or bits."""
        check_unit(unit)
        scale = NATS_PER[self.unit] / NATS_PER[unit]
        values: dict[str, Any] = {}
        for name in ("value", "std_error", "exact", "ceiling", "gaussian"):
            found = getattr(self, name)
            values[name] = None if found is None else found * scale
        interval = (self.interval[0] * scale, self.interval[1] * scale)
        return replace(self, unit=unit, interval=interval, **values)

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain Python values: what ``treet capacity --json`` prints."""
        return {
            "channel": self.channel,
            "feedback": self.feedback,
            "capacity": self.value,
            "std_error": self.std_error,
            "interval": list(self.interval),
            "confidence": self.confidence,
            "exact": self.exact,
            "ceiling": self.ceiling,
            "gaussian": self.gaussian,
            "unit": self.unit,
            "memory": self.memory,
            "power": self.power,
            "peak": self.peak,
            "measured_power": self.measured_power,
            "peak_lag": self.peak_lag,
            "snr_db": self.snr_db,
            "settings": dict(self.settings),
            "converged": self.converged,
            "warnings": list(self.warnings),
            "seconds": self.seconds,
            "seed": self.seed,
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """The numbers as JSON text, also written to ``path`` where one is given."""
        return json_text(self.to_dict(), path)

    def plot(self, ax: Axes | None = None) -> Axes:
        """The value in the course of the training, with the exact capacity and the ceiling."""
        from treet.capacity.picture import plot_capacity

        return plot_capacity(self, ax)

    def to_html(self, path: str | Path, command: str | None = None) -> None:
        """Write one self-contained HTML page: the value, the picture, how it was found, how to repeat it."""
        from treet.report.capacity import write_capacity_report

        write_capacity_report(self, path, command)

    def __str__(self) -> str:
        how = "with feedback" if self.feedback else "without feedback"
        low, high = self.interval
        line = f"{self.channel} {how}  C = {self.value:.4g} {self.unit}, "
        line += f"{percent(self.confidence)} interval {low:.4g} .. {high:.4g}"
        known = {"exact": self.exact, "ceiling": self.ceiling}
        line += "".join(f", {name} {value:.4g}" for name, value in known.items() if value is not None)
        line += f"  ({'; '.join(self._conditions())})"
        return line if self.converged else f"{line}  NOT CONVERGED"

    def _conditions(self) -> list[str]:
        words = [] if self.memory is None else [f"memory {self.memory}"]
        if self.power is not None:
            words.append(f"power {self.power:.4g}")
        if self.snr_db is not None:
            words.append(f"{self.snr_db:.4g} dB")
        if self.peak is not None:
            words.append(f"peak {self.peak:.4g}")
        return [*words, f"{self.seconds:.0f} s"]
