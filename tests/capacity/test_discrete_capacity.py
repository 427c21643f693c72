"""Discrete channels: Blahut and Arimoto with their bounds, and dynamic programming over beliefs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import rel_entr

from treet.capacity.belief_programming import FiniteStateLaw, two_state_feedback_capacity
from treet.capacity.blahut_arimoto import discrete_capacity
from treet.capacity.closed_form import (
    bec_no_two_ones_feedback_capacity,
    binary_entropy,
    ising_feedback_capacity,
    trapdoor_feedback_capacity,
)
from treet.capacity.discrete_channels import BinaryErasure, BinarySymmetric, FiniteState, Ising, Trapdoor
from treet.errors import TreetError


def information(law: np.ndarray, probabilities: np.ndarray) -> float:
    return float(probabilities @ rel_entr(law, probabilities @ law).sum(axis=1))


def test_the_z_channel_has_a_formula() -> None:
    p = 0.3
    expected = math.log(1 + (1 - p) * p ** (p / (1 - p)))
    assert discrete_capacity([[1, 0], [p, 1 - p]]).value == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_certified_bounds(seed: int) -> None:
    generator = np.random.default_rng(seed)
    law = generator.dirichlet(np.full(5, 0.5), size=4)
    found = discrete_capacity(law, tolerance=1e-7)
    assert 0 <= found.gap <= 1e-7
    assert information(law, found.probabilities) == pytest.approx(found.lower, abs=1e-12)
    others = generator.dirichlet(np.ones(4), size=5000)
    assert max(information(law, other) for other in others) <= found.upper
    # Renaming outputs and inputs, or splitting an output in two equal halves, changes nothing.
    renamed = law[generator.permutation(4)][:, generator.permutation(5)]
    halved = np.hstack([law / 2, law / 2])
    for other_law in (renamed, halved, np.hstack([law, np.zeros((4, 2))])):
        assert discrete_capacity(other_law, tolerance=1e-7).value == pytest.approx(found.value, abs=1e-7)


def test_useless_channels() -> None:
    assert discrete_capacity([[1.0], [1.0]]).value == 0.0
    assert discrete_capacity(np.full((3, 4), 0.25)).upper == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("channel", "expected"),
    [
        (Trapdoor(), trapdoor_feedback_capacity()),
        (Ising(), ising_feedback_capacity()),
        (BinaryErasure(0.0, no_two_ones=True), bec_no_two_ones_feedback_capacity(0.0)),
        (BinaryErasure(0.2, no_two_ones=True), bec_no_two_ones_feedback_capacity(0.2)),
        (BinaryErasure(0.7, no_two_ones=True), bec_no_two_ones_feedback_capacity(0.7)),
        (BinarySymmetric(0.0, no_two_ones=True), trapdoor_feedback_capacity()),
    ],
    ids=str,
)
def test_dynamic_programming_finds_the_formulas(channel: FiniteState, expected: float) -> None:
    found = two_state_feedback_capacity(channel.law, grid=101)
    assert expected - 5e-5 < found <= expected + 1e-12


def markov_rate(channel: FiniteState, one: float, length: int) -> float:
    """The information rate of the Markov input without two ones in a row and ``P(1|0) = one``.

    ``H(Y_n | Y_1 .. Y_{n-1}, X_0) - H(Y|X)`` is below it, by enumeration.
    """
    law = channel.law.probabilities[0]
    moves = np.array([[1 - one, one], [1.0, 0.0]])
    stationary = np.array([1, one]) / (1 + one)
    forward = np.diag(stationary)
    forward = forward.reshape(2, 1, 2)  # start, outputs so far, state
    entropies = []
    for _ in range(length):
        forward = np.einsum("asx,xz,zy->asyz", forward, moves, law).reshape(2, -1, 2)
        joint = forward.sum(axis=2)
        entropies.append(-float((joint * np.log(np.maximum(joint, 1e-300))).sum()))
    noise = -float(stationary @ (law * np.log(law)).sum(axis=1))
    return entropies[-1] - entropies[-2] - noise


@pytest.mark.parametrize("flip", [0.05, 0.1, 0.3])
def test_the_constrained_symmetric_channel_is_between_its_bounds(flip: float) -> None:
    channel = BinarySymmetric(flip, no_two_ones=True)
    found = channel.capacity(feedback=True)
    assert found is not None
    # Feedback gives at least what a Markov input has without it, and at most what a single use has.
    best_markov = max(markov_rate(channel, one, 10) for one in np.linspace(0.3, 0.6, 7))
    free_use = max(binary_entropy(q + flip - 2 * q * flip) for q in np.linspace(0, 0.5, 501))
    assert best_markov < found < min(free_use - binary_entropy(flip), trapdoor_feedback_capacity())
    # Enough beliefs: a coarser grid gives nearly the same, and no more.
    coarse = two_state_feedback_capacity(channel.law, grid=101)
    assert found - 2e-5 < coarse <= found + 1e-9


def test_without_a_constraint_the_memoryless_value_comes_out() -> None:
    law = BinarySymmetric(0.1, no_two_ones=True).law
    free = FiniteStateLaw(law.probabilities, law.next_state, np.ones((2, 2), dtype=np.bool_))
    assert two_state_feedback_capacity(free, grid=21) == pytest.approx(
        BinarySymmetric(0.1).capacity(), abs=1e-8
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: discrete_capacity([0.5, 0.5]), "channel must have the shape (inputs, outputs). Got (2,)"),
        (lambda: discrete_capacity([[0.5, 0.4]]), "Every row of channel must be probabilities"),
        (lambda: discrete_capacity([[1.5, -0.5]]), "Every row of channel must be probabilities"),
        (lambda: discrete_capacity([[0.9, 0.1], [0.3, 0.7]], max_iterations=2), "The bounds on the capacity"),
        (lambda: two_state_feedback_capacity(BinarySymmetric(0.1).law), "The channel must have two states"),
        (lambda: two_state_feedback_capacity(Ising().law, grid=2), "grid must be a whole number"),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with pytest.raises(TreetError) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value).startswith(message)
