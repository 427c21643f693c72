"""The report: one page that fetches nothing, runs nothing, escapes everything and says what is true."""

from __future__ import annotations

import ast
import base64
import dataclasses
import hashlib
import re
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from treet.data import Recording
from treet.errors import TreetError
from treet.lags import Lags
from treet.report import write_report
from treet.report.words import answer, doubts, facts, meaning, python_call
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


LOCAL = (np.random.default_rng(0).standard_normal(50),)
RESULT = TransferEntropyResult(
    ("x",),
    ("y",),
    (),
    0.411,
    Lags(5, 4),
    8000,
    "treet",
    0.006,
    (0.398, 0.424),
    d_y=0.1,
    d_xy=0.511,
    seconds=12.34,
    seed=3,
    settings={"layers": 2, "device": None, "schedule": "cosine"},
    local=LOCAL,
)
TRAINED = dataclasses.replace(
    RESULT,
    history=(
        History("critic of Y, fold 1", (0, 10, 20), (1.0, 0.5, 0.4), (1.1, 0.6, 0.5), 20, True),
        History("critic of Y, fold 2", (0, 10, 20), (1.0, 0.5, 0.4), (1.1, 0.6, 0.5), 20, False),
    ),
)
BACK = dataclasses.replace(RESULT, source=("y",), target=("x",), te=-0.001, interval=(-0.01, 0.008))
SERIES = Recording(trials=(np.random.default_rng(1).standard_normal((60, 2)),), names=("x", "y"))
HOSTILE = (
    "<script>alert(1)</script>",
    "\"&'",
    "</svg><img src=x onerror=alert(1)>",
    "</style><style>*{display:none}",
    "--><!-- &lt;b&gt;",
    '" onload="alert(1)',
)
VOID = {"meta"}
TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "h1",
    "h2",
    "p",
    "strong",
    "section",
    "figure",
    "figcaption",
    "div",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "pre",
    "svg",
    "defs",
    "g",
    "path",
    "use",
    "clippath",
    "rect",
    "text",
    "tspan",
    "circle",
    "script",
}
SCRIPT = files("treet.report").joinpath("explore.js").read_text(encoding="utf-8")


class Page(HTMLParser):
    """What a browser would find: elements with attributes, and the text in each."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = text
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.comments: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", data))

    def of(self, tag: str) -> list[str]:
        return [text for where, text in self.texts if where == tag]

    @property
    def words(self) -> str:
        return " ".join(
            " ".join(text for where, text in self.texts if where not in ("style", "script")).split()
        )


def page_of(results, tmp_path: Path, command: str | None = None, series: Recording | None = None) -> Page:
    path = tmp_path / "report.html"
    write_report(results, path, command, series)
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    return Page(path.read_text(encoding="utf-8"))


def hostile(name: str) -> TransferEntropyResult:
    """A result with a hostile text at every place where one can come from outside."""
    trained = dataclasses.replace(TRAINED.history[0], label=f"{name}, fold 1")
    return dataclasses.replace(
        RESULT,
        source=(name,),
        target=(f"target {name}",),
        condition=(f"z {name}",),
        estimator=f"estimator {name}",
        warnings=(f"warning {name}",),
        settings={f"key {name}": f"value {name}"},
        history=(trained,),
    )


def assert_harmless(page: Page) -> None:
    assert {tag for tag, _ in page.elements} <= TAGS
    assert page.comments == []
    assert page.of("script") == [SCRIPT]
    for tag, attributes in page.elements:
        assert not [
            name for name in attributes if name.startswith("on") or name in {"src", "srcset", "action"}
        ]
        for name in ("href", "xlink:href"):
            assert attributes.get(name, "#").startswith("#")
        for value in attributes.values():
            assert all(found.startswith("#") for found in re.findall(r"url\(['\"]?(.)", value)), tag
    assert len(page.of("style")) >= 1
    for style in page.of("style"):
        assert "url(" not in style
        assert "@import" not in style


def test_the_page_fetches_nothing_and_runs_its_own_script_alone(tmp_path: Path) -> None:
    page = page_of([TRAINED, BACK], tmp_path, series=SERIES)
    assert_harmless(page)
    assert not re.search(r"https?:|\bsrc\s*=|<link|<iframe|<img", page.source)
    policy = [value["content"] for tag, value in page.elements if value.get("http-equiv")]
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert policy == [f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"]
    assert page.source.startswith("<!doctype html>")
    assert page.elements[0] == ("html", {"lang": "en"})
    # Every reference inside a drawing leads to something on the page.
    ids = {value["id"] for _, value in page.elements if "id" in value}
    targets = re.findall(r'(?:href="|url\()#([^")]+)', page.source)
    assert targets
    assert set(targets) <= ids


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_and_do_nothing(name: str, tmp_path: Path) -> None:
    series = Recording(trials=SERIES.trials, names=(name, f"{name} 2"))
    result = hostile(name)
    page = page_of([result, BACK], tmp_path, command=f"treet {name}", series=series)
    assert_harmless(page)
    # As many style sheets as with harmless names: one of the page and one of each drawing.
    clean = page_of([TRAINED, BACK], tmp_path, "treet", SERIES)
    assert len(page.of("style")) == len(clean.of("style"))
    direction = f"{name} -> target {name} | z {name}"
    assert f"{direction}; y -> x" in page.of("title")[0]
    assert any(text.startswith(f"{direction} carries ") for text in page.of("p"))
    assert direction in page.of("th")
    assert f"key {name}" in page.of("th")
    assert {f"value {name}", f"estimator {name}"} <= set(page.of("td"))
    assert f": warning {name}" in page.of("p")
    assert f"treet {name}" in page.of("pre")
    assert f"Where in time {direction} carries information." in page.of("figcaption")
    labels = [value["aria-label"] for tag, value in page.elements if tag == "svg"]
    assert f"Where in time {direction} carries information." in labels
    drawn = " ".join(page.of("text") + page.of("tspan"))
    assert name[:20] in drawn
    assert f"{name}, training" in drawn


def test_the_python_call_of_a_hostile_result_is_only_text(tmp_path: Path) -> None:
    page = page_of([hostile(HOSTILE[0])], tmp_path)
    assert_harmless(page)
    assert page.of("pre") == [python_call(hostile(HOSTILE[0]))]


@pytest.mark.parametrize(
    ("interval", "sentence"),
    [
        ((0.398, 0.424), "The interval lies above zero: the past of x helps to predict y."),
        ((-0.01, 0.02), "contains zero: these data do not show that the past of x helps to predict y."),
        ((0.0, 0.02), "contains zero: these data do not show that the past of x helps to predict y."),
        ((-0.02, 0.0), "contains zero: these data do not show that the past of x helps to predict y."),
        ((-0.5, -0.3), "The interval lies below zero, where no true transfer entropy can be"),
        ((float("nan"), float("nan")), "do not show that the past of x helps"),
        (None, "The estimator treet gives no interval: how sure the number is, it does not say."),
    ],
)
def test_what_the_interval_means(interval, sentence: str, tmp_path: Path) -> None:
    result = dataclasses.replace(RESULT, interval=interval, local=None)
    assert sentence in meaning(result)
    kinds = ("lies above zero", "contains zero", "lies below zero", "gives no interval")
    assert sum(kind in meaning(result) for kind in kinds) == 1
    assert sentence in page_of([result], tmp_path).words


def test_meaning_with_a_condition_and_with_a_p_value() -> None:
    conditional = dataclasses.replace(RESULT, condition=("z", "w"))
    assert meaning(conditional).endswith("helps to predict y beyond what z, w tells.")
    tested = dataclasses.replace(RESULT, interval=None, p_value=0.02)
    assert "gives no interval, but a p-value" in meaning(tested)
    assert "it does not say" not in meaning(tested)


def test_the_answer_comes_first(tmp_path: Path) -> None:
    page = page_of([RESULT, BACK.to_unit("bits").to_unit("nats")], tmp_path)
    assert "x -> y carries 0.411 nats , 95% interval 0.398 to 0.424." in page.words
    assert "y -> x carries -0.001 nats , 95% interval -0.01 to 0.008." in page.words
    assert page.source.index("carries") < page.source.index("<svg")
    bits = page_of([RESULT.to_unit("bits")], tmp_path)
    assert "0.5929 bits" in bits.words
    assert " nats" not in bits.words.replace("unit='nats'", "")


def test_the_parts_of_an_answer() -> None:
    result = dataclasses.replace(RESULT, confidence=0.999, p_value=0.0042)
    assert answer(result) == ("x -> y", "0.411 nats", ", 99.9% interval 0.398 to 0.424, p = 0.0042.")
    bare = dataclasses.replace(RESULT, interval=None, converged=False)
    assert answer(bare) == ("x -> y", "0.411 nats", ", not converged.")
    assert answer(dataclasses.replace(RESULT, interval=None))[2] == "."


def test_doubts_are_shown_and_only_where_there_are_any(tmp_path: Path) -> None:
    fine = page_of([RESULT], tmp_path)
    assert "Nothing went wrong on the way." in fine.words
    assert "not converged" not in fine.words
    assert "It is not proof of a cause" in fine.words
    result = dataclasses.replace(BACK, converged=False, warnings=("The series is short.",))
    doubtful = page_of([RESULT, result], tmp_path)
    assert "Nothing went wrong" not in doubtful.words
    alerts = [value for tag, value in doubtful.elements if value.get("class") == "alert"]
    assert len(alerts) == 2
    assert "y -> x : The series is short." in doubtful.words
    assert "y -> x : Training ended before the validation loss had settled" in doubtful.words
    assert "interval -0.01 to 0.008, not converged." in doubtful.words
    drawn = doubtful.of("text") + doubtful.of("tspan")
    assert drawn.count("not converged") == 1


def test_a_warning_that_says_it_already_is_not_repeated() -> None:
    result = dataclasses.replace(RESULT, converged=False, warnings=("2 networks did not converge.",))
    assert doubts(result) == ["2 networks did not converge."]
    assert doubts(RESULT) == []


def test_facts(tmp_path: Path) -> None:
    assert facts(RESULT) == {
        "transfer entropy": "0.411 nats",
        "standard error": "0.006 nats",
        "D_Y, without the source": "0.1 nats",
        "D_XY, with the source": "0.511 nats",
        "past that was used": "target lags 1..5, source lags 1..4",
        "windows": "8,000",
        "estimator": "treet",
        "layers": "2",
        "schedule": "cosine",
        "seed": "3",
        "seconds": "12.3",
    }
    bare = dataclasses.replace(BACK, std_error=None, d_y=None, settings={"k": 4})
    assert facts(bare)["standard error"] == "not given by this estimator"
    page = page_of([RESULT, bare], tmp_path)
    table = page.source[page.source.index("<table>") : page.source.index("</table>")]
    rows = [re.sub(r"<[^>]+>", "|", row).strip("|").split("|") for row in table.split("\n")]
    cells = {row[0]: [cell for cell in row[1:] if cell] for row in rows}
    assert cells["standard error"] == ["0.006 nats", "not given by this estimator"]
    assert cells["layers"] == ["2"]
    assert cells["k"] == ["4"]


def call_in(text: str) -> tuple[list[str], dict[str, object]]:
    (statement,) = ast.parse(text).body
    assert isinstance(statement, ast.Expr)
    assert isinstance(statement.value, ast.Call)
    assert ast.unparse(statement.value.func) == "treet.transfer_entropy"
    keywords = {word.arg or "": ast.literal_eval(word.value) for word in statement.value.keywords}
    return [ast.unparse(argument) for argument in statement.value.args], keywords


def test_the_python_call_repeats_the_settings() -> None:
    arguments, keywords = call_in(python_call(RESULT.to_unit("bits")))
    assert arguments == ["source", "target"]
    assert keywords == {
        "target_history": 5,
        "source_history": 4,
        "delay": 1,
        "estimator": "treet",
        "unit": "bits",
        "confidence": 0.95,
        "random_state": 3,
        "layers": 2,
        "schedule": "cosine",
    }
    conditional = dataclasses.replace(RESULT, condition=("z",), lags=Lags(1, 2, 0, 3), seed=None)
    arguments, keywords = call_in(python_call(conditional))
    assert arguments == ["source", "target", "condition"]
    assert (keywords["delay"], keywords["condition_history"]) == (0, 3)
    assert "random_state" not in keywords


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\x0c"])
def test_a_line_break_in_a_name_does_not_become_code(end: str) -> None:
    text = python_call(dataclasses.replace(RESULT, source=(f"x{end}raise SystemExit",)))
    call_in(text)
    assert "# x raise SystemExit -> y" in text


def test_the_command_takes_the_place_of_the_call(tmp_path: Path) -> None:
    command = "treet estimate 'a & b.csv' --source x --target y"
    assert page_of([RESULT], tmp_path, command).of("pre") == [command]
    both = page_of([RESULT, BACK], tmp_path).of("pre")
    assert both == [f"{python_call(RESULT)}\n{python_call(BACK)}"]


def test_which_pictures_there_are(tmp_path: Path) -> None:
    def captions(*arguments) -> list[str]:
        page = page_of(*arguments)
        pictures = [tag for tag, value in page.elements if tag == "svg" or value.get("class") == "explore"]
        assert len(pictures) == len(page.of("figcaption"))
        return page.of("figcaption")

    where = "Where in time x -> y carries information."
    beside, start = "The directions beside each other.", "The start of the series themselves."
    zoom = "x -> y time step by time step, to zoom into."
    assert captions([RESULT], tmp_path) == [where, zoom]
    assert captions([RESULT, dataclasses.replace(BACK, local=None)], tmp_path) == [beside, where, zoom]
    assert captions([RESULT], tmp_path, None, SERIES) == [where, zoom, start]
    settled = "x -> y: the loss of 1 of 2 networks had settled in the end."
    assert captions([TRAINED], tmp_path) == [where, zoom, settled]


def test_a_series_to_zoom_into_holds_its_values_and_keeps_gaps(tmp_path: Path) -> None:
    local = np.array([np.nan, 0.123456, -1.0, np.nan])
    page = page_of([dataclasses.replace(RESULT, local=(local,))], tmp_path)
    (box,) = [value for _, value in page.elements if value.get("class") == "explore"]
    assert (box["data-values"], box["data-step"], box["data-unit"]) == (",0.1235,-1,", "1", RESULT.unit)
    many = np.r_[np.full(3, np.nan), np.arange(60_000.0)]
    page = page_of([dataclasses.replace(RESULT, local=(many,))], tmp_path)
    (box,) = [value for _, value in page.elements if value.get("class") == "explore"]
    values = box["data-values"].split(",")
    assert (box["data-step"], len(values), values[:3]) == ("4", 15_001, ["0", "2.5", "6.5"])
    assert any(text.endswith("the mean over 4 time steps.") for text in page.of("figcaption"))


def test_a_result_without_local_values_is_not_said_to_be_shown_over_time(tmp_path: Path) -> None:
    page = page_of([dataclasses.replace(RESULT, local=None)], tmp_path)
    assert page.of("figcaption") == ["The value of x -> y."]


def test_pictures_follow_the_page_into_the_dark(tmp_path: Path) -> None:
    page = page_of([TRAINED, BACK], tmp_path, series=SERIES)
    style = page.of("style")[0]
    assert "prefers-color-scheme: dark" in style
    drawings = page.source[page.source.index("<svg") :]
    used = set(re.findall(r"var\((--\w+)\)", drawings))
    assert {"--estimate", "--other", "--ink", "--muted", "--rule"} <= used
    for block in style.split("prefers-color-scheme: dark"):
        assert all(f"{variable}:" in block for variable in used)
    colours = set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", drawings))
    assert colours == set()


def test_the_same_results_give_the_same_page(tmp_path: Path) -> None:
    first = page_of([TRAINED, BACK], tmp_path, "treet", SERIES).source
    assert page_of([TRAINED, BACK], tmp_path, "treet", SERIES).source == first


def test_no_results(tmp_path: Path) -> None:
    with pytest.raises(TreetError, match="A report needs at least one result"):
        write_report([], tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []
