"""Tables and sentences for the page of results: Markdown from rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np


@dataclass(frozen=True)
class Section:
    """A benchmark on the page: its text, and a sentence for everything that was to be reached and was not."""

    text: str
    missed: tuple[str, ...] = ()


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, with numbers on the right.

    >>> print(table(["case", "n"], [["a", "1"], ["b", "-"]]))
    | case | n |
    | --- | ---: |
    | a | 1 |
    | b | - |
    """
    body = list(rows)
    columns = zip(*body, strict=True) if body else [[""]] * len(header)
    rules = ["---:" if all(map(_is_number, column)) else "---" for column in columns]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, rules, *body))


def _is_number(cell: str) -> bool:
    return cell == "-" or cell.lstrip("+-")[:1].isdigit()


def fixed(value: float | None, digits: int = 4) -> str:
    """With so many digits after the point; a dash where there is no value."""
    return "-" if value is None else f"{value:.{digits}f}"


def signed(value: float, digits: int = 4) -> str:
    return f"{value:+.{digits}f}"


def count(value: int) -> str:
    """With commas between the thousands."""
    return f"{value:,}"


def several(values: Sequence[float | None], digits: int = 4) -> str:
    """All values, or one where they are the same to these digits."""
    found = [fixed(value, digits) for value in values]
    return ", ".join(dict.fromkeys(found) if len(set(found)) == 1 else found)


def largest(values: Iterable[float | None], digits: int = 4) -> str:
    """The largest of those that there are."""
    return fixed(max((value for value in values if value is not None), default=None), digits)


def share(found: Sequence[bool]) -> str:
    """``2 of 3``."""
    return f"{sum(found)} of {len(found)}"


def power(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent ``a`` of the power law ``y = b x^a`` by least squares on logarithms.

    >>> round(power([1, 10, 100], [3, 30, 300]), 6)
    1.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def steepest(x: Sequence[float], y: Sequence[float]) -> float:
    """The largest exponent between two neighbours."""
    return max(power(xs, ys) for xs, ys in zip(pairwise(x), pairwise(y), strict=True))
