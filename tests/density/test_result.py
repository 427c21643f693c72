"""The one-call form and its result: a table, a summary, pictures, and the command that shows them."""

import doctest
import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest

import treet
import treet.density.api
import treet.density.result
from treet.cli import main
from treet.density.api import conditional_density
from treet.density.plots import plot_one
from treet.errors import NotConvergedWarning, TreetError
from treet.estimators.registry import make
from treet.processes import simulate
from treet.writers import write_recording

N = 300
RECORDING = simulate("threshold", N, random_state=0, n_trials=1)
X, Y = (RECORDING.select(name) for name in "xy")
COLUMNS = [
    *("trial", "time", "value", "mean", "std", "q0.05", "q0.5", "q0.95"),
    *("log_score", "linear_log_score", "anomaly"),
]


def quiet(*series, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        settings = {"memory": 1, "folds": 2, "epochs": 10, "batch_size": 64, "random_state": 0}
        return conditional_density(*series, **settings | parameters)


@pytest.fixture(scope="module")
def own():
    return quiet(Y)


@pytest.fixture(scope="module")
def joint():
    return quiet(Y, X, quantiles=(0.1, 0.9))


@pytest.fixture
def command(monkeypatch, tmp_path, capsys):
    """A function that runs ``treet density`` on a file with a training of a few steps."""

    def quick(name, /, **parameters):
        return make(name, **{"folds": 2, "epochs": 10, "batch_size": 64} | parameters)

    monkeypatch.setattr("treet.density.api.make", quick)
    write_recording(RECORDING, tmp_path / "data.csv")

    def run(*words, target=("-t", "y"), output="out.csv", data="data.csv"):
        paths = [str(tmp_path / data), *target, "--memory", "1", "-o", str(tmp_path / output)]
        return main(["density", *paths, *map(str, words)]), *capsys.readouterr()

    return run


def test_the_doctests():
    assert doctest.testmod(treet.density.api).failed == 0
    assert doctest.testmod(treet.density.result).failed == 0


def test_the_table_has_a_row_for_each_time_step(own):
    frame = own.to_frame()
    assert list(frame.columns) == COLUMNS
    assert frame["time"].tolist() == list(range(N))
    assert frame.iloc[0, 2:].isna().all() and frame.iloc[1:].notna().all(axis=None)
    np.testing.assert_array_equal(frame["value"][1:], Y.trials[0][1:, 0])
    np.testing.assert_allclose(frame["log_score"][1:], own.density.logpdf())
    np.testing.assert_allclose(frame["anomaly"], -frame["log_score"])
    np.testing.assert_allclose(own.density.cdf(frame["q0.95"][1:].to_numpy()), 0.95)
    assert own.calibration.gain == pytest.approx((frame["log_score"] - frame["linear_log_score"]).mean())


def test_with_a_source_its_past_counts(own, joint):
    assert (own.source, joint.source, joint.target) == ((), ("x",), "y")
    assert joint.calibration.log_score > own.calibration.log_score + 0.1
    assert str(joint.lags) == "target lag 1, source lags 0..1"
    assert str(own.lags) == "target lag 1"


def test_one_time_step(own):
    frame = own.to_frame()
    assert own.row(7) == pytest.approx(frame.iloc[7].to_dict())
    assert own.at(7).positions.tolist() == [7]
    for time, trial, message in (
        (0, 0, r"Time step 0 has no density: its value or a part of its past is missing \(target lag 1\)"),
        (N, 0, f"time must be below {N}, the length of the trial. Got {N}"),
        (-1, 0, "time must be a whole number of at least 0"),
        (7, 1, r"trial must be below 1\. Got 1"),
    ):
        with pytest.raises(TreetError, match=message):
            own.at(time, trial)


def test_trials_and_gaps():
    values = Y.trials[0][:, 0].copy()
    values[50] = np.nan
    found = quiet([values[:100], values[100:]])
    frame = found.to_frame()
    assert frame["trial"].value_counts().to_dict() == {0: 100, 1: 200}
    assert np.flatnonzero(frame["mean"].isna()).tolist() == [0, 50, 51, 100]
    assert found.row(5, trial=1)["value"] == values[105]


def test_the_summary(own, joint, tmp_path):
    found = json.loads(own.to_json(tmp_path / "found.json"))
    assert json.loads((tmp_path / "found.json").read_text()) == found
    assert (found["target"], found["source"], found["source_history"], found["delay"]) == (
        "y",
        [],
        None,
        None,
    )
    assert (found["n_windows"], found["seed"], found["quantiles"]) == (N - 1, 0, [0.05, 0.5, 0.95])
    assert 0 <= found["pit_p_value"] <= 1 and 0 < found["pit_statistic"] < 1
    assert found["band"]["probability"] == pytest.approx(0.9)
    inside = (own.density.cdf() >= 0.05) & (own.density.cdf() <= 0.95)
    assert found["band"]["covered"] == pytest.approx(inside.mean())
    assert (joint.to_dict()["source_history"], joint.to_dict()["delay"]) == (2, 0)
    assert str(joint).startswith("y given the past of y, x  log score -")
    assert "in the 80% band" in str(joint) and "against a linear Gaussian" in str(joint)


def test_a_single_quantile_has_no_band():
    found = quiet(Y, quantiles=[0.5])
    assert found.band is None
    assert found.to_dict()["band"] is None
    assert "band" not in str(found)


def test_pictures(own):
    ax = own.plot(time=7)
    assert ax.get_title(loc="left") == "y given the past, at time step 7"
    curve, line = ax.get_lines()
    assert line.get_xdata()[0] == Y.trials[0][7, 0]
    np.testing.assert_allclose(
        np.asarray(curve.get_ydata()), own.at(7).pdf(np.asarray(curve.get_xdata())[:, None])[:, 0]
    )
    assert own.plot().get_title(loc="left") == "y given the past"
    assert plot_one(own.at(7), (0.5,), 7, ax) is ax


def test_it_is_public():
    assert treet.conditional_density is conditional_density
    assert treet.DensityResult is treet.density.result.DensityResult


@pytest.mark.parametrize(
    ("series", "parameters", "message"),
    [
        ((RECORDING,), {}, r"takes one target channel\. Got 2: choose one"),
        ((Y,), {"quantiles": []}, "quantiles must ascend and lie between 0 and 1"),
        ((Y,), {"quantiles": [0.5, 0.1]}, "quantiles must ascend"),
        ((Y,), {"quantiles": [0.5, 0.5]}, "quantiles must ascend"),
        ((Y,), {"quantiles": [0.5, 1.0]}, "quantiles must ascend"),
        ((Y,), {"magic": 1}, r"magic does not apply to the estimator 'treet'"),
        ((Y, X), {"preset": "paper"}, r"preset='paper' has no linear predictor of both pasts"),
        ((Y, Y), {}, "same"),
    ],
)
def test_what_is_not_accepted(series, parameters, message):
    with pytest.raises(TreetError, match=message):
        conditional_density(*series, **parameters)


def test_the_command_writes_the_table_and_a_line(command, tmp_path):
    code, out, _ = command("--plot", tmp_path / "fan.png", "--quantiles", ".1,.9")
    assert code == 0
    assert out.startswith("y given the past of y  log score ")
    frame = pd.read_csv(tmp_path / "out.csv")
    assert len(frame) == N and {"q0.1", "q0.9"} <= set(frame)
    assert (tmp_path / "fan.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_for_one_time_step_as_json(command, tmp_path):
    code, out, _ = command(
        "-s", "x", "--at", "0:7", "--json", "--plot", tmp_path / "one.svg", output="o.parquet"
    )
    assert code == 0
    found = json.loads(out)
    frame = pd.read_parquet(tmp_path / "o.parquet")
    assert found["at"] == pytest.approx(frame.iloc[7].to_dict())
    assert found["source"] == ["x"]
    assert (tmp_path / "one.svg").read_text().startswith("<?xml")
    code, out, _ = command("--at", 7)
    assert code == 0
    assert out.splitlines()[1].startswith("trial 0, time 7, value ")


@pytest.mark.parametrize(
    ("words", "changes", "message"),
    [
        (("--quantiles", "a"), {}, "--quantiles are numbers, such as"),
        (("--quantiles", "2"), {}, "quantiles must ascend and lie between 0 and 1"),
        (("--at", "1:2:3"), {}, r"--at is a time step, or TRIAL:TIME"),
        (("--at", "-3"), {}, r"--at is a time step, or TRIAL:TIME"),
        (("--plot", "fan.txt"), {}, "A picture must end in"),
        ((), {"output": "out.xlsx"}, r"A table to write must end in \.csv, \.tsv, \.parquet"),
        ((), {"output": "data.csv"}, "must be different files"),
        ((), {"target": ("-t", "q")}, "q"),
        ((), {"data": "none.csv"}, "none.csv"),
        (("--at", "0"), {}, "Time step 0 has no density"),
    ],
)
def test_what_the_command_refuses(command, tmp_path, words, changes, message):
    code, out, err = command(*words, **changes)
    assert code == 2 and out == ""
    assert re.search(message, err)
    assert {path.name for path in tmp_path.iterdir()} == {"data.csv"}
