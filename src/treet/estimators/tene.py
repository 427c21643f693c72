"""The estimator ``tene``: transfer entropy as a difference of two mutual informations."""

from __future__ import annotations

from typing import ClassVar

from treet.checks import check_choice
from treet.estimators.critic_pair import ROLES_XY, ROLES_Y
from treet.estimators.information import OBJECTIVES, InformationEstimator
from treet.results import Unit
from treet.windows import Role


class TENE(InformationEstimator):
    """Transfer entropy by two neural mutual informations (Zhang et al., "ITENE: Intrinsic Transfer Entropy
    Neural Estimator").

        TE = I(past of x and y; y_t) - I(past of y; y_t)

    The pasts, with that of the condition in both, are flattened into one vector each. For each mutual
    information a perceptron ``f`` is trained to score real pairs of context and present above shuffled ones,
    and read on a held-out block by the Donsker-Varadhan bound ``mean f - log mean exp f(shuffled)``.

    The vector grows with the history, and with it what the networks can remember of their training data.
    Read on that data, as published, the value then diverges; read on other data, as here, it falls towards
    zero. A note says so, and ``converged`` is false.

    ``method``   "dv": the networks maximise that bound (Belghazi et al.). "classifier": they are classifiers
                 of real and shuffled pairs, and the bound is read from their logits (Mukherjee et al., CCMI).
    ``folds, epochs, batch_size, learning_rate``  by the number of windows where they are None.
    ``random_state`` the same number gives the same result on the same machine.

    >>> from treet.processes import DelayedLinear
    >>> recording = DelayedLinear(coupling=1.0, delay=1).sample(2000, random_state=0)
    >>> estimator = TENE(memory=1, folds=2, epochs=60, random_state=0)
    >>> estimator.fit(recording.select("x"), recording.select("y")).te_ > 0.2
    True
    """

    name: ClassVar[str] = "tene"
    summary: ClassVar[str] = "difference of two neural mutual informations on flattened pasts, cross-fitted"
    assumes: ClassVar[str] = "a stationary process; short histories or many samples"
    cost: ClassVar[str] = "seconds to a minute; linear in the samples"
    use_when: ClassVar[str] = "to compare with mutual information networks; histories of a few lags"

    terms: ClassVar[dict[tuple[Role, ...], int]] = {ROLES_Y: -1, ROLES_XY: 1}

    def __init__(
        self,
        memory: int | None = None,
        target_history: int | None = None,
        source_history: int | None = None,
        delay: int | None = None,
        condition_history: int | None = None,
        *,
        method: str = "dv",
        folds: int | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        learning_rate: float | None = None,
        unit: Unit = "nats",
        confidence: float = 0.95,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            memory,
            target_history,
            source_history,
            delay,
            condition_history,
            folds=folds,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            unit=unit,
            confidence=confidence,
            random_state=random_state,
        )
        self.method = method

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("method", self.method, OBJECTIVES)
