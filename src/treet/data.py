"""Recordings: what a caller hands in becomes trials of (time, channels) in float64, with NaN for gaps."""

from __future__ import annotations

import difflib
import reprlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Number
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from treet.errors import TreetError

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
SHAPES = "(time,), (time, channels) or (trials, time, channels)"
TRIAL_DIMS = ("trial", "trials", "epoch", "epochs")
LISTED_NAMES = 20
SAMPLES_TO_DIFFER = 1000
SCALARS = (Number, np.generic, str, type(None))


@dataclass(frozen=True, eq=False, repr=False)
class Recording:
    """Channels measured together over one or more trials.

    ``trials``  one array (time, channels) a trial; float64, read-only, NaN is a gap.
    ``names``   one name a channel.
    ``sampling_rate``  samples a second, where it is known.

    >>> recording = as_recording(np.zeros((3, 100, 2)), "source")
    >>> recording
    Recording(3 trials, 300 samples, channels source[0], source[1])
    >>> recording.select("source[1]").names
    ('source[1]',)
    """

    trials: tuple[Floats, ...]
    names: tuple[str, ...]
    sampling_rate: float | None = None

    def __post_init__(self) -> None:
        trials = tuple(_read_only(trial, f"trial {number}") for number, trial in enumerate(self.trials))
        names = tuple(str(name) for name in self.names)
        for number, trial in enumerate(trials):
            if trial.ndim != 2 or trial.shape[1] != len(names):
                raise TreetError(
                    f"Trial {number} must have the shape (time, {len(names)}): one column for each name. "
                    f"Got {trial.shape} instead."
                )
        if not names or not trials or not all(map(len, trials)):
            raise TreetError("A recording needs at least one channel and at least one sample in every trial.")
        object.__setattr__(self, "trials", trials)
        object.__setattr__(self, "names", names)

    @property
    def n_channels(self) -> int:
        return len(self.names)

    @property
    def n_samples(self) -> int:
        """Time steps of all trials together."""
        return sum(map(len, self.trials))

    def select(self, names_or_indices: str | int | Sequence[str | int]) -> Recording:
        """These channels, in this order."""
        return choose(self, names_or_indices)

    def __repr__(self) -> str:
        trials = "1 trial" if len(self.trials) == 1 else f"{len(self.trials)} trials"
        return f"Recording({trials}, {self.n_samples} samples, channels {_listed(self.names)})"


def as_recording(data: Any, role: str) -> Recording:
    """``data`` as a ``Recording``; errors and unnamed channels speak of ``role`` ("source", ...).

    - array (time,), (time, channels) or (trials, time, channels); a masked value is a gap
    - list of numbers: one channel
    - list of anything else: one trial an item, each (time,) or (time, channels), of any lengths
    - pandas Series or DataFrame: names from the columns, unless they are the default 0, 1, ...
    - xarray DataArray with a dimension "time", at most one of trial / trials / epoch / epochs, and at most
      one more, the channels, which are named by their coordinate
    - MNE Raw (spans annotated as bad are gaps) or Epochs (trials)

    Integers, booleans and floats are taken. The data are never written to.

    >>> as_recording([[1, 2, 3], [4, 5]], "target")
    Recording(2 trials, 5 samples, channels target)
    """
    if isinstance(data, Recording):
        return data
    if _is_a(data, "pandas", "Series"):
        return _from_frame(data.to_frame(role if data.name is None else data.name), role)
    if _is_a(data, "pandas", "DataFrame"):
        return _from_frame(data, role)
    if _is_a(data, "xarray", "DataArray"):
        return _from_data_array(data, role)
    if _is_a(data, "mne", "io.BaseRaw"):
        values = data.get_data(picks=data.ch_names, reject_by_annotation="NaN", verbose="warning")
        return _from_mne(values[None], data, role)
    if _is_a(data, "mne", "BaseEpochs"):
        return _from_mne(data.get_data(picks=data.ch_names, copy=False, verbose="warning"), data, role)
    if isinstance(data, list | tuple) and not all(isinstance(item, SCALARS) for item in data[:1]):
        return _from_trials(data, role)
    return _from_array(_array(data, role), role)


def _is_a(data: object, library: str, kind: str) -> bool:
    """Whether ``data`` is of a library's class; nothing is imported to find out."""
    module = sys.modules.get(library)
    return module is not None and isinstance(data, attrgetter(kind)(module))


def _array(data: Any, what: str) -> NDArray[Any]:
    """``data`` as a numeric array, not copied where it already is one."""
    try:
        array = np.asarray(data)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TreetError(f"{what} cannot be read as an array {SHAPES}: {error}") from error
    if array.dtype.kind not in "biuf":
        raise TreetError(
            f"{what} must hold real numbers, with NaN for gaps. Got values of type {array.dtype} instead. "
            "Convert them first, for example with .astype(float)."
        )
    return np.where(np.ma.getmaskarray(data), np.nan, array) if np.ma.isMaskedArray(data) else array


def _read_only(values: Any, what: str) -> Floats:
    """Float64 values that cannot be written to, while the caller's own array stays as it is."""
    view = np.asarray(_array(values, what), dtype=np.float64).view()
    view.flags.writeable = False
    return view


def _recording(
    trials: Iterable[Any], names: Sequence[Any], role: str, rate: float | None = None
) -> Recording:
    trials = tuple(trials)
    if not trials or not len(names):
        raise TreetError(f"{role} is empty: it has no {'channels' if trials else 'samples'}.")
    for number, trial in enumerate(trials):
        if not len(trial):
            which = f"trial {number} of {role}" if len(trials) > 1 else role
            raise TreetError(f"{which} is empty: it has no samples.")
    return Recording(trials, tuple(map(str, names)), rate)


def _default_names(role: str, count: int) -> list[str]:
    return [role] if count == 1 else [f"{role}[{index}]" for index in range(count)]


def _from_array(array: NDArray[Any], role: str) -> Recording:
    if not 1 <= array.ndim <= 3:
        got = "a single value" if array.ndim == 0 else f"the shape {array.shape}"
        raise TreetError(f"{role} must be an array {SHAPES}. Got {got} instead.")
    trials = array.reshape((1, -1, 1)) if array.ndim == 1 else array[None] if array.ndim == 2 else array
    return _recording(trials, _default_names(role, trials.shape[2]), role)


def _from_trials(items: Sequence[Any], role: str) -> Recording:
    parts = [_one_trial(item, number, role) for number, item in enumerate(items)]
    first = parts[0]
    for number, part in enumerate(parts):
        if part.names != first.names:
            raise TreetError(
                f"All trials of {role} must have the same channels. Trial 0 has {first.n_channels} "
                f"({_listed(first.names)}), trial {number} has {part.n_channels} ({_listed(part.names)})."
            )
    return _recording((part.trials[0] for part in parts), first.names, role, first.sampling_rate)


def _one_trial(item: Any, number: int, role: str) -> Recording:
    # A nested list is an array here: only the outermost list separates trials.
    try:
        part = as_recording(_array(item, role) if isinstance(item, list | tuple) else item, role)
    except TreetError as error:
        raise TreetError(f"Trial {number}: {error}") from error
    if len(part.trials) != 1:
        raise TreetError(
            f"Trial {number} of {role} must be (time,) or (time, channels). "
            f"Got {len(part.trials)} trials in it instead."
        )
    return part


def _from_frame(frame: pd.DataFrame, role: str) -> Recording:
    columns = [_frame_column(name, column, role) for name, column in frame.items()]
    unnamed = [*frame.columns] == [*range(len(columns))]
    names = _default_names(role, len(columns)) if unnamed else list(frame.columns)
    return _recording([np.stack(columns, axis=1) if columns else np.empty(frame.shape)], names, role)


def _frame_column(name: Any, column: pd.Series[Any], role: str) -> Floats:
    values, bad = parse_column(column)
    if bad is not None:
        raise TreetError(
            f"Column {str(name)!r} of {role} is not numeric: row {bad} (counted from 0) holds "
            f"{quoted(column.iloc[bad])}. Leave the column out or put numbers in it, with NaN for gaps."
        )
    if column.dtype.kind not in "biuf":
        raise TreetError(
            f"Column {str(name)!r} of {role} must hold numbers. Got values of type {column.dtype} instead. "
            "Convert it first, for example with pandas.to_numeric."
        )
    return values


def quoted(cell: object) -> str:
    """A cell for a message: one short line, whatever it holds."""
    return reprlib.repr(str(cell))


def parse_column(column: pd.Series[Any]) -> tuple[Floats, int | None]:
    """A column's numbers (NaN in gaps), and where its first cell stands that is neither a number nor a gap.

    Text that reads as a number counts as one, since text is all that some files have.
    """
    import pandas as pd

    if column.dtype.kind in "biuf":
        return column.to_numpy(np.float64, na_value=np.nan), None
    numbers = np.full(len(column), np.nan)
    # Dates and complex values would pass as numbers with their meaning lost.
    if column.dtype.kind == "O":
        parsed = pd.to_numeric(column, errors="coerce")
        numbers = parsed.to_numpy(np.float64, na_value=np.nan) if parsed.dtype.kind in "biuf" else numbers
    bad = np.flatnonzero(np.isnan(numbers) & column.notna().to_numpy(bool))
    return numbers, int(bad[0]) if len(bad) else None


def _from_data_array(data: Any, role: str) -> Recording:
    if "time" not in data.dims:
        raise TreetError(
            f"{role} must have a dimension named 'time'. Got {_listed(map(str, data.dims))} instead."
        )
    trial_dims = [dim for dim in data.dims if dim in TRIAL_DIMS]
    channel_dims = [dim for dim in data.dims if dim != "time" and dim not in TRIAL_DIMS]
    if len(trial_dims) > 1 or len(channel_dims) > 1:
        raise TreetError(
            f"{role} may have one dimension for trials ({', '.join(TRIAL_DIMS)}) and one for channels "
            f"besides 'time'. Got {_listed(map(str, data.dims))} instead."
        )
    array = _array(data.transpose(*trial_dims, "time", *channel_dims).to_numpy(), role)
    trials = array if trial_dims else array[None]
    if not channel_dims:
        return _recording(trials[:, :, None], [role if data.name is None else data.name], role)
    named = channel_dims[0] in data.coords
    names = data[channel_dims[0]].to_numpy() if named else _default_names(role, trials.shape[2])
    return _recording(trials, names, role)


def _from_mne(values: NDArray[Any], data: Any, role: str) -> Recording:
    """From (trials, channels, time), MNE's order."""
    return _recording(values.transpose(0, 2, 1), data.ch_names, role, float(data.info["sfreq"]))


def _listed(names: Iterable[str]) -> str:
    names = [name if name.isprintable() else repr(name) for name in names]
    more = f" and {len(names) - LISTED_NAMES} more" if len(names) > LISTED_NAMES else ""
    return ", ".join(names[:LISTED_NAMES]) + more


def choose(
    recording: Recording, wanted: str | int | Sequence[str | int], role: str = "recording"
) -> Recording:
    """The channels of ``recording`` that ``wanted`` names, for ``role``; see ``find_channels``."""
    indices = find_channels(recording.names, wanted, role)
    trials = tuple(trial[:, indices] for trial in recording.trials)
    return Recording(trials, tuple(recording.names[index] for index in indices), recording.sampling_rate)


def find_channels(names: Sequence[str], wanted: str | int | Sequence[str | int], role: str) -> list[int]:
    """Where the wanted channels stand, each given by its name or its index from 0.

    A string of digits is a name if there is such a name, else an index.

    >>> find_channels(["time", "heart", "0"], ["heart", "0", 0], "source")
    [1, 2, 0]
    """
    items = [wanted] if isinstance(wanted, str) or not isinstance(wanted, Iterable) else list(wanted)
    if not items:
        raise TreetError(f"No channel is given for {role}. There are: {_listed(names)}.")
    found = [_find_channel(names, item, role) for item in items]
    for index in found:
        if found.count(index) > 1:
            raise TreetError(f"{role} names the channel {names[index]!r} twice. Name it once.")
    return found


def _find_channel(names: Sequence[str], wanted: str | int, role: str) -> int:
    matches = [index for index, name in enumerate(names) if name == wanted]
    if len(matches) > 1:
        where = " and ".join(map(str, matches))
        raise TreetError(
            f"{role}: {len(matches)} channels are named {wanted!r}. Give an index instead: {where}."
        )
    if matches:
        return matches[0]
    if _is_index(wanted) and 0 <= int(wanted) < len(names):
        return int(wanted)
    close = difflib.get_close_matches(str(wanted), names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    raise TreetError(f"{role}: there is no channel {wanted!r}.{hint} There are: {_listed(names)}.")


def _is_index(wanted: object) -> bool:
    if isinstance(wanted, str):
        return wanted.isascii() and wanted.isdigit()
    return isinstance(wanted, Integral) and not isinstance(wanted, bool)


def check_same_shape(parts: Mapping[str, Recording]) -> None:
    """Raise unless all parts have the same trials, equally long, and the same sampling rate if known."""
    (first_role, first), *others = parts.items()
    for role, part in others:
        if len(part.trials) != len(first.trials):
            raise TreetError(
                f"{first_role} and {role} must have the same number of trials. "
                f"Got {len(first.trials)} and {len(part.trials)}."
            )
        for number, (one, other) in enumerate(zip(first.trials, part.trials, strict=True)):
            if len(one) != len(other):
                where = f" in trial {number}" if len(first.trials) > 1 else ""
                raise TreetError(
                    f"{first_role} and {role} must be equally long. "
                    f"Got {len(one)} and {len(other)} samples{where}."
                )
        if first.sampling_rate and part.sampling_rate and first.sampling_rate != part.sampling_rate:
            raise TreetError(
                f"{first_role} and {role} must be sampled at the same rate. "
                f"Got {first.sampling_rate:g} and {part.sampling_rate:g} Hz."
            )


def check_channels(source: Recording | None, target: Recording, condition: Recording | None) -> None:
    """Raise where a channel has no information or nonsense in it, or is used in two roles at once."""
    given = {"source": source, "target": target, "condition": condition}
    parts = {role: part for role, part in given.items() if part is not None}
    lines = {role: _line(part) for role, part in parts.items()}
    for role, part in parts.items():
        for index, name in enumerate(part.names):
            _check_channel(lines[role][:, index], name, role, part)
    roles = list(parts)
    for number, role in enumerate(roles):
        for other in roles[number + 1 :]:
            _check_distinct(role, parts[role].names, lines[role], other, parts[other].names, lines[other])


def _line(part: Recording) -> Floats:
    """All trials one after another; not copied where there is only one."""
    return part.trials[0] if len(part.trials) == 1 else np.concatenate(part.trials)


def _check_channel(values: Floats, name: str, role: str, part: Recording) -> None:
    # These skip NaN, without a copy of the values.
    lowest, highest = np.fmin.reduce(values), np.fmax.reduce(values)
    if np.isinf(lowest) or np.isinf(highest):
        where = _in_words(int(np.isinf(values).argmax()), part)
        raise TreetError(
            f"Channel {name!r} ({role}) has an infinite value at {where}. Mark missing values with NaN."
        )
    if np.isnan(lowest):
        raise TreetError(f"Channel {name!r} ({role}) is all NaN: it has no values.")
    if lowest == highest:
        raise TreetError(
            f"Channel {name!r} ({role}) is constant, always {lowest:g}. It carries no information: "
            "leave it out."
        )


def _in_words(row: int, part: Recording) -> str:
    """The row of all trials one after another, as a time index of its trial."""
    trial = 0
    while row >= len(part.trials[trial]):
        row -= len(part.trials[trial])
        trial += 1
    return f"time index {row}" + (f" of trial {trial}" if len(part.trials) > 1 else "")


def _check_distinct(
    role: str,
    names: Sequence[str],
    values: Floats,
    other_role: str,
    other_names: Sequence[str],
    other: Floats,
) -> None:
    for i, name in enumerate(names):
        for j, other_name in enumerate(other_names):
            if _same_values(values[:, i], other[:, j]):
                raise TreetError(
                    f"{role} {name!r} and {other_role} {other_name!r} are the same channel: their values are "
                    "identical. Choose different channels."
                )
            if name == other_name:
                raise TreetError(
                    f"{role} and {other_role} both have a channel named {name!r}. Results state their "
                    "direction by name: choose different channels, or rename one."
                )


def _same_values(one: Floats, other: Floats) -> bool:
    # Different channels nearly always differ at once, and there may be many pairs to compare.
    parts = (slice(SAMPLES_TO_DIFFER), slice(SAMPLES_TO_DIFFER, None))
    return all(np.array_equal(one[part], other[part], equal_nan=True) for part in parts)
