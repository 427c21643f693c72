"""A fitted estimator in one safetensors file: tensors, and JSON in the file's header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from treet.errors import TreetError
from treet.estimators.critic_pair import CriticPair, FittedFold
from treet.estimators.pairs import PAIRS
from treet.files import replacing
from treet.lags import Lags
from treet.results import TransferEntropyResult
from treet.series import Scaler
from treet.training import History

if TYPE_CHECKING:
    from treet.estimators.neural import TREET

FORMAT = "treet estimator 1"
LEFT_OUT = ("local", "history", "lags")  # of the result: kept as tensors or apart


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


def save(estimator: TREET, path: str | Path) -> None:
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
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata={"treet": json.dumps(_description(estimator))})


def _numbered(estimator: TREET) -> Any:
    return enumerate(estimator.result_.local or ())


def _description(estimator: TREET) -> dict[str, Any]:
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


def load(kind: type[TREET], path: str | Path) -> TREET:
    path = Path(path)
    if not path.is_file():
        raise TreetError(f"There is no file {path}. Check the path.")
    try:
        with safe_open(path, framework="pt") as file:
            description = json.loads((file.metadata() or {})["treet"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
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
        RecursionError,
    ) as error:
        raise TreetError(
            f"{path} is not a saved estimator, or it is damaged: {type(error).__name__}. Save it again."
        ) from error


def _rebuilt(kind: type[TREET], description: dict[str, Any], tensors: dict[str, Tensor]) -> TREET:
    if description["format"] != FORMAT:
        raise TreetError(f"The file has the format {description['format']!r}; this version reads {FORMAT!r}.")
    estimator = kind(**description["parameters"])
    lags = Lags(**description["lags"])
    estimator.settings_ = estimator._resolved()
    result = _result(description, lags, tensors)
    channels = {role: len(getattr(result, role)) for role in ("target", "source", "condition")}
    folds = []
    for number in range(description["folds"]):
        pair = _pair(estimator, Shapes(lags, channels), _under(tensors, f"fold.{number}."))
        mean, std = (tensors[f"scaler.{number}.{name}"].numpy() for name in ("mean", "std"))
        empty = np.zeros(0)
        folds.append(FittedFold(pair, Scaler(mean, std), empty, empty))
    estimator.folds_ = folds
    estimator._set_fitted(result)
    return estimator


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _pair(estimator: TREET, shapes: Shapes, weights: dict[str, Tensor]) -> CriticPair:
    # On the meta device nothing is allocated until the file's own tensors are known to fit.
    with torch.device("meta"):
        pair = PAIRS[estimator.settings_.critic](cast("Any", shapes), estimator.settings_)
    shared = {f"xy.base.{name.removeprefix('y.')}": t for name, t in weights.items() if name.startswith("y.")}
    expected = pair.state_dict()
    given = weights | {name: tensor for name, tensor in shared.items() if name in expected}
    pair.load_state_dict(given, strict=True, assign=True)
    pair.requires_grad_(False)
    return pair


def _result(description: dict[str, Any], lags: Lags, tensors: Mapping[str, Tensor]) -> TransferEntropyResult:
    values = description["result"]
    for name in ("source", "target", "condition", "warnings"):
        values[name] = tuple(map(str, values[name]))
    if values["interval"] is not None:
        values["interval"] = tuple(values["interval"])
    histories = [_history(history) for history in description["history"]]
    local = tuple(tensors[f"local.{number}"].numpy() for number in range(description["trials"]))
    return TransferEntropyResult(**values, lags=lags, local=local or None, history=tuple(histories))


def _history(values: dict[str, Any]) -> History:
    plain: dict[str, Any] = {
        key: tuple(item) if isinstance(item, list) else item for key, item in values.items()
    }
    return History(**plain)
