"""The apnea study on made-up recordings: what is estimated, what is kept, what is written."""

import doctest

import numpy as np
import pandas as pd
import pytest

import treet.reproduce.apnea as experiment
from treet.cli import main
from treet.data import Recording
from treet.reproduce.apnea import breath_returns, cases, of_part, published, separated
from treet.reproduce.apnea_pages import apnea_markdown, history_picture

PAUSE = 120


def made_recording():
    """Breath with pauses that drives the heart; oxygen by itself."""
    rng, trials = np.random.default_rng(0), []
    for _ in range(2):
        time = np.arange(3700)
        breath = np.sin(time) * np.where(time % PAUSE < 40, 0.05, 1.0) + 0.02 * rng.normal(size=len(time))
        heart = np.zeros(len(time))
        for t in range(1, len(time)):
            heart[t] = 0.5 * heart[t - 1] + 0.8 * breath[t - 1] ** 2 + 0.3 * rng.normal()
        trials.append(np.stack([heart, breath, rng.normal(size=len(time))], 1))
    return Recording(tuple(trials), ("heart", "breath", "oxygen"), 2.0)


@pytest.fixture(autouse=True)
def recording(monkeypatch):
    made = made_recording()
    monkeypatch.setattr(experiment, "load_apnea", lambda: made)
    return made


@pytest.fixture(scope="module")
def rows():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "load_apnea", made_recording)
        return experiment.apnea(quick=True)


def test_the_docstrings():
    assert doctest.testmod(experiment).failed == 0


def test_the_cases():
    chosen = cases()
    history = of_part(chosen, "history")
    assert {case["target_history"] for case in history} == set(range(3, 16))
    assert len(history) == 3 * 13 * 2
    assert len(of_part(chosen, "schreiber")) == 4 * 2
    channels = of_part(chosen, "channels")
    assert len(channels) == 6 + 6
    assert all(case["condition"] not in (case["source"], case["target"]) for case in channels)
    assert {case["estimator"] for case in channels} == {"treet"}
    assert not any(case["estimator"] == "treet" for case in cases(quick=True))


def test_what_is_found(rows):
    """Breath drives the heart's level, and nothing flows back."""
    assert separated(rows, "ksg") == [3, 9, 15]
    by_pair = {
        (row["source"], row["target"]): row for row in of_part(rows, "channels") if row["condition"] is None
    }
    assert by_pair["breath", "heart"]["p_value"] < 0.05
    assert abs(by_pair["oxygen", "heart"]["te"]) < 0.05


def test_every_history_sees_the_same_windows(rows):
    assert len({row["n_windows"] for row in of_part(rows, "history")}) == 1


def test_breath_returns_after_every_pause(recording):
    events = np.array(breath_returns(recording.trials[0][:, 1]))
    assert len(events) == 31 - 1 + 1
    assert ((events % PAUSE >= 40) & (events % PAUSE < 40 + 2 * experiment.SMOOTHED)).all()


def test_local_values_around_events(rows):
    (there, back) = [row["around_events"] for row in rows if row["around_events"]]
    assert len(there["mean"]) == len(there["std_error"]) == 2 * experiment.AROUND + 1
    assert there["events"][0] == back["events"][0] > 50
    assert sum(row["around_events"] is not None for row in rows) == 2


def test_the_papers_points():
    points = published()
    assert points["breath -> heart"][0] == 0.04825
    assert points["heart -> breath"][5] == 0.005303
    assert len(points["target_history"]) == 13


def test_the_page_and_the_picture(rows):
    text = apnea_markdown(rows)
    assert "### ksg" in text
    assert "separated intervals: 3 of 3 histories" in text
    assert "| breath -> heart, given oxygen | ksg |" in text
    assert "Rigney" in text
    axes = history_picture(rows).axes
    assert [ax.get_title(loc="left") for ax in axes] == ["ksg", "gaussian"]
    assert axes[0].get_ylabel() == "transfer entropy (nats)"


def test_the_command(tmp_path, capsys, rows, monkeypatch):
    monkeypatch.setattr(experiment, "run", lambda *arguments: rows)
    assert main(["reproduce", "apnea", "--quick", "-o", str(tmp_path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert "intervals apart, at histories [3, 9, 15]" in printed[0]
    assert len(pd.read_csv(tmp_path / "apnea.csv")) == len(rows)
    for name in ("apnea.png", "apnea-events.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_without_the_recordings_the_error_says_how_to_get_them(tmp_path, capsys, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setenv("TREET_DATA", str(tmp_path / "none"))
    monkeypatch.setattr("pooch.retrieve", lambda *args, **kwargs: (_ for _ in ()).throw(OSError()))
    assert main(["reproduce", "apnea", "-o", str(tmp_path / "out")]) == 2
    assert "could not be downloaded" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
