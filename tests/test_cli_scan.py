"""``treet scan``, ``treet datasets`` and ``--test``: what users type, see and get."""

import json

import numpy as np
import pandas as pd
import pytest

import treet.datasets
from treet.cli import main
from treet.cli.options import parsed_range
from treet.datasets import DatasetFiles
from treet.errors import TreetError
from treet.processes import DelayedLinear
from treet.writers import write_recording

SCAN = ("--estimator", "gaussian", "--source-history", "1", "--target-history", "1")


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "data.csv"
    write_recording(DelayedLinear(delay=4).sample(500, random_state=0), path)
    return str(path)


@pytest.fixture
def run(capsys):
    def run(*words):
        code = main(list(map(str, words)))
        return (code, *capsys.readouterr())

    return run


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("5", [5]), ("1..4", [1, 2, 3, 4]), ("1, 2,10..12", [1, 2, 10, 11, 12]), ("3,1..3", [3, 1, 2])],
)
def test_ranges(text, numbers):
    assert parsed_range("delay", text) == numbers


@pytest.mark.parametrize("text", ["", "a", "1..", "4..1", "1...3", "-1", "1.5", "1,,2"])
def test_ranges_that_make_no_sense(text):
    with pytest.raises(TreetError, match=r"--target-history takes whole numbers such as 5, 1\.\.4"):
        parsed_range("target_history", text)


def test_a_scan_prints_its_cells_and_the_largest(run, data):
    code, out, err = run("scan", data, "-s", "x", "-t", "y", "--delay", "1..6", *SCAN)
    assert (code, err) == (0, "")
    assert out.startswith("x -> y  largest TE = ")
    assert "source lag 4; 6 choices of lags; gaussian)" in out
    assert [f" {delay} " in out for delay in range(1, 7)] == [True] * 6


def test_both_directions_as_json_table_picture_and_page(run, data, tmp_path):
    table, picture, page = tmp_path / "scan.csv", tmp_path / "scan.png", tmp_path / "scan.html"
    words = ["--both", "--delay", "1,4", "--json", "-o", table, "--plot", picture, "--html", page]
    code, out, _ = run("scan", data, "-s", "x", "-t", "y", *SCAN, *words)
    assert code == 0
    there, back = json.loads(out)
    assert (there["source"], back["source"]) == (["x"], ["y"])
    assert [cell["delay"] for cell in there["cells"]] == [1, 4]
    rows = pd.read_csv(table)
    assert rows["direction"].tolist() == ["x -> y", "x -> y", "y -> x", "y -> x"]
    np.testing.assert_allclose(rows["te"][:2], [cell["te"] for cell in there["cells"]])
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = page.read_text(encoding="utf-8")
    assert "x -&gt; y is largest with" in text
    assert f"treet scan {data}" in text


def test_a_scan_continues_from_its_file(run, data, tmp_path, monkeypatch):
    words = ("scan", data, "-s", "x", "-t", "y", "--delay", "1..3", "--resume", tmp_path / "s.sqlite", *SCAN)
    first = run(*words)
    monkeypatch.setattr("treet.lag_scan.fit_and_test", None)
    assert run(*words) == first


def test_tests_give_p_values(run, data):
    words = ("-s", "x", "-t", "y", "--target-history", 1, "--source-history", 1, "--seed", 0)
    for name, test in (("paired", "paired"), ("surrogate", "circular_shift")):
        code, out, _ = run("estimate", data, *words, "--estimator", "gaussian", "--test", name, "--json")
        found = json.loads(out)
        assert (code, found["test"]) == (0, test)
        assert 0 < found["p_value"] <= 1
        assert found["effective_te"] == pytest.approx(found["te"], abs=0.02)
    code, out, _ = run("scan", data, "-s", "x", "-t", "y", "--delay", "4,9", *SCAN, "--test", "paired")
    assert code == 0
    assert " p " in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--test", "magic"), "test must be one of 'paired', 'surrogate'"),
        (("--delay", "4..1"), "--delay takes whole numbers"),
        (("--delay", "1..600"), "too short for these lags"),
        (("--set", "unit=bits"), "--set does not take unit"),
        (("--plot", "scan.txt"), "A picture must end in"),
    ],
)
def test_mistakes_are_one_line(words, message, run, data, tmp_path):
    before = sorted(tmp_path.iterdir())
    code, out, err = run("scan", data, "-s", "x", "-t", "y", *SCAN, *words)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert message in err
    assert sorted(tmp_path.iterdir()) == before


def test_fetch_says_where_the_files_are_whom_to_cite_and_the_licence(run, tmp_path, monkeypatch):
    files = DatasetFiles((tmp_path / "b1.txt",), "A. Author 1993.", "a licence")
    monkeypatch.setitem(treet.datasets.FETCHERS, "apnea", lambda: files)
    code, out, _ = run("datasets", "fetch", "apnea")
    assert code == 0
    assert out.splitlines()[0] == str(tmp_path / "b1.txt")
    assert "Please cite:\nA. Author 1993." in out
    assert "Licence: a licence" in out
    code, _, err = run("datasets", "fetch", "sleep")
    assert (code, err) == (2, "treet: data set must be one of 'apnea'. Got 'sleep' instead.\n")
