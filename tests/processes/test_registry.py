"""Processes by name."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from treet.errors import TreetError
from treet.lags import Lags
from treet.processes import PROCESSES, VAR, BivariateLinear, Process, Threshold, make_process, simulate


def test_every_process_has_one_name() -> None:
    defined = [kind for kind in _subclasses(Process) if not inspect.isabstract(kind)]
    defined = [kind for kind in defined if kind.__module__.startswith("treet.")]
    assert sorted(map(id, PROCESSES.values())) == sorted(map(id, defined))
    assert len(PROCESSES) == 6


def _subclasses(kind: type) -> list[type]:
    return [found for child in kind.__subclasses__() for found in (child, *_subclasses(child))]


@pytest.mark.parametrize("name", PROCESSES)
def test_every_name_makes_its_process_without_parameters(name: str) -> None:
    process = make_process(name)
    assert type(process) is PROCESSES[name]
    assert process == PROCESSES[name]()
    assert process.transfer_entropy(Lags(25, 25)) > 0.01


def test_parameters_reach_the_process() -> None:
    assert make_process("threshold", rho=0.5, copies=2) == Threshold(rho=0.5, copies=2)
    assert make_process("linear", c=0.1).transfer_entropy(Lags(1, 1)) == BivariateLinear(
        c=0.1
    ).transfer_entropy(Lags(1, 1))
    coefficients = [[0.4, 0.0], [0.5, 0.8]]
    assert make_process("var", coefficients=coefficients, channels=("x", "y")) == VAR(
        coefficients, channels=("x", "y")
    )


@pytest.mark.parametrize("name", PROCESSES)
def test_simulate_is_a_sample(name: str) -> None:
    recording = simulate(name, 40, random_state=3, n_trials=2)
    expected = make_process(name).sample(40, random_state=3, n_trials=2)
    assert recording.names == expected.names
    np.testing.assert_array_equal(recording.trials, expected.trials)


def test_simulate_passes_parameters_on() -> None:
    recording = simulate("threshold", 40, 3, copies=2, rho=0.5)
    np.testing.assert_array_equal(recording.trials, Threshold(0.5, copies=2).sample(40, 3).trials)


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        (
            "tresholds",
            {},
            "There is no process 'tresholds'. "
            "Choose one of threshold, linear, var, map, delayed, heavy-tailed.",
        ),
        (
            "map",
            {"rho": 1, "c": 2},
            "Process 'map' has no parameter rho, c. Known: gain, coupling, noise_std.",
        ),
        ("map", {"gain": 0}, "gain must be a finite number above 0"),
    ],
)
def test_names_and_parameters_that_do_not_exist(
    name: str, parameters: dict[str, float], message: str
) -> None:
    for call in (make_process, lambda name, **given: simulate(name, 10, **given)):
        with pytest.raises(TreetError) as caught:
            call(name, **parameters)
        assert str(caught.value).startswith(message)
        assert "\n" not in str(caught.value)
