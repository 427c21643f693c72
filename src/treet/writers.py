"""Recordings to files that ``treet.readers`` reads back."""

from __future__ import annotations

import csv
import re
import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from treet.data import Recording
from treet.errors import MissingExtraError, TreetError
from treet.files import replacing
from treet.readers import all_numbers

SEPARATORS = {".csv": ",", ".tsv": "\t"}
PLAIN_NAME = re.compile(r"[\w .%()\[\]/+-]*")


def write_recording(recording: Recording, path: str | Path) -> None:
    """Write a recording as CSV, TSV, Parquet, NPY or NPZ, by the ending of ``path``.

    Tables have one column a channel, and a column ``trial`` where there are several trials. A header that
    would be read as a row of numbers is written as a comment.
    NPY holds (time, channels) or (trials, time, channels) without names, NPZ one array a channel.
    """
    writer = _writer(path)
    with replacing(path) as temporary:
        writer(recording, temporary)


def check_data_ending(path: str | Path) -> None:
    """Raise unless ``path`` ends like a data file that can be written."""
    _writer(path)


def write_table(frame: pd.DataFrame, path: str | Path) -> None:
    """Write a table as CSV, TSV or Parquet, by the ending of ``path``; what is missing is left empty."""
    check_table_ending(path)
    separator = SEPARATORS.get(Path(path).suffix.lower())
    with replacing(path) as temporary:
        if separator is None:
            _to_parquet(frame, temporary)
        else:
            frame.to_csv(temporary, index=False, sep=separator, lineterminator="\n")


def check_table_ending(path: str | Path) -> None:
    """Raise unless ``path`` ends like a table that can be written."""
    endings = (*SEPARATORS, ".parquet")
    if Path(path).suffix.lower() not in endings:
        raise TreetError(f"A table to write must end in {', '.join(endings)}. Got {str(path)!r} instead.")


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


def _write_text(recording: Recording, path: Path, separator: str) -> None:
    frame = _frame(recording)
    names = list(frame.columns)
    _check_headers(names, path.suffix)
    plain = all(map(PLAIN_NAME.fullmatch, names))
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write("# " if all_numbers(names) else "")
        csv.writer(
            file,
            delimiter=separator,
            quoting=csv.QUOTE_MINIMAL if plain else csv.QUOTE_ALL,
            lineterminator="\n",
        ).writerow(names)
        frame.to_csv(file, header=False, index=False, sep=separator, lineterminator="\n")


def _check_headers(names: Sequence[str], ending: str) -> None:
    for name in names:
        if name.strip().splitlines() != [name] or "\0" in name:
            raise TreetError(
                f"The channel name {name!r} cannot be a header in a {ending} file: it must be one line, not "
                "empty and without spaces around it. Rename the channel or write a Parquet file."
            )


def _check_keys(names: Sequence[str], ending: str) -> None:
    for name in names:
        if names.count(name) > 1 or "\0" in name:
            raise TreetError(
                f"The channel name {name!r} cannot be a key in a {ending} file: it must be unique and "
                "without null characters. Rename the channel."
            )


def _write_parquet(recording: Recording, path: Path) -> None:
    frame = _frame(recording)
    _check_keys(list(frame.columns), path.suffix)
    _to_parquet(frame, path)


def _to_parquet(frame: pd.DataFrame, path: Path) -> None:
    try:
        frame.to_parquet(path, index=False)
    except ImportError as error:
        raise MissingExtraError("writing Parquet files", "parquet") from error


def _write_npy(recording: Recording, path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, _cube(recording), allow_pickle=False)


def _write_npz(recording: Recording, path: Path) -> None:
    _check_keys(recording.names, path.suffix)
    cube = _cube(recording)
    with zipfile.ZipFile(path, "w") as archive:
        for index, name in enumerate(recording.names):
            # One channel of several trials stays (trials, time, 1): (trials, time) would read as channels.
            channel = cube[:, index] if cube.ndim == 2 else cube[:, :, [index]]
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.save(file, channel, allow_pickle=False)


WRITERS: dict[str, Callable[[Recording, Path], None]] = {
    **{ending: partial(_write_text, separator=separator) for ending, separator in SEPARATORS.items()},
    ".parquet": _write_parquet,
    ".npy": _write_npy,
    ".npz": _write_npz,
}
