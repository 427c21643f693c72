"""What all benchmarks share: every case in a process of its own, and a file of rows that survives a crash."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treet.files import write_text
from treet.lags import Lags
from treet.versions import versions

if TYPE_CHECKING:
    from treet.data import Recording
    from treet.processes import Process
    from treet.results import TransferEntropyResult

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
QUICK_RESULTS = Path(tempfile.gettempdir()) / "treet-benchmarks"
"""Where ``--quick`` writes: its numbers say nothing but that the scripts run."""

Case = dict[str, Any]
"""The parameters of one measurement, flat: what identifies its row."""
Row = dict[str, Any]
"""A case and what was measured in it, flat."""
Names = Sequence[str]


@dataclass(frozen=True)
class Stamp:
    """Where numbers come from. ``source`` is a digest of ``src/``: rows with the same one need no new run."""

    machine: dict[str, Any]
    versions: dict[str, str]
    commit: str
    source: str
    date: str

    @classmethod
    def now(cls) -> Stamp:
        date = datetime.now(timezone.utc).date().isoformat()
        return cls(machine(), versions(), commit(), source_digest(), date)


def machine() -> dict[str, Any]:
    """The kind of machine, without its name."""
    return {
        "cpu": _cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "platform": f"{platform.system()} {platform.machine()}",
    }


def _cpu_model() -> str:
    known = Path("/proc/cpuinfo")
    lines = known.read_text(encoding="utf-8").splitlines() if known.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or "unknown"


def commit() -> str:
    """The commit of the work tree, with ``+changes`` where ``src/`` differs from it."""
    head = _git("rev-parse", "--short", "HEAD")
    return f"{head}+changes" if head and _git("status", "--porcelain", "--", "src") else head or "unknown"


def _git(*arguments: str) -> str:
    """What git answers; empty where there is no git or no repository."""
    try:
        answer = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""


def source_digest() -> str:
    """Twelve digits that change with every change of the package's code."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def peak_mb() -> float:
    """The largest memory that this process has had so far, in megabytes.

    ``ru_maxrss`` of a new process starts at the size of the process that started it, on Linux; ``VmHWM`` does
    not, so it is used where there is one.
    """
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    found = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")]
    return (found[0] if found else _max_rss()) / 1e6


def _max_rss() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@dataclass(frozen=True)
class Benchmark:
    """One script: its cases, how one of them is measured, and its command line.

    ``measure(case)`` returns what was measured, flat; it runs in a process of its own, after ``imports``, so
    that ``peak_mb`` is the case's own and ``added_mb`` what it took on top of the imports. (PyTorch imports
    ``torch._dynamo`` with the first optimiser: 70 MB that say nothing about a case.)
    """

    script: str
    what: str
    cases: Sequence[Case]
    quick: Sequence[Case]
    measure: Callable[[Case], Row]
    imports: Sequence[str] = ("treet.estimators.neural", "torch._dynamo")

    @property
    def name(self) -> str:
        return Path(self.script).stem

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """The exit code of ``script [--only SUBSTRING] [--again] [--quick] [--results DIR]``."""
        options = self._parser().parse_args(arguments)
        if options.case is None:
            return self._run(options)
        print(json.dumps(self._measured(json.loads(options.case)), allow_nan=False))
        return 0

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(description=self.what)
        parser.add_argument("--only", default="", metavar="SUBSTRING", help="cases that contain this text")
        parser.add_argument("--case", help=argparse.SUPPRESS)
        return add_options(parser)

    def _measured(self, case: Case) -> Row:
        for module in self.imports:
            import_module(module)
        memory, cpu = peak_mb(), time.process_time()
        measured = self.measure(case)
        cpu, peak = time.process_time() - cpu, peak_mb()
        costs = {"cpu_seconds": round(cpu, 2), "peak_mb": round(peak, 1), "added_mb": round(peak - memory, 1)}
        return measured | costs

    def _run(self, options: argparse.Namespace) -> int:
        path = results_folder(options) / f"{self.name}.json"
        rows = self._earlier(path, Stamp.now())
        todo = self._todo(options, rows)
        failed = 0
        for number, case in enumerate(todo, start=1):
            say(f"{self.name} {number}/{len(todo)}: {words(case)}")
            # For every case anew: the code may change while a long run goes on.
            stamp = Stamp.now()
            measured = self._in_fresh_process(case)
            if measured is None:
                failed += 1
                continue
            rows[words(case)] = {**case, **measured, "commit": stamp.commit, "source": stamp.source}
            self._write(path, rows, stamp)
        return 1 if failed else 0

    def _todo(self, options: argparse.Namespace, rows: dict[str, Row]) -> list[Case]:
        """The chosen cases that were not measured with the code as it is, or all of them with ``--again``."""
        source = source_digest()
        cases = self.quick if options.quick else self.cases
        chosen = [case for case in cases if options.only in words(case)]
        known = [] if options.again else [key for key, row in rows.items() if row["source"] == source]
        todo = [case for case in chosen if words(case) not in known]
        say(f"{self.name}: {len(todo)} cases to measure, {len(chosen) - len(todo)} are there already")
        return todo

    def _earlier(self, path: Path, stamp: Stamp) -> dict[str, Row]:
        """Rows of an earlier run by case; none where it was on another machine or with other versions."""
        if not path.exists():
            return {}
        found = json.loads(path.read_text(encoding="utf-8"))
        if (found["machine"], found["versions"]) != (stamp.machine, stamp.versions):
            say(f"{path.name} is of another machine or of other versions: starting afresh")
            return {}
        return {
            words(case): row
            for case in (*self.cases, *self.quick)
            for row in found["rows"]
            if all(key in row and row[key] == value for key, value in case.items())
        }

    def _in_fresh_process(self, case: Case) -> Row | None:
        command = [sys.executable, self.script, "--case", json.dumps(case)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            say(f"{self.name}: this case FAILED, exit code {done.returncode}: {words(case)}")
            return None
        measured: Row = json.loads(done.stdout.splitlines()[-1])
        return measured

    def _write(self, path: Path, rows: dict[str, Row], stamp: Stamp) -> None:
        """All rows in the order of the cases, one a line, in place of the file in one go."""
        path.parent.mkdir(parents=True, exist_ok=True)
        about = asdict(stamp)
        del about["source"]
        head = json.dumps({"name": self.name, "what": self.what, **about}, indent=2).removesuffix("\n}")
        order = [words(case) for case in (*self.cases, *self.quick) if words(case) in rows]
        lines = ",\n".join("    " + json.dumps(rows[key], allow_nan=False) for key in order)
        write_text(path, f'{head},\n  "rows": [\n{lines}\n  ]\n}}\n')


def add_options(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """The options of all scripts."""
    parser.add_argument("--again", action="store_true", help="measure again what is there already")
    parser.add_argument("--quick", action="store_true", help="small cases, not kept with the results")
    parser.add_argument("--results", type=Path, metavar="DIR", help="where the JSON files are")
    return parser


def results_folder(options: argparse.Namespace) -> Path:
    return options.results or (QUICK_RESULTS if options.quick else RESULTS)


def say(line: str) -> None:
    """Progress goes to standard error: standard output is a case's row."""
    print(line, file=sys.stderr, flush=True)


def words(case: Case) -> str:
    """A case in one line: what ``--only`` searches, and the key of its row."""
    return ", ".join(f"{key}={value}" for key, value in case.items())


def in_words(names: Names) -> str:
    """``x`` for one channel, ``x1..x5`` for more."""
    return names[0] if len(names) == 1 else f"{names[0]}..{names[-1]}"


def grouped(rows: Sequence[Row], *fields: str) -> Iterator[tuple[tuple[Any, ...], list[Row]]]:
    """Rows with the same values of ``fields`` together, in the order in which these come up."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[field] for field in fields), []).append(row)
    yield from groups.items()


def estimate(
    recording: Recording, source: Names, target: Names, lags: Lags, seed: int
) -> TransferEntropyResult:
    """The default estimate, as a user gets it."""
    from treet.api import transfer_entropy

    return transfer_entropy(
        recording.select(source),
        recording.select(target),
        target_history=lags.target_history,
        source_history=lags.source_history,
        delay=lags.delay,
        random_state=seed,
    )


def exact_value(process: Process, lags: Lags, source: Names, target: Names) -> float:
    """The exact transfer entropy in nats; raises where the process does not know it."""
    exact = process.transfer_entropy(lags, source, target)
    if exact is None:
        raise ValueError(f"{process} has no exact value for {lags}. Take a process that has one.")
    return exact
