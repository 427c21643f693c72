"""A progress bar with the time left on a terminal, nothing in a pipe."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_shown: ContextVar[bool] = ContextVar("shown", default=False)


@contextmanager
def progress(label: str, total: float) -> Iterator[Callable[[float], None]]:
    """A function that is told how much of ``total`` was done since its last call; any thread may call it.

    Within the bar of a longer computation, such as a scan, a bar of one of its parts is not shown.
    """
    if sys.stderr is None or not sys.stderr.isatty() or _shown.get():
        yield lambda amount: None
        return
    token = _shown.set(True)
    try:
        with _bar(label, total) as advance:
            yield advance
    finally:
        _shown.reset(token)


@contextmanager
def _bar(label: str, total: float) -> Iterator[Callable[[float], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    lock = threading.Lock()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)

        def advance(amount: float) -> None:
            with lock:
                bar.advance(task, amount)

        yield advance
