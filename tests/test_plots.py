"""Pictures hold what they promise: units, directions, names as they are, and nothing over the edge."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from html import unescape

import numpy as np
import pytest
from matplotlib._pylab_helpers import Gcf
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from treet.data import Recording
from treet.errors import TreetError
from treet.lags import Lags
from treet.plots import (
    MOST_POINTS,
    check_ending,
    figure_of,
    plot_both,
    plot_history,
    plot_result,
    plot_results,
    plot_series,
    save_figure,
    svg_text,
)
from treet.results import TransferEntropyResult


@dataclasses.dataclass(frozen=True)
class History:
    """Stands in for the training history of one network."""

    label: str
    step: tuple[int, ...]
    train: tuple[float, ...]
    validation: tuple[float, ...]
    best_step: int
    converged: bool


def history(label: str, start: float) -> History:
    steps = tuple(range(0, 1000, 100))
    train = tuple(start * math.exp(-step / 300) for step in steps)
    return History(label, steps, train, tuple(value + 0.1 for value in train), steps[-1], True)


def local_values(*lengths: int) -> tuple[np.ndarray, ...]:
    generator = np.random.default_rng(0)
    trials = tuple(generator.standard_normal(length) for length in lengths)
    for trial in trials:
        trial[:3] = np.nan
    return trials


RESULT = TransferEntropyResult(
    ("x",), ("y",), (), 0.411, Lags(5, 5), 80, "treet", 0.006, (0.398, 0.424), local=local_values(100)
)
BACK = dataclasses.replace(RESULT, source=("y",), target=("x",), te=-0.01, interval=(-0.03, 0.01), local=None)
HISTORIES = tuple(
    history(f"critic of {name}, fold {fold}", start)
    for name, start in (("Y", 1), ("XY", 2))
    for fold in (1, 2)
)
TRAINED = dataclasses.replace(RESULT, history=HISTORIES)
SERIES = Recording(trials=(np.random.default_rng(1).standard_normal((400, 2)),), names=("x", "y"))
DRAWINGS = {
    "result": lambda: plot_result(RESULT),
    "long result": lambda: plot_result(dataclasses.replace(RESULT, local=local_values(3000))),
    "value alone": lambda: plot_result(BACK),
    "both": lambda: plot_both([RESULT, BACK]),
    "history": lambda: plot_history(TRAINED),
    "series": lambda: plot_series(SERIES),
}
HOSTILE = ("a_1$x^2$b", "$_{y}", r"back\slash\$", "<b>&\"'", "x" * 90, "frontal left\nsecond line")


def shown(figure: Figure) -> list[Text]:
    figure.draw_without_rendering()
    return [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]


def words(ax: Axes) -> str:
    return "\n".join(text.get_text() for text in shown(figure_of(ax)))


def assert_inside(figure: Figure) -> None:
    """No text over the edge of the picture; ticks outside the axes' limits are not drawn."""
    texts = shown(figure)
    figure.draw_without_rendering()
    edge = figure.bbox.padded(1.5)
    ticks = [
        (label, value, limits)
        for ax in figure.axes
        for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim()))
        for label, value in zip(axis.get_ticklabels(), axis.get_ticklocs(), strict=True)
    ]
    unseen = {id(label) for label, value, limits in ticks if not min(limits) <= value <= max(limits)}
    over = [
        text.get_text()
        for text in texts
        if id(text) not in unseen and not _within(text.get_window_extent(), edge)
    ]
    assert over == []


def _within(box, edge) -> bool:
    return edge.x0 <= box.x0 and box.x1 <= edge.x1 and edge.y0 <= box.y0 and box.y1 <= edge.y1


@pytest.mark.parametrize("name", DRAWINGS)
def test_every_function_draws_without_pyplot(name: str) -> None:
    before = list(Gcf.figs)
    ax = DRAWINGS[name]()
    assert isinstance(ax, Axes)
    assert ax.lines
    assert_inside(figure_of(ax))
    assert list(Gcf.figs) == before


def test_pyplot_is_not_even_imported() -> None:
    code = "import sys, treet.plots, treet.report; sys.exit('matplotlib.pyplot' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", DRAWINGS)
def test_given_axes_are_used(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ax = Figure().add_subplot()
    drawing = {
        "result": lambda: plot_result(RESULT, ax),
        "long result": lambda: plot_result(dataclasses.replace(RESULT, local=local_values(3000)), ax),
        "value alone": lambda: plot_result(BACK, ax),
        "both": lambda: plot_both([RESULT, BACK], ax),
        "history": lambda: plot_history(TRAINED, ax),
        "series": lambda: plot_series(SERIES, ax),
    }[name]
    assert drawing() is ax
    assert ax.lines


@pytest.mark.parametrize("unit", ["nats", "bits"])
def test_units_and_directions_are_on_the_axes(unit: str) -> None:
    result, back = RESULT.to_unit(unit), BACK.to_unit(unit)
    over_time = plot_result(result)
    assert over_time.get_title(loc="left") == "x -> y"
    assert over_time.get_ylabel() == f"local transfer entropy ({unit})"
    assert over_time.get_xlabel() == "time step"
    low, high = result.interval
    assert f"TE = {result.te:.4g} {unit}, 95% interval {low:.4g} .. {high:.4g}" in words(over_time)
    both = plot_both([result, back])
    assert [label.get_text() for label in both.get_yticklabels()] == ["x -> y", "y -> x"]
    assert both.get_xlabel() == f"transfer entropy ({unit}), with 95% interval"
    assert f"{result.te:.4g}" in words(both)
    assert f"{back.te:.4g}" in words(both)


def test_local_values_are_drawn_as_they_are_while_there_are_few() -> None:
    line = plot_result(RESULT).lines[0]
    np.testing.assert_array_equal(line.get_ydata(), RESULT.local[0])
    np.testing.assert_array_equal(line.get_xdata(), np.arange(100))


def test_many_local_values_are_means_over_stretches_with_the_middle_of_the_values() -> None:
    values = np.arange(1000.0)
    values[:14] = np.nan
    ax = plot_result(dataclasses.replace(RESULT, local=(values,)))
    line = ax.lines[0]
    assert line.get_label() == "mean over 7 time steps"
    assert len(line.get_xdata()) == 143 <= MOST_POINTS
    assert line.get_xdata()[:3].tolist() == [3, 10, 17]
    assert np.isnan(line.get_ydata()[:2]).all()
    np.testing.assert_allclose(line.get_ydata()[2:], line.get_xdata()[2:])
    assert "middle 80% of local values" in words(ax)
    band = ax.collections[0].get_paths()[0].vertices
    at_17 = sorted({round(y, 9) for x, y in band if x == 17})
    assert at_17 == [14.6, 19.4]


def test_trials_stand_one_after_another_with_lines_between() -> None:
    ax = plot_result(dataclasses.replace(RESULT, local=local_values(30, 20, 40)))
    assert ax.get_xlabel() == "time step (trials one after another)"
    between = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == ":"]
    assert between == [30, 50]
    many = plot_result(dataclasses.replace(RESULT, local=local_values(*[10] * 40)))
    assert not [line for line in many.lines if line.get_linestyle() == ":"]


def test_a_value_its_interval_and_its_doubts_in_a_row() -> None:
    ax = plot_both([RESULT, dataclasses.replace(BACK, converged=False)])
    bars = [line for line in ax.lines if len(line.get_xdata()) == 2 and line.get_marker() == "|"]
    assert [tuple(bar.get_xdata()) for bar in bars] == [(0.398, 0.424), (-0.03, 0.01)]
    assert [tuple(bar.get_ydata()) for bar in bars] == [(0, 0), (1, 1)]
    assert [text.get_text() for text in ax.texts] == ["0.411", "-0.01\nnot converged"]
    assert ax.get_xlim()[0] < -0.03
    assert ax.get_xlim()[1] > 0.424


def test_intervals_of_several_levels_and_of_none() -> None:
    narrow = dataclasses.replace(BACK, confidence=0.999)
    assert plot_both([RESULT, narrow]).get_xlabel().endswith("with 95% and 99.9% interval")
    bare = dataclasses.replace(BACK, interval=None)
    assert plot_both([bare]).get_xlabel() == "transfer entropy (nats)"


@pytest.mark.parametrize("results", [[], [RESULT, BACK.to_unit("bits")]])
def test_only_results_in_one_unit_are_compared(results: list[TransferEntropyResult]) -> None:
    with pytest.raises(TreetError, match=r"at least one, all in one unit. Use to_unit\(\) first"):
        plot_both(results)


def test_history_shows_every_network_with_one_label_for_all_folds() -> None:
    ax = plot_history(TRAINED)
    assert ax.get_title(loc="left") == "Training for x -> y"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("training step", "loss (nats)")
    assert len(ax.lines) == 8
    np.testing.assert_array_equal(ax.lines[2].get_ydata(), HISTORIES[1].train)
    np.testing.assert_array_equal(ax.lines[3].get_ydata(), HISTORIES[1].validation)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "critic of Y, training",
        "critic of Y, validation",
        "critic of XY, training",
        "critic of XY, validation",
    ]
    looks = {
        line.get_label(): (line.get_color(), line.get_linestyle(), line.get_marker()) for line in ax.lines
    }
    assert len(set(looks.values())) == 4


def test_history_of_a_method_that_does_not_train() -> None:
    with pytest.raises(TreetError, match="estimator 'treet' does not train"):
        plot_history(RESULT)


def test_series_fill_their_rows_whatever_their_values() -> None:
    values = np.column_stack([np.linspace(5, 9, 20), np.full(20, 3.0), np.full(20, np.nan), np.zeros(20)])
    values[4, 3], values[5, 3], values[6, 3] = np.nan, np.inf, 1
    ax = plot_series(Recording(trials=(values,), names=("ramp", "flat", "gone", "jumps")))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["ramp", "flat", "gone", "jumps"]
    drawn = [line.get_ydata() for line in ax.lines]
    assert (drawn[0][0], drawn[0][-1]) == pytest.approx((0.4, -0.4))
    assert np.ptp(drawn[1]) == 0
    assert np.isnan(drawn[2]).all()
    assert np.flatnonzero(np.isnan(drawn[3])).tolist() == [4, 5]
    assert (np.nanmin(drawn[3]), np.nanmax(drawn[3])) == pytest.approx((2.6, 3.4))


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_shown_as_they_are(name: str) -> None:
    result = dataclasses.replace(RESULT, source=(name,), target=(f"_{name}",), condition=("z_$",))
    trained = dataclasses.replace(TRAINED, source=(name,))
    axes = [
        plot_result(result),
        plot_both([result, BACK]),
        plot_history(trained),
        plot_series(Recording(trials=SERIES.trials, names=(name, "y"))),
    ]
    start = " ".join(name.split())[:15]
    for ax in axes:
        drawing = svg_text(figure_of(ax))
        assert start in unescape(drawing)
        assert_inside(figure_of(ax))
    assert "z_$" in unescape(svg_text(figure_of(axes[0])))


def test_long_lists_of_names_are_shortened_and_stay_inside() -> None:
    names = tuple(f"electrode {number}" for number in range(40))
    long = dataclasses.replace(
        RESULT, source=names, target=("haemoglobin_concentration_left",), condition=names[:2]
    )
    title = plot_result(long).get_title(loc="left").replace("\n", " ")
    assert title == "electrode 0 and 39 more -> haemoglobin_concentrat.. | electrode 0, electrode 1"
    figure = plot_results([long, BACK, dataclasses.replace(long, te=3.0, converged=False)])
    assert_inside(figure)


def test_nothing_overlaps_in_a_row() -> None:
    """Names, marks and numbers keep clear of each other even where values differ by orders of magnitude."""
    tiny = dataclasses.replace(BACK, te=-1e-4, interval=(-2e-4, 1e-4), converged=False)
    ax = plot_both([RESULT, tiny])
    figure_of(ax).draw_without_rendering()
    boxes = [text.get_window_extent() for text in [*ax.texts, *ax.get_yticklabels()]]
    boxes.append(ax.get_window_extent())
    for first in range(len(boxes)):
        assert not any(boxes[first].overlaps(other) for other in boxes[first + 1 :])


def test_one_figure_for_everything() -> None:
    figure = plot_results([RESULT, BACK, dataclasses.replace(RESULT, te=0.3)])
    assert len(figure.axes) == 3
    assert figure.axes[0].get_xlabel().startswith("transfer entropy (nats)")
    assert [ax.get_title(loc="left") for ax in figure.axes[1:]] == ["x -> y", "x -> y"]
    assert_inside(figure)
    assert len(plot_results([RESULT]).axes) == 1
    assert len(plot_results([BACK, BACK]).axes) == 1


def test_svg_elements_are_deterministic_and_complete_in_themselves() -> None:
    first, second = (svg_text(figure_of(plot_result(RESULT))) for _ in range(2))
    assert first == second
    assert svg_text(figure_of(plot_result(BACK))) != first
    assert first.startswith("<svg ")
    assert first.rstrip().endswith("</svg>")
    assert "http" not in first
    assert "<metadata" not in first
    assert "<!DOCTYPE" not in first
    assert "local transfer entropy (nats)</text>" in first


@pytest.mark.parametrize(
    ("ending", "start"), [(".png", b"\x89PNG"), (".PNG", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF")]
)
def test_files_are_of_their_kind_and_the_same_each_time(tmp_path, ending: str, start: bytes) -> None:
    paths = [tmp_path / f"{name}{ending}" for name in ("first", "second")]
    for path in paths:
        save_figure(figure_of(plot_result(RESULT)), path)
    contents = [path.read_bytes() for path in paths]
    assert contents[0].startswith(start)
    assert contents[0] == contents[1]
    assert sorted(tmp_path.iterdir()) == sorted(paths)


@pytest.mark.parametrize("scale", [1.0, 0.03, 0.001])
def test_the_layout_is_settled_the_first_time(tmp_path, scale: float) -> None:
    """Ticks change with the room that they leave: a layout made for other ticks would cut labels off."""
    local = (scale * np.random.default_rng(0).standard_normal(8000),)
    small = dataclasses.replace(RESULT, te=0.0, interval=(-scale / 9, scale / 9), local=local)
    for draw in (svg_text, lambda figure: save_figure(figure, tmp_path / "picture.png")):
        ax = plot_result(small)
        draw(figure_of(ax))
        first = ax.get_position().bounds
        draw(figure_of(ax))
        assert ax.get_position().bounds == pytest.approx(first, abs=2e-3)


@pytest.mark.parametrize("path", ["picture.jpg", "picture", "png"])
def test_other_endings_are_refused(tmp_path, path: str) -> None:
    with pytest.raises(TreetError, match=r"A picture must end in \.png, \.svg, \.pdf\. Got '"):
        check_ending(path)
    with pytest.raises(TreetError, match="A picture must end in"):
        save_figure(Figure(), tmp_path / path)
    assert list(tmp_path.iterdir()) == []


def test_axes_without_a_figure() -> None:
    ax = plot_result(RESULT)
    ax.remove()
    with pytest.raises(TreetError, match="removed from their figure"):
        figure_of(ax)
