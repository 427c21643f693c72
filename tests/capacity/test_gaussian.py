"""The largest transfer entropy through Gaussian noise: exact values, a second method, and its dual bound."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.optimize import minimize

from treet.capacity.gaussian import (
    best_input_autocovariances,
    input_transfer_entropy,
    joint_transfer_entropy,
    largest_transfer_entropy,
)
from treet.capacity.noise import ArmaNoise
from treet.capacity.water_filling import water_filling_capacity
from treet.errors import TreetError
from treet.lags import Lags
from treet.processes import VAR

MA, AR = ArmaNoise(ma=(0.5,)), ArmaNoise(ar=(0.5,))
NOISES = [MA, AR, ArmaNoise(ma=(-0.9, 0.8)), ArmaNoise(ar=(0.9, -0.8), ma=(2.0,), variance=0.5)]


def autocovariances_of(reflections: np.ndarray, power: float) -> np.ndarray:
    """Levinson's recursion: every positive definite sequence comes from reflections in [-1, 1]."""
    r, error, phi = [power], power, np.zeros(0)
    for kappa in reflections:
        r.append(float(phi @ np.array(r[:0:-1])) + kappa * error)
        phi = np.append(phi - kappa * phi[::-1], kappa)
        error *= 1 - kappa**2
    return np.array(r)


def by_reflections(noise: np.ndarray, power: float) -> float:
    """The supremum by a search over the input's reflection coefficients, from several starts."""
    generator = np.random.default_rng(0)

    def loss(free: np.ndarray) -> float:
        return -input_transfer_entropy(autocovariances_of(np.sin(free), power), noise)

    starts = generator.standard_normal((4, len(noise) - 1))
    options = {"ftol": 1e-14, "gtol": 1e-9}
    return max(-float(minimize(loss, start, method="L-BFGS-B", options=options).fun) for start in starts)


def dual_bound(r: np.ndarray, noise: np.ndarray, power: float) -> float:
    """No input has more than this: for any predictor ``A(w)`` of the output, with a leading 1,

    the prediction error is at most ``power max |A|^2 + a' T(noise) a``. Here ``A`` is that of input ``r``.
    """
    a = np.linalg.solve(toeplitz(r + noise), np.eye(len(r))[0])
    a /= a[0]
    gain = np.abs(np.exp(-1j * np.outer(np.linspace(0, np.pi, 20_001), np.arange(len(a)))) @ a) ** 2
    worst = power * gain.max() + a @ toeplitz(noise) @ a
    return float(np.log(worst) - 2 * np.log(np.linalg.cholesky(toeplitz(noise))[-1, -1])) / 2


@pytest.mark.parametrize(
    ("memory", "largest", "white"),
    [(0, 0.293893, 0.293893), (1, 0.381070, 0.355748), (2, 0.399548, 0.372875), (3, 0.403997, 0.377250)],
)
def test_values_of_the_interleaved_channels(memory: int, largest: float, white: float) -> None:
    noise = MA.autocovariances(memory)
    assert largest_transfer_entropy(noise, 1.0) == pytest.approx(largest, abs=1e-6)
    assert input_transfer_entropy(np.eye(memory + 1)[0], noise) == pytest.approx(white, abs=1e-6)


def test_a_delayed_tap_is_interleaved_channels() -> None:
    """The whole problem with its long memory has no more than one of its interleaved channels."""
    delayed = ArmaNoise(ma=(0, 0, 0.5))
    for memory in (2, 3, 5, 6, 8, 9):
        found = largest_transfer_entropy(delayed.autocovariances(memory), 1.0)
        assert found == pytest.approx(
            largest_transfer_entropy(MA.autocovariances(memory // 3), 1.0), abs=1e-8
        )


def test_a_short_memory_can_exceed_the_capacity() -> None:
    found = largest_transfer_entropy(AR.autocovariances(1), 10**-0.5)
    assert found == pytest.approx(0.2272, abs=5e-5)
    assert found > water_filling_capacity(AR.spectrum, 10**-0.5) + 0.02


@pytest.mark.parametrize(("noise", "power"), list(product((MA, AR), 10 ** (np.arange(-20, 20, 5) / 10))))
def test_at_a_long_memory_it_is_the_capacity(noise: ArmaNoise, power: float) -> None:
    capacity = water_filling_capacity(noise.spectrum, power)
    assert largest_transfer_entropy(noise.autocovariances(30), power) == pytest.approx(capacity, abs=2e-5)


@pytest.mark.parametrize(("noise", "power", "memory"), list(product(NOISES, (0.02, 0.5, 10.0), (1, 2, 5))))
def test_two_methods_and_the_dual_bound_agree(noise: ArmaNoise, power: float, memory: int) -> None:
    gamma = noise.autocovariances(memory)
    best = best_input_autocovariances(gamma, power)
    found = input_transfer_entropy(best, gamma)
    assert found == largest_transfer_entropy(gamma, power)
    # The search can end on a boundary of its own, never above the supremum.
    assert found - 3e-5 < by_reflections(gamma, power) < found + 1e-8
    assert found - 1e-10 <= dual_bound(best, gamma, power) <= found + 1e-6
    assert best[0] == pytest.approx(power)
    assert np.linalg.eigvalsh(toeplitz(best))[0] > -1e-12 * power


@pytest.mark.parametrize("scale", [1e-6, 1e5])
def test_scaling_power_and_noise_changes_nothing(scale: float) -> None:
    gamma = MA.autocovariances(3)
    expected = largest_transfer_entropy(gamma, 0.3)
    assert largest_transfer_entropy(scale * gamma, 0.3 * scale) == pytest.approx(expected, abs=1e-8)


def test_the_joint_form_is_that_of_any_linear_process() -> None:
    process = VAR([[0.5, 0.3, 0.1], [0.4, 0.2, -0.3], [0.2, 0.0, 0.3]], source=("v1", "v2"), target="v3")
    for memory in (0, 1, 4):
        expected = process.transfer_entropy(Lags.from_memory(memory)) if memory else None
        found = joint_transfer_entropy(process.dynamics.autocovariances(memory), input_dim=2)
        if expected is None:
            gamma = process.dynamics.autocovariances(0)[0]
            given = gamma[2, 2] - gamma[2, :2] @ np.linalg.solve(gamma[:2, :2], gamma[:2, 2])
            expected = np.log(gamma[2, 2] / given) / 2
        assert found == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("noise", NOISES)
def test_the_joint_form_is_that_of_an_input_without_feedback(noise: ArmaNoise) -> None:
    r, s = ArmaNoise(ar=(-0.6,)).autocovariances(4), noise.autocovariances(4)
    joint = np.array([[[x, x], [x, x + z]] for x, z in zip(r, s, strict=True)])
    assert joint_transfer_entropy(joint) == pytest.approx(input_transfer_entropy(r, s), abs=1e-10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: largest_transfer_entropy([1.0, 1.0], 1.0), "noise_autocovariances must be those"),
        (lambda: largest_transfer_entropy([], 1.0), "noise_autocovariances must be those"),
        (lambda: largest_transfer_entropy([1.0], 0.0), "power must be"),
        (lambda: input_transfer_entropy([1.0], [1.0, 0.5]), "The autocovariances must be two lists"),
        (lambda: joint_transfer_entropy(np.ones((2, 3))), "autocovariances must have the shape"),
        (lambda: joint_transfer_entropy(np.ones((1, 2, 2)), 2), "autocovariances must have the shape"),
        (lambda: joint_transfer_entropy(np.ones((2, 2, 2))), "The autocovariances are not those"),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with pytest.raises(TreetError) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value).startswith(message)
