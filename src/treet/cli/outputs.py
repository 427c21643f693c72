"""What commands print and write."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from treet.errors import TreetError

if TYPE_CHECKING:
    from treet.results import TransferEntropyResult


def check_files(**paths: Path | None) -> None:
    """Raise before any work where a picture has no known ending or two files are the same."""
    plot = paths.get("plot")
    if plot is not None:
        from treet.plots import check_ending

        check_ending(plot)
    given = [os.path.realpath(path) for path in paths.values() if path is not None]
    for path in given:
        if given.count(path) > 1:
            raise TreetError(f"{_listed(list(paths))} must be different files. Got {path} twice.")


def _listed(names: Sequence[str]) -> str:
    words = ["DATA" if name == "data" else f"--{name}" for name in names]
    return f"{', '.join(words[:-1])} and {words[-1]}"


def print_results(results: Sequence[TransferEntropyResult], as_json: bool) -> None:
    if not as_json:
        print("\n".join(map(str, results)), flush=True)
        return
    objects = [json.loads(result.to_json()) for result in results]
    print(json.dumps(objects[0] if len(objects) == 1 else objects, indent=2), flush=True)


def write_all(*outputs: tuple[Path | None, Callable[[Path], None]]) -> None:
    """Write what can be written, then raise for all that cannot."""
    errors = []
    for path, write in outputs:
        try:
            if path is not None:
                write(path)
        except TreetError as error:
            errors.append(str(error))
    if errors:
        raise TreetError(" ".join(errors))
