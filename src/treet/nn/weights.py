"""First weights, drawn on the CPU: a seed means the same on every device."""

from __future__ import annotations

import torch
from torch import Tensor


def draw_uniform(weight: Tensor, limit: float, generator: torch.Generator) -> None:
    """Fill ``weight`` with numbers between ``-limit`` and ``limit``.

    >>> weight = torch.zeros(2, 3)
    >>> draw_uniform(weight, 0.5, torch.Generator().manual_seed(0))
    >>> bool((weight.abs() <= 0.5).all() and weight.abs().min() > 0)
    True
    """
    with torch.no_grad():
        weight.copy_(torch.empty(weight.shape).uniform_(-limit, limit, generator=generator))


def draw_normal(weight: Tensor, std: float, generator: torch.Generator) -> None:
    """Fill ``weight`` with normal numbers of mean zero."""
    with torch.no_grad():
        weight.copy_(torch.empty(weight.shape).normal_(0.0, std, generator=generator))
