"""What the experiments write: Markdown, tables and pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treet.files import write_text
from treet.plots import save_figure
from treet.reproduce.pictures import error_maps
from treet.reproduce.te_benchmark import PAPER_PRESET, PAPER_SHARE, SHARE, TeBenchmark, judged

LEGEND = """\
Each cell: estimate in nats (error in percent of the exact value), seconds; *p*: the paper's own figure, from
200 times as many samples. **Bold** is within the larger of {share:.0%} and two standard errors of an oracle
that knows every exact local value. A dagger: the estimator itself doubts the value or did not converge.
"""


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows of text as a Markdown table, everything but the first column on the right.

    >>> print(markdown_table(["memory", "0"], [["1", "0.4"]]))
    | memory | 0 |
    | --- | ---: |
    | 1 | 0.4 |
    """
    rules = ["---", *("---:" for _ in header[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rules, *rows))


def write_te_benchmark(benchmark: TeBenchmark, folder: str | Path) -> tuple[Path, ...]:
    """``te-benchmark.csv``, ``.md`` and ``.png`` in ``folder``."""
    table, page, picture = (Path(folder) / f"te-benchmark{ending}" for ending in (".csv", ".md", ".png"))
    write_text(table, benchmark.to_frame().to_csv(index=False))
    write_text(page, te_markdown(benchmark))
    save_figure(error_maps(benchmark), picture)
    return table, page, picture


def te_markdown(benchmark: TeBenchmark) -> str:
    """What was reached, then a table a method: value, error in percent, seconds, the paper's figure."""
    parts = ["# The threshold process by threshold and memory\n", LEGEND.format(share=SHARE)]
    parts += [
        "## What was reached\n",
        *(f"- {_reached(benchmark, method)}" for method in benchmark.methods),
        "",
    ]
    parts += ["## The exact values\n", _exact_table(benchmark), ""]
    for method in benchmark.methods:
        parts += [f"## {method}\n", _table(benchmark.of(method)), ""]
    return "\n".join(parts)


def _reached(benchmark: TeBenchmark, method: str) -> str:
    rows = benchmark.of(method)
    within = sum(judged(row)["within"] for row in rows)
    aim = f"{PAPER_SHARE:.0%} of the paper's figure" if method == PAPER_PRESET else "the limit"
    slowest = max(row["seconds"] for row in rows)
    return f"`{method}`: {within} of {len(rows)} cells within {aim}; {slowest:.0f} s at the most."


def _exact_table(benchmark: TeBenchmark) -> str:
    by_threshold = {row["threshold"]: row for row in benchmark.rows}
    thresholds = sorted(by_threshold)
    lines = [
        [title, *(f"{by_threshold[threshold][field]:.5f}" for threshold in thresholds)]
        for title, field in (("transfer entropy", "exact"), ("oracle's standard error", "oracle_std_error"))
    ]
    return markdown_table(["threshold", *map(str, thresholds)], lines)


def _table(rows: Sequence[dict[str, Any]]) -> str:
    cells = {(row["memory"], row["threshold"]): _cell(row) for row in rows}
    memories, thresholds = (sorted({key[axis] for key in cells}) for axis in (0, 1))
    lines = [[str(m), *(cells.get((m, threshold), "") for threshold in thresholds)] for m in memories]
    return markdown_table(["memory", *(f"threshold {threshold}" for threshold in thresholds)], lines)


def _cell(row: dict[str, Any]) -> str:
    verdict = judged(row)
    value = f"{row['te']:.4f}"
    text = f"**{value}**" if verdict["within"] else value
    text += "†" if row["warnings"] or not row["converged"] else ""
    text += f" ({100 * verdict['error'] / row['exact']:+.1f} %), {row['seconds']:.0f} s"
    return text if verdict["published"] is None else f"{text}; *p* {_published(verdict['published'])}"


def _published(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "diverged"
