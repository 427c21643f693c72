"""Pairs of critics by name."""

from __future__ import annotations

from treet.estimators.critic_pair import CriticPair
from treet.estimators.density_pair import DensityPair
from treet.estimators.paper_pair import PaperPair
from treet.estimators.presets import CriticName
from treet.estimators.recurrent_pair import RecurrentPair

PAIRS: dict[CriticName, type[CriticPair]] = {
    "density": DensityPair,
    "paper": PaperPair,
    "recurrent": RecurrentPair,
}
