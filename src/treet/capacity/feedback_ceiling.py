"""The most that TE(l) can be through Gaussian noise with feedback."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from treet.capacity.gaussian import log_prediction_error
from treet.capacity.noise import ArmaNoise, Floats
from treet.checks import check_number

FREQUENCIES = 4096
"""On which spectra are held: autocovariances are then exact but for what is that many steps away."""

MORE_LAGS = 120
"""Of both filters, beyond the memory. At -20 dB the best ones still fade there, at 1e-6 nats."""

MOST_STEPS = 3000
"""Of the quasi-Newton method; far more than it needs."""

NEGLIGIBLE = 1e-6
"""In nats: how much the noise before the window may tell about the noise now."""


def largest_feedback_transfer_entropy(noise: ArmaNoise, memory: int, power: float) -> float | None:
    """The supremum, to 1e-6, of TE(l) of ``Y = X + Z``, where ``X`` of ``power`` may depend on past ``Y``.

    With ``X = V + B Z``, ``V`` independent of ``Z`` and ``B`` a strictly causal filter, Gaussian inputs being
    best,

        TE(l) <= h(Y_t | Y_{t-l} .. Y_{t-1}) - h(Z_t | Z_{t-1}, ..),   S_Y = S_V + |1 + B|^2 S_Z,

    with equality where the window of inputs and outputs, and so of the noise, holds what its past tells. None
    where it does not. In ``(S_X, B)`` the problem is concave (Kim, Feedback capacity of stationary Gaussian
    channels, IEEE Trans. Inf. Theory 56, 2010, for infinite memory), so that every local maximum is the
    largest. ``V`` is a filter of white noise.

    >>> round(largest_feedback_transfer_entropy(ArmaNoise(ar=(0.5,)), memory=2, power=1.0), 4)
    0.4974
    """
    check_number("power", power, above=0)
    innovation = math.log(noise.variance) / 2
    if log_prediction_error(noise.autocovariances(memory)) / 2 > innovation + NEGLIGIBLE:
        return None
    lags = memory + MORE_LAGS
    start = np.zeros(2 * lags + 1)
    # Away from zero, where feedback has a saddle point.
    start[0], start[lags + 1 :] = 1.0, 0.01
    options = {"maxiter": MOST_STEPS, "maxfun": 2 * MOST_STEPS, "ftol": 1e-13, "gtol": 1e-9}
    spectrum = torch.as_tensor(noise.spectrum(2 * np.pi * np.arange(FREQUENCIES) / FREQUENCIES))

    def loss(weights: Floats) -> tuple[float, Floats]:
        filters = torch.tensor(weights, requires_grad=True)
        value = -_prediction_entropy(filters[: lags + 1], filters[lags + 1 :], spectrum, power, memory)
        return value.item(), torch.autograd.grad(value, filters)[0].numpy()

    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    return -float(found.fun) - innovation


def _prediction_entropy(
    fresh: Tensor, feedback: Tensor, spectrum: Tensor, power: float, memory: int
) -> Tensor:
    """``h(Y_t | Y_{t-l} .. Y_{t-1})`` but for a constant; both filters are scaled to the power."""
    place = torch.arange(memory + 1)
    own = torch.fft.fft(fresh, FREQUENCIES).abs().square()
    echo = torch.fft.fft(torch.nn.functional.pad(feedback, (1, 0)), FREQUENCIES)
    scale = (power / (own + echo.abs().square() * spectrum).mean()).sqrt()
    output = scale.square() * own + (1 + scale * echo).abs().square() * spectrum
    autocovariances = torch.fft.ifft(output).real
    root = torch.linalg.cholesky(autocovariances[(place[:, None] - place).abs()])
    entropy: Tensor = root[-1, -1].log()
    return entropy
