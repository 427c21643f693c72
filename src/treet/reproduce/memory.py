"""The paper's second table: a channel whose noise comes back after 100 steps, by the estimator's memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from treet.capacity.gaussian_channels import DelayedTap
from treet.reproduce.capacity import measured, published, trained
from treet.reproduce.runs import Part, Row, run
from treet.study import Case, Outcome

if TYPE_CHECKING:
    import pandas as pd

LABEL = "memory"
MEMORIES = (60, 70, 80, 90, 100, 110, 120, 130, 140, 200, 300)
QUICK_MEMORIES = (90, 100)
SHOWN = (130, 90)
"""Memories whose weights by lag are drawn."""

SHARE = 0.02
"""To reach: this share of the most that any input has at the memory."""

POWER = 1.0


def cases(quick: bool = False, seed: int = 0) -> list[Case]:
    """One training for each memory."""
    return [{"memory": memory, "seed": seed} for memory in (QUICK_MEMORIES if quick else MEMORIES)]


def measure(case: Case) -> Outcome:
    """One training, with the influence of every lag."""
    found = trained(DelayedTap(), case["memory"], power=POWER, random_state=case["seed"])
    assert found.influence is not None
    return {**measured(found), "peak_lag": found.peak_lag, "influence": found.influence.tolist()}


@dataclass(frozen=True)
class ByMemory:
    """What was measured: one row a memory."""

    rows: tuple[Row, ...]

    def at(self, memory: int) -> Row | None:
        return next((row for row in self.rows if row["memory"] == memory), None)

    def to_frame(self) -> pd.DataFrame:
        """One row a memory, with the verdict and the published figures."""
        import pandas as pd

        kept = [{name: row[name] for name in row if name != "influence"} for row in self.rows]
        return pd.DataFrame([{**row, **judged(row)} for row in kept])


def judged(row: Row) -> Row:
    """The distance to the most that any input has at this memory, which is the search's own error.

    >>> verdict = judged({"memory": 100, "value": 0.379, "ceiling": 0.38107, "peak_lag": 100})
    >>> round(verdict["error"], 4), verdict["within"], verdict["lag_found"], verdict["published"]
    (-0.0021, True, True, 0.37)
    """
    error = row["value"] - row["ceiling"]
    return {
        "error": error,
        "within": abs(error) <= SHARE * row["ceiling"],
        "lag_found": None if row["memory"] < DelayedTap().delay else row["peak_lag"] == DelayedTap().delay,
        "published": published_value("treet", row["memory"]),
        "published_dine": published_value("dine", row["memory"]),
    }


def published_value(method: str, memory: int) -> float | None:
    """The figure of the paper, None where it has none."""
    value: float | None = published()["memory"][method].get(str(memory))
    return value


def by_memory(
    folder: str | Path | None = None, *, quick: bool = False, seed: int = 0, part: Part | None = None
) -> ByMemory:
    """All trainings; what the stores in ``folder`` hold already is not computed again."""
    return ByMemory(tuple(run(LABEL, cases(quick, seed), measure, folder, part)))
