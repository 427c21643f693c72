"""The demonstration: a generated pair of series, both directions, pictures and a page."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from treet.estimators.registry import make
from treet.files import made_folder
from treet.plots import plot_results, save_figure
from treet.processes import make_process
from treet.report import write_report
from treet.results import TransferEntropyResult
from treet.writers import write_recording

N_SAMPLES = 8000
HISTORY = 10
SEED = 0


@dataclass(frozen=True)
class Demonstration:
    """What was found, what is true (in nats), and the files that show it."""

    results: tuple[TransferEntropyResult, ...]
    exact: tuple[float | None, ...]
    data: Path
    picture: Path
    report: Path


def demonstrate(folder: str | Path, estimator: str = "treet") -> Demonstration:
    """Simulate the threshold process, estimate both directions, and write everything to ``folder``.

    The source ``x`` drives the target ``y`` only while ``y`` is high, so a correlation sees little of it;
    nothing flows back, and the transfer entropy of both directions is known exactly.
    """
    folder = made_folder(folder)
    data, picture, report = folder / "series.csv", folder / "picture.png", folder / "report.html"
    process = make_process("threshold")
    recording = process.sample(N_SAMPLES, SEED)
    write_recording(recording, data)
    results, exact = [], []
    for source, target in (("x", "y"), ("y", "x")):
        fitted = make(estimator, target_history=HISTORY, source_history=HISTORY, random_state=SEED)
        fitted.fit(recording.select(source), recording.select(target))
        results.append(fitted.result_)
        exact.append(process.transfer_entropy(fitted.result_.lags, source, target))
    save_figure(plot_results(results), picture)
    write_report(results, report, _command(data, estimator), recording)
    return Demonstration(tuple(results), tuple(exact), data, picture, report)


def _command(data: Path, estimator: str) -> str:
    return (
        f"treet estimate {shlex.quote(str(data))} --source x --target y --both --target-history {HISTORY} "
        f"--source-history {HISTORY} --estimator {estimator} --seed {SEED}"
    )
