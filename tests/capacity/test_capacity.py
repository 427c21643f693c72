"""The optimisation of the input, from the call and from the command line."""

import json
import math
import warnings

import numpy as np
import pytest

import treet.capacity.api
from treet.capacity.api import channel_capacity
from treet.capacity.discrete_channels import Optical, Trapdoor
from treet.capacity.gaussian_channels import AWGN, AutoRegressive, MovingAverage
from treet.capacity.optimise import Schedule
from treet.capacity.policy import PolicySchedule
from treet.cli import main
from treet.errors import TreetError

QUICK = Schedule(windows=500, most_samples=2, rounds=3, most_rounds=3, batch=8, span=10, final_steps=3)
KEYS = (
    *("channel", "feedback", "capacity", "std_error", "interval", "exact", "ceiling", "unit"),
    *("memory", "power", "snr_db", "converged", "seconds", "seed"),
)


def quick(channel=None, **parameters):
    """A training of three rounds: too short for a good value, but it does all that a long one does."""
    given = {"memory": 2, "schedule": QUICK, "samples": 1000} | parameters
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return channel_capacity(channel or AWGN(), **given)


def test_a_result_has_all_it_promises():
    result = quick(power=2.0)
    found = result.to_dict()
    assert set(KEYS) <= set(found)
    assert json.loads(result.to_json()) == found
    assert found["exact"] == pytest.approx(math.log(3) / 2)
    assert found["snr_db"] == pytest.approx(10 * math.log10(2))
    assert result.attention.shape == (1, 4, 3)
    assert result.attention.sum(-1) == pytest.approx(1, abs=1e-5)
    assert result.influence.shape == (3,)
    assert found["peak_lag"] in (1, 2)
    assert result.interval[0] < result.value < result.interval[1]
    assert "AWGN" in str(result)
    assert len(result.plot().lines) >= 4


def test_the_seed_decides():
    first, again, other = (quick(random_state=seed).value for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_bits_are_nats_over_log_two():
    nats, bits = quick(), quick(unit="bits")
    for name in ("value", "std_error", "exact", "gaussian"):
        assert getattr(bits, name) * math.log(2) == pytest.approx(getattr(nats, name))


def test_samples_keep_the_power_and_come_from_the_channel():
    x, y = quick(power=0.5).generator.sample(3000, random_state=3)
    assert x.shape == y.shape == (3000, 1)
    assert np.mean(x**2) == pytest.approx(0.5, rel=0.25)
    assert np.var(y - x) == pytest.approx(1.0, rel=0.1)


def test_the_noise_that_inputs_are_made_of():
    generator = quick().generator
    noise, x = generator.noise_and_inputs(500)
    assert noise.shape == x.shape == (500, 1)
    assert np.abs(noise).max() < 1
    assert np.array_equal(x, generator.sample(500)[0])


def test_a_peak_is_kept_and_enters_the_exact_value():
    result = quick(peak=1.0)
    assert result.exact == pytest.approx(0.33683, abs=1e-4)
    assert np.abs(result.generator.sample(500)[0]).max() <= 1.0
    unknown = quick(MovingAverage(), peak=1.0)
    assert unknown.exact is None
    assert unknown.ceiling is None


@pytest.mark.parametrize("generator", ["lstm", "iid"])
def test_other_generators_run(generator):
    assert math.isfinite(quick(generator=generator).value)


def test_the_lstm_critics_of_dine_run():
    result = quick(critic="dine", peak=1.0)
    assert math.isfinite(result.value)
    assert result.attention is None
    assert result.settings["critic"] == "dine"


def test_symbols_run():
    result = quick(
        Trapdoor(), memory=None, feedback=True, schedule=PolicySchedule(rounds=2, most_rounds=2, batch=8)
    )
    assert result.exact == pytest.approx(0.481212, abs=1e-6)
    assert set(np.unique(result.generator.sample(50)[0])) <= {0.0, 1.0}


@pytest.mark.parametrize(
    ("channel", "parameters", "message"),
    [
        ("awgn", {}, "channel must be a"),
        (AWGN(), {"memory": 0}, "memory must be"),
        (AWGN(), {"power": -1.0}, "power must be"),
        (AWGN(), {"peak": 0.0}, "peak must be"),
        (AWGN(), {"critic": "judge"}, "critic must be one of"),
        (AWGN(), {"generator": "gan"}, "generator must be one of"),
        (AWGN(), {"generator": "iid", "feedback": True}, "does not see feedback"),
        (AWGN(), {"schedule": PolicySchedule()}, "schedule must be a Schedule"),
        (Optical(), {}, "no gradient in its input"),
        (Trapdoor(), {"memory": None, "schedule": None}, "feedback alone"),
        (Trapdoor(), {"feedback": True, "power": 1.0}, "memory, power do not apply"),
    ],
)
def test_what_makes_no_sense_is_refused(channel, parameters, message):
    with pytest.raises(TreetError, match=message):
        quick(channel, **parameters)


@pytest.fixture
def quick_command(monkeypatch):
    monkeypatch.setattr(
        treet.capacity.api,
        "channel_capacity",
        lambda *values, **named: channel_capacity(*values, **named, schedule=QUICK, samples=1000),
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_command_prints_one_object_and_draws(quick_command, capsys, tmp_path):
    plot = tmp_path / "course.svg"
    words = "capacity gma --delay-steps 2 --alpha 0.3 --snr-db 3 --memory 2 --json --seed 4 --plot"
    assert main([*words.split(), str(plot)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(KEYS) <= set(found)
    assert found["channel"] == "DelayedTap(coefficient=0.3, delay=2, variance=1.0)"
    assert found["power"] == pytest.approx(10**0.3)
    assert found["seed"] == 4
    assert plot.stat().st_size > 1000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("awgn --alpha 0.5", "--alpha does not apply"),
        ("ma --dim 2", "no parameter dimension"),
        ("awgn --snr-db 0 --power 1", "give one of them"),
        ("trapdoor --snr-db 0", "needs a noise variance"),
        ("nowhere", "no channel 'nowhere'"),
        ("missing.py:Mine", "no file"),
    ],
)
def test_the_command_refuses_in_one_line(words, message, capsys):
    assert main(["capacity", *words.split()]) != 0
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("channel", [AWGN(), AWGN(dimension=4), MovingAverage(), AutoRegressive()])
@pytest.mark.parametrize("snr_db", [-20, 0, 15])
def test_gaussian_capacities(channel, feedback, snr_db):
    result = channel_capacity(channel, feedback=feedback, power=10 ** (snr_db / 10))
    assert abs(result.value - result.exact) < max(0.01 * result.exact, 0.001)
    assert result.value < result.exact + 3 * result.std_error
