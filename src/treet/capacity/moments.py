"""Means of products of the values in a window, in time proportional to its length and not to its square."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


class Moments:
    """Means of products of the values in a window, over many windows, in float64.

    A window is ``1, v_{t-memory} .. v_t`` with ``v = (x, y)``, oldest first. With ``decay`` below 1 older
    batches count less: the generator that they came from has changed since.
    """

    def __init__(self, memory: int, value_dim: int, decay: float) -> None:
        self.memory, self.decay = memory, decay
        size = 1 + (memory + 1) * value_dim
        self.products = torch.zeros(size, size, dtype=torch.float64)
        self.weight = 0.0

    def update(self, values: Tensor) -> None:
        """Take in all windows of ``values`` (batch, memory + length, value_dim)."""
        new = window_products(values.detach().double(), self.memory)
        self.weight = self.decay * self.weight + 1
        self.products += (new - self.products) / self.weight


def window_products(values: Tensor, memory: int) -> Tensor:
    """Means over all windows ``w_t = (1, v_{t-memory} .. v_t)`` of ``w_t w_t'``.

    Windows that follow each other share all but one value, so that the products of two places are those of
    the places before them but for the first and the last window.

    ``values``  (batch, memory + length, d).
    output      (1 + (memory + 1) d, the same).

    >>> window_products(torch.tensor([[[1.0], [2.0], [3.0]]]), memory=1).tolist()
    [[1.0, 1.5, 2.5], [1.5, 2.5, 4.0], [2.5, 4.0, 6.5]]
    """
    length, windows = values.shape[1] - memory, len(values) * (values.shape[1] - memory)
    left, entered = values[:, :memory], values[:, length:]
    sums = _running(values[:, :length].sum((0, 1)), (entered - left).sum(0)).flatten()
    # (place, d, lag, d): of v at a place and of v so many places later.
    lagged = _running(_lagged(values[:, :length], values), _shifted(_gram(entered) - _gram(left)))
    place = torch.arange(memory + 1)
    earlier, apart = torch.minimum(place[:, None], place), (place[:, None] - place).abs()
    products = lagged[earlier, :, apart]  # (place, place, d, d), right where the first is the earlier
    later = (place[:, None] > place)[:, :, None, None]
    products = torch.where(later, products.mT, products).transpose(1, 2)
    square = products.reshape(len(sums), len(sums))
    table = torch.cat([sums[:, None], square], 1)
    return torch.cat([functional.pad(sums, (1, 0), value=windows)[None], table]) / windows


def _running(first: Tensor, changes: Tensor) -> Tensor:
    """(places + 1, ..): ``first`` (..), and what it becomes through ``changes`` (places, ..)."""
    return torch.cat([first[None], changes]).cumsum(0)


def _lagged(present: Tensor, values: Tensor) -> Tensor:
    """(d, lags, d): sums over batch and time of ``present_t values_{t+lag}'`` at all lags that there are."""
    time = values.shape[1]
    spectra = torch.fft.rfft(present, time, 1), torch.fft.rfft(values, time, 1)
    products = torch.einsum("bfi,bfj->ifj", spectra[0].conj(), spectra[1])
    sums: Tensor = torch.fft.irfft(products, time, 1)
    return sums[:, : time - present.shape[1] + 1]


def _gram(ends: Tensor) -> Tensor:
    """(places, d, places, d): sums over the batch of ``ends_i ends_j'``."""
    rows = ends.flatten(1)
    return (rows.mT @ rows).view(2 * ends.shape[1:])


def _shifted(gram: Tensor) -> Tensor:
    """(places, d, places + 1, d): ``gram`` by the lag of its second place, zero where there is none."""
    places = len(gram)
    lag = torch.arange(places + 1)
    columns = torch.arange(places)[:, None] + lag
    padded = functional.pad(gram, (0, 0, 0, places + 1))
    index = columns[:, None, :, None].expand(-1, gram.shape[1], -1, gram.shape[3])
    return padded.gather(2, index)
