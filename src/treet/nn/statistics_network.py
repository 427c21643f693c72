"""The statistics network of MINE: a score of how well a present value goes with its context."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from treet.nn.weights import draw_uniform


class StatisticsNetwork(nn.Module):
    """``f(context, y)``: a perceptron with two hidden layers (Belghazi et al., "Mutual Information Neural
    Estimation").

    ``context`` (batch, inputs), ``present`` (batch, channels) -> (batch,). Weights are drawn by ``reset``.

    >>> network = StatisticsNetwork(inputs=5, channels=2, width=16)
    >>> network.reset(torch.Generator().manual_seed(0))
    >>> network(torch.zeros(3, 5), torch.zeros(3, 2)).shape
    torch.Size([3])
    """

    def __init__(self, inputs: int, channels: int, width: int) -> None:
        super().__init__()
        sizes = (inputs + channels, width, width, 1)
        # Uninitialised: PyTorch would draw from its global state.
        layers = [nn.utils.skip_init(nn.Linear, *pair) for pair in pairwise(sizes)]  # type: ignore[no-untyped-call]
        self.layers = nn.Sequential(layers[0], nn.ELU(), layers[1], nn.ELU(), layers[2])

    def reset(self, generator: torch.Generator) -> None:
        """Draw all weights as PyTorch does, but from ``generator``."""
        for layer in self.layers:
            if isinstance(layer, nn.Linear):
                for weight in layer.parameters():
                    draw_uniform(weight, layer.in_features**-0.5, generator)

    def forward(self, context: Tensor, present: Tensor) -> Tensor:
        scores: Tensor = self.layers(torch.cat([context, present], 1))
        return scores[:, 0]
