"""Running an experiment's cases in a folder: continued after an interruption, or spread over machines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treet.errors import TreetError
from treet.files import made_folder
from treet.study import Case, Outcome, Study

Row = dict[str, Any]
"""A case and what was measured of it, flat."""

STORE, STORES = "results.sqlite", "results*.sqlite"


@dataclass(frozen=True)
class Part:
    """One of several parts of the work, each for a process or a machine of its own.

    >>> part = Part.parse("2/3")
    >>> part, part.share([10, 11, 12, 13, 14])
    (Part(number=2, count=3), [11, 14])
    """

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Part:
        words = text.split("/")
        if len(words) != 2 or not all(word.isdecimal() for word in words):
            raise TreetError(f"A part is written NUMBER/COUNT, such as 2/8. Got {text!r} instead.")
        number, count = map(int, words)
        if not 1 <= number <= count:
            raise TreetError(f"A part is one of 1/N .. N/N. Got {text!r} instead.")
        return cls(number, count)

    def share(self, cases: Sequence[Case]) -> list[Case]:
        """Every ``count``-th case."""
        return list(cases[self.number - 1 :: self.count])

    @property
    def store(self) -> str:
        """The name of the file that keeps this part's outcomes."""
        return f"results-{self.number}-of-{self.count}.sqlite"


def run(
    label: str,
    cases: Sequence[Case],
    measure: Callable[[Case], Outcome],
    folder: str | Path | None = None,
    part: Part | None = None,
) -> list[Row]:
    """The rows of ``cases``; what a store in ``folder`` holds already is not computed again.

    With ``part`` only its share of the cases is computed, into a store of its own. Every run takes in what
    the other stores of the folder hold: once those of all parts lie there, a run without ``part`` has
    nothing left to compute.
    """
    chosen = list(cases) if part is None else part.share(cases)
    if not chosen:
        raise TreetError(f"There is nothing to compute in this part of {label}. Make fewer parts.")
    study = Study(None if folder is None else made_folder(folder) / (STORE if part is None else part.store))
    if study.path is not None:
        for path in sorted({*study.path.parent.glob(STORES)} - {study.path}):
            study.take_in(path)
    outcomes = study.run(chosen, measure, label)
    return [{**case, **outcome} for case, outcome in zip(chosen, outcomes, strict=True)]
