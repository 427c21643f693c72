"""Real recordings: downloaded once, checked, cached; nothing of them is part of the package."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from treet.checks import check_choice
from treet.data import Recording
from treet.errors import MissingExtraError, TreetError

Floats = NDArray[np.float64]

FOLDER_VARIABLE = "TREET_DATA"
APNEA_URL = "https://physionet.org/files/santa-fe/1.0.0/"
APNEA_HASHES = {
    "b1.txt": "4f925d4097a67c80dc0561d8d1b84541371bc4382a314deab2f8b113bbb6e4f6",
    "b2.txt": "4c1a70aea4cee9b19a194eccf91548efceaff3411ab99d4f4b4f90b1ae07b7df",
}
APNEA_CHANNELS = ("heart", "breath", "oxygen")
APNEA_RATE = 2.0
APNEA_CITATION = """\
Rigney DR, Goldberger AL, Ocasio W, Ichimaru Y, Moody GB, Mark R. Multi-channel physiological data: \
description and analysis. In: Weigend AS, Gershenfeld NA, eds. Time Series Prediction: Forecasting the \
Future and Understanding the Past. Addison-Wesley, 1993, pp. 105-129.
Goldberger AL, Amaral LAN, Glass L, Hausdorff JM, Ivanov PCh, Mark RG, Mietus JE, Moody GB, Peng C-K, \
Stanley HE. PhysioBank, PhysioToolkit, and PhysioNet: components of a new research resource for complex \
physiologic signals. Circulation 101(23):e215-e220, 2000."""
APNEA_LICENCE = "Open Data Commons Attribution License v1.0, https://opendatacommons.org/licenses/by/1-0/"


@dataclass(frozen=True)
class DatasetFiles:
    """Where the files of a data set lie, whom to cite, and under which licence they may be used."""

    paths: tuple[Path, ...]
    citation: str
    licence: str


def fetch(name: str) -> DatasetFiles:
    """The files of a data set by its name: "apnea"."""
    check_choice("data set", name, FETCHERS)
    return FETCHERS[name]()


def load_apnea() -> Recording:
    """Heart rate, chest volume and blood oxygen of a sleeping patient: two trials of 17,000 samples at 2 Hz.

    Data set B of the Santa Fe competition (Rigney et al. 1993), ``santa-fe`` 1.0.0 of PhysioNet. The channels
    are ``heart``, ``breath`` and ``oxygen``; the trials are two consecutive recordings of one patient. For
    where the files come from, whom to cite and the licence see ``fetch_apnea``.
    """
    trials = tuple(_read_columns(path, len(APNEA_CHANNELS)) for path in fetch_apnea().paths)
    return Recording(trials, APNEA_CHANNELS, APNEA_RATE)


def fetch_apnea() -> DatasetFiles:
    """The two files of ``load_apnea``, downloaded from PhysioNet where they are not there yet.

    They are kept in the folder ``apnea`` of the folder that the environment variable ``TREET_DATA`` names,
    or else of a cache folder of the user's. Whatever is found there is used only if its hash is right.
    Downloading takes the extra ``datasets``.
    """
    folder = _data_folder() / "apnea"
    paths = tuple(_fetched(folder, name, known) for name, known in APNEA_HASHES.items())
    return DatasetFiles(paths, APNEA_CITATION, APNEA_LICENCE)


FETCHERS = {"apnea": fetch_apnea}


def _data_folder() -> Path:
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "treet"


def _fetched(folder: Path, name: str, known: str) -> Path:
    path = folder / name
    if not path.is_file():
        _download(folder, name, known)
    elif hashlib.sha256(path.read_bytes()).hexdigest() != known:
        raise TreetError(
            f"{path} is not the file that PhysioNet has as santa-fe 1.0.0: its SHA-256 differs. "
            f"Delete it to download it again, or set {FOLDER_VARIABLE} to another folder."
        )
    return path


def _download(folder: Path, name: str, known: str) -> None:
    try:
        import pooch
    except ImportError as error:
        raise MissingExtraError(f"Downloading {name} of the apnea recording", "datasets") from error
    try:
        pooch.retrieve(APNEA_URL + name, known_hash=f"sha256:{known}", fname=name, path=folder)
    except (OSError, ValueError) as error:
        raise TreetError(
            f"{name} of the apnea recording is not in {folder} and could not be downloaded "
            f"({type(error).__name__}). Download {' and '.join(APNEA_HASHES)} from {APNEA_URL} by other "
            f"means, put them into a folder named apnea, and set {FOLDER_VARIABLE} to the folder around it."
        ) from error


def _read_columns(path: Path, count: int) -> Floats:
    try:
        columns = np.loadtxt(path, dtype=np.float64, ndmin=2)
    except ValueError as error:
        raise TreetError(f"{path} cannot be read as columns of numbers: {error}.") from error
    if columns.shape[1] != count:
        raise TreetError(f"{path} must have {count} columns. Got {columns.shape[1]} instead.")
    return columns
