"""The best filters of a generator under linear Gaussian densities: deterministic problems, one a sample."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from treet.capacity.channels import Channel
from treet.capacity.critics import Critics
from treet.capacity.generator import Generator
from treet.capacity.moments import Moments
from treet.capacity.noise import Floats
from treet.capacity.streams import Streams, replay

SPAN = 100
"""Windows of one stream in a sample, at least."""

MOST_STEPS, LEAST_GAIN = 100, 0.1
"""Of the quasi-Newton method on one sample, and the gain of a step that is worth it, relative to half the
number of the filters' weights over that of the windows: what they gain by adapting to the sample alone."""

CORRECTIONS = 60
"""That the method remembers: with feedback at low power the best filters are long, the problem is badly
conditioned, and with the usual ten it stops 1 % below the maximum."""

FIRST = 100_000
"""Windows of the first sample, at most: the filters are far off and every step counts alike."""


class FilterSample:
    """A sample of streams, and the transfer entropy on it as a function of the filters.

    For every choice of the filters the linear densities are those that fit the sample best, so that the
    value is ``(log det S_Y - log det S_XY) / 2`` with the covariances of the errors of the two predictions.
    Being at their optimum, the densities add nothing to the gradient.
    """

    def __init__(
        self,
        generator: Generator,
        channel: Channel,
        critics: Critics,
        windows: int,
        random: torch.Generator,
    ) -> None:
        self.generator, self.channel, self.critics = generator, channel, critics
        self.filters = generator.filters()
        span = max(SPAN, generator.memory)
        streams = Streams(generator, channel, max(2, math.ceil(windows / span)), random)
        self.segment = streams.run(generator.memory + span)
        weights = sum(part.numel() for part in self.filters)
        least = LEAST_GAIN * weights / (2 * windows)
        self.options = {"maxiter": MOST_STEPS, "maxcor": CORRECTIONS, "ftol": least, "gtol": 1e-8}

    def weights(self) -> Floats:
        """The filters as one vector of length one: their size is set by the power."""
        vector = parameters_to_vector(self.filters).detach().double().numpy()
        return np.asarray(vector / np.linalg.norm(vector))

    def set(self, weights: Floats) -> None:
        """Put ``weights`` into the generator, at its power."""
        with torch.no_grad():
            vector_to_parameters(torch.as_tensor(weights, dtype=torch.float32), self.filters)
            x = self.generator(self.segment.values[:, :-1], self.segment.noise)
            self.generator.follow_power(x, rate=1.0)

    def local(self, weights: Floats) -> Tensor:
        """(batch, length): local transfer entropy, with a gradient in the filters."""
        with torch.no_grad():
            vector_to_parameters(torch.as_tensor(weights, dtype=torch.float32), self.filters)
        values = replay(self.generator, self.channel, self.segment)
        moments = Moments(self.generator.memory, self.generator.value_dim, decay=1.0)
        moments.update(values)
        self.critics.fit_linear(moments)
        return self.critics.linear(values)

    def maximise(self, weights: Floats) -> Floats:
        """The filters with the largest value on this sample, near ``weights``."""

        def loss(vector: Floats) -> tuple[float, Floats]:
            value = -self.local(vector).mean()
            gradient = parameters_to_vector(torch.autograd.grad(value, self.filters))
            return value.item(), gradient.double().numpy()

        found = minimize(loss, weights, jac=True, method="L-BFGS-B", options=self.options)
        return np.asarray(found.x)


class FilterSearch:
    """Filters found on one sample, judged on the next one and improved there, until that does not help.

    ``values`` are those of the filters on samples that they were not chosen on.
    """

    def __init__(
        self,
        generator: Generator,
        channel: Channel,
        critics: Critics,
        windows: int,
        most_samples: int,
        tolerance: float,
        random: torch.Generator,
    ) -> None:
        self.parts = generator, channel, critics
        self.windows, self.most_samples = windows, most_samples
        self.tolerance, self.random = tolerance, random
        self.values: list[float] = []
        self.converged = False

    def run(self) -> None:
        """Leaves the generator with the best filters, and the densities as they fit the last sample."""
        sample = FilterSample(*self.parts, min(FIRST, self.windows), self.random)
        best = sample.weights()
        for number in range(self.most_samples):
            after = sample.maximise(best)
            sample.set(after)
            sample = FilterSample(*self.parts, self.windows, self.random)
            best, small = self._judge(sample, best, after)
            # The first sample is too small to say that nothing can be gained.
            self.converged = small and number > 0
            if self.converged:
                break
        with torch.no_grad():
            sample.local(best)
        sample.set(best)

    @torch.no_grad()
    def _judge(self, sample: FilterSample, before: Floats, after: Floats) -> tuple[Floats, bool]:
        """The better of the two on ``sample``, and whether ``after`` gains too little to go on."""
        old, new = (sample.local(weights).mean(1) for weights in (before, after))
        gain = new - old
        rise, std_error = float(gain.mean()), float(gain.std()) / math.sqrt(len(gain))
        value = max(float(old.mean()), float(new.mean()))
        self.values.append(value)
        return (after if rise > 0 else before), rise < max(self.tolerance * abs(value), 2 * std_error)
