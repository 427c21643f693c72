"""The sine map against a Gaussian quadrature of its own, simulated means and a plain loop."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import norm

from treet.errors import TreetError
from treet.lags import Lags
from treet.processes import SineMap
from treet.processes.maps import BURN_IN

Floats = NDArray[np.float64]


def by_gaussian_quadrature(process: SineMap, n_x: int, n_y: int) -> tuple[float, float]:
    """Value and variance of the local values: ``h(Y | past) - h(noise)`` over the stationary law."""
    x, weight_x = hermegauss(n_x)
    weight_x = weight_x / weight_x.sum()
    y, weight_y = leggauss(n_y)
    reach = process.gain + 8 * process.noise_std
    y, weight_y = reach * y, reach * weight_y
    means = process.gain * np.sin(y[:, None] + process.coupling * x)
    known = norm.pdf(y, means[:, :, None], process.noise_std)
    mixture = np.einsum("pxy,x->py", known, weight_x)
    density = np.full(n_y, 1 / weight_y.sum())
    for _ in range(3000):
        density = (density * weight_y) @ mixture
    with np.errstate(divide="ignore", invalid="ignore"):
        local = np.nan_to_num(np.log(known) - np.log(mixture)[:, None], posinf=0, neginf=0)
    law = np.einsum("p,x,pxy,y->pxy", density * weight_y, weight_x, known, weight_y)
    value = float((law * local).sum())
    return value, float((law * local**2).sum()) - value**2


@pytest.mark.parametrize(
    "process",
    [SineMap(), SineMap(3.0, -1.0, 0.8), SineMap(0.2, 2.0, 1.0), SineMap(1.0, 0.1, 0.3)],
    ids=str,
)
def test_value_and_variance_by_gaussian_quadrature(process: SineMap) -> None:
    value, variance = by_gaussian_quadrature(process, n_x=120, n_y=200)
    assert process.transfer_entropy(Lags(1, 1)) == pytest.approx(value, abs=1e-7)
    assert process.local_variance(Lags(1, 1)) == pytest.approx(variance, abs=1e-6)
    for lags in (Lags(7, 3), Lags.from_memory(1), Lags(1, 30)):
        assert process.transfer_entropy(lags) == process.transfer_entropy(Lags(1, 1))


@pytest.mark.parametrize("process", [SineMap(), SineMap(9.9, 0.02, 0.5), SineMap(1.0, 3.0, 2.0)], ids=str)
def test_finer_steps_change_nothing(process: SineMap) -> None:
    coarse, fine = process._moments_of_local(refine=1), process._moments_of_local(refine=2)
    np.testing.assert_allclose(coarse, fine, atol=1e-9)


def test_value_by_simulation() -> None:
    """The mean of local values, whose mixture is a mean over simulated sources."""
    process, n_samples = SineMap(), 20_000
    generator = np.random.default_rng(3)
    y = np.zeros(n_samples)
    x = generator.standard_normal(n_samples)
    for t in range(1, n_samples):
        y[t] = 2 * math.sin(y[t - 1] + 0.5 * x[t - 1]) + 0.5 * generator.standard_normal()
    # The mid-quantiles of the source stand for its law.
    sources = norm.ppf((np.arange(400) + 0.5) / 400)
    past, present = y[100:-1], y[101:]
    mixture = norm.pdf(present[:, None], 2 * np.sin(past[:, None] + 0.5 * sources), 0.5).mean(axis=1)
    local = norm.logpdf(present, 2 * np.sin(past + 0.5 * x[100:-1]), 0.5) - np.log(mixture)
    standard_error = math.sqrt(process.local_variance(Lags(1, 1)) / len(local))
    assert standard_error < 0.006
    assert local.mean() == pytest.approx(process.transfer_entropy(Lags(1, 1)), abs=4 * standard_error)


def test_local_values_by_adaptive_quadrature() -> None:
    process = SineMap(3.0, 0.7, 0.4)
    recording = process.sample(5000, random_state=2)
    x, y = recording.trials[0].T
    (local,) = process.local_transfer_entropy(recording, Lags(2, 2)) or ()

    def density(present: float, past: float, source: float) -> float:
        return float(norm.pdf(present, 3.0 * math.sin(past + 0.7 * source), 0.4))

    for t in (2, 1000, 4999):
        mixture, _ = quad(lambda s, t=t: norm.pdf(s) * density(y[t], y[t - 1], s), -9, 9, limit=200)
        expected = math.log(density(y[t], y[t - 1], x[t - 1]) / mixture)
        assert local[t] == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("process", [SineMap(), SineMap(3.0, -1.0, 0.2)], ids=str)
def test_samples_equal_a_plain_loop(process: SineMap) -> None:
    n_samples = 200
    values = process.sample(n_samples, random_state=4).trials[0]
    x, z = np.random.default_rng(4).standard_normal((2, BURN_IN + n_samples))
    y = np.zeros(BURN_IN + n_samples)
    y[0] = process.noise_std * z[0]
    for t in range(1, len(y)):
        y[t] = process.gain * math.sin(y[t - 1] + process.coupling * x[t - 1]) + process.noise_std * z[t]
    np.testing.assert_allclose(values, np.column_stack([x, y])[BURN_IN:], rtol=1e-12)


def test_where_the_value_is_zero() -> None:
    assert SineMap(coupling=0.0).transfer_entropy(Lags(2, 2)) == 0
    process = SineMap()
    assert process.transfer_entropy(Lags(2, 2, delay=2)) == 0
    assert process.transfer_entropy(Lags(2, 1, delay=0)) == 0
    assert process.transfer_entropy(Lags(2, 5, delay=0), "y", "x") == 0


def test_the_value_does_not_depend_on_the_sign_and_grows_with_the_coupling() -> None:
    values = [SineMap(coupling=c).transfer_entropy(Lags(1, 1)) for c in (-0.5, 0.1, 0.5, 1.0)]
    assert values[0] == pytest.approx(values[2], abs=1e-12)
    assert 0 < values[1] < values[2] < values[3]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"gain": 0}, "gain must be a finite number above 0 and below 10. Got 0 instead"),
        ({"gain": 20.0, "noise_std": 1.0}, "gain must be a finite number above 0 and below 10. Got 20.0"),
        ({"coupling": -10}, "coupling must be a finite number above -10 and below 10"),
        ({"coupling": math.nan}, "coupling must be"),
        ({"noise_std": 0.0}, "noise_std must be a finite number above 0 and below 10. Got 0.0"),
        ({"noise_std": 1e6}, "noise_std must be a finite number above 0 and below 10. Got 1000000.0"),
        ({"noise_std": 0.09}, "noise_std must be at least 0.05 x gain = 0.1. Got 0.09 instead"),
    ],
)
def test_bad_parameters(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(TreetError, match=message):
        SineMap(**parameters)
