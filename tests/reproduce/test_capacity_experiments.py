"""Capacities and the memory of a delayed tap: cases, what is measured of them, verdicts, files."""

import doctest
import warnings

import pandas as pd
import pytest

import treet.reproduce.capacity as experiment
import treet.reproduce.memory as by_memory
from treet.capacity.api import channel_capacity
from treet.capacity.optimise import Schedule
from treet.capacity.policy import PolicySchedule
from treet.cli import main
from treet.reproduce.capacity import Capacities, cases, gaussian_point, measure, published_capacity
from treet.reproduce.capacity_tables import capacity_markdown, memory_markdown
from treet.reproduce.memory import ByMemory, judged, published_value

QUICK = Schedule(windows=500, most_samples=1, rounds=2, most_rounds=2, batch=8, span=10, final_steps=2)
SYMBOLS = PolicySchedule(rounds=2, most_rounds=2, batch=8)


@pytest.fixture
def quick(monkeypatch):
    """Trainings too short for good values, at small memories."""

    def short(channel, memory=None, *given, **named):
        schedule = SYMBOLS if channel.input_symbols else QUICK
        memory = None if channel.input_symbols else min(memory, 3)
        return channel_capacity(channel, memory, *given, schedule=schedule, samples=1000, **named)

    monkeypatch.setattr(experiment, "channel_capacity", short)
    monkeypatch.setattr(experiment, "CURVES", (("awgn", False), ("ma", True)))


def row(value=0.402, seed=0, **changes):
    measured = {
        "std_error": 0.0005,
        "exact": 0.405465,
        "ceiling": 0.405465,
        "seconds": 9.0,
        "converged": True,
    }
    return {
        **gaussian_point("ma", 1, False, 0),
        "seed": seed,
        "value": value,
        **measured,
        "warnings": [],
        **changes,
    }


@pytest.mark.parametrize("module", [experiment, by_memory])
def test_the_doctests(module):
    assert doctest.testmod(module).failed == 0


def test_the_points_are_those_of_the_paper():
    chosen = cases()
    gaussian = [case for case in chosen if case["experiment"] == "gaussian"]
    assert len(gaussian) == 3 * 45  # one component at 0 dB is on both the curve and the row of dimensions
    assert {case["seed"] for case in chosen} == {0, 1, 2}
    assert {case["memory"] for case in gaussian} == {30}
    assert {case["channel"] for case in chosen} == {"awgn", "ma", "ar", "optical", "trapdoor", "ising"}
    assert {case["seed"] for case in cases(quick=True, seed=7)} == {7}
    assert [case["memory"] for case in by_memory.cases()] == [*range(60, 150, 10), 200, 300]


def test_published_figures_are_where_they_belong():
    assert published_capacity(gaussian_point("ma", 1, True, -20)) == 0.05521
    assert published_capacity(gaussian_point("awgn", 6, False, 0)) == 1.8971
    assert published_capacity(gaussian_point("awgn", 6, False, 0), "dine") == 1.80359
    assert published_capacity(gaussian_point("ar", 1, True, 15), "treet, transformer generator") == 1.765
    assert published_capacity({"channel": "trapdoor"}) is None
    assert published_value("treet", 110) == 0.38
    assert published_value("dine", 140) == 0.26
    assert published_value("dine", 200) is None


@pytest.mark.parametrize(
    ("values", "within", "above"),
    [
        ((0.405, 0.403, 0.404), True, False),
        ((0.405, 0.400, 0.398), False, False),
        ((0.407, 0.407, 0.407), True, True),
    ],
)
def test_a_point_is_the_mean_of_its_seeds(values, within, above):
    rows = tuple(row(value, seed) for seed, value in enumerate(values))
    (point,) = Capacities(rows).points("gaussian")
    assert point["value"] == pytest.approx(sum(values) / 3)
    assert point["std_error"] == pytest.approx(0.0005 / 3**0.5)
    assert (point["within"], point["above"], point["seeds"]) == (within, above, 3)


def test_doubt_and_the_published_figures_are_in_the_table():
    text = capacity_markdown(
        Capacities((row(converged=False), row(experiment="peak"), row(experiment="discrete")))
    )
    assert "**0.40200**† ± 0.00050" in text
    assert "0.38375" in text
    assert "- gaussian: 1 of 1 points within the limit, 0 above the exact value; 9 s at the most." in text


def test_the_lag_and_the_ceiling_decide_on_a_memory():
    found = {**row(0.372), "memory": 100, "ceiling": 0.38107, "peak_lag": 99}
    assert judged(found)["within"] is False
    assert judged(found)["lag_found"] is False
    assert judged({**found, "memory": 90})["lag_found"] is None
    assert "0 of 1 memories within the limit; the lag found in 0 of 1." in memory_markdown(ByMemory((found,)))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_white_noise_keeps_the_map_of_its_generator(quick):
    found = measure({**gaussian_point("awgn", 1, False, 0), "seed": 1})
    assert found["exact"] == pytest.approx(0.346574, abs=1e-6)
    noise, x = found["map"]
    assert len(noise) == len(x) == experiment.MAP_SAMPLES
    assert 0 <= found["normal_p"] <= 1


def test_the_optical_channel_is_between_its_bounds():
    for peak in experiment.INTENSITIES:
        found = measure({"experiment": "optical", "channel": "optical", "peak": peak, "seed": 0})
        assert found["lower"] < found["value"] <= found["upper"]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_capacity_command(quick, tmp_path, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(["reproduce", "capacity", "--quick", "-o", str(tmp_path)]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].endswith("of 3 Gaussian points within their limit")
    names = ("capacity.csv", "capacity.md", "capacity.png", "capacity-map.png")
    assert printed[1:] == [str(tmp_path / name) for name in names]
    assert len(pd.read_csv(tmp_path / "capacity.csv")) == 3 + 1 + 4 + 2
    assert (tmp_path / "capacity.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_memory_command_in_parts(quick, tmp_path, capsys, monkeypatch):
    words = ["reproduce", "memory", "--quick", "-o", str(tmp_path)]
    for part in ("1/2", "2/2"):
        assert main([*words, "--part", part]) == 0
    assert capsys.readouterr().out.startswith(f"1 results in {tmp_path / 'results-1-of-2.sqlite'}")
    monkeypatch.setattr(by_memory, "measure", None)
    assert main(words) == 0
    printed = capsys.readouterr().out.splitlines()
    names = ("memory.csv", "memory.md", "memory.png", "memory-weights.png")
    assert printed[1:] == [str(tmp_path / name) for name in names]
    assert list(pd.read_csv(tmp_path / "memory.csv")["memory"]) == [90, 100]
