"""What can be set about a neural estimate, and the sets of defaults."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from treet.checks import check_choice, check_number, check_whole
from treet.errors import TreetError
from treet.training import Schedule

ReferenceName = Literal["uniform", "gaussian", "gaussian given past"]
ObjectiveName = Literal["likelihood", "dv", "per context", "ranking"]

CriticName = Literal["density", "paper", "recurrent"]
DRAWN: tuple[ObjectiveName, ...] = ("dv", "per context", "ranking")
OBJECTIVES: dict[CriticName, tuple[ObjectiveName, ...]] = {
    "density": ("likelihood",),
    "paper": DRAWN,
    "recurrent": DRAWN,
}


@dataclass(frozen=True)
class Settings:
    """What decides how a pair of critics is made and trained; ``folds=None``: by the sample size."""

    critic: CriticName
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

# The reference and the objective are those of Tsur et al., the rest is what measured best.
RECURRENT = Settings(
    critic="recurrent",
    reference="uniform",
    objective="dv",
    draws=4,
    heads=1,
    width=32,
    folds=4,
    schedule=Schedule(
        epochs=64,
        batch_size=512,
        learning_rate=1e-2,
        first_epochs=1,
        least_steps=250,
        weight_decay=0.1,
        clip=1.0,
        tolerance=2e-2,
    ),
)


def resolve(preset: str, **changes: Any) -> Settings:
    """The settings of ``preset`` with those changes that are not None; raises for what makes no sense."""
    check_choice("preset", preset, PRESETS)
    return changed(PRESETS[preset], f"preset={preset!r}", **changes)


def changed(settings: Settings, owner: str, **changes: Any) -> Settings:
    """The settings of ``owner`` with those changes that are not None; raises for what makes no sense."""
    given = {name: value for name, value in changes.items() if value is not None}
    _check(owner, settings.critic, given)
    in_schedule = {
        name: given.pop(name) for name in ("epochs", "batch_size", "learning_rate") if name in given
    }
    if "draws" not in given and settings.draws < 16 and given.get("objective") in ("per context", "ranking"):
        given["draws"] = 16
    return replace(settings, **given, schedule=settings.schedule.changed(**in_schedule))


def _check(owner: str, critic: CriticName, given: dict[str, Any]) -> None:
    for name, choices in (("reference", get_args(ReferenceName)), ("objective", get_args(ObjectiveName))):
        if name in given:
            check_choice(name, given[name], choices)
    if "objective" in given and given["objective"] not in OBJECTIVES[critic]:
        raise TreetError(
            f"objective={given['objective']!r} does not apply to {owner}, whose critic is trained "
            f"by {' or '.join(map(repr, OBJECTIVES[critic]))}. Choose that or leave it out."
        )
    for name in ("epochs", "batch_size", "folds"):
        least = 2 if name == "folds" else 1
        check_whole(name, given.get(name, least), least)
    if "learning_rate" in given:
        check_number("learning_rate", given["learning_rate"], above=0, below=1)
