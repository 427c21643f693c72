"""Scans over lags: what is found, which windows are used, and what an interruption leaves."""

import doctest
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import treet.lag_scan
from treet.data import Recording
from treet.errors import TreetError
from treet.estimators.base import Estimate, TransferEntropyEstimator
from treet.lag_scan import scan
from treet.lags import Lags
from treet.plots import figure_of, svg_text
from treet.processes import DelayedLinear

CALLS = []


class Regression(TransferEntropyEstimator):
    """Least squares on all windows, Gaussian residuals; as slow as is asked for."""

    name, summary, assumes, cost, use_when = "regression", "", "", "", ""

    def __init__(
        self,
        memory=None,
        target_history=None,
        source_history=None,
        delay=None,
        condition_history=None,
        *,
        pause=0.0,
        unit="nats",
        confidence=0.95,
        random_state=None,
    ):
        self.memory, self.target_history, self.source_history = memory, target_history, source_history
        self.delay, self.condition_history, self.pause = delay, condition_history, pause
        self.unit, self.confidence, self.random_state = unit, confidence, random_state

    def _estimate(self, windows):
        CALLS.append((windows.lags, windows.present()))
        time.sleep(self.pause)
        known = [windows.flat_past(role) for role in ("target", "condition")]
        y, xy = (self._residual(windows, past) for past in (known, [*known, windows.flat_past("source")]))
        local = 0.5 * (y**2 / y.var() - xy**2 / xy.var() + np.log(y.var() / xy.var()))
        notes = ("short",) if len(windows) < 100 else ()
        return Estimate(float(local.mean()), local, notes=notes)

    @staticmethod
    def _residual(windows, past):
        known = np.hstack([np.ones((len(windows), 1)), *past])
        present = windows.present()[:, 0]
        return present - known @ np.linalg.lstsq(known, present, rcond=None)[0]


def pair(n=600, delay=4, seed=0, n_trials=1):
    process = DelayedLinear(delay=delay, source_decay=0.0)
    recording = process.sample(n, random_state=seed, n_trials=n_trials)
    return recording.select("x"), recording.select("y")


def without_seconds(result):
    return result.to_frame().drop(columns="seconds")


@pytest.mark.parametrize("delay", [1, 3, 7])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_scan_finds_the_delay(delay, seed):
    found = scan(
        *pair(delay=delay, seed=seed),
        delay=range(9),
        source_history=1,
        target_history=1,
        estimator=Regression(),
    )
    assert found.best.lags == Lags(1, 1, delay)
    exact = DelayedLinear(delay=delay, source_decay=0.0).transfer_entropy(found.best.lags)
    assert found.best.te == pytest.approx(exact, abs=4 * found.best.std_error)
    assert [cell.lags.delay for cell in found.cells] == list(range(9))
    assert all(abs(cell.te) < 0.02 for cell in found.cells if cell.lags.delay != delay)


def test_a_scan_is_a_grid_of_single_estimates():
    x, y = pair()
    found = scan(
        x,
        y,
        target_history=[1, 3],
        source_history=(2, 1),
        delay=2,
        estimator=Regression(),
        same_windows=False,
    )
    assert [cell.lags for cell in found.cells] == [Lags(1, 2, 2), Lags(1, 1, 2), Lags(3, 2, 2), Lags(3, 1, 2)]
    for cell in found.cells:
        lags = cell.lags
        alone = Regression(None, lags.target_history, lags.source_history, lags.delay).fit(x, y).result_
        assert (cell.te, cell.std_error, cell.interval) == (alone.te, alone.std_error, alone.interval)
        assert cell.n_windows == alone.n_windows
    assert not found.same_windows


def test_memory_is_an_axis_and_lags_that_are_the_same_are_computed_once():
    found = scan(*pair(), memory=[3, 1, 3], estimator=Regression())
    assert [cell.lags.memory for cell in found.cells] == [3, 1]


@pytest.mark.parametrize("gaps", [False, True])
def test_all_cells_see_the_same_present_values(gaps):
    x, y = pair(200, n_trials=3)
    if gaps:
        trials = [trial.copy() for trial in x.trials]
        trials[0][50], trials[2][90:95] = np.nan, np.nan
        x = Recording(tuple(trials), x.names)
    CALLS.clear()
    found = scan(x, y, delay=range(6), source_history=[1, 4], estimator=Regression())
    shown = [present for _, present in CALLS]
    assert len(shown) == 12
    for present in shown[1:]:
        np.testing.assert_array_equal(present, shown[0])
    longest = 8  # delay 5 and four values
    lost = 3 * longest + ((longest + 1) + (longest + 5) if gaps else 0)
    assert {cell.n_windows for cell in found.cells} == {600 - lost}
    with_all = scan(x, y, delay=range(6), source_history=1, estimator=Regression(), same_windows=False)
    assert with_all.cells[0].n_windows > found.cells[0].n_windows


def test_a_condition_is_part_of_every_cell():
    rng = np.random.default_rng(0)
    z = rng.normal(size=1001)
    x, y = z[1:] + 0.3 * rng.normal(size=1000), z[:-1] + 0.3 * rng.normal(size=1000)
    lags = {"delay": [1, 2], "source_history": 1}
    free = scan(x, y, estimator=Regression(), **lags)
    given = scan(x, y, z[1:], condition_history=[1, 2], estimator=Regression(), **lags)
    assert free.best.te > 0.3
    assert abs(given.best.te) < 0.02
    assert given.direction == "source -> target | condition"
    assert {cell.lags.condition_history for cell in given.cells} == {1, 2}


def test_stored_cells_are_not_computed_again_but_new_ones_are(tmp_path):
    x, y = pair()
    settings = {
        "estimator": Regression(random_state=0),
        "source_history": 1,
        "resume": tmp_path / "scan.sqlite",
    }
    whole = scan(x, y, delay=range(8), **settings)
    CALLS.clear()
    again = scan(x, y, delay=range(8), **settings)
    assert CALLS == []
    assert again == whole
    scan(x, y, delay=range(7), **settings)  # the windows in common are others
    assert len(CALLS) == 7
    scan(x, y, delay=range(8), confidence=0.9, **settings)
    assert len(CALLS) == 15
    scan(x, Recording((y.trials[0] + 1e-9,), y.names), delay=range(8), **settings)
    assert len(CALLS) == 23


SCRIPT = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_scan import Regression, pair
from treet.lag_scan import scan
print("ready", flush=True)
scan(*pair(), delay=range(8), source_history=[1, 2], estimator=Regression(pause=0.05, random_state=0),
     resume=sys.argv[1])
"""


@pytest.mark.slow
def test_a_killed_scan_continues_to_the_same_table(tmp_path):
    chance, path = random.Random(1), tmp_path / "scan.sqlite"
    for _ in range(3):
        command = [sys.executable, "-c", SCRIPT, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            time.sleep(chance.uniform(0.05, 0.5))
            process.send_signal(signal.SIGKILL)
    grid = {"delay": range(8), "source_history": [1, 2], "estimator": Regression(pause=0.05, random_state=0)}
    CALLS.clear()
    resumed = scan(*pair(), resume=path, **grid)
    assert len(CALLS) < 16
    undisturbed = scan(*pair(), **grid)
    assert without_seconds(resumed).equals(without_seconds(undisturbed))


def test_the_table_and_json():
    found = scan(*pair(120), delay=[1, 4], source_history=[1, 2], estimator=Regression(unit="bits"))
    table = found.to_frame()
    assert len(table) == 4
    assert table["te"].tolist() == [cell.te for cell in found.cells]
    assert table.loc[table["te"].idxmax(), "delay"] == found.best.lags.delay
    assert (table["low"] < table["te"]).all()
    values = json.loads(found.to_json())
    assert [cell["te"] for cell in values["cells"]] == table["te"].tolist()
    assert (values["unit"], values["source"], values["settings"]) == ("bits", ["x"], {"pause": 0.0})


def test_json_is_written_to_a_file(tmp_path):
    found = scan(*pair(120), delay=[1, 4], estimator=Regression())
    assert found.to_json(tmp_path / "scan.json") + "\n" == (tmp_path / "scan.json").read_text()


@pytest.mark.filterwarnings("ignore::treet.errors.UnreliableEstimateWarning")
def test_doubts_are_kept_with_their_cell(tmp_path):
    for _ in range(2):
        found = scan(
            *pair(104, n_trials=1),
            delay=[1, 9],
            source_history=1,
            estimator=Regression(),
            same_windows=False,
            resume=tmp_path / "scan.sqlite",
        )
        assert [cell.warnings for cell in found.cells] == [("short",), ("short",)]
        assert found.to_frame()["warnings"].tolist() == ["short", "short"]


def test_as_text():
    text = str(scan(*pair(), delay=range(6), source_history=1, estimator=Regression()))
    assert text.startswith("x -> y  largest TE = ")
    assert "95% interval" in text
    assert text.endswith("(target lags 1..5, source lag 4; 6 choices of lags; regression)")


def test_the_picture_shows_every_cell_with_its_interval_and_the_largest():
    found = scan(*pair(), delay=range(6), source_history=[1, 2], estimator=Regression())
    ax = found.plot()
    assert ax.get_xlabel() == "delay (time steps)"
    assert ax.get_ylabel() == "transfer entropy (nats)"
    assert ax.get_title(loc="left") == "x -> y"
    drawn = {line.get_label(): line for line in ax.lines}
    for history in (1, 2):
        cells = [cell for cell in found.cells if cell.lags.source_history == history]
        line = drawn[f"source history {history}"]
        assert line.get_xdata().tolist() == [cell.lags.delay for cell in cells]
        np.testing.assert_array_equal(line.get_ydata(), [cell.te for cell in cells])
    ends = [path.vertices[:, 1].tolist() for bars in ax.collections for path in bars.get_paths()]
    assert sorted(ends) == sorted(list(cell.interval) for cell in found.cells)
    (ring,) = (line for label, line in drawn.items() if label.startswith("largest"))
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (found.best.lags.delay, found.best.te)
    assert "largest" in svg_text(figure_of(ax))


def test_pictures_of_one_cell_of_many_lines_and_on_given_axes():
    one = scan(*pair(), delay=4, estimator=Regression())
    ax = one.plot()
    assert one.plot(ax) is ax
    many = scan(*pair(), delay=range(7), source_history=range(1, 7), estimator=Regression()).plot()
    lines = [line for line in many.lines if "source history" in line.get_label()]
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"delay": []}, "delay has no values to scan over"),
        ({"delay": [1, 1.5]}, "delay must be a whole number of at least 0. Got 1.5"),
        ({"delay": "12"}, "delay must be a whole number"),
        ({"target_history": [0]}, "target_history must be a whole number of at least 1. Got 0"),
        ({"memory": [1, 2], "delay": 1}, "memory=1 already sets"),
        ({"delay": [1, 700]}, "too short for these lags"),
        ({"condition_history": 2}, "without a condition"),
        ({"estimator": "tret"}, "There is no estimator 'tret'"),
        ({"estimator": Regression(delay=2)}, "must not set delay"),
        ({"estimator": Regression(), "epochs": 3}, "epochs does not apply to the estimator 'regression'"),
    ],
)
def test_nonsense_is_refused_before_the_work(settings, message):
    CALLS.clear()
    with pytest.raises(TreetError, match=message):
        scan(*pair(), **{"estimator": Regression()} | settings)
    assert CALLS == []


@pytest.mark.filterwarnings("ignore::treet.errors.UnreliableEstimateWarning")
def test_a_recording_without_a_complete_stretch_is_refused():
    x, y = (part.trials[0].copy() for part in pair(60))
    x[::9] = np.nan
    lags = {"source_history": 1, "target_history": 1, "estimator": Regression()}
    assert len(scan(x, y, delay=[1, 10], same_windows=False, **lags).cells) == 2
    with pytest.raises(TreetError, match="No stretch without a gap in any channel is long enough"):
        scan(x, y, delay=[1, 10], **lags)


def test_nothing_of_the_caller_s_is_changed():
    x, y = (part.trials[0].copy() for part in pair(200))
    before, estimator = (x.copy(), y.copy()), Regression()
    scan(x, y, delay=[1, 2], confidence=0.5, estimator=estimator)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(y, before[1])
    assert estimator.confidence == 0.95
    assert not hasattr(estimator, "te_")


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.lag_scan).failed == 0
