"""The pages of a capacity and of densities: what they say first, what they doubt, how to repeat them."""

import dataclasses
import re
import warnings

import numpy as np
import pytest

import treet
from treet.capacity.result import CapacityResult, TrainedGenerator
from treet.errors import NotConvergedWarning
from treet.training import History

HOSTILE = "<script>alert(1)</script>"


def made_capacity(**changes):
    result = CapacityResult(
        channel="awgn",
        feedback=False,
        value=0.34,
        std_error=0.001,
        interval=(0.338, 0.342),
        exact=0.3466,
        ceiling=None,
        generator=TrainedGenerator(lambda n, seed: (np.zeros((n, 1)), np.zeros((n, 1)))),
        memory=3,
        power=1.0,
        snr_db=0.0,
        seconds=2.0,
        history=History("generator", (1, 2), (1.0, 1.0), (-0.3, -0.34), 2, True),
    )
    return dataclasses.replace(result, **changes)


def page_of(result, tmp_path, command=None):
    result.to_html(tmp_path / "page.html", command)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    return (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_capacity_is_answered_first_and_compared_with_the_exact_value(tmp_path):
    text = page_of(made_capacity(), tmp_path)
    assert "awgn without feedback carries <strong>0.34 nats</strong>, 95% interval 0.338 to 0.342." in text
    assert "The exact capacity is 0.3466 nats: the value is -1.90 % from it." in text
    assert "Nothing went wrong on the way." in text
    assert "treet.channel_capacity(channel, memory=3, feedback=False, power=1.0" in text


def test_doubts_about_a_capacity_are_shown_and_text_is_escaped(tmp_path):
    result = made_capacity(channel=HOSTILE, converged=False, warnings=(f"doubt {HOSTILE}",), exact=None)
    text = page_of(result, tmp_path, f"treet capacity {HOSTILE}")
    assert HOSTILE not in text
    assert "The search ended at its last round" in text
    assert "The exact capacity of this channel is not known." in text
    assert "treet capacity &lt;script&gt;" in text


@pytest.fixture(scope="module")
def density():
    rng = np.random.default_rng(0)
    values = np.zeros(400)
    for t in range(1, 400):
        values[t] = 0.8 * values[t - 1] + rng.normal()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        return treet.conditional_density(values, memory=1, random_state=0, epochs=1)


def test_a_density_page_says_how_well_it_predicts(density, tmp_path):
    text = page_of(density, tmp_path)
    assert re.search(r"target given the .* is predicted with <strong>-1\.\d+ nats</strong> a time step", text)
    assert "The 90% band holds" in text
    assert 'class="explore"' in text
    assert "treet.conditional_density(target, target_history=1, random_state=0)" in text


def test_densities_that_are_not_calibrated_are_doubted(density, tmp_path):
    calibration = dataclasses.replace(density.calibration, p_value=1e-5)
    text = page_of(dataclasses.replace(density, calibration=calibration, converged=True), tmp_path)
    assert "The densities are not calibrated: p = 1e-05." in text
