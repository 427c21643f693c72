"""The density experiments: their cases, what is measured of a fit, and how it is put together and shown."""

import doctest
import math

import numpy as np
import pandas as pd
import pytest

import treet.reproduce.density as experiment
import treet.reproduce.density_report as report
from treet.cli import main
from treet.processes.hidden_markov import HiddenMarkov
from treet.reproduce.density import (
    DELAYS,
    FITS,
    MODELS,
    DensityBenchmark,
    cases,
    density_benchmark,
    measure,
    paper_figures,
    process_of,
)


def one(label, model, place=0, samples=2000):
    found = [case for case in cases(label, quick=True) if case["model"] == model]
    return {**found[place], "samples": samples}


def row(model="treet", trial=0, excess_kl=0.002, **changes):
    case = {"noise": "gaussian", "delay": 0, "memory": 3, "model": model, "trial": trial}
    measured = {"kl": 0.2189 + excess_kl, "tv": 0.24, "optimum_kl": 0.2189, "optimum_tv": 0.2341}
    measured |= {"excess_kl": excess_kl, "excess_kl_std_error": 0.001, "excess_tv": 0.006}
    measured |= {"seconds": 4.0, "pit_p": 0.3, "pit_spacing": 1, "covered_90": 0.9, "converged": True}
    curves = {"y": [-1.0, 0.0, 1.0], "exact": [[0.1, 0.3, 0.1]] * 3, "model": [[0.1, 0.2, 0.1]] * 3}
    return {**case, **measured, "curves": None if trial else curves, **changes}


@pytest.fixture
def few(monkeypatch):
    """Two models that take no time, on few samples."""
    monkeypatch.setattr(experiment, "MODELS", ("linear", "kalman"))
    monkeypatch.setattr(experiment, "QUICK_SAMPLES", 600)


def test_the_doctests():
    assert doctest.testmod(experiment).failed == 0


def test_the_cases_are_those_of_the_paper():
    assert set(FITS) == set(MODELS)
    found = cases("density")
    for noise in ("gaussian", "uniform"):
        chosen = [case for case in found if case["noise"] == noise and case["model"] == "treet"]
        assert [case["trial"] for case in chosen] == list(range(10))
        assert {(case["memory"], case["samples"]) for case in chosen} == {(3, 100_000)}
    delays = [case for case in cases("density-delay") if case["model"] == "treet" and case["trial"] == 0]
    assert [(case["delay"], case["memory"]) for case in delays] == [(k, k + 5) for k in DELAYS]
    quick = cases("density-delay", quick=True)
    assert {case["delay"] for case in quick} == {2, 10}
    assert {case["model"] for case in quick} == set(MODELS) - {"dine"}
    assert {(case["trial"], case["samples"]) for case in cases("density", quick=True)} == {(0, 10_000)}


def test_the_processes_are_those_of_the_paper():
    assert process_of({"noise": "uniform", "delay": 0}) == HiddenMarkov(noise="uniform")
    delayed = process_of({"noise": "gaussian", "delay": 5})
    assert (delayed.decay, delayed.delayed, delayed.state_delay, delayed.gain) == (0.001, 0.9, 5, 0.9)
    assert process_of({"noise": "gaussian", "delay": 0}).variances == (0.5, 0.5)


def test_a_linear_model_is_optimal_where_all_is_gaussian():
    found = measure(one("density", "linear"))
    assert found["optimum_kl"] == pytest.approx(0.21894, abs=1e-5)
    assert found["optimum_tv"] == pytest.approx(0.23414, abs=1e-5)
    assert found["kl"] == pytest.approx(found["optimum_kl"] + found["excess_kl"], abs=1e-12)
    assert -0.001 < found["excess_kl"] < 0.01
    assert found["excess_tv"] == pytest.approx(0, abs=0.005)
    assert found["covered_90"] == pytest.approx(0.9, abs=0.03)
    assert np.shape(found["curves"]["model"]) == np.shape(found["curves"]["exact"]) == (3, 81)
    np.testing.assert_allclose(found["curves"]["model"], found["curves"]["exact"], atol=0.03)


@pytest.mark.parametrize("label", ["density", "density-delay"])
def test_the_kalman_filter_cannot_lose_where_all_is_gaussian(label):
    case = one(label, "kalman")
    found = measure(case)
    assert found["excess_kl"] == pytest.approx(0, abs=1e-8)
    assert found["kl"] == pytest.approx(process_of(case).exact_kl(), abs=1e-8)


def test_the_kalman_filter_loses_where_the_noise_is_uniform():
    found = measure(one("density", "kalman", place=1, samples=1000))
    assert 0.005 < found["excess_kl"] < 0.05
    assert found["excess_kl_std_error"] < 0.01


def test_a_seed_gives_the_same_data_to_all_models():
    first, again = (measure(one("density", "linear")) for _ in range(2))
    assert {**first, "seconds": 0} == {**again, "seconds": 0}
    assert first["curves"]["exact"] == measure(one("density", "kalman"))["curves"]["exact"]


def test_the_papers_figures_are_where_they_belong():
    assert paper_figures("gaussian", 0, "kalman") == (1.076, 0.467)
    assert paper_figures("uniform", 0, "kernel") == (0.847, 0.417)
    assert paper_figures("gaussian", 2, "treet") == (0.933, 0.569)
    assert paper_figures("gaussian", 50, "mdn") == (1.453, 0.707)
    assert paper_figures("gaussian", 2, "kernel") is None
    assert paper_figures("gaussian", 0, "flow") is None
    assert paper_figures("gaussian", 3, "treet") is None


def test_trials_are_put_together():
    rows = tuple(row(trial=number, excess_kl=value) for number, value in enumerate((0.001, 0.003)))
    alone = row("kalman", excess_kl=0.006, pit_p=0.001)
    both, single = DensityBenchmark("density", (*rows, alone)).summaries()
    assert (both.model, both.trials, both.uncalibrated, both.within) == ("treet", 2, 0, True)
    assert both.excess_kl == pytest.approx(0.002)
    # Student's quantile for one degree of freedom; the standard error of two values is half their difference.
    assert both.interval == pytest.approx((0.002 - 12.7062 * 0.001, 0.002 + 12.7062 * 0.001), abs=1e-7)
    assert (single.trials, single.uncalibrated, single.within) == (1, 1, False)
    assert single.interval == pytest.approx((0.006 - 1.95996e-3, 0.006 + 1.95996e-3), abs=1e-7)
    assert both.published == (0.797, 0.524)
    assert (both.setting, math.isfinite(both.pit_p)) == ("gaussian noise", True)


def test_the_page_has_the_optimum_first_and_says_why_the_paper_differs():
    text = report.density_markdown(DensityBenchmark("density", (row(), row("kalman", excess_kl=0.006))))
    assert "## Gaussian noise, memory 3" in text
    assert text.index("| optimum |") < text.index("| treet |") < text.index("| kalman |")
    assert "**0.00200** (0.00004 .. 0.00396)" in text
    assert "| 0.00600 (" in text
    assert "0.797, 0.524" in text
    assert "quarter of the noise variance" in " ".join(text.split())


def test_the_picture_shows_contexts_and_every_model():
    rows = (row(), row("linear"), row(delay=2), row(delay=10), row(trial=1, delay=10))
    figure = report.density_picture(DensityBenchmark("density-delay", rows))
    above, below = figure.subfigs
    assert [ax.get_title(loc="left") for ax in above.axes][::3] == [
        "gaussian noise, context 1",
        "delay 10, context 1",
    ]
    (ax,) = below.axes
    assert [label.get_text() for label in ax.get_xticklabels()] == ["gaussian noise", "delay 2", "delay 10"]


def test_the_command_and_its_parts(few, tmp_path, capsys, monkeypatch):
    words = ["reproduce", "density-delay", "--quick", "-o", str(tmp_path)]
    for number in (1, 2):
        assert main([*words, "--part", f"{number}/2"]) == 0
    assert capsys.readouterr().out.startswith(f"2 results in {tmp_path / 'results-1-of-2.sqlite'}")
    monkeypatch.setattr(experiment, "measure", None)
    assert main(words) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("delay 2, linear: ")
    assert printed[-3:] == [str(tmp_path / f"density-delay{end}") for end in (".csv", ".md", ".png")]
    frame = pd.read_csv(tmp_path / "density-delay.csv")
    assert len(frame) == 4 and "curves" not in frame
    assert (tmp_path / "density-delay.png").read_bytes().startswith(b"\x89PNG")


def test_both_noises(few, monkeypatch):
    monkeypatch.setattr(experiment, "QUICK_SAMPLES", 400)
    found = density_benchmark("density", quick=True)
    assert [one.setting for one in found.summaries()][::2] == ["gaussian noise", "uniform noise"]


@pytest.mark.slow
def test_the_critic_of_y_is_near_the_optimum():
    found = measure(next(case for case in cases("density", quick=True) if case["model"] == "treet"))
    assert found["excess_kl"] < 0.005
    assert found["pit_p"] > 0.01
