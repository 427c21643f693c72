"""Recordings from files: CSV, TSV, text, Parquet, NumPy and HDF5."""

from __future__ import annotations

import contextlib
import csv
import io
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.format import read_array
from numpy.typing import NDArray

from treet.data import SHAPES, Floats, Recording, find_channels, parse_column, quoted
from treet.errors import MissingExtraError, TreetError

if TYPE_CHECKING:
    import pandas as pd

GAPS = ("", "na", "nan", "n/a", "null")
SEPARATORS = {".csv": ",;\t", ".tsv": "\t", ".txt": "\t,;"}
WHITESPACE = r"\s+"
QUOTED = r'"[^"]*"'
FIRST_RECORD = re.compile(rf"(?:{QUOTED}|[^\n])*")


@dataclass(frozen=True)
class Column:
    """A channel as it stands in a file: numbers or text, trials of these ``lengths`` one after another."""

    name: str
    cells: pd.Series[Any]
    lengths: tuple[int, ...]


@dataclass(frozen=True)
class Table:
    """The columns of a file. A column has to be numeric only when it is used.

    >>> table = read_table("subject.csv")                           # doctest: +SKIP
    >>> table.names                                                 # doctest: +SKIP
    ('comment', 'heart', 'breath')
    >>> source = table.recording(["heart"], "source")               # doctest: +SKIP
    >>> target = table.recording(["breath"], "target")              # doctest: +SKIP
    """

    path: Path
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def recording(
        self,
        channels: str | int | Sequence[str | int] | None = None,
        role: str = "recording",
        trial_column: str | int | None = None,
        *,
        symbols: bool = False,
    ) -> Recording:
        """The channels by name or by index (all columns of the file count, from 0); all of them by default.

        A run of equal values in ``trial_column`` (numbers or text) is a trial. With ``symbols`` a column of
        text is read as well: a number stands for each different word, in the order of appearance.
        """
        if not symbols and not _has_numbers(self.columns):
            raise TreetError(f"{self.path} has no numeric data in it.")
        trial_index = None if trial_column is None else self._find(trial_column, "trial column")[0]
        indices = self._find(channels, role) if channels is not None else range(len(self.columns))
        used = [self.columns[index] for index in indices if channels is not None or index != trial_index]
        if not used:
            raise TreetError(f"{self.path} has no channel besides the trial column.")
        self._check_lengths([*used, *([] if trial_index is None else [self.columns[trial_index]])])
        values = np.stack([self._numbers(column, symbols) for column in used], axis=1)
        lengths = used[0].lengths if trial_index is None else self._trial_lengths(self.columns[trial_index])
        trials = np.split(values, np.cumsum(lengths)[:-1])
        return Recording(tuple(trials), tuple(column.name for column in used))

    def _find(self, wanted: str | int | Sequence[str | int], role: str) -> list[int]:
        try:
            return find_channels(self.names, wanted, role)
        except TreetError as error:
            raise TreetError(f"{self.path}: {error}") from error

    def _check_lengths(self, used: Sequence[Column]) -> None:
        for column in used:
            if column.lengths != used[0].lengths:
                raise TreetError(
                    f"{self.path}: channels used together must be equally long. {used[0].name!r} has "
                    f"{_lengths_in_words(used[0])}, {column.name!r} has {_lengths_in_words(column)}."
                )

    def _numbers(self, column: Column, symbols: bool) -> Floats:
        values, bad = parse_column(column.cells)
        if bad is not None and symbols:
            codes = column.cells.factorize()[0].astype(np.float64)
            return np.where(codes < 0, np.nan, codes)
        if bad is not None:
            raise TreetError(
                f"{self.path}: column {column.name!r} is not numeric. Row {bad + 1} (the first row of data "
                f"is 1) holds {quoted(column.cells.iloc[bad])}. Choose another column, or leave the cell "
                "empty where a value is missing."
            )
        return values

    def _trial_lengths(self, column: Column) -> list[int]:
        if len(column.lengths) > 1:
            raise TreetError(
                f"{self.path} already holds {len(column.lengths)} trials. Leave out the trial column."
            )
        missing = column.cells.isna().to_numpy(bool)
        if missing.any():
            raise TreetError(
                f"{self.path}: the trial column {column.name!r} is empty in row {int(missing.argmax()) + 1} "
                "(the first row of data is 1). Every row needs a trial."
            )
        codes = column.cells.factorize()[0]
        starts = np.flatnonzero(np.r_[True, np.diff(codes) != 0])
        # Factorised codes count up in order of appearance, so one that does not is coming back.
        again = starts[codes[starts] != np.arange(len(starts))]
        if len(again):
            raise TreetError(
                f"{self.path}: trial {quoted(column.cells.iloc[again[0]])} begins again in row "
                f"{again[0] + 1} (the first row of data is 1) after another trial. The rows of a trial must "
                f"stand together: sort them by {column.name!r}, or give each trial its own value."
            )
        return [int(length) for length in np.diff(np.r_[starts, len(codes)])]


def _lengths_in_words(column: Column) -> str:
    if len(column.lengths) == 1:
        return f"{column.lengths[0]} samples"
    return f"{len(column.lengths)} trials of {column.lengths[0]} samples"


def read_recording(
    path: str | Path,
    channels: str | int | Sequence[str | int] | None = None,
    trial_column: str | int | None = None,
) -> Recording:
    """A recording from one file; by default of all its columns, which must then all be numeric.

    See ``read_table`` for the formats, and for choosing several recordings from one file.

    >>> recording = read_recording("subject.csv", ["heart", "breath"], trial_column="night")  # doctest: +SKIP
    """
    return read_table(path).recording(channels, trial_column=trial_column)


def read_table(path: str | Path) -> Table:
    """The columns of a file, by its ending.

    - ``.csv .tsv .txt``: the first row is the header unless it is all numbers; then the names are 0, 1, ...
      Empty cells, NA and NaN are gaps, and so is an empty line between others. A .txt file may be separated
      by tabs, commas, semicolons or spaces. Lines that begin with # before the data are comments; the last
      one is the header where it has a name for every column.
    - ``.parquet``: every column.
    - ``.npy``: (time,), (time, channels) or (trials, time, channels), names 0, 1, ...
    - ``.npz``, ``.h5``, ``.hdf5``: every array (time,) is a channel called by its key; ``key[0]``,
      ``key[1]``, ... are the channels of an array with more dimensions. Arrays of Python objects are left
      out: they are never unpickled.
    """
    path = Path(path)
    reader = _reader(path)
    try:
        _check_file(path)
        columns = tuple(reader(path))
    except (TreetError, MissingExtraError):
        raise
    except Exception as error:  # damaged files make the libraries raise errors of any kind
        first_line = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
        raise TreetError(
            f"Cannot read {path}: {first_line}. Check that the file is what its ending {path.suffix} says."
        ) from error
    return Table(path, columns)


def _reader(path: Path) -> Callable[[Path], Sequence[Column]]:
    try:
        return READERS[path.suffix.lower()]
    except KeyError:
        got = f"the ending {path.suffix!r}" if path.suffix else "no ending"
        raise TreetError(
            f"{path}: a data file must end in {', '.join(READERS)}. Got {got} instead."
        ) from None


def _check_file(path: Path) -> None:
    if not path.exists():
        raise TreetError(f"There is no file {path}. Check the path.")
    if not path.is_file():
        raise TreetError(f"{path} is not a file. Give the path of a data file.")
    if path.stat().st_size == 0:
        raise TreetError(f"{path} is an empty file.")


def _has_numbers(columns: Sequence[Column]) -> bool:
    # A column that is numeric by type counts even when all of it is missing: its user is told by its name.
    filled = [column.cells for column in columns if len(column.cells)]
    return any(cells.dtype.kind in "biuf" for cells in filled) or any(
        np.isfinite(parse_column(cells)[0]).any() for cells in filled
    )


def _frame_columns(frame: pd.DataFrame, names: Sequence[Any]) -> list[Column]:
    return [Column(str(name), frame.iloc[:, i], (len(frame),)) for i, name in enumerate(names)]


def _read_text(path: Path) -> list[Column]:
    comments, body = _split_comments(_decoded(path))
    record = FIRST_RECORD.match(body)
    first = record.group() if record else ""
    separator = _separator(first, path.suffix.lower())
    cells = _cells(first, separator)
    has_header = not all_numbers(cells)
    rows = body[len(first) + 1 :] if has_header else body
    if not rows:
        raise TreetError(f"{path} has a header but no rows of data.")
    names = cells if has_header else _comment_names(comments, separator)
    return _frame_columns(_rows(rows, separator, len(cells)), _header(names, len(cells)))


def _rows(rows: str, separator: str, count: int) -> pd.DataFrame:
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            return pd.read_csv(
                io.StringIO(rows),
                sep=separator,
                header=None,
                names=range(count),
                index_col=False,
                skip_blank_lines=False,
                skipinitialspace=True,
                low_memory=False,
            )
        except pd.errors.ParserWarning as error:
            raise ValueError(f"The first row has {count} columns, a later one has more") from error
        except pd.errors.ParserError as error:
            raise ValueError(str(error).replace("in line", "in data row")) from error


def _decoded(path: Path) -> str:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise TreetError(
            f"{path} is not text in UTF-8, as its ending {path.suffix} says. Save it as UTF-8 text."
        )
    text = text.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    if not text.strip():
        raise TreetError(f"{path} is an empty file.")
    return text


def _split_comments(text: str) -> tuple[list[str], str]:
    """The lines before the data that begin with #, without it, and the rest."""
    comments = []
    while text.startswith("#"):
        line, _, text = text.partition("\n")
        comments.append(line.lstrip("#"))
        text = text.lstrip("\n")
    return comments, text


def _comment_names(comments: Sequence[str], separator: str) -> list[str]:
    return _cells(comments[-1], separator) if comments else []


def _separator(line: str, ending: str) -> str:
    found = [separator for separator in SEPARATORS[ending] if separator in re.sub(QUOTED, "", line)]
    return found[0] if found else WHITESPACE if ending == ".txt" else SEPARATORS[ending][0]


def _cells(line: str, separator: str) -> list[str]:
    if separator == WHITESPACE:
        return [cell.strip('"') for cell in re.findall(rf"{QUOTED}|\S+", line)]
    cells = next(csv.reader([line], delimiter=separator), [""])
    return [cell.replace("\n", " ").strip() for cell in cells]


def all_numbers(cells: Sequence[str]) -> bool:
    """Whether a first row of these cells is read as data: all numbers or gaps."""
    return all(map(_is_number_or_gap, cells))


def _is_number_or_gap(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell.lower() in GAPS
    return "_" not in cell  # 1_0 is a number to Python, but a name to everyone else


def _header(names: Sequence[str], count: int) -> list[str]:
    """A name for each of ``count`` columns; its index where there is none."""
    given = names if len(names) == count else [""] * count
    return [name or str(index) for index, name in enumerate(given)]


def _read_parquet(path: Path) -> list[Column]:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("reading Parquet files", "parquet") from error

    with pyarrow.parquet.ParquetFile(path) as file:
        frame = file.read().to_pandas(ignore_metadata=True)
    return _frame_columns(frame, list(frame.columns))


def _array_columns(array: NDArray[Any], name: str | None) -> list[Column]:
    """The channels of an array (time,), (time, channels) or (trials, time, channels), else none."""
    import pandas as pd

    if not 1 <= array.ndim <= 3 or array.dtype.kind == "V":
        return []
    trials = array.reshape(1, -1, 1) if array.ndim == 1 else array[None] if array.ndim == 2 else array
    count, length, channels = trials.shape
    series = [pd.Series(trials[:, :, index].reshape(-1)) for index in range(channels)]
    if name is None:
        names = [str(index) for index in range(channels)]
    else:
        names = [name] if channels == 1 else [f"{name}[{index}]" for index in range(channels)]
    lengths = (length,) * count or (0,)
    return [Column(label, cells, lengths) for label, cells in zip(names, series, strict=True)]


def _read_npy(path: Path) -> list[Column]:
    with path.open("rb") as file:
        array = read_array(file, allow_pickle=False)
    columns = _array_columns(array, None)
    if not columns:
        raise ValueError(f"The array must be {SHAPES}, of numbers")
    return columns


def _read_npz(path: Path) -> list[Column]:
    arrays = {}
    with zipfile.ZipFile(path) as archive:
        for entry in archive.namelist():
            # Python objects would have to be unpickled, which can run code: they are left out.
            with archive.open(entry) as file, contextlib.suppress(ValueError):
                arrays[entry.removesuffix(".npy")] = read_array(file, allow_pickle=False)
    return _keyed_columns(arrays)


def _read_hdf5(path: Path) -> list[Column]:
    try:
        import h5py
    except ImportError as error:
        raise MissingExtraError("reading HDF5 files", "hdf5") from error

    arrays = {}

    def collect(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and 1 <= item.ndim <= 3:
            arrays[name] = item[()]

    with h5py.File(path, "r") as file:
        file.visititems(collect)
    return _keyed_columns(arrays)


def _keyed_columns(arrays: Mapping[str, Any]) -> list[Column]:
    kept = {key: array for key, array in arrays.items() if isinstance(array, np.ndarray)}
    return [column for key, array in kept.items() for column in _array_columns(array, key)]


READERS: dict[str, Callable[[Path], list[Column]]] = {
    ".csv": _read_text,
    ".tsv": _read_text,
    ".txt": _read_text,
    ".parquet": _read_parquet,
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
}
