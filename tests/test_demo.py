"""The demonstration: three files, both directions, and a command that repeats the numbers."""

import json
import shlex
from contextlib import contextmanager
from html.parser import HTMLParser

import numpy as np
import pytest

import treet.demo
from treet.cli import main
from treet.demo import HISTORY, SEED, demonstrate
from treet.errors import NotConvergedWarning, TreetError
from treet.estimators.registry import make
from treet.lags import Lags
from treet.processes import make_process
from treet.readers import read_recording

QUICK = {"preset": "paper", "epochs": 1, "folds": 2}
FILES = ["picture.png", "report.html", "series.csv"]


@contextmanager
def quickly():
    """A short series and a training of one step, in the demonstration and in the command."""

    def make_quick(name, /, **parameters):
        return make(name, **QUICK, **parameters)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(treet.demo, "N_SAMPLES", 400)
        patch.setattr(treet.demo, "make", make_quick)
        patch.setattr("treet.estimators.registry.make", make_quick)
        yield


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What the demonstration shows, in a folder that was not there."""
    with quickly(), pytest.warns(NotConvergedWarning):
        return demonstrate(tmp_path_factory.mktemp("demo") / "deep" / "it's my folder")


class Preformatted(HTMLParser):
    """The text of the page's ``<pre>``."""

    def __init__(self, page):
        super().__init__()
        self.inside, self.text = False, ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.inside |= tag == "pre"

    def handle_endtag(self, tag):
        self.inside &= tag != "pre"

    def handle_data(self, data):
        self.text += data if self.inside else ""


def test_it_writes_the_series_a_picture_and_a_report(shown):
    assert sorted(path.name for path in shown.data.parent.iterdir()) == FILES
    assert [shown.picture.name, shown.report.name, shown.data.name] == FILES
    assert shown.picture.read_bytes().startswith(b"\x89PNG")
    page = shown.report.read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "x -&gt; y" in page
    assert "y -&gt; x" in page
    (trial,) = read_recording(shown.data).trials
    np.testing.assert_array_equal(trial, make_process("threshold").sample(400, SEED).trials[0])


def test_it_shows_both_directions_beside_what_is_true(shown):
    assert [result.direction for result in shown.results] == ["x -> y", "y -> x"]
    assert {result.lags for result in shown.results} == {Lags(HISTORY, HISTORY, delay=1)}
    forward, backward = shown.exact
    assert forward == pytest.approx(0.4152, abs=5e-5)
    assert backward == pytest.approx(0, abs=1e-6)


def test_the_command_in_the_report_repeats_the_numbers(shown, capsys):
    command = Preformatted(shown.report.read_text(encoding="utf-8")).text
    program, *words = shlex.split(command)
    assert program == "treet"
    with quickly():
        assert main([*words, "--json"]) == 0
    repeated = json.loads(capsys.readouterr().out)
    for got, result in zip(repeated, shown.results, strict=True):
        expected = json.loads(result.to_json())
        assert got.pop("seconds") > 0
        assert expected.pop("seconds") > 0
        assert got == expected


@pytest.mark.filterwarnings("ignore::treet.errors.NotConvergedWarning")
def test_a_second_run_takes_the_place_of_the_first(shown):
    folder = shown.data.parent
    with quickly():
        again = demonstrate(str(folder))
    assert [result.te for result in again.results] == [result.te for result in shown.results]
    assert sorted(path.name for path in folder.iterdir()) == FILES


def test_a_file_in_the_place_of_the_folder_is_one_clear_line(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(TreetError, match=r"Cannot make the folder .*taken: File exists\. Choose another"):
        demonstrate(tmp_path / "taken")


@pytest.mark.slow
def test_what_it_shows_is_near_what_is_true(tmp_path):
    shown = demonstrate(tmp_path)
    for result, exact in zip(shown.results, shown.exact, strict=True):
        assert result.converged
        assert abs(result.te - exact) < max(3 * result.std_error, 0.002)
