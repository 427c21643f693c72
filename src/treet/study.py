"""Many computations whose results survive an interruption: each is stored on disk as soon as it is there."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, cast

from treet.data import Recording
from treet.errors import TreetError
from treet.progress import progress
from treet.versions import treet_version

Case = Mapping[str, Any]
Outcome = dict[str, Any]

APPLICATION = 0x74726565  # "tree": SQLite's mark of whose file it is
TABLE = """
CREATE TABLE results (
    key TEXT PRIMARY KEY, label TEXT NOT NULL, version TEXT NOT NULL,
    "case" TEXT NOT NULL, outcome TEXT NOT NULL, made TEXT NOT NULL
)"""
PATIENCE = 60.0
"""Seconds to wait for another process that writes to the same file."""


class Study:
    """Outcomes of cases, kept in an SQLite file; what is there already is not computed again.

    A case is a mapping of settings, an outcome a dictionary; both hold what JSON can. An outcome is found
    again by a digest of the label, the case and the version of this package: a setting that differs is
    another case. Data belong into a case by their ``data_digest``. Each outcome is stored in a transaction of
    its own, so that a process that is killed loses the case that it was at. Several processes may share one
    file. Without a ``path`` nothing is kept.

    >>> calls = []
    >>> def square(case):
    ...     calls.append(case)
    ...     return {"square": case["number"] ** 2}
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     study = Study(Path(folder) / "squares.sqlite")
    ...     first = study.run([{"number": 2}], square, "squares")
    ...     both = study.run([{"number": 2}, {"number": 3}], square, "squares")
    >>> both, len(calls)
    ([{'square': 4}, {'square': 9}], 2)
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = None if path is None else Path(path)

    def run(self, cases: Sequence[Case], function: Callable[[Case], Outcome], label: str) -> list[Outcome]:
        """The outcome of ``function`` for each case, in their order; ``label`` says what it computes.

        Shows progress with the time left on a terminal. An error of ``function`` ends the run; what was
        stored before it stays.
        """
        texts = [_as_json(case, "A case") for case in cases]
        keys = [_key(label, text) for text in texts]
        with self._store() as store:
            found = store.find(keys)
            missing = [number for number, key in enumerate(keys) if key not in found]
            with progress(label, len(missing)) as advance:
                for number in missing:
                    if keys[number] not in found:
                        outcome = _as_json(function(cases[number]), f"The outcome of {label!r}")
                        store.add(keys[number], label, texts[number], outcome)
                        found[keys[number]] = outcome
                    advance(1)
        return [cast("Outcome", json.loads(found[key])) for key in keys]

    def found(self, cases: Sequence[Case], label: str) -> list[Outcome | None]:
        """The outcome of each case as far as it is known; None where it is not."""
        keys = [_key(label, _as_json(case, "A case")) for case in cases]
        with self._store() as store:
            known = store.find(keys)
        return [json.loads(known[key]) if key in known else None for key in keys]

    def take_in(self, path: str | Path) -> None:
        """Copy the outcomes that another file holds, such as one from another machine."""
        with Study(path)._store() as other, self._store() as store:
            store.add_rows(other.rows())

    @contextmanager
    def _store(self) -> Iterator[_Store]:
        path = ":memory:" if self.path is None else str(self.path)
        try:
            with closing(sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)) as connection:
                yield _Store(connection, path)
        except sqlite3.Error as error:
            raise TreetError(f"Cannot keep results in {path}: {error}. Choose another file.") from error


class _Store:
    """The table of outcomes as JSON text, by key."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        self.connection = connection
        with self._transaction():
            (mark,) = connection.execute("PRAGMA application_id").fetchone()
            (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if mark != APPLICATION and tables:
                raise TreetError(f"{path} is a database of something else. Choose another file.")
            if not tables:
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(TABLE)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def find(self, keys: Sequence[str]) -> dict[str, str]:
        """The stored outcomes of ``keys``."""
        query = "SELECT outcome FROM results WHERE key = ?"
        rows = {key: self.connection.execute(query, (key,)).fetchone() for key in keys}
        return {key: row[0] for key, row in rows.items() if row is not None}

    def add(self, key: str, label: str, case: str, outcome: str) -> None:
        made = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self.add_rows([(key, label, treet_version(), case, outcome, made)])

    def rows(self) -> list[tuple[str, ...]]:
        """Everything that is stored."""
        return self.connection.execute("SELECT * FROM results").fetchall()

    def add_rows(self, rows: Sequence[tuple[str, ...]]) -> None:
        with self._transaction():
            # Another process may have been quicker: both computed the same.
            self.connection.executemany("INSERT OR IGNORE INTO results VALUES (?, ?, ?, ?, ?, ?)", rows)


def data_digest(*recordings: Recording | None) -> str:
    """A digest of the values, trials and names of recordings, in their order; None is a place left empty."""
    parts = []
    for recording in recordings:
        trials = () if recording is None else recording.trials
        names = () if recording is None else recording.names
        values = [_digest(trial.tobytes()) for trial in trials]
        parts.append([names, [trial.shape for trial in trials], values])
    return _digest(json.dumps(parts).encode())


def _key(label: str, case: str) -> str:
    return _digest(json.dumps([label, treet_version(), case]).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _as_json(value: object, what: str) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise TreetError(
            f"{what} must hold only what JSON can: numbers, texts, lists and dictionaries. {error}."
        ) from error
