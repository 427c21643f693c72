"""A bar with the time left on a terminal, nothing anywhere else."""

import io
import re
import sys
import threading
from contextlib import redirect_stderr, suppress

import pytest

from treet.progress import progress

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WIPED = "\x1b[1A\x1b[2K"  # up to the line of the bar, and clear it


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "100")
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def drawn(work, label="x -> y", total=1):
    """All that a terminal is sent while ``work`` advances."""
    terminal = Terminal()
    with redirect_stderr(terminal), suppress(KeyboardInterrupt), progress(label, total) as advance:
        work(advance)
    return terminal.getvalue()


def test_a_terminal_sees_the_label_the_share_and_the_time_left():
    seen = drawn(lambda advance: [advance(1) for _ in range(4)], total=4)
    first, *_, last = CONTROL.sub("", seen).strip().split("\r")
    assert first.startswith("x -> y")
    assert first.endswith("0% -:--:--")
    assert last.startswith("x -> y")
    assert last.endswith("100% 0:00:00")


def test_the_bar_is_wiped_away_in_the_end():
    assert drawn(lambda advance: advance(1)).endswith(WIPED)


def test_the_bar_is_wiped_away_on_an_interruption():
    def interrupted(advance):
        raise KeyboardInterrupt

    assert drawn(interrupted).endswith(WIPED)


def test_a_bar_within_a_bar_is_not_shown():
    def nested(advance):
        with progress("a part", 2) as part:
            part(1)
        advance(1)

    seen = drawn(nested, "the whole")
    assert "the whole" in seen
    assert "a part" not in seen
    assert "again" in drawn(lambda advance: advance(1), "again")


@pytest.mark.parametrize("name", ["x[0]", "[bold]x", "[/a]", r"\[/a]", "{x}", "{0}", "%s", ":heart:", "x\\"])
def test_names_are_shown_as_they_are(name):
    assert f"{name} -> y" in drawn(lambda advance: None, f"{name} -> y")


def test_shares_add_up_whichever_threads_they_come_from():
    def in_threads(advance):
        workers = [threading.Thread(target=lambda: [advance(0.25) for _ in range(100)]) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    assert "100%" in drawn(in_threads, total=100)
    assert "100%" not in drawn(in_threads, total=101)


def test_nothing_is_written_when_standard_error_is_no_terminal(capfd):
    with progress("x -> y", 2) as advance:
        advance(1)
        advance(1)
    assert capfd.readouterr() == ("", "")


def test_nothing_is_written_to_standard_output(capfd):
    assert drawn(lambda advance: advance(1))
    assert capfd.readouterr() == ("", "")


def test_a_program_without_standard_error_works(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with progress("x -> y", 1) as advance:
        advance(1)
