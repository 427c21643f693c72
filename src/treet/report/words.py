"""A result in plain words."""

from __future__ import annotations

from treet.results import TransferEntropyResult, percent

NOT_SETTLED = "Training ended before the validation loss had settled: train longer before using the value."


def answer(result: TransferEntropyResult) -> tuple[str, str, str]:
    """The parts of "x -> y carries 0.411 nats, 95% interval 0.398 to 0.424.": who, how much, how sure."""
    amount = f"{result.te:.4g} {result.unit}"
    sure = ""
    if result.interval is not None:
        low, high = result.interval
        sure += f", {percent(result.confidence)} interval {low:.4g} to {high:.4g}"
    if result.p_value is not None:
        sure += f", p = {result.p_value:.3g}"
    sure += "" if result.converged else ", not converged"
    return result.direction, amount, f"{sure}."


def meaning(result: TransferEntropyResult) -> str:
    """What the value and its interval say about the two series."""
    if result.interval is None:
        return _without_interval(result)
    source, target = ", ".join(result.source), ", ".join(result.target)
    target += f" beyond what {', '.join(result.condition)} tells" if result.condition else ""
    low, high = result.interval
    if low > 0:
        return f"The interval lies above zero: the past of {source} helps to predict {target}."
    if not high < 0:
        return (
            f"The interval contains zero: these data do not show that the past of {source} "
            f"helps to predict {target}."
        )
    return (
        "The interval lies below zero, where no true transfer entropy can be: on data that it had not seen, "
        f"the model with {source} predicted worse than the one without. More data or less history may help."
    )


def _without_interval(result: TransferEntropyResult) -> str:
    if result.p_value is None:
        return f"The estimator {result.estimator} gives no interval: how sure the number is, it does not say."
    return (
        f"The estimator {result.estimator} gives no interval, but a p-value: how likely so large a number "
        "would be if there were no transfer entropy."
    )


def doubts(result: TransferEntropyResult) -> list[str]:
    """Every reason to doubt the number."""
    found = list(result.warnings)
    if not result.converged and not any("converge" in note for note in found):
        found.append(NOT_SETTLED)
    return found


def facts(result: TransferEntropyResult) -> dict[str, str]:
    """How the number was estimated, name by name."""
    rows = {
        "transfer entropy": f"{result.te:.5g} {result.unit}",
        "standard error": _number(result.std_error, result.unit),
        "D_Y, without the source": _number(result.d_y, result.unit),
        "D_XY, with the source": _number(result.d_xy, result.unit),
        "past that was used": str(result.lags),
        "windows": f"{result.n_windows:,}",
        "estimator": result.estimator,
    }
    rows |= {name: str(value) for name, value in result.settings.items() if value is not None}
    return rows | {"seed": str(result.seed), "seconds": f"{result.seconds:.1f}"}


def python_call(result: TransferEntropyResult) -> str:
    """The Python call that gives this result again, for data already loaded."""
    lags = result.lags
    parameters = {
        "target_history": lags.target_history,
        "source_history": lags.source_history,
        "delay": lags.delay,
        "condition_history": lags.condition_history,
        "estimator": result.estimator,
        "unit": result.unit,
        "confidence": result.confidence,
        "random_state": result.seed,
    }
    parameters |= result.settings
    given = [f"{name}={value!r}" for name, value in parameters.items() if value is not None]
    series = "source, target, condition" if result.condition else "source, target"
    # A line break in a name must not end the comment.
    comment = " ".join(result.direction.split())
    return f"treet.transfer_entropy({series}, {', '.join(given)})  # {comment}"


def _number(value: float | None, unit: str) -> str:
    return "not given by this estimator" if value is None else f"{value:.5g} {unit}"
