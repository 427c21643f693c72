"""A fitted estimator in one safetensors file: tensors, and JSON in the file's header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as as_bytes
from torch import Tensor
from torch.overrides import TorchFunctionMode

from treet.errors import TreetError
from treet.estimators.critic_pair import CriticPair, FittedFold
from treet.estimators.density_pair import MOST_STAGES, DensityPair
from treet.estimators.pairs import PAIRS
from treet.estimators.presets import Settings
from treet.files import write_bytes
from treet.lags import Lags
from treet.results import TransferEntropyResult, check_unit
from treet.series import Floats, Scaler
from treet.training import History
from treet.windows import ROLES

if TYPE_CHECKING:
    from treet.estimators.neural import CrossFitted, Fitted

FORMAT = "treet estimator 1"
LEFT_OUT = ("local", "history", "lags")  # of the result: kept as tensors or apart

NUMBERS = ("te", "std_error", "confidence", "d_y", "d_xy", "seconds")
LISTS = ("source", "target", "condition", "interval", "warnings")
FLOAT_OR_NONE, TEXT_OR_NONE = (float, type(None)), (str, type(None))
KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(NUMBERS, (int, float)),
    **dict.fromkeys(LISTS, (list,)),
    "n_windows": (int,),
    "seed": (int, type(None)),
    "p_value": FLOAT_OR_NONE,
    "effective_te": FLOAT_OR_NONE,
    "test": TEXT_OR_NONE,
    "converged": (bool,),
    "unit": (str,),
    "estimator": (str,),
    "settings": (dict,),
}
"""What JSON holds for the fields of a result."""


class Shapes:
    """Stands in for the recording that a pair was made for: its lags and its channels."""

    def __init__(self, lags: Lags, channels: Mapping[str, int]) -> None:
        self.lags = lags
        self.values = {role: torch.zeros(0, count) for role, count in channels.items() if count}

    def shapes(self, roles: tuple[str, ...]) -> dict[str, tuple[int, int]]:
        return {
            role: (len(self.lags.of(role)), self.values[role].shape[1])
            for role in roles
            if role in self.values
        }


def save(estimator: CrossFitted, path: str | Path) -> None:
    if not hasattr(estimator, "folds_"):
        raise TreetError("This estimator is not fitted, so there is nothing to save. Call fit first.")
    tensors = {f"local.{number}": torch.from_numpy(trial.copy()) for number, trial in _numbered(estimator)}
    for number, fold in enumerate(estimator.folds_):
        weights = fold.pair.state_dict()
        # The critic of XY holds that of Y: one copy is enough.
        kept = {name: value for name, value in weights.items() if not name.startswith("xy.base.")}
        tensors |= {f"fold.{number}.{name}": value.cpu().contiguous() for name, value in kept.items()}
        tensors |= {
            f"scaler.{number}.{name}": torch.from_numpy(getattr(fold.scaler, name).copy())
            for name in ("mean", "std")
        }
    description = json.dumps(_description(estimator), default=_plain)
    write_bytes(path, as_bytes(tensors, metadata={"treet": description}))


def _numbered(estimator: CrossFitted) -> Any:
    return enumerate(estimator.result_.local or ())


def _description(estimator: CrossFitted) -> dict[str, Any]:
    result = estimator.result_
    return {
        "format": FORMAT,
        "parameters": estimator.get_params(deep=False),
        "lags": asdict(result.lags),
        "folds": len(estimator.folds_),
        "result": {
            field.name: getattr(result, field.name) for field in fields(result) if field.name not in LEFT_OUT
        },
        "trials": len(result.local or ()),
        "history": [asdict(history) for history in result.history],
    }


def _plain(value: object) -> int | float | str:
    """What JSON does not know: NumPy's numbers, and devices."""
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else str(value)


def load(kind: type[Fitted], path: str | Path) -> Fitted:
    path = Path(path)
    if not path.is_file():
        raise TreetError(f"There is no file {path}. Check the path.")
    try:
        with safe_open(path, framework="pt") as file:
            description = json.loads((file.metadata() or {})["treet"])
            # Copies: what is read lazily would break when the file is overwritten.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        return _rebuilt(kind, description, tensors)
    except TreetError:
        raise
    except (
        SafetensorError,
        OSError,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        RuntimeError,
        ArithmeticError,
    ) as error:
        raise TreetError(
            f"{path} is not a saved estimator, or it is damaged: {type(error).__name__}. Save it again."
        ) from error


def _rebuilt(kind: type[Fitted], description: dict[str, Any], tensors: dict[str, Tensor]) -> Fitted:
    if description["format"] != FORMAT:
        raise TreetError(f"The file has the format {description['format']!r}; this version reads {FORMAT!r}.")
    held = description["result"]["estimator"]
    if held != kind.name:
        raise TreetError(f"The file must hold the estimator {kind.name!r}. Got {held!r:.40} instead.")
    estimator = kind(**description["parameters"])
    estimator._check_common()
    estimator.settings_ = estimator._resolved()
    local = _local(description, tensors)
    lags = _lags(description, longest=max(map(len, local)))
    result = _result(description, lags, local)
    channels: dict[str, int] = {role: len(getattr(result, role)) for role in ROLES}
    folds = []
    _require(0 < description["folds"] <= len(tensors), "it has no folds, or more than tensors")
    for number in range(description["folds"]):
        scaler = _scaler(tensors, number, sum(channels.values()))
        pair = _pair(estimator, Shapes(lags, channels), _under(tensors, f"fold.{number}."))
        empty = np.zeros(0)
        folds.append(FittedFold(pair, scaler, empty, empty))
    estimator.folds_ = folds
    estimator._set_fitted(result)
    return estimator


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise TreetError(f"The saved estimator is damaged: {otherwise}. Save it again.")


def _local(description: dict[str, Any], tensors: Mapping[str, Tensor]) -> tuple[Floats, ...]:
    """The local values, one array a trial."""
    local = tuple(tensors[f"local.{number}"] for number in range(description["trials"]))
    right = all(trial.dtype == torch.float64 and trial.ndim == 1 for trial in local)
    _require(bool(local) and right, "its local values are not arrays (time,) of float64")
    return tuple(trial.numpy() for trial in local)


def _lags(description: dict[str, Any], longest: int) -> Lags:
    """The lags; ones that no trial is long enough for would only take up memory."""
    lags = Lags(**description["lags"])
    _require(lags.span < longest, f"its lags ({lags}) are longer than its trials")
    return lags


def _scaler(tensors: Mapping[str, Tensor], number: int, channels: int) -> Scaler:
    mean, std = (tensors[f"scaler.{number}.{name}"] for name in ("mean", "std"))
    right = all(part.dtype == torch.float64 and part.shape == (channels,) for part in (mean, std))
    _require(right, f"the scales of fold {number} are not one for each of {channels} channels")
    right = bool(mean.isfinite().all() and std.isfinite().all() and (std > 0).all())
    _require(right, f"the scales of fold {number} are not finite and positive")
    return Scaler(mean.numpy(), std.numpy())


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


class _Unallocated(TorchFunctionMode):
    """Weights take no memory when they are made; small tables that are computed are made as usual."""

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        changed = {"device": "meta"} if function in (torch.empty, torch.zeros) else {}
        return function(*args, **(kwargs or {}) | changed)


def _pair(estimator: CrossFitted, shapes: Shapes, weights: dict[str, Tensor]) -> CriticPair:
    # Nothing is allocated until the file's own tensors are known to fit.
    with _Unallocated():
        pair = _made_pair(estimator.settings_, shapes, weights)
    shared = {f"xy.base.{name.removeprefix('y.')}": t for name, t in weights.items() if name.startswith("y.")}
    expected = pair.state_dict()
    given = weights | {name: tensor for name, tensor in shared.items() if name in expected}
    for name, tensor in given.items():
        like = expected.get(name)
        right = like is not None and (tensor.dtype, tensor.shape) == (like.dtype, like.shape)
        _require(right, f"its tensor {name!r} of {tensor.dtype}, {tuple(tensor.shape)}, has no place there")
    pair.load_state_dict(given, strict=True, assign=True)
    pair.requires_grad_(False)
    return pair


def _made_pair(settings: Settings, shapes: Shapes, weights: Mapping[str, Tensor]) -> CriticPair:
    """A pair with as many stages of the critic of Y as the weights are of."""
    kind = PAIRS[settings.critic]
    if kind is not DensityPair:
        return kind(cast("Any", shapes), settings)
    stages = 1 + max((name.count("base.") for name in weights if name.startswith("y.")), default=0)
    _require(stages <= MOST_STAGES, f"its critic of Y has {stages} stages")
    return DensityPair(cast("Any", shapes), settings, stages)


def _result(description: dict[str, Any], lags: Lags, local: tuple[Floats, ...]) -> TransferEntropyResult:
    values = description["result"]
    for name, kinds in KINDS.items():
        _require(type(values[name]) in kinds, f"its {name} is {values[name]!r:.40}")
    check_unit(values["unit"])
    for name in ("source", "target", "condition", "warnings"):
        values[name] = tuple(map(str, values[name]))
    values |= {name: float(values[name]) for name in NUMBERS}
    low, high = map(float, values["interval"])
    values["interval"] = low, high
    histories = [_history(history) for history in description["history"]]
    return TransferEntropyResult(**values, lags=lags, local=local, history=tuple(histories))


def _history(values: dict[str, Any]) -> History:
    step = tuple(map(int, values["step"]))
    train, validation = (tuple(map(float, values[name])) for name in ("train", "validation"))
    _require(len(step) == len(train) == len(validation), "its training history has holes")
    return History(
        str(values["label"]), step, train, validation, int(values["best_step"]), bool(values["converged"])
    )
