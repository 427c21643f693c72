"""Trainings side by side: their order, their failures, an interruption."""

import signal
import threading
import time
from concurrent.futures import wait

import pytest
import torch

from treet.parallel import CancelledError, run_together

PATIENCE = 20  # seconds, after which a test that waits in vain fails


class TaskError(Exception):
    """What goes wrong in a task."""


def ignore(amount):
    """Progress that nobody looks at."""


class Endless:
    """A task that never ends by itself: whether it was ``begun``, and whether it was ``cancelled``."""

    def __init__(self):
        self.begun, self.cancelled = threading.Event(), False

    def __call__(self, advance):
        self.begun.set()
        try:
            for _ in range(100 * PATIENCE):
                advance(0.0)
                time.sleep(0.01)
        except CancelledError:
            self.cancelled = True
            raise


@pytest.fixture
def two_threads():
    """As many threads for each product as a test can tell from one."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr("treet.parallel.cpu_count", lambda: 2)


@pytest.fixture
def interruptible():
    """Ctrl-C raises, however the tests were started."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_results_come_in_the_order_of_the_tasks(two_cores):
    second_done = threading.Event()

    def first(advance):
        assert second_done.wait(PATIENCE)
        return "first"

    def second(advance):
        second_done.set()
        return "second"

    assert run_together([first, second, lambda advance: "third"], ignore) == ["first", "second", "third"]


def test_more_tasks_than_cores_all_run():
    assert run_together([lambda advance, i=i: i for i in range(50)], ignore) == list(range(50))


def test_no_more_run_at_once_than_there_are_cores(two_cores):
    running, most, lock = set(), [], threading.Lock()

    def task(advance):
        with lock:
            running.add(threading.get_ident())
            most.append(len(running))
        time.sleep(0.01)
        with lock:
            running.discard(threading.get_ident())

    run_together([task] * 8, ignore)
    assert max(most) == 2


def test_no_tasks_give_no_results():
    assert run_together([], ignore) == []


def test_progress_is_passed_on():
    told, lock = [], threading.Lock()

    def tell(amount):
        with lock:
            told.append(amount)

    run_together([lambda advance: advance(0.25), lambda advance: advance(0.75)], tell)
    assert sorted(told) == [0.25, 0.75]


@pytest.mark.parametrize("place", [0, 1])
def test_the_first_failure_ends_the_others_and_is_what_is_raised(two_cores, place):
    other = Endless()

    def fail(advance):
        assert other.begun.wait(PATIENCE)
        raise TaskError("no luck")

    tasks = [other]
    tasks.insert(place, fail)
    with pytest.raises(TaskError, match="no luck"):
        run_together(tasks, ignore)
    assert other.cancelled


def test_tasks_that_wait_for_a_core_never_start_after_a_failure(monkeypatch):
    monkeypatch.setattr("treet.parallel.cpu_count", lambda: 1)
    started = []

    def fail(advance):
        raise TaskError

    def late(advance):
        started.append(True)
        advance(0.0)
        time.sleep(0.1)
        advance(0.0)  # by now the failure is known

    with pytest.raises(TaskError):
        run_together([fail, *[late] * 20], ignore)
    assert len(started) <= 1


def test_an_interruption_ends_all_tasks(two_cores, interruptible, monkeypatch):
    one, other, before = Endless(), Endless(), threading.active_count()
    waiting = threading.Event()

    def seen_waiting(*arguments, **settings):
        waiting.set()
        return wait(*arguments, **settings)

    def interrupt(advance):
        assert one.begun.wait(PATIENCE)
        assert waiting.wait(PATIENCE)
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        other(advance)

    monkeypatch.setattr("treet.parallel.wait", seen_waiting)
    with pytest.raises(KeyboardInterrupt):
        run_together([one, interrupt], ignore)
    assert one.cancelled
    assert other.cancelled
    assert threading.active_count() == before


def test_each_task_has_one_thread_and_the_number_is_put_back(two_threads):
    assert run_together([lambda advance: torch.get_num_threads()] * 3, ignore) == [1, 1, 1]
    assert torch.get_num_threads() == 2


@pytest.mark.parametrize("error", [TaskError, KeyboardInterrupt])
def test_the_number_of_threads_is_put_back_after_a_failure(two_threads, monkeypatch, error):
    def fail(*arguments, **settings):
        raise error

    monkeypatch.setattr("treet.parallel.wait", fail)
    with pytest.raises(error):
        run_together([Endless()], ignore)
    assert torch.get_num_threads() == 2
