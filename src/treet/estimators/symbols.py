"""Symbols of any kind as numbers, and several symbols at once as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treet.data import Recording, as_recording
from treet.errors import TreetError

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

# Further from zero a float64 no longer tells one whole number from the next.
LARGEST_SYMBOL = 2**53


def symbol_recording(data: Any, role: str) -> Recording:
    """``data`` as a ``Recording`` of whole numbers, one for each symbol; NaN, None and pandas' NA are gaps.

    Beside what ``as_recording`` takes: arrays, lists, lists of trials, Series and DataFrames of strings,
    categories or other objects. The same symbol has the same code in all trials of a channel.

    >>> symbol_recording(["rest", "move", "move", None, "rest"], "source").trials[0][:, 0]
    array([ 0.,  1.,  1., nan,  0.])
    """
    try:
        numeric = _numeric(data)
    except (TypeError, ValueError) as error:
        raise TreetError(f"{role} cannot be read as symbols: {error}. Use strings or numbers.") from error
    recording = as_recording(numeric, role)
    for trial in recording.trials:
        _check_whole(trial, recording.names, role)
    return recording


def joint_codes(values: Floats) -> Codes:
    """One code for each distinct row of ``values`` (windows, columns): 0, 1, .. in the order of appearance.

    Columns are joined one by one and the codes renumbered each time: they stay below the number of windows,
    however many columns and symbols there are.

    >>> joint_codes(np.array([[7.0, 1.0], [7.0, 2.0], [7.0, 1.0]]))
    array([0, 1, 0])
    """
    joint = np.zeros(len(values), np.int64)
    for column in values.T:
        joint = paired_codes(joint, _codes(column))
    return joint


def paired_codes(one: Codes, other: Codes) -> Codes:
    """One code for each distinct pair of codes, (windows,)."""
    return _codes(one * (other.max() + 1) + other)


def _codes(column: NDArray[Any]) -> Codes:
    import pandas as pd

    return np.asarray(pd.factorize(column)[0], np.int64)


def _numeric(data: Any) -> Any:
    """``data`` with numbers for its symbols, or as it is where it holds numbers or is of another library."""
    import pandas as pd

    if isinstance(data, np.ndarray) and data.dtype.kind in "OSUT":
        return _numeric(list(data)) if data.ndim == 3 else _numeric_trials([data])[0]
    if isinstance(data, pd.Series | pd.DataFrame):
        return _numeric_trials([data])[0]
    if not isinstance(data, list | tuple) or not len(data):
        return data
    if all(np.ndim(item) == 0 for item in data):
        return _numeric(np.asarray(data, dtype=object))
    listed = [np.asarray(item, dtype=object) if isinstance(item, list | tuple) else item for item in data]
    tabular = all(isinstance(item, np.ndarray | pd.Series | pd.DataFrame) for item in listed)
    return _numeric_trials(listed) if tabular and all(0 < item.ndim < 3 for item in listed) else data


def _numeric_trials(trials: list[Any]) -> list[Any]:
    """The trials as frames of numbers, where a channel's codes are found over all trials together."""
    import pandas as pd

    frames = [_frame(trial) for trial in trials]
    numbered = [frame.set_axis(range(frame.shape[1]), axis=1) for frame in frames]
    joined = pd.concat(numbered, ignore_index=True)
    if not any(column.dtype.kind in "OSUT" for _, column in joined.items()):
        return trials
    joined = pd.DataFrame({index: _numeric_column(column) for index, column in joined.items()})
    ends = np.cumsum([len(frame) for frame in frames])
    return [
        joined.iloc[end - len(frame) : end, : frame.shape[1]].set_axis(frame.columns, axis=1)
        for end, frame in zip(ends, frames, strict=True)
    ]


def _frame(trial: Any) -> pd.DataFrame:
    """Columns 0, 1, .. are what ``as_recording`` takes for channels without a name."""
    import pandas as pd

    named = isinstance(trial, pd.Series) and trial.name is not None
    return trial.to_frame() if named else pd.DataFrame(trial)


def _numeric_column(column: pd.Series[Any]) -> pd.Series[Any]:
    """Numbers stay numbers; objects become codes. Dates and the like are left to be refused."""
    import pandas as pd

    plain = column.astype(object).where(column.notna(), None).infer_objects()
    if plain.dtype.kind in "biufcmM":
        return plain
    codes = pd.Series(pd.factorize(plain)[0], index=column.index, dtype=np.float64)
    return codes.where(codes >= 0)


def _check_whole(trial: Floats, names: tuple[str, ...], role: str) -> None:
    finite = np.where(np.isfinite(trial), trial, 0.0)
    for index, name in enumerate(names):
        values = finite[:, index]
        bad = values[(values != np.round(values)) | (np.abs(values) > LARGEST_SYMBOL)]
        if len(bad):
            raise TreetError(
                f"Channel {name!r} ({role}) must hold symbols: strings, booleans or whole numbers up to 2^53 "
                f"in size. Got {bad[0]:.17g} instead. For continuous values use the estimator 'symbolic', or "
                "discretise them first, for example with numpy.digitize."
            )
