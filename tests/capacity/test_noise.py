"""The noise's spectrum, autocovariances and memory against filtering, Fourier sums and each other."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.signal import lfilter

from treet.capacity.noise import ArmaNoise
from treet.errors import TreetError

CASES = [
    ArmaNoise(),
    ArmaNoise(ma=(0.5,), variance=2.0),
    ArmaNoise(ma=(0.0, 0.0, -0.7)),
    ArmaNoise(ar=(0.9,)),
    ArmaNoise(ar=(0.5, -0.6), variance=0.3),
    ArmaNoise(ar=(0.6,), ma=(0.4, -1.5, 0.2)),
    ArmaNoise(ar=(0.2, 0.3, -0.4), ma=(0.9,), variance=3.0),
]


@pytest.mark.parametrize("noise", CASES)
def test_autocovariances_are_those_of_the_impulse_response(noise: ArmaNoise) -> None:
    impulse = np.zeros(3000)
    impulse[0] = 1
    psi = lfilter([1, *noise.ma], [1, *(-a for a in noise.ar)], impulse)
    expected = [noise.variance * psi[lag:] @ psi[: len(psi) - lag] for lag in range(12)]
    np.testing.assert_allclose(noise.autocovariances(11), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(noise.responses(20), psi[:20], atol=1e-12)
    np.testing.assert_array_equal(noise.autocovariances(2), noise.autocovariances(11)[:3])


@pytest.mark.parametrize("noise", CASES)
def test_the_spectrum_is_the_fourier_sum_of_the_autocovariances(noise: ArmaNoise) -> None:
    frequencies = np.linspace(0, math.pi, 7)
    gamma = noise.autocovariances(800)
    expected = gamma[0] + 2 * np.cos(np.outer(frequencies, np.arange(1, 801))) @ gamma[1:]
    np.testing.assert_allclose(noise.spectrum(frequencies), expected, rtol=1e-8)


@pytest.mark.parametrize("noise", CASES)
def test_the_state_covariance_is_that_of_long_filtering(noise: ArmaNoise) -> None:
    generator = np.random.default_rng(1)
    n = math.sqrt(noise.variance) * generator.standard_normal(400_000)
    z = lfilter([1, *noise.ma], [1, *(-a for a in noise.ar)], n)
    p, q = len(noise.ar), len(noise.ma)
    if p + q == 0:
        assert noise.state_covariance.shape == (0, 0)
        return
    past = [z[1000 - i : -i] for i in range(1, p + 1)] + [n[1000 - i : -i] for i in range(1, q + 1)]
    found = np.atleast_2d(np.cov(np.array(past)))
    scale = math.sqrt(np.abs(noise.state_covariance).max())
    np.testing.assert_allclose(found, noise.state_covariance, atol=0.03 * scale**2)


def test_breaks_are_the_angles_of_poles_and_zeros() -> None:
    noise = ArmaNoise(ar=(2 * 0.9 * math.cos(1.0), -0.81), ma=(0.5,))
    assert noise.breaks == pytest.approx((1.0,))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ar": (1.0,)}, "ar must be stable"),
        ({"ar": (0.5, 0.6)}, "ar must be stable"),
        ({"ma": 0.5}, "ma must be a sequence of finite numbers. Got 0.5"),
        ({"ma": ("a",)}, "ma must be a sequence of numbers"),
        ({"ma": (math.nan,)}, "ma must be a sequence of finite numbers"),
        ({"variance": 0}, "variance must be a finite number above 0"),
    ],
)
def test_bad_noise(parameters: dict[str, object], message: str) -> None:
    with pytest.raises(TreetError) as caught:
        ArmaNoise(**parameters)
    assert str(caught.value).startswith(message)
