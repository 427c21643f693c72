"""The command line: what it prints, what it writes, and one clear line for everything that goes wrong."""

import io
import json
import math
import os
import pty
import re
import resource
import shlex
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from inspect import signature
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import typer

import treet.demo
import treet.plots  # so that fonts are found before a test forbids to write
from treet import cli
from treet.cli import main
from treet.cli.entry import EPILOG
from treet.cli.estimate import ESTIMATE_EPILOG
from treet.cli.scan import SCAN_EPILOG
from treet.cli.simulate import SIMULATE_EPILOG
from treet.estimators.base import Estimate, TransferEntropyEstimator
from treet.estimators.neural import TREET
from treet.estimators.registry import ESTIMATORS, make
from treet.processes import PROCESSES, simulate
from treet.readers import read_recording, read_table
from treet.versions import treet_version
from treet.writers import WRITERS

N = 400
QUICK = {"preset": "paper", "epochs": 1, "folds": 2}
COMMAND = [sys.executable, "-c", "import sys; from treet.cli import main; sys.exit(main())"]
KEYS = (
    *("source", "target", "te", "std_error", "interval", "confidence", "unit", "d_y", "d_xy"),
    *("target_history", "source_history", "delay", "n_windows", "estimator", "converged", "seconds", "seed"),
)
SERIES = ("--source", "-s", "--target", "-t", "--condition", "-c", "--trial-column", "--both")
PAST = ("--memory", "--target-history", "--source-history", "--delay", "--condition-history")
METHOD = ("--estimator", "--preset", "--set", "--confidence", "--seed", "--device", "--test")
PRINTED = ("--unit", "--json", "--help", "-h")
OUTPUTS = {"--save": "model.safetensors", "--plot": "picture.pdf", "--html": "report.html"}


class Ran(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capsys):
    """A function that runs a command and returns its exit code and what it printed."""

    def run(*words):
        code = main([str(word) for word in words])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """A training of one step: too short for a good value, but it does all that a long one does."""

    def make_quick(name, /, **parameters):
        return make(name, **({**QUICK, **parameters} if name == "treet" else parameters))

    monkeypatch.setattr("treet.estimators.registry.make", make_quick)
    monkeypatch.setattr("treet.demo.make", make_quick)


@pytest.fixture(autouse=True)
def width(monkeypatch):
    """Text as on a terminal of the usual width, without colours."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")


def made_columns():
    """Four trials of a hundred samples, and columns of every kind of trouble."""
    x, y = simulate("threshold", N, random_state=0).trials[0].T
    spike = np.where(np.arange(N) == 7, math.inf, x)
    return {
        "trial": np.repeat(["a", "b", "c", "d"], N // 4),
        "x": x,
        "y": y,
        "z": np.random.default_rng(1).normal(size=N),
        "höhe [m]": np.random.default_rng(2).normal(size=N),
        "flat": np.full(N, 2.5),
        "gap": np.full(N, ""),
        "spike": spike,
        "note": np.where(np.arange(N) == 2, "three", "1"),
        "twin": np.random.default_rng(3).normal(size=N),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Good and bad data files."""
    folder = tmp_path_factory.mktemp("data")
    columns = made_columns()
    rows = [",".join([*columns, "twin"])]
    rows += [",".join(map(str, [*cells, 0])) for cells in zip(*columns.values(), strict=True)]
    (folder / "data.csv").write_text("\n".join(rows), encoding="utf-8")
    x, y = columns["x"], columns["y"]
    np.savez(folder / "unequal.npz", x=x, y=y[:-1])
    np.save(folder / "pair.npy", np.stack([x, y], axis=1))
    table = pa.table({"x": x, "y": y, "note": np.where(np.arange(N) == 4, "five", "1")})
    pyarrow.parquet.write_table(table, folder / "table.parquet")
    (folder / "empty.csv").touch()
    (folder / "header.csv").write_text("x,y\n")
    for name in ("text.parquet", "text.npy", "text.npz", "text.h5"):
        (folder / name).write_text("x,y\n1,2\n3,4\n")
    (folder / "binary.csv").write_bytes(bytes(range(256)))
    (folder / "data.xyz").write_text("x,y\n1,2\n")
    return folder


@pytest.fixture
def estimate(run, folder):
    """A function that runs ``treet estimate`` on the good data, with x -> y and memory 1 by default."""

    def estimate(*words, data="data.csv", series=("-s", "x", "-t", "y"), past=("--memory", 1)):
        return run("estimate", folder / data, *series, *past, *words)

    return estimate


def refused(ran):
    """The message of a command that was refused: one line on standard error, nothing on standard output."""
    assert ran.code == 2
    assert ran.out == ""
    return one_line(ran.err)


def one_line(err):
    """The last line, without the program's name; all before it are warnings."""
    *before, last = err.splitlines()
    assert all(line.startswith("treet: warning: ") for line in before)
    assert last.startswith("treet: ")
    assert last.isprintable()
    return last.removeprefix("treet: ")


def settled(err):
    """Whether standard error holds only what a training of one step must say."""
    return all(line.startswith("treet: warning: Training ended") for line in err.splitlines())


# What an estimate prints.


def test_json_is_exactly_one_object_with_every_key(estimate):
    ran = estimate("--json")
    assert ran.code == 0
    found = json.loads(ran.out)
    assert set(KEYS) <= set(found)
    assert (found["source"], found["target"]) == (["x"], ["y"])
    low, high = found["interval"]
    assert low < found["te"] < high
    assert high - low == pytest.approx(2 * 1.959964 * found["std_error"], rel=1e-6)
    assert found["te"] == pytest.approx(found["d_xy"] - found["d_y"], abs=1e-12)
    assert (found["confidence"], found["unit"], found["seed"]) == (0.95, "nats", 0)
    assert (found["target_history"], found["source_history"], found["delay"]) == (1, 2, 0)
    assert (found["n_windows"], found["estimator"], found["converged"]) == (N - 1, "treet", False)
    assert found["seconds"] > 0
    assert ran.err
    assert settled(ran.err)


def test_json_of_both_directions_is_a_list_of_two(estimate):
    ran = estimate("--both", "--condition", "z", "--json")
    assert ran.code == 0
    forward, backward = json.loads(ran.out)
    assert (forward["source"], forward["target"], forward["condition"]) == (["x"], ["y"], ["z"])
    assert (backward["source"], backward["target"], backward["condition"]) == (["y"], ["x"], ["z"])
    assert forward["te"] != backward["te"]
    assert settled(ran.err)


def test_text_is_one_line_for_each_direction(estimate):
    ran = estimate("--both")
    assert ran.code == 0
    forward, backward = ran.out.splitlines()
    numbers = r"TE = -?[\d.e-]+ nats, 95% interval -?[\d.e-]+ \.\. -?[\d.e-]+"
    lags = r"\(target lag 1, source lags 0\.\.1; 399 windows; treet\)"
    assert re.fullmatch(rf"x -> y  {numbers}  {lags}  NOT CONVERGED", forward)
    assert re.fullmatch(rf"y -> x  {numbers}  {lags}  NOT CONVERGED", backward)
    assert settled(ran.err)


def test_every_option_is_heeded(estimate, tmp_path):
    past = ("--target-history", 2, "--source-history", 3, "--delay", 2, "--condition-history", 1)
    series = ("--source", "x", "--source", "höhe [m]", "--target", "y", "--condition", "z")
    outputs = {"--save": "model", "--plot": "picture.svg", "--html": "report.html"}
    words = ["--trial-column", "trial", "--estimator", "treet", "--preset", "paper", "--unit", "bits"]
    words += ["--confidence", 0.9, "--seed", 7, "--device", "cpu", "--json"]
    words += [word for option, name in outputs.items() for word in (option, tmp_path / name)]
    ran = estimate(*words, series=series, past=past)
    assert ran.code == 0
    found = json.loads(ran.out)
    expected = {
        "source": ["x", "höhe [m]"],
        "target": ["y"],
        "condition": ["z"],
        "target_history": 2,
        "source_history": 3,
        "delay": 2,
        "condition_history": 1,
        "n_windows": N - 4 * 4,
        "estimator": "treet",
        "unit": "bits",
        "confidence": 0.9,
        "seed": 7,
    }
    assert {key: found[key] for key in expected} == expected
    assert (found["settings"]["preset"], found["settings"]["device"]) == ("paper", "cpu")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(outputs.values())


def test_without_options_the_past_is_five_and_five_at_delay_one(estimate):
    found = json.loads(estimate("--json", past=()).out)
    assert (found["target_history"], found["source_history"], found["delay"]) == (5, 5, 1)
    assert found["settings"]["device"] == "auto"


def test_the_same_seed_gives_the_same_value_and_another_one_another(estimate):
    values = [json.loads(estimate("--json", "--seed", seed).out)["te"] for seed in (3, 3, 4)]
    assert values[0] == values[1] != values[2]


def test_bits_are_nats_over_the_logarithm_of_two(estimate):
    nats, bits = (json.loads(estimate("--json", "--unit", unit).out) for unit in ("nats", "bits"))
    for key in ("te", "std_error", "d_y", "d_xy"):
        assert bits[key] == pytest.approx(nats[key] / math.log(2), rel=1e-12)
    assert "bits, 95% interval" in estimate("--unit", "bits").out


def test_channels_by_index_are_the_same_channels(estimate):
    by_name = json.loads(estimate("--json").out)
    by_index = json.loads(estimate("--json", series=("-s", 1, "-t", 2)).out)
    assert (by_index["source"], by_index["te"]) == (["x"], by_name["te"])
    from_array = json.loads(estimate("--json", data="pair.npy", series=("-s", 0, "-t", 1)).out)
    assert (from_array["source"], from_array["te"]) == (["0"], by_name["te"])


def test_windows_do_not_span_the_trials_of_the_trial_column(estimate):
    assert json.loads(estimate("--json", "--trial-column", "trial").out)["n_windows"] == N - 4


def test_what_is_saved_is_loaded(estimate, tmp_path):
    path = tmp_path / "model.safetensors"
    ran = estimate("--json", "--save", path, "--condition", "z")
    loaded = TREET.load(path)
    assert loaded.result_.to_dict() == json.loads(ran.out)
    assert (loaded.result_.direction, loaded.lags_.memory) == ("x -> y | z", 1)
    new = simulate("threshold", 50, random_state=1)
    noise = np.random.default_rng(4).normal(size=50)
    assert math.isfinite(loaded.score(new.select("x"), new.select("y"), noise))


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_picture_of_every_kind(estimate, tmp_path, ending, start):
    path = tmp_path / f"picture.{ending}"
    assert estimate("--both", "--plot", path).code == 0
    assert path.read_bytes().startswith(start)


def test_a_report_holds_both_directions_the_series_and_the_command(estimate, folder, tmp_path):
    path = tmp_path / "a report.html"
    assert estimate("--both", "--html", path).code == 0
    page = path.read_text(encoding="utf-8")
    assert "x -&gt; y" in page
    assert "y -&gt; x" in page
    assert "The start of the series themselves." in page
    assert f"treet estimate {folder}/data.csv -s x -t y --memory 1 --both --html" in page
    assert "a report.html&#x27;</pre>" in page


def test_every_warning_is_one_plain_line_each_time(estimate):
    for _ in range(2):
        (line,) = estimate().err.splitlines()
        assert line.startswith("treet: warning: Training ended at its step limit")
        assert line.isprintable()


def test_a_warning_of_ours_about_the_value_is_shown(estimate, monkeypatch):
    monkeypatch.setitem(ESTIMATORS, "plain", Plain)
    ran = estimate("--estimator", "plain")
    assert ran.code == 0
    assert ran.err == "treet: warning: made of nothing\n"


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name not in ("treet", "discrete", "mine")])
def test_every_estimator_by_its_name(estimate, name):
    ran = estimate("--estimator", name, "--json", past=("--target-history", 1, "--source-history", 1))
    assert ran.code == 0
    found = json.loads(ran.out)
    assert (found["estimator"], found["target_history"], found["delay"]) == (name, 1, 1)
    assert found["interval"][0] <= found["te"] + 1e-9


def test_a_parameter_of_the_estimators_own(estimate):
    words = ("--estimator", "ksg", "--json")
    found = [json.loads(estimate(*words, *more).out) for more in ((), ("--set", "neighbours=9"))]
    assert [result["settings"]["neighbours"] for result in found] == [4, 9]
    assert found[0]["te"] != found[1]["te"]


def test_words_are_symbols_for_an_estimator_that_takes_them(run, tmp_path):
    heads = np.random.default_rng(0).integers(0, 2, 300)
    rows = [f"{'ab'[now]},{'xy'[before]}" for now, before in zip(heads[1:], heads[:-1], strict=True)]
    (tmp_path / "words.csv").write_text("\n".join(["s,t", *rows]))
    words = ("estimate", tmp_path / "words.csv", "-s", "s", "-t", "t")
    one_back = ("--target-history", 1, "--source-history", 1)
    ran = run(*words, *one_back, "--estimator", "discrete", "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["te"] == pytest.approx(math.log(2), abs=0.01)
    assert "has no numeric data" in refused(run(*words))


def test_json_stays_alone_on_standard_output_when_standard_error_is_closed(estimate, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert json.loads(estimate("--json").out)["converged"] is False


def test_a_real_run_in_a_pipe_is_silent_and_near_the_truth(folder):
    words = ["estimate", str(folder / "data.csv"), "-s", "x", "-t", "y", "--memory", "1", "--json"]
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0
    found = json.loads(done.stdout)
    assert abs(found["te"] - 0.4152) < 0.2
    assert settled(done.stderr)
    assert bool(done.stderr) != found["converged"]


def test_a_name_that_the_terminal_cannot_show_does_not_lose_the_value(estimate, monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    assert estimate(series=("-s", "höhe [m]", "-t", "y")).code == 0
    assert raw.getvalue().startswith(rb"h\xf6he [m] -> y  TE = ")


def test_a_file_name_that_is_no_text_reaches_the_report(folder, run, tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.csv")
    try:
        os.link(folder / "data.csv", path)
    except OSError:
        pytest.skip("this file system has no such names")
    assert run("estimate", path, "-s", "x", "-t", "y", "--memory", 1, "--html", tmp_path / "r.html").code == 0
    assert r"\udcff.csv" in (tmp_path / "r.html").read_text(encoding="utf-8")


# What an estimate refuses.


class Plain(TransferEntropyEstimator):
    """An estimator with nothing but the common parameters."""

    name = "plain"
    summary, assumes, cost, use_when = "a stand-in", "nothing", "none", "in tests"

    def __init__(
        self,
        memory=None,
        target_history=None,
        source_history=None,
        delay=None,
        condition_history=None,
        unit="nats",
        confidence=0.95,
        random_state=None,
    ):
        self.memory, self.target_history, self.source_history = memory, target_history, source_history
        self.delay, self.condition_history = delay, condition_history
        self.unit, self.confidence, self.random_state = unit, confidence, random_state

    def _estimate(self, windows):
        return Estimate(te=0.25, notes=("made of nothing",))


@pytest.mark.parametrize(
    ("data", "series", "words"),
    [
        ("unequal.npz", "-s x -t y", "must be equally long. Got 399 and 400 samples."),
        ("data.csv", "-s gap -t y", "Channel 'gap' (source) is all NaN: it has no values."),
        ("data.csv", "-s x -t spike", "Channel 'spike' (target) has an infinite value at time index 7."),
        ("data.csv", "-s flat -t y", "Channel 'flat' (source) is constant, always 2.5."),
        ("data.csv", "-s x -t y -c flat", "Channel 'flat' (condition) is constant, always 2.5."),
        ("data.csv", "-s z -t q", "target: there is no channel 'q'. There are: trial, x, y, z, höhe [m], fl"),
        ("data.csv", "-s höhe -t y", "source: there is no channel 'höhe'. Did you mean 'höhe [m]'?"),
        ("data.csv", "-s x -t 99", "target: there is no channel '99'."),
        ("data.csv", "-s x -t y -c q", "condition: there is no channel 'q'."),
        ("data.csv", "-s x -t y --trial-column q", "trial column: there is no channel 'q'."),
        ("data.csv", "-s twin -t y", "2 channels are named 'twin'. Give an index instead: 9 and 10."),
        ("data.csv", "-s x -t note", "column 'note' is not numeric. Row 3 (the first row of data is 1)"),
        ("table.parquet", "-s note -t y", "column 'note' is not numeric. Row 5 (the first row of data is 1)"),
        ("data.csv", "-s x -t x", "source 'x' and target 'x' are the same channel"),
        ("data.csv", "-s x -s z -t y -t z", "source 'z' and target 'z' are the same channel"),
        ("data.csv", "-s x -t y -c x", "source 'x' and condition 'x' are the same channel"),
        ("data.csv", "-s x -s 1 -t y", "source names the channel 'x' twice."),
        ("empty.csv", "-s x -t y", "empty.csv is an empty file."),
        ("header.csv", "-s x -t y", "header.csv has a header but no rows of data."),
        ("text.parquet", "-s x -t y", "Check that the file is what its ending .parquet says."),
        ("text.npy", "-s x -t y", "Check that the file is what its ending .npy says."),
        ("text.npz", "-s x -t y", "Check that the file is what its ending .npz says."),
        ("text.h5", "-s x -t y", "Check that the file is what its ending .h5 says."),
        ("binary.csv", "-s x -t y", "binary.csv is not text in UTF-8, as its ending .csv says."),
        ("data.xyz", "-s x -t y", "a data file must end in .csv, .tsv, .txt, .parquet, .npy, .npz, .h5"),
        ("none.csv", "-s x -t y", "There is no file"),
        (".", "-s x -t y", "a data file must end in"),
    ],
)
def test_data_that_cannot_be_used_are_one_clear_line(estimate, data, series, words):
    assert words in refused(estimate(data=data, series=series.split()))


@pytest.mark.parametrize(
    ("past", "words"),
    [
        ("--memory 399", "The recording is too short for these lags (target lags 1..399,"),
        ("--memory 399", "they need at least 401 samples in a row. Got 400."),
        ("--target-history 2 --delay 500", "they need at least 506 samples in a row. Got 400."),
        ("--memory 100 --trial-column trial", "they need at least 102 samples in a row. Got 100."),
        ("--delay -1", "delay must be a whole number of at least 0. Got -1 instead."),
        ("--target-history 0", "target_history must be a whole number of at least 1. Got 0 instead."),
        ("--source-history 0", "source_history must be a whole number of at least 1. Got 0 instead."),
        ("--source-history -3", "source_history must be a whole number of at least 1. Got -3 instead."),
        ("--memory 0", "memory must be a whole number of at least 1. Got 0 instead."),
        ("-c z --condition-history 0", "condition_history must be a whole number of at least 1."),
        ("--condition-history 2", "condition_history=2 was given without a condition."),
        ("--memory 3 --target-history 3", "memory=3 already sets target_history, source_history and delay."),
        ("--memory 3 --source-history 4", "Got source_history as well: give either memory or these."),
        ("--memory 3 --delay 0", "Got delay as well: give either memory or these."),
        ("--memory 1.5", "Invalid value for '--memory': "),
        ("--delay soon", "Invalid value for '--delay': "),
    ],
)
def test_a_past_that_cannot_be_seen_is_one_clear_line(estimate, past, words):
    assert words in refused(estimate(past=past.split()))


def test_a_recording_that_fits_the_lags_but_not_the_training_says_what_is_needed(estimate):
    assert re.search(r"[Aa]t least \d+ are needed", refused(estimate(past=("--memory", 390))))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--flavour 3", "No such option: --flavour"),
        ("--memry 3", "No such option: --memry"),
        ("surplus", "surplus"),
        ("--estimator crystal", "There is no estimator 'crystal'. Choose one of treet"),
        ("--estimator ksg --set neighbours=0", "neighbours must be a whole number of at least 1. Got 0"),
        ("--estimator ksg --set nearest=2", "nearest does not apply to the estimator 'ksg'"),
        ("--set memory=2", "--set does not take memory: there is an option of that name."),
        ("--set folds", "--set must be given as key=value. Got 'folds' instead."),
        ("--estimator gaussian --preset paper", "preset does not apply to the estimator 'gaussian'"),
        ("--preset best", "preset must be one of 'default', 'paper'. Got 'best' instead."),
        ("--unit bans", "unit must be one of 'nats', 'bits'. Got 'bans' instead."),
        ("--confidence 95", "confidence must be a finite number above 0 and below 1. Got 95.0 instead."),
        ("--confidence nan", "confidence must be a finite number above 0 and below 1"),
        ("--seed -1", "Invalid value for '--seed': "),
        ("--seed one", "Invalid value for '--seed': "),
        ("--device abacus", "device='abacus' cannot be used here"),
        ("--both --save model", "--save holds one direction: leave out --both."),
        ("--plot picture.bmp", "A picture must end in .png, .svg, .pdf. Got 'picture.bmp' instead."),
        ("--estimator plain --preset paper", "preset does not apply to the estimator 'plain'. It has: "),
        ("--estimator plain --device cpu", "device does not apply to the estimator 'plain'."),
        ("--estimator plain --save model", "--save does not apply to the estimator 'plain'"),
    ],
)
def test_an_option_that_makes_no_sense_is_one_clear_line(estimate, monkeypatch, tmp_path, words, message):
    monkeypatch.setitem(ESTIMATORS, "plain", Plain)
    monkeypatch.chdir(tmp_path)
    assert message in refused(estimate(*words.split()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "Missing argument 'DATA'"),
        ("data.csv --source x", "Missing option '--target'"),
        ("data.csv --target x", "Missing option '--source'"),
        ("data.csv --source", "--source"),
        ("data.csv -s x -t y --both yes", "yes"),
    ],
)
def test_an_unfinished_command_is_one_clear_line(run, words, message):
    assert message in refused(run("estimate", *words.split()))


def test_an_unknown_command_is_one_clear_line(run):
    assert "No such command 'divine'" in refused(run("divine"))
    assert "No such option: --loud" in refused(run("--loud"))


def test_a_missing_library_names_the_extra(estimate, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    message = refused(estimate(data="table.parquet"))
    assert "pip install 'transfer-entropy[parquet]'" in message


# Outputs that cannot be written.

HINT = "Choose another place."


def printed(ran):
    """The message after a value that was printed all the same."""
    assert ran.code == 2
    assert re.match(r"x -> y  TE = -?[\d.e-]+ nats", ran.out)
    return one_line(ran.err)


@contextmanager
def no_space():
    """No file may grow beyond a few bytes: as close to a full disk as a test gets without one."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize("option", OUTPUTS)
def test_a_missing_folder_for_an_output_still_prints_the_value(estimate, tmp_path, option):
    path = tmp_path / "nowhere" / OUTPUTS[option]
    assert printed(estimate(option, path)) == f"Cannot write {path}: No such file or directory. {HINT}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", OUTPUTS)
@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(30, "Read-only file")])
def test_no_permission_for_an_output_still_prints_the_value(estimate, tmp_path, monkeypatch, option, error):
    def forbidden(*arguments, **settings):
        raise error

    monkeypatch.setattr("tempfile.mkstemp", forbidden)
    path = tmp_path / OUTPUTS[option]
    assert printed(estimate(option, path)) == f"Cannot write {path}: {error.strerror}. {HINT}"


@pytest.mark.parametrize("option", OUTPUTS)
def test_no_space_for_an_output_still_prints_the_value_and_leaves_nothing(estimate, tmp_path, option):
    path = tmp_path / OUTPUTS[option]
    with no_space():
        ran = estimate(option, path)
    assert printed(ran) == f"Cannot write {path}: {os.strerror(27)}. {HINT}"
    assert list(tmp_path.iterdir()) == []


def test_no_space_keeps_the_json_whole(estimate, tmp_path):
    with no_space():
        ran = estimate("--json", "--html", tmp_path / "report.html")
    assert ran.code == 2
    assert json.loads(ran.out)["n_windows"] == N - 1


def test_one_output_that_fails_keeps_no_other_from_being_written(estimate, tmp_path):
    nowhere = tmp_path / "nowhere"
    saved, plotted, page = nowhere / "model", nowhere / "picture.png", tmp_path / "report.html"
    message = printed(estimate("--save", saved, "--plot", plotted, "--html", page))
    assert f"Cannot write {saved}: " in message
    assert f"Cannot write {plotted}: " in message
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    "words",
    ["--save {0}", "--html {0}", "--plot {1} --html {1}", "--save {1} --plot {1}"],
)
def test_no_output_takes_the_place_of_the_data_or_of_another(run, folder, tmp_path, words):
    data, link = tmp_path / "data.csv", tmp_path / "link.png"
    data.write_bytes((folder / "data.csv").read_bytes())
    link.symlink_to(data)
    outputs = words.format(link, tmp_path / "out.png").split()
    message = refused(run("estimate", data, "-s", "x", "-t", "y", "--memory", 1, *outputs))
    assert message.startswith("DATA, --save, --plot and --html must be different files. Got ")
    assert data.read_bytes() == (folder / "data.csv").read_bytes()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("words", [["--help"], ["--version"], ["estimators"], ["estimate", "{data}"]])
def test_standard_output_without_space_is_one_clear_line(capsys, folder, monkeypatch, words):
    words = [word.format(data=folder / "data.csv") for word in words]
    words += ["-s", "x", "-t", "y", "--memory", "1"] if words[0] == "estimate" else []
    with Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(words) == 2
    message = one_line(capsys.readouterr().err)
    assert message == "Cannot write to standard output: No space left on device."


# Ctrl-C.


def test_an_interrupted_training_leaves_nothing(estimate, tmp_path, monkeypatch):
    def interrupted(*arguments, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("treet.parallel.wait", interrupted)
    before = threading.active_count()
    outputs = [word for option, name in OUTPUTS.items() for word in (option, tmp_path / name)]
    assert estimate("--json", *outputs) == (130, "", "treet: interrupted\n")
    assert list(tmp_path.iterdir()) == []
    assert threading.active_count() == before


def test_an_interruption_while_writing_leaves_no_partial_file(estimate, tmp_path, monkeypatch):
    def interrupted(path, content):
        with path.open("wb") as file:
            file.write(content[:10])
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.write_bytes", interrupted)
    ran = estimate("--html", tmp_path / "report.html")
    assert ran.code == 130
    assert ran.out.startswith("x -> y  TE = ")
    assert ran.err.endswith("treet: interrupted\n")
    assert list(tmp_path.iterdir()) == []


def interrupted_at(mark, words):
    """A command with a terminal as its standard error, which gets a Ctrl-C when ``mark`` is seen there."""
    terminal, end = pty.openpty()
    code = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {COMMAND[2]}"
    settings = {"stdout": subprocess.PIPE, "stderr": end, "env": {**os.environ, "TERM": "xterm"}}
    with subprocess.Popen([sys.executable, "-c", code, *words], **settings) as running:
        os.close(end)
        watchdog = threading.Timer(120, running.kill)
        watchdog.start()
        seen, told = b"", False
        with suppress(OSError):  # the end of a terminal is an error on Linux
            while part := os.read(terminal, 1024):
                seen += part
                if mark in seen and not told:
                    running.send_signal(signal.SIGINT)
                    told = True
        out, _ = running.communicate()
        watchdog.cancel()
        os.close(terminal)
    return running.returncode, out, seen


def test_a_real_ctrl_c_in_training_leaves_nothing(tmp_path):
    """The bar on a terminal shows when training has begun."""
    data = tmp_path / "data.npy"
    assert main(["simulate", "threshold", "-o", str(data), "--samples", "20000"]) == 0
    outputs = [word for option, name in OUTPUTS.items() for word in (option, str(tmp_path / name))]
    words = ["estimate", str(data), "-s", "0", "-t", "1", "--memory", "20", *outputs]
    code, out, err = interrupted_at(b"%", words)
    assert code == 130
    assert out == b""
    assert b"0 -> 1" in err
    assert err.endswith(b"treet: interrupted\r\n")
    assert b"Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["data.npy"]


# Help, and the other commands.


def cli_commands():
    group = typer.main.get_command(cli.app)
    return group.list_commands(None)


def test_the_commands_are_these():
    assert cli_commands() == [
        "demo",
        "estimate",
        "scan",
        "estimators",
        "density",
        "capacity",
        "channels",
        "simulate",
        "datasets",
        "reproduce",
    ]


@pytest.mark.parametrize(
    "name", ["", "estimate", "scan", "simulate", "demo", "estimators", "datasets", "datasets fetch"]
)
def test_help_fits_a_terminal_and_goes_to_standard_output(run, name):
    ran = run(*name.split(), "--help")
    assert (ran.code, ran.err) == (0, "")
    assert run(*name.split(), "-h") == ran
    assert f"Usage: treet {name}".strip() in ran.out
    assert max(map(len, ran.out.splitlines())) <= 80


def test_help_comes_at_once(tmp_path):
    """In a new process nothing heavy is imported for the help of any command, nor for a mistake."""
    code = """
import sys
from treet.cli import main
for words in ("", "--help", "--version", "estimate --help", "simulate --help", "demo --help", "scan --help"):
    assert main(words.split()) == 0
assert main(["estimate", "--flavour"]) == 2
heavy = {"torch", "numpy", "pandas", "scipy", "sklearn", "matplotlib"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.splitlines()[1:]) == (0, []), done.stderr


def test_no_command_is_the_help(run):
    assert run() == run("--help")
    for name in cli_commands():
        assert f" {name} " in run().out


def test_the_help_of_estimate_lists_every_option(run):
    page = run("estimate", "--help").out
    described = re.findall(r"(?<![\w-])--?[a-z-]+", page.partition("Examples")[0].partition("Arguments")[2])
    assert sorted(set(described)) == sorted((*SERIES, *PAST, *METHOD, *PRINTED, *OUTPUTS))
    assert "DATA" in page


def test_the_help_of_simulate_lists_every_process_and_its_parameters(run):
    page = run("simulate", "--help").out.partition("Processes")[2].partition("Examples")[0]
    listed = dict(re.findall(r"^   ([a-z-]+) .*\n +(.*?) *$", page, re.MULTILINE))
    assert {name: words.split(", ") for name, words in listed.items()} == {
        name: list(signature(process).parameters) for name, process in PROCESSES.items()
    }


def examples():
    texts = (EPILOG, ESTIMATE_EPILOG, SIMULATE_EPILOG, SCAN_EPILOG)
    return sorted({line.strip() for text in texts for line in text.splitlines() if "  treet " in line})


@pytest.mark.parametrize("example", examples())
def test_every_example_is_a_valid_command_on_one_line_of_the_help(run, example):
    page = "".join(
        run(*words).out
        for words in (["--help"], *([name, "--help"] for name in ("estimate", "scan", "simulate")))
    )
    assert example in page.replace("\\[", "[")
    _, name, *words = shlex.split(example.partition(" > ")[0])
    with typer.main.get_command(cli.app).commands[name].make_context(name, words) as context:
        assert context.params.get("estimator", "treet") in ESTIMATORS
        assert context.params.get("name", "threshold") in PROCESSES


def test_the_version(run):
    assert run("--version") == (0, f"treet {treet_version()}\n", "")


def test_the_list_of_estimators(run):
    ran = run("estimators")
    assert (ran.code, ran.err) == (0, "")
    for name, kind in ESTIMATORS.items():
        assert f" {name} " in ran.out
        assert kind.summary.split()[0] in ran.out


@pytest.mark.parametrize("ending", WRITERS)
def test_a_simulation_is_read_back(run, tmp_path, ending):
    path = tmp_path / f"data{ending}"
    ran = run("simulate", "threshold", "-o", path, "--samples", 50, "--seed", 3, "--set", "rho=0.5")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        f"{path}: 50 samples of x, y",
        "x -> y  exact TE = 0.07192 nats  (target lags 1..5, source lags 1..5)",
    ]
    expected = simulate("threshold", 50, random_state=3, rho=0.5)
    got = read_recording(path)
    assert got.names == (("0", "1") if ending == ".npy" else ("x", "y"))
    np.testing.assert_array_equal(got.trials[0], expected.trials[0])


@pytest.mark.parametrize("ending", WRITERS)
def test_simulated_trials_are_read_back(run, tmp_path, ending):
    path = tmp_path / f"data{ending}"
    assert run("simulate", "linear", "-o", path, "--samples", 20, "--trials", 3).code == 0
    trial_column = "trial" if ending in (".csv", ".tsv", ".parquet") else None
    got = read_table(path).recording(trial_column=trial_column)
    expected = simulate("linear", 20, random_state=0, n_trials=3)
    for trial, other in zip(got.trials, expected.trials, strict=True):
        np.testing.assert_array_equal(trial, other)


@pytest.mark.parametrize("name", PROCESSES)
def test_every_process_is_simulated_with_its_exact_value(run, tmp_path, name):
    ran = run("simulate", name, "-o", tmp_path / "data.csv", "--samples", 30)
    assert ran.code == 0
    assert re.search(r" -> .*  exact TE = [\d.e-]+ nats  \(target lags 1\.\.5, source lags 1\.\.5\)", ran.out)
    assert read_recording(tmp_path / "data.csv").n_samples == 30


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("chaos -o a.csv", "There is no process 'chaos'. Choose one of threshold, linear"),
        ("threshold", "Missing option '--output'"),
        ("threshold -o a.xlsx", "A data file to write must end in .csv, .tsv, .parquet, .npy, .npz."),
        ("threshold -o none/a.csv", "Cannot write none/a.csv: No such file or directory."),
        ("threshold -o a.csv --samples 0", "n_samples must be a whole number of at least 1. Got 0 instead."),
        ("threshold -o a.csv --trials -1", "n_trials must be a whole number of at least 1. Got -1 instead."),
        ("threshold -o a.csv --seed -1", "Invalid value for '--seed': "),
        ("threshold -o a.csv --set rho", "--set must be given as key=value. Got 'rho' instead."),
        ("threshold -o a.csv --set =3", "--set must be given as key=value. Got '=3' instead."),
        ("threshold -o a.csv --set flavour=3", "Process 'threshold' has no parameter flavour. Known: rho"),
        ("threshold -o a.csv --set rho=high", "rho must be a finite number above -1 and below 1. Got 'high'"),
        ("var -o a.csv --set coefficients=[[2,0],[0,0]]", "The process is not stable"),
        ("threshold -o a.csv --samples 1000000000000000", "There is not enough memory. Unable to allocate"),
    ],
)
def test_a_simulation_that_cannot_be_is_one_clear_line(run, monkeypatch, tmp_path, words, message):
    monkeypatch.chdir(tmp_path)
    assert message in refused(run("simulate", *words.split()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("ending", WRITERS)
def test_no_space_for_a_simulation_is_one_clear_line(run, tmp_path, ending):
    path = tmp_path / f"data{ending}"
    with no_space():
        ran = run("simulate", "threshold", "-o", path, "--samples", 10_000)
    assert refused(ran).startswith(f"Cannot write {path}: ")
    assert list(tmp_path.iterdir()) == []


def test_the_demonstration(run, monkeypatch, tmp_path):
    monkeypatch.setattr(treet.demo, "N_SAMPLES", N)
    folder = tmp_path / "demo"
    ran = run("demo", "--output", folder)
    assert ran.code == 0
    assert settled(ran.err)
    lines = ran.out.splitlines()
    assert lines[-1] == str(folder / "report.html")
    for name in ("series.csv", "picture.png", "report.html"):
        assert (folder / name).stat().st_size > 1000
        assert any(line.endswith(str(folder / name)) for line in lines)
    rows = {line.split("│")[1].strip(): line for line in lines if line.startswith("│")}
    assert list(rows) == ["x -> y", "y -> x"]
    assert "0.4152" in rows["x -> y"]
    assert "0.0000" in rows["y -> x"]


def test_a_demonstration_that_cannot_be_written_is_one_clear_line(run, tmp_path):
    (tmp_path / "taken").touch()
    message = refused(run("demo", "-o", tmp_path / "taken"))
    assert message.startswith(f"Cannot make the folder {tmp_path / 'taken'}: File exists.")
