"""Feedback capacity of channels with two states, by dynamic programming over what the receiver believes.

Reference: Permuter, Cuff, Van Roy and Weissman, Capacity of the trapdoor channel with feedback, IEEE Trans.
Inf. Theory 54 (2008): when the state follows from the state, the input and the output before it, the
feedback capacity is the best average reward of a decision process. Its state is the belief
``b = p(s | outputs)``, its action the input law ``u(x|s)``, its reward ``I(X, S; Y | b)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from treet.capacity.noise import Floats
from treet.checks import check_whole
from treet.errors import TreetError

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

ROUNDS = 100
"""Policy iteration ends after about ten improvements."""

CLOSE = 1e-9
"""In nats: a smaller improvement of the policy is none."""

WIDTHS = (0.5, 0.05, 0.005, 0.0005)
"""Half the side of the square of actions that is looked at, around the best one so far."""

ACTIONS = 21
"""How many values of each action are looked at in a square: two steps are the next square's half side."""


@dataclass(frozen=True, eq=False)
class FiniteStateLaw:
    """A channel with finitely many states and symbols whose encoder knows the state.

    ``probabilities``  (states, inputs, outputs): ``p(y | s, x)``.
    ``next_state``     (states, inputs, outputs): the state that follows.
    ``allowed``        (states, inputs): which inputs may be sent.
    """

    probabilities: Floats
    next_state: Integers
    allowed: Booleans


def two_state_feedback_capacity(law: FiniteStateLaw, grid: int = 201) -> float:
    """The feedback capacity in nats of a channel with two states and a binary input, from below.

    The value is interpolated linearly between ``grid`` beliefs. The true one is concave in the belief, so
    that interpolation and the finite set of actions can only lose: the result is a lower bound, which
    approaches the capacity with the square of the step where the value is smooth.
    """
    if law.probabilities.shape[:2] != (2, 2):
        raise TreetError(
            f"The channel must have two states and two inputs. Got {law.probabilities.shape[0]} states and "
            f"{law.probabilities.shape[1]} inputs."
        )
    programme = _Programme(law, check_whole("grid", grid, 3))
    value = np.zeros(grid)
    for _ in range(ROUNDS):
        policy, improved = programme.best_actions(value)
        rate = float((improved - value).min())
        gain, value = programme.evaluate(policy)
        if gain - rate < CLOSE:
            break
    return rate


class _Programme:
    """The decision process on a grid of beliefs ``b = p(s = 1)``; an action is ``(u(1|0), u(1|1))``."""

    def __init__(self, law: FiniteStateLaw, size: int) -> None:
        self.beliefs = np.linspace(0.0, 1.0, size)
        self.law = law.probabilities.reshape(4, -1)
        self.to_one = self.law * law.next_state.reshape(4, -1)
        self.noise_entropy = entr(self.law).sum(axis=1)
        self.least = 1.0 - law.allowed[:, 0]
        self.most = law.allowed[:, 1].astype(np.float64)

    def best_actions(self, value: Floats) -> tuple[Floats, Floats]:
        """(beliefs, 2) the best action for each belief, and (beliefs,) the value it gives.

        The value is concave in the joint law of state and input, so a search around the best point of a
        coarse grid finds the maximum.
        """
        best = np.full((len(self.beliefs), 2), 0.5)
        line = np.linspace(-1, 1, ACTIONS)
        square = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
        for width in WIDTHS:
            actions = np.clip(best[:, None] + width * square, self.least, self.most)
            values = self._values(actions, value)
            chosen = values.argmax(axis=1)[:, None]
            best = np.take_along_axis(actions, chosen[..., None], axis=1)[:, 0]
        return best, np.take_along_axis(values, chosen, axis=1)[:, 0]

    def _step(self, actions: Floats) -> tuple[Floats, Floats, Floats]:
        """For actions (beliefs, actions, 2): reward, output probabilities, belief after each output."""
        belief = np.stack(np.broadcast_arrays(1 - self.beliefs, self.beliefs), axis=-1)[:, None, :, None]
        joint = belief * np.stack([1 - actions, actions], axis=-1)
        joint = joint.reshape(*actions.shape[:2], 4)
        output = joint @ self.law
        after = np.divide(joint @ self.to_one, output, out=np.zeros_like(output), where=output > 0)
        return entr(output).sum(axis=-1) - joint @ self.noise_entropy, output, np.clip(after, 0.0, 1.0)

    def _values(self, actions: Floats, value: Floats) -> Floats:
        reward, output, after = self._step(actions)
        return np.asarray(reward + (output * np.interp(after, self.beliefs, value)).sum(axis=-1))

    def evaluate(self, policy: Floats) -> tuple[float, Floats]:
        """The average reward ``g`` of a policy (beliefs, 2), and its relative values ``v = r - g + P v``."""
        reward, output, after = (part[:, 0] for part in self._step(policy[:, None]))
        size = len(self.beliefs)
        place = after * (size - 1)
        below = np.minimum(place.astype(np.int64), size - 2)
        above_share = place - below
        moves = np.zeros((size, size))
        rows = np.broadcast_to(np.arange(size)[:, None], below.shape)
        np.add.at(moves, (rows, below), output * (1 - above_share))
        np.add.at(moves, (rows, below + 1), output * above_share)
        # The value of the middle belief is set to 0, and its column holds the average reward instead.
        system = np.eye(size) - moves
        system[:, size // 2] = 1.0
        solution: Floats = np.asarray(np.linalg.lstsq(system, reward, rcond=None)[0], dtype=np.float64)
        gain = float(solution[size // 2])
        solution[size // 2] = 0.0
        return gain, solution
