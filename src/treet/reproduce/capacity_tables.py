"""What the capacity experiments write: Markdown, tables and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from treet.files import write_text
from treet.plots import save_figure
from treet.reproduce.capacity import ERRORS, LEAST_LIMIT, SHARE, Capacities, published_capacity
from treet.reproduce.capacity_pictures import capacity_picture, map_picture, memory_picture, weights_picture
from treet.reproduce.memory import SHARE as MEMORY_SHARE
from treet.reproduce.memory import SHOWN, ByMemory, judged
from treet.reproduce.runs import Row
from treet.reproduce.tables import markdown_table

CAPACITY_LEGEND = f"""\
Estimates in nats, means over the seeds, with their standard error; the power is at its limit and the noise
has innovations of variance 1. **Bold** is within the larger of {SHARE:.0%} and {LEAST_LIMIT:g} nats of the
exact value; "above" is more than {ERRORS:g} standard errors over it. A dagger: a training doubts its value
or did not converge. Seconds are those of the slowest seed. Published: beside the reference
implementation, with its own critics (TREET) and with LSTM critics (DINE).
"""

MEMORY_LEGEND = f"""\
Noise `z_t = n_t + 0.5 n_(t-100)` at 0 dB. An estimator that sees fewer than 100 past steps cannot see where
the noise comes back, and one that sees 100 sees it once: the ceiling is the most that any input has at the
memory, the capacity what it tends to. The error is the distance to the ceiling; **bold** is within
{MEMORY_SHARE:.0%} of it. The lag is the past step that the output's density reacts to most.
"""

MAP_NOTE = """\
With white noise at 0 dB a Gaussian input is optimal. The generator's map from uniform noise starts near the
normal quantile function and is left there where the critics see nothing that a Gaussian does not explain.
Kolmogorov-Smirnov test of {count} inputs against a Gaussian: {tests}.
"""


def write_capacities(found: Capacities, folder: str | Path) -> tuple[Path, ...]:
    """``capacity.csv``, ``.md`` and ``.png`` in ``folder``, and ``capacity-map.png`` of the generator."""
    table, page, picture, noise_map = _paths(folder, "capacity", ".csv", ".md", ".png", "-map.png")
    write_text(table, found.to_frame().to_csv(index=False))
    write_text(page, capacity_markdown(found))
    save_figure(capacity_picture(found), picture)
    save_figure(map_picture(found), noise_map)
    return table, page, picture, noise_map


def write_by_memory(found: ByMemory, folder: str | Path) -> tuple[Path, ...]:
    """``memory.csv``, ``.md`` and ``.png`` in ``folder``, and ``memory-weights.png`` by lag."""
    table, page, picture, weights = _paths(folder, "memory", ".csv", ".md", ".png", "-weights.png")
    write_text(table, found.to_frame().to_csv(index=False))
    write_text(page, memory_markdown(found))
    save_figure(memory_picture(found), picture)
    if not any(found.at(memory) for memory in SHOWN):
        return table, page, picture
    save_figure(weights_picture(found), weights)
    return table, page, picture, weights


def _paths(folder: str | Path, name: str, *endings: str) -> tuple[Path, ...]:
    return tuple(Path(folder) / f"{name}{ending}" for ending in endings)


def capacity_markdown(found: Capacities) -> str:
    """What was reached, then the Gaussian channels, the generator's map, and the other channels."""
    points = found.points("gaussian")
    parts = ["# Capacities by optimisation\n", CAPACITY_LEGEND, "## What was reached\n", *_reached(found), ""]
    parts += [
        "## Gaussian channels\n",
        markdown_table(GAUSSIAN_HEADER, [_gaussian_cells(p) for p in points]),
        "",
    ]
    parts += ["## From noise to input\n", _map_note(found)]
    for title, experiment in OTHERS.items():
        cells = [_other_cells(point) for point in found.points(experiment)]
        parts += [f"## {title}\n", markdown_table(OTHER_HEADER, cells), ""]
    return "\n".join(parts)


GAUSSIAN_HEADER = (
    *("channel", "dB", "estimate", "exact", "error", "ceiling", "seconds"),
    *("published TREET", "with a transformer generator", "published DINE"),
)
OTHER_HEADER = ("channel", "peak", "value", "exact", "error", "lower bound", "upper bound", "seconds")
OTHERS = {
    "White noise with a limit on the peak": "peak",
    "The optical channel: certified optima and published bounds": "optical",
    "Channels of symbols with feedback": "discrete",
}


def _reached(found: Capacities) -> list[str]:
    lines = []
    for experiment in ("gaussian", "peak", "discrete"):
        points = found.points(experiment)
        within, above = (sum(point[name] for point in points) for name in ("within", "above"))
        slowest = max(point["seconds"] for point in points)
        counts = f"{within} of {len(points)} points within the limit, {above} above the exact value"
        lines.append(f"- {experiment}: {counts}; {slowest:.0f} s at the most.")
    return lines


def _estimate(point: Row) -> str:
    text = f"{point['value']:.5f}"
    text = (f"**{text}**" if point["within"] else text) + ("†" if point["doubts"] else "")
    return f"{text} ± {point['std_error']:.5f}" + (" above" if point["above"] else "")


def _error(point: Row) -> str:
    return f"{point['error']:+.5f} ({100 * point['error'] / point['exact']:+.1f} %)"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.5f}"


def _gaussian_cells(point: Row) -> list[str]:
    name = f"{point['channel']}{', feedback' if point['feedback'] else ''}"
    if point["dimension"] > 1:
        name += f", dimension {point['dimension']}"
    methods = ("treet", "treet, transformer generator", "dine")
    return [
        *(name, str(point["snr_db"]), _estimate(point), _number(point["exact"]), _error(point)),
        *(_number(point["ceiling"]), f"{point['seconds']:.0f}"),
        *(_number(published_capacity(point, method)) for method in methods),
    ]


def _other_cells(point: Row) -> list[str]:
    peak = point.get("peak")
    return [
        *(point["channel"], "" if peak is None else f"{peak:g}", _estimate(point), _number(point["exact"])),
        *(_error(point), _number(point.get("lower")), _number(point.get("upper")), f"{point['seconds']:.0f}"),
    ]


def _map_note(found: Capacities) -> str:
    maps = [row for row in found.of("gaussian") if "map" in row]
    tests = ", ".join(f"p = {row['normal_p']:.2f} (seed {row['seed']})" for row in maps)
    return MAP_NOTE.format(count=len(maps[0]["map"][0]), tests=tests) if maps else "Not measured.\n"


MEMORY_HEADER = (
    *("memory", "estimate", "ceiling", "error", "capacity", "lag", "seconds"),
    *("published TREET", "published DINE"),
)


def memory_markdown(found: ByMemory) -> str:
    """What was reached, and a line a memory."""
    verdicts = [judged(row) for row in found.rows]
    within = sum(verdict["within"] for verdict in verdicts)
    lags = [verdict["lag_found"] for verdict in verdicts if verdict["lag_found"] is not None]
    reached = (
        f"{within} of {len(verdicts)} memories within the limit; the lag found in {sum(lags)} of {len(lags)}."
    )
    lines = [_memory_cells(row, verdict) for row, verdict in zip(found.rows, verdicts, strict=True)]
    return "\n".join(
        [
            "# The delayed tap by memory\n",
            MEMORY_LEGEND,
            reached,
            "",
            markdown_table(MEMORY_HEADER, lines),
            "",
        ]
    )


def _memory_cells(row: Row, verdict: Row) -> Sequence[str]:
    doubts = bool(row["warnings"]) or not row["converged"]
    error = {"exact": row["ceiling"], "error": verdict["error"]}
    return [
        *(str(row["memory"]), _estimate({**row, **verdict, "doubts": doubts, "above": False})),
        *(_number(row["ceiling"]), _error(error), _number(row["exact"]), str(row["peak_lag"])),
        f"{row['seconds']:.0f}",
        *(_number(verdict[name]) for name in ("published", "published_dine")),
    ]
