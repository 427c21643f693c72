"""Writing files so that a crash leaves the old file or the new one, never half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from treet.errors import TreetError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary path in the same folder that takes the place of ``path`` when the block ends well.

    A link stays and its target is replaced; a device or a pipe is written to as it is.
    """
    final = Path(path)
    try:
        if final.exists() and not final.is_file() and not final.is_dir():
            yield final
            return
        final = Path(os.path.realpath(final))
        handle, name = tempfile.mkstemp(prefix=f".{final.name}.", suffix=final.suffix, dir=final.parent)
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            umask = os.umask(0)
            os.umask(umask)
            temporary.chmod(0o666 & ~umask)
            temporary.replace(final)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise TreetError(f"Cannot write {path}: {error.strerror or error}. Choose another place.") from error


def write_text(path: str | Path, text: str) -> None:
    """In UTF-8; what it cannot hold, as in the names of some files, is written as an escape."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: str | Path, content: bytes) -> None:
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def made_folder(folder: str | Path) -> Path:
    """``folder``, which is made with all above it where it is not there."""
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TreetError(f"Cannot make the folder {path}: {error.strerror}. Choose another place.") from error
    return path
