"""Recordings to files that ``treet.readers`` reads back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from treet.data import Recording
from treet.errors import MissingExtraError, TreetError
from treet.files import replacing


def write_recording(recording: Recording, path: str | Path) -> None:
    """Write a recording as CSV, TSV, Parquet, NPY or NPZ, by the ending of ``path``.

    Tables have one column a channel, and a column ``trial`` where there are several trials.
    NPY holds (time, channels) or (trials, time, channels) without names, NPZ one array a channel.
    """
    writer = _writer(path)
    with replacing(path) as temporary:
        writer(recording, temporary)


def check_data_ending(path: str | Path) -> None:
    """Raise unless ``path`` ends like a data file that can be written."""
    _writer(path)


def _writer(path: str | Path) -> Callable[[Recording, Path], None]:
    ending = Path(path).suffix.lower()
    if ending not in WRITERS:
        raise TreetError(f"A data file to write must end in {', '.join(WRITERS)}. Got {str(path)!r} instead.")
    return WRITERS[ending]


def _frame(recording: Recording) -> pd.DataFrame:
    frame = pd.DataFrame(np.concatenate(recording.trials), columns=list(recording.names))
    if len(recording.trials) > 1:
        lengths = [len(trial) for trial in recording.trials]
        frame.insert(0, "trial", np.repeat(np.arange(len(lengths)), lengths), allow_duplicates=True)
    return frame


def _cube(recording: Recording) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """(time, channels) of a single trial, (trials, time, channels) of several."""
    lengths = {len(trial) for trial in recording.trials}
    if len(lengths) > 1:
        raise TreetError(
            "NPY and NPZ files hold trials of one length only. Write a CSV or Parquet file instead."
        )
    return recording.trials[0] if len(recording.trials) == 1 else np.stack(recording.trials)


def _write_csv(recording: Recording, path: Path) -> None:
    _frame(recording).to_csv(path, index=False)


def _write_tsv(recording: Recording, path: Path) -> None:
    _frame(recording).to_csv(path, index=False, sep="\t")


def _write_parquet(recording: Recording, path: Path) -> None:
    try:
        _frame(recording).to_parquet(path, index=False)
    except ImportError as error:
        raise MissingExtraError("writing Parquet files", "parquet") from error


def _write_npy(recording: Recording, path: Path) -> None:
    np.save(path, _cube(recording), allow_pickle=False)


def _write_npz(recording: Recording, path: Path) -> None:
    cube = _cube(recording)
    # One channel of several trials stays (trials, time, 1): as (trials, time) it would read as channels.
    part = (lambda i: cube[:, i]) if cube.ndim == 2 else (lambda i: cube[:, :, i : i + 1])
    np.savez(path, **{name: part(index) for index, name in enumerate(recording.names)})


WRITERS: dict[str, Callable[[Recording, Path], None]] = {
    ".csv": _write_csv,
    ".tsv": _write_tsv,
    ".parquet": _write_parquet,
    ".npy": _write_npy,
    ".npz": _write_npz,
}
