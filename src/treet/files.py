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
    """A temporary path in the same folder that takes the place of ``path`` when the block ends well."""
    final = Path(path)
    try:
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
        raise TreetError(f"Cannot write {final}: {error.strerror or error}. Choose another place.") from error


def write_text(path: str | Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
