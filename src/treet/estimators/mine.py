"""The estimator ``mine``: mutual information without any past of the target."""

from __future__ import annotations

from typing import Any, ClassVar

from treet.data import Recording
from treet.errors import TreetError
from treet.estimators.information import InformationEstimator
from treet.lags import Lags, PastlessLags
from treet.windows import Role


class MINE(InformationEstimator):
    """Mutual information by a neural network (Belghazi et al., "Mutual Information Neural Estimation").

        I(x_{t-delay} .. x_{t-delay-source_history+1} ; y_t),   by default I(x_t; y_t)

    A perceptron ``f`` is trained to score real pairs above shuffled ones and read on a held-out block by the
    Donsker-Varadhan bound ``mean f - log mean exp f(shuffled)``. It is no transfer entropy: what the source
    shares with the past of the target counts as well. ``te`` and the local values of the result are the
    mutual information's, and its lags say that the past of the target is left out.

    ``source_history, delay``  1 and 0 where they are None. This estimator has no ``memory``, no
                 ``condition`` and no ``target_history`` but 0.
    ``folds, epochs, batch_size, learning_rate``  by the number of windows where they are None.
    ``random_state`` the same number gives the same result on the same machine.

    >>> import numpy as np
    >>> x, noise = np.random.default_rng(0).normal(size=(2, 2000))
    >>> estimator = MINE(folds=2, epochs=60, random_state=0).fit(x, x + noise)
    >>> 0.2 < estimator.te_ < 0.5
    True
    """

    name: ClassVar[str] = "mine"
    summary: ClassVar[str] = "neural mutual information of source and target, without the target's past"
    assumes: ClassVar[str] = "a stationary process; some thousand samples"
    cost: ClassVar[str] = "seconds; linear in the samples"
    use_when: ClassVar[str] = "dependence matters and not what is transferred, or the target has no memory"

    terms: ClassVar[dict[tuple[Role, ...], int]] = {("source",): 1}

    def _given_lags(self) -> Lags:
        for name in ("memory", "condition_history"):
            if getattr(self, name) is not None:
                raise _has_none(f"{name}={getattr(self, name)!r}")
        if self.target_history not in (None, 0):
            raise _has_none(f"target_history={self.target_history!r}")
        source_history = 1 if self.source_history is None else self.source_history
        delay = 0 if self.delay is None else self.delay
        return PastlessLags(target_history=0, source_history=source_history, delay=delay)

    def recordings(
        self, source: Any, target: Any, condition: Any
    ) -> tuple[Recording, Recording, Recording | None]:
        if condition is not None:
            raise _has_none("a condition")
        return super().recordings(source, target, None)


def _has_none(got: str) -> TreetError:
    return TreetError(
        f"The estimator 'mine' is a mutual information: it has no past of the target and no condition. "
        f"Got {got}: leave it out, or use another estimator."
    )
