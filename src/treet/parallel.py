"""Independent trainings side by side, one thread and one core each."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

import torch
from joblib import cpu_count

Result = TypeVar("Result")
Advance = Callable[[float], None]


class CancelledError(Exception):
    """Raised in a task when another one failed or the user interrupted."""


def run_together(tasks: Sequence[Callable[[Advance], Result]], advance: Advance) -> list[Result]:
    """The results of ``tasks`` in their order; each is given ``advance`` to call often.

    Small matrix products do not gain from two threads each, but two trainings do from one each. When a task
    fails, or on Ctrl-C, the others end at their next call of ``advance``.
    """
    cancel = threading.Event()

    def checked(amount: float) -> None:
        if cancel.is_set():
            raise CancelledError
        advance(amount)

    workers = max(1, min(len(tasks), cpu_count()))  # of those that this process may use
    with _one_core_each(), ThreadPoolExecutor(workers) as pool:
        try:
            futures = [pool.submit(task, checked) for task in tasks]
            done, _ = wait(futures, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
            return [future.result() for future in futures]
        finally:
            cancel.set()
            pool.shutdown(cancel_futures=True)


@contextmanager
def _one_core_each() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
