"""Pairs of critics by name."""

from __future__ import annotations

from treet.estimators.critic_pair import CriticPair
from treet.estimators.density_pair import DensityPair
from treet.estimators.paper_pair import PaperPair

PAIRS: dict[str, type[CriticPair]] = {"density": DensityPair, "paper": PaperPair}
