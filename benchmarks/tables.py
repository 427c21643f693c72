"""The page of results, docs/benchmarks.md, from the JSON files.

python benchmarks/tables.py [--results DIR] [--output FILE]
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import accuracy
import delays
import growth
import intervals
import methods
import paper_step
import peers
import significance
from formatting import Section
from harness import RESULTS, ROOT, Benchmark, Row, say
from treet.files import write_text

PAGE = ROOT / "docs" / "benchmarks.md"

SECTIONS: dict[str, tuple[Benchmark, Callable[[Sequence[Row]], Section]]] = {
    "Accuracy": (accuracy.BENCHMARK, accuracy.section),
    "Intervals": (intervals.BENCHMARK, intervals.section),
    "Tests of significance": (significance.BENCHMARK, significance.section),
    "Scan over delays": (delays.BENCHMARK, delays.section),
    "Growth": (growth.BENCHMARK, growth.section),
    "The paper's training step": (paper_step.BENCHMARK, paper_step.section),
    "Estimators": (methods.BENCHMARK, methods.section),
    "Other packages": (peers.BENCHMARK, peers.section),
}

INTRODUCTION = """\
# Benchmarks

This page is written by `python benchmarks/tables.py` from the files in `benchmarks/results/`. Do not edit it.
Values are in nats.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the page of results from the JSON files.")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR")
    parser.add_argument("--output", type=Path, default=PAGE, metavar="FILE")
    options = parser.parse_args()
    write_page(options.results, options.output)


def write_page(results: Path, output: Path) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    write_text(output, page(results))
    say(f"{output.name} is written")


def page(results: Path) -> str:
    """The whole page, as Markdown."""
    parts, verdicts = [], []
    for title, (benchmark, section) in SECTIONS.items():
        content = _read(results / f"{benchmark.name}.json")
        if content is None:
            verdicts.append(f"- {title}: not measured yet.")
            continue
        found = section(content["rows"])
        verdicts.append(_verdict(title, found, content, benchmark))
        parts.append(f"## {title}\n\n{content['what']}\n\n{_provenance(content)}\n\n{found.text}\n")
    return "\n".join([INTRODUCTION, "## What is missed\n", *verdicts, "", *parts]).rstrip() + "\n"


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content if content["rows"] else None


def _verdict(title: str, found: Section, content: dict[str, Any], benchmark: Benchmark) -> str:
    """One item of the list: that all is reached, or every sentence of what is not."""
    measured, all_cases = len(content["rows"]), len(benchmark.cases)
    missing = [f"Only {measured} of {all_cases} cases are measured."] if measured < all_cases else []
    sentences = [*missing, *found.missed]
    if not sentences:
        return f"- {title}: nothing, in {measured} cases."
    return "\n".join([f"- {title}:", *(f"  - {sentence}" for sentence in sentences)])


def _provenance(content: dict[str, Any]) -> str:
    machine, versions = content["machine"], content["versions"]
    libraries = ", ".join(f"{name} {version}" for name, version in versions.items() if name != "machine")
    return (
        f"Measured on {machine['cpu']}, {machine['cores']} cores, {machine['platform']}, with {libraries}; "
        f"{_commits(content['rows'])}; {content['date']}."
    )


def _commits(rows: Sequence[Row]) -> str:
    counted = Counter(row["commit"] for row in rows)
    if len(counted) == 1:
        return f"commit {next(iter(counted))}"
    return "commits " + ", ".join(f"{commit} ({number} cases)" for commit, number in counted.items())


if __name__ == "__main__":
    main()
