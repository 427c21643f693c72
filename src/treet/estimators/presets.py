"""What can be set about a neural estimate, and the two sets of defaults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from treet.checks import check_choice, check_number, check_whole
from treet.errors import TreetError
from treet.training import Schedule

ReferenceName = Literal["uniform", "gaussian", "gaussian given past"]
ObjectiveName = Literal["likelihood", "dv", "per context", "ranking"]

REFERENCES = ("uniform", "gaussian", "gaussian given past")
OBJECTIVES = {"density": ("likelihood",), "paper": ("dv", "per context", "ranking")}


@dataclass(frozen=True)
class Settings:
    """What decides how a pair of critics is made and trained; ``folds=None``: by the sample size."""

    critic: Literal["density", "paper"]
    reference: ReferenceName
    objective: ObjectiveName
    draws: int
    heads: int
    width: int
    folds: int | None
    schedule: Schedule


PRESETS = {
    "default": Settings(
        critic="density",
        reference="gaussian",
        objective="likelihood",
        draws=0,
        heads=8,
        width=64,
        folds=None,
        schedule=Schedule(
            epochs=126,
            batch_size=None,
            learning_rate=6e-3,
            first_epochs=2,
            least_steps=100,
            weight_decay=0.1,
            clip=1.0,
        ),
    ),
    # Section III and the appendix of the paper: 200 epochs at the most, until the value has settled.
    "paper": Settings(
        critic="paper",
        reference="uniform",
        objective="dv",
        draws=1,
        heads=1,
        width=32,
        folds=2,
        schedule=Schedule(
            epochs=200,
            batch_size=1024,
            learning_rate=8e-3,
            stop="no change",
            validations=200,
            patience=10,
            tolerance=2e-3,
        ),
    ),
}


def resolve(preset: str, **changes: Any) -> Settings:
    """The settings of ``preset`` with those changes that are not None; raises for what makes no sense."""
    check_choice("preset", preset, PRESETS)
    settings = PRESETS[preset]
    given = {name: value for name, value in changes.items() if value is not None}
    _check(preset, settings.critic, given)
    in_schedule = {
        name: given.pop(name) for name in ("epochs", "batch_size", "learning_rate") if name in given
    }
    if "draws" not in given and settings.draws == 1 and given.get("objective") in ("per context", "ranking"):
        given["draws"] = 16
    return replace(settings, **given, schedule=replace(settings.schedule, **in_schedule))


def _check(preset: str, critic: str, given: dict[str, Any]) -> None:
    every = tuple(name for names in OBJECTIVES.values() for name in names)
    for name, choices in (("reference", REFERENCES), ("objective", every)):
        if name in given:
            check_choice(name, given[name], choices)
    if "objective" in given and given["objective"] not in OBJECTIVES[critic]:
        raise TreetError(
            f"objective={given['objective']!r} does not apply to preset={preset!r}, whose critic is trained "
            f"by {' or '.join(map(repr, OBJECTIVES[critic]))}. Leave it out or change the preset."
        )
    for name in ("epochs", "batch_size", "folds"):
        least = 2 if name == "folds" else 1
        check_whole(name, given.get(name, least), least)
    if "learning_rate" in given:
        check_number("learning_rate", given["learning_rate"], above=0, below=1)
