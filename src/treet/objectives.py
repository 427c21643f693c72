"""What training maximises and what a divergence is read from: plain functions of scores, in nats.

``real`` holds one score f(y_t) of the real present value for each context, ``reference`` the scores f(y~) of
draws from the reference density q. Every form is largest for f = log p - log q (up to a constant, and for the
per-context forms up to any function of the context), where it estimates KL(p || q).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from treet.errors import TreetError


def log_mean_exp(scores: Tensor, dim: int | None = None) -> Tensor:
    """log of the mean of exp(scores) over ``dim``, or over all of them, without overflow.

    >>> log_mean_exp(torch.tensor([1e4, 1e4])).item()
    10000.0
    """
    scores, dim = (scores.flatten(), 0) if dim is None else (scores, dim)
    if scores.shape[dim] == 0:
        raise TreetError("log_mean_exp needs at least one score. Got none.")
    return torch.logsumexp(scores, dim) - math.log(scores.shape[dim])


def donsker_varadhan(real: Tensor, reference: Tensor) -> Tensor:
    """mean f(y) - log mean exp f(y~), over all contexts and draws: the paper's objective.

    ``real`` and ``reference`` have any shapes. In expectation a lower bound of KL(p || q) but for the bias of
    the logarithm of a sample mean, which is upwards and shrinks with the number of draws.

    >>> donsker_varadhan(torch.tensor([2.0, 4.0]), torch.tensor([[1.0], [1.0]])).item()
    2.0
    """
    return real.mean() - log_mean_exp(reference)


def per_context(real: Tensor, reference: Tensor) -> Tensor:
    """mean over contexts of f(y) - log mean over the context's draws of exp f(y~).

    ``real`` (*contexts), ``reference`` (*contexts, draws). With many draws this is a mean of log p - log q
    with p normalised in every context. With few it is too high in expectation: ``ranking_nce`` is not.

    >>> per_context(torch.tensor([2.0, 4.0]), torch.tensor([[1.0, 1.0], [3.0, 3.0]])).item()
    1.0
    """
    _check_contexts(real, reference)
    return (real - log_mean_exp(reference, -1)).mean()


def ranking_nce(real: Tensor, reference: Tensor) -> Tensor:
    """Ranking noise-contrastive estimation (InfoNCE): ``per_context`` with the real score among the draws.

    ``real`` (*contexts), ``reference`` (*contexts, draws). The mean log probability of picking the real value
    out of draws + 1 candidates, plus log(draws + 1): in expectation a lower bound of KL(p || q) for any
    number of draws, and never above log(draws + 1).

    >>> round(ranking_nce(torch.tensor([50.0]), torch.tensor([[0.0, 0.0, 0.0]])).exp().item(), 4)
    4.0
    """
    _check_contexts(real, reference)
    return (real - log_mean_exp(torch.cat([real[..., None], reference], -1), -1)).mean()


def _check_contexts(real: Tensor, reference: Tensor) -> None:
    if reference.shape[:-1] != real.shape:
        raise TreetError(
            "reference scores must have the shape of the real scores and one more axis, the draws. "
            f"Got real {tuple(real.shape)} and reference {tuple(reference.shape)} instead."
        )


class StreamingLogMeanExp:
    """log of the mean of exp(scores) over scores that come in parts, in float64.

    The largest score so far is kept apart and the sum is kept relative to it, so large scores do not overflow
    and, where all are small, none is lost. As in ``torch.logsumexp``, a score of -inf counts as zero, one of
    +inf makes the value +inf, and a NaN makes it NaN for good.

    >>> stream = StreamingLogMeanExp()
    >>> stream.update([1e4, 1e4]).update(torch.full((2, 1), 1e4)).value
    10000.0
    >>> stream.merge(StreamingLogMeanExp().update([1e4])).count
    5
    """

    def __init__(self) -> None:
        self.count = 0
        self._largest = -math.inf
        self._sum = 0.0  # of exp(score - largest)

    def update(self, scores: Tensor | ArrayLike) -> StreamingLogMeanExp:
        """Take in a tensor or array of any shape; returns itself."""
        if not isinstance(scores, Tensor):
            scores = torch.from_numpy(np.array(scores, dtype=np.float64))
        flat = scores.detach().cpu().to(torch.float64).flatten()
        if len(flat):
            largest = flat.max().item()
            sum_ = torch.exp(flat - largest).sum().item() if math.isfinite(largest) else 0.0
            self._add(largest, sum_, len(flat))
        return self

    def merge(self, other: StreamingLogMeanExp) -> StreamingLogMeanExp:
        """Take in all scores that ``other`` has seen; returns itself."""
        self._add(other._largest, other._sum, other.count)
        return self

    def _add(self, largest: float, sum_: float, count: int) -> None:
        self.count += count
        if math.isnan(largest) or math.isnan(self._largest):
            self._largest = math.nan
        elif math.isinf(top := max(largest, self._largest)):
            self._largest = top
        else:
            kept = self._sum * math.exp(self._largest - top)
            added = sum_ * math.exp(largest - top)
            self._largest, self._sum = top, kept + added

    @property
    def value(self) -> float:
        """log of the mean of exp over everything seen so far."""
        if self.count == 0:
            raise TreetError("The log-mean-exp of no scores is undefined: call update with some first.")
        if not math.isfinite(self._largest):
            return self._largest
        return self._largest + math.log(self._sum) - math.log(self.count)
