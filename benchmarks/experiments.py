"""What the experiments of ``treet reproduce`` found, kept as JSON, and the pages in docs/ made from it.

python benchmarks/experiments.py keep NAME FOLDER --where TEXT [--commit COMMIT]
python benchmarks/experiments.py pages

``keep`` takes the outcomes out of the folder that ``treet reproduce NAME -o FOLDER`` was given; nothing is
computed. ``--where`` says on what machine, and what else a reader of the seconds should know.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from harness import RESULTS, ROOT, commit, say
from treet.files import write_bytes, write_text
from treet.reproduce import apnea, capacity, memory, te_benchmark
from treet.reproduce.apnea_pages import write_apnea
from treet.reproduce.capacity_tables import write_by_memory, write_capacities
from treet.reproduce.runs import STORE, STORES, Row
from treet.reproduce.tables import write_te_benchmark
from treet.study import Study

DOCS = ROOT / "docs"
Write = Callable[[Sequence[Row], Path], tuple[Path, ...]]

EXPERIMENTS: Mapping[str, tuple[Callable[[], Sequence[Mapping[str, Any]]], Write]] = {
    te_benchmark.LABEL: (
        te_benchmark.cases,
        lambda rows, folder: write_te_benchmark(te_benchmark.TeBenchmark(tuple(rows)), folder),
    ),
    capacity.LABEL: (
        capacity.cases,
        lambda rows, folder: write_capacities(capacity.Capacities(tuple(rows)), folder),
    ),
    memory.LABEL: (
        memory.cases,
        lambda rows, folder: write_by_memory(memory.ByMemory(tuple(rows)), folder),
    ),
    apnea.LABEL: (apnea.cases, write_apnea),
}
"""By name: the cases of the whole experiment, and what writes its table, page and pictures."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Keep outcomes of experiments, and write their pages.")
    commands = parser.add_subparsers(dest="command", required=True)
    keeping = commands.add_parser("keep", help="take outcomes out of a folder")
    keeping.add_argument("name", choices=EXPERIMENTS)
    keeping.add_argument("folder", type=Path)
    keeping.add_argument("--where", required=True)
    keeping.add_argument("--commit", default=commit(), help="where it was not measured with this one")
    commands.add_parser("pages", help="write the pages in docs/")
    options = parser.parse_args()
    if options.command == "keep":
        keep(options.name, options.folder, options.where, options.commit)
    write_pages(RESULTS, DOCS)


def keep(name: str, folder: Path, where: str, measured_with: str) -> None:
    """Write ``NAME.json`` with a row for every case whose outcome is in ``folder``."""
    cases, _ = EXPERIMENTS[name]
    study = Study(folder / STORE)
    for path in sorted({*folder.glob(STORES)} - {folder / STORE}):
        study.take_in(path)
    wanted = list(cases())
    rows = [{**case, **found} for case, found in zip(wanted, study.found(wanted, name), strict=True) if found]
    content = {"name": name, "where": where, "cases": len(wanted), "commit": measured_with}
    content["date"] = datetime.now(timezone.utc).date().isoformat()
    lines = ",\n    ".join(json.dumps(row) for row in rows)
    head = json.dumps(content, indent=2).removesuffix("\n}")
    write_text(_kept(RESULTS, name), f'{head},\n  "rows": [\n    {lines}\n  ]\n}}\n')
    say(f"{name}: {len(rows)} of {len(wanted)} cases are kept")


def _kept(results: Path, name: str) -> Path:
    return results / f"{name.replace('-', '_')}.json"


def write_pages(results: Path, docs: Path) -> None:
    for name in EXPERIMENTS:
        if _kept(results, name).exists():
            for path, content in pages(results, name).items():
                (docs / path).parent.mkdir(parents=True, exist_ok=True)
                write_bytes(docs / path, content)


def pages(results: Path, name: str) -> dict[str, bytes]:
    """By place below docs/: the page of an experiment, and its pictures."""
    kept = json.loads(_kept(results, name).read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        paths = EXPERIMENTS[name][1](kept["rows"], Path(folder))
        pictures = {f"images/{path.name}": path.read_bytes() for path in paths if path.suffix == ".png"}
        (page,) = (path.read_text(encoding="utf-8") for path in paths if path.suffix == ".md")
    title, _, body = page.partition("\n")
    measured = f"{len(kept['rows'])} of {kept['cases']} cases, at commit {kept['commit']}: {kept['where']}."
    shown = "\n\n".join(f"![{Path(place).stem}]({place})" for place in pictures)
    origin = f"Written by `python benchmarks/experiments.py pages` from `{_kept(results, name).name}`."
    text = f"{title}\n\n{origin} {measured}\n\n{shown}\n{body}"
    return {f"{name}.md": text.encode(), **pictures}


if __name__ == "__main__":
    main()
