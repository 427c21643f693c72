"""The parts of a page that opens offline: sections, pictures that answer to the pointer, tables."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from treet.plots import ESTIMATE, INK, MUTED, OTHER, RULE, VIOLET, figure_of, svg_text
from treet.versions import versions

Floats = NDArray[np.float64]
Mark = tuple[float, float, str]
"""A place in a picture, in the data's coordinates, and the words that pointing at it shows."""

# The page's own colours take the place of the picture's, so that pictures follow light and dark.
VARIABLES = {
    ESTIMATE: "--estimate",
    OTHER: "--other",
    VIOLET: "--violet",
    INK: "--ink",
    MUTED: "--muted",
    RULE: "--rule",
}
POINTS_PER_INCH = 72
MARK_RADIUS = 7
MOST_VALUES = 20_000
"""That a picture to zoom into holds: of longer series, means over equal stretches."""


def page(title: str, heading: str, sections: Iterable[str]) -> str:
    """The whole page. The browser may load nothing, and run nothing but this package's own script."""
    style = files("treet.report").joinpath("style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(_script().encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    body = "\n".join(part for part in sections if part)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<h1>{escape(heading)}</h1>\n{body}\n<script>{_script()}</script>\n</body>\n</html>\n"
    )


@cache
def _script() -> str:
    return files("treet.report").joinpath("explore.js").read_text(encoding="utf-8")


def section(heading: str, body: str) -> str:
    return f"<section>\n<h2>{escape(heading)}</h2>\n{body}\n</section>" if body else ""


def answer(who: str, amount: str, rest: str, meaning: str) -> str:
    """The sentence that the page opens with, and what it means."""
    who, amount, rest = map(escape, (who, amount, rest))
    return (
        f'<p class="answer">{who} <strong>{amount}</strong>{rest}</p>\n'
        f'<p class="meaning">{escape(meaning)}</p>'
    )


def figure(axes: Axes, caption: str, marks: Sequence[Mark] = ()) -> str:
    """A picture with its caption; each of ``marks`` shows its words where the pointer is over it."""
    words = escape(caption)
    drawing = svg_text(figure_of(axes)).replace("<svg ", f'<svg role="img" aria-label="{words}" ', 1)
    drawing = drawing.replace("</svg>", f"{_marks(axes, marks)}</svg>")
    picture = f'<div class="wide">{_recoloured(drawing)}</div>'
    return f"<figure>\n{picture}\n<figcaption>{words}</figcaption>\n</figure>"


def _marks(axes: Axes, marks: Sequence[Mark]) -> str:
    """Circles that are seen when pointed at, in the coordinates of the SVG."""
    whole = figure_of(axes)
    scale, height = POINTS_PER_INCH / whole.dpi, whole.bbox.height
    circles = []
    for x, y, words in marks:
        across, up = axes.transData.transform((x, y))
        place = f'cx="{across * scale:.1f}" cy="{(height - up) * scale:.1f}" r="{MARK_RADIUS}"'
        circles.append(f'<circle class="mark" tabindex="0" {place}><title>{escape(words)}</title></circle>')
    return "".join(circles)


def _recoloured(drawing: str) -> str:
    for colour, variable in VARIABLES.items():
        drawing = re.sub(f"(fill|stroke): {colour}", rf"\1: var({variable})", drawing)
    return drawing


def explorer(values: Floats, label: str, unit: str, caption: str) -> str:
    """A series (time,) to zoom into; ``label`` and ``unit`` say what it is."""
    stretch = -(-len(values) // MOST_VALUES)
    data = {"values": ",".join(_means(values, stretch)), "step": str(stretch), "label": label, "unit": unit}
    attributes = " ".join(f'data-{name}="{escape(value)}"' for name, value in data.items())
    note = f" Each point is the mean over {stretch} time steps." if stretch > 1 else ""
    return (
        f'<figure>\n<div class="explore" {attributes}></div>\n'
        f"<figcaption>{escape(caption + note)}</figcaption>\n</figure>"
    )


def _means(values: Floats, stretch: int) -> list[str]:
    """Means over stretches of time, four digits; empty where a stretch has no value at all."""
    there, starts = np.isfinite(values), np.arange(0, len(values), stretch)
    counts = np.add.reduceat(there.astype(np.float64), starts)
    sums = np.add.reduceat(np.where(there, values, 0.0), starts)
    return [f"{total / count:.4g}" if count else "" for total, count in zip(sums, counts, strict=True)]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = (
        f"<tr><th>{escape(row[0])}</th>{''.join(f'<td>{escape(cell)}</td>' for cell in row[1:])}</tr>"
        for row in rows
    )
    body = "\n".join(lines)
    return (
        f'<div class="wide"><table>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'
    )


def cautions(found: Sequence[tuple[str, str]], always: str) -> str:
    """Each doubt with what it is about, or that there is none; then what holds for every such number."""
    alerts = [
        f'<p class="alert"><strong>{escape(about)}</strong>: {escape(doubt)}</p>' for about, doubt in found
    ]
    alerts = alerts or ["<p>Nothing went wrong on the way.</p>"]
    return "\n".join([*alerts, f'<p class="note">{escape(always)}</p>'])


def repeat(command: str) -> str:
    """What repeats the computation, and the versions it was made with."""
    return f"<pre>{escape(command)}</pre>\n{table(('with', 'version'), list(versions().items()))}"
