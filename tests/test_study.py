"""Stored outcomes: found again, told apart by every setting, and safe when the process is killed."""

import doctest
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import treet.study
from treet.data import Recording
from treet.errors import TreetError
from treet.study import Study, data_digest


class Counted:
    """Half of a number; remembers which were asked for."""

    def __init__(self, failing=None):
        self.asked, self.failing = [], failing

    def __call__(self, case):
        self.asked.append(case["number"])
        if case["number"] == self.failing:
            raise RuntimeError("a cell failed")
        return {"half": case["number"] / 2}


CASES = [{"number": number} for number in range(6)]
HALVES = [{"half": number / 2} for number in range(6)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "study.sqlite"


def test_outcomes_come_in_the_order_of_the_cases_and_are_not_computed_again(path):
    first, second = Counted(), Counted()
    assert Study(path).run(CASES[:4], first, "halves") == HALVES[:4]
    assert Study(path).run(CASES[::-1], second, "halves") == HALVES[::-1]
    assert (first.asked, second.asked) == ([0, 1, 2, 3], [5, 4])


def test_without_a_path_nothing_is_kept():
    function, study = Counted(), Study()
    assert [study.run(CASES[:1], function, "halves") for _ in range(2)] == [HALVES[:1]] * 2
    assert function.asked == [0, 0]


def test_a_case_that_occurs_twice_is_computed_once(path):
    function = Counted()
    assert Study(path).run([CASES[1], CASES[1]], function, "halves") == [HALVES[1]] * 2
    assert function.asked == [1]


def test_any_other_setting_label_or_version_is_a_new_entry(path, monkeypatch):
    function = Counted()
    Study(path).run([{"number": 1}], function, "halves")
    for case, label in (
        ({"number": 1, "extra": None}, "halves"),
        ({"number": 1.5}, "halves"),
        (CASES[1], "x"),
    ):
        Study(path).run([case], function, label)
    monkeypatch.setattr(treet.study, "treet_version", lambda: "another")
    Study(path).run([{"number": 1}], function, "halves")
    assert function.asked == [1, 1, 1.5, 1, 1]
    # the order of the settings is no setting
    Study(path).run([{"extra": None, "number": 1}], function, "halves")
    Study(path).run([{"number": 1, "extra": None}], function, "halves")
    assert len(function.asked) == 6


def test_numbers_come_back_exactly(path):
    rng = np.random.default_rng(0)
    outcome = {"values": [*rng.normal(size=50).tolist(), float("inf"), 5e-324], "none": None, "text": "ß→"}
    for function in (lambda case: outcome, Counted()):
        assert Study(path).run([{"number": 0}], function, "numbers") == [outcome]


def test_an_error_keeps_what_was_done_before(path):
    failing, function = Counted(failing=3), Counted()
    with pytest.raises(RuntimeError, match="a cell failed"):
        Study(path).run(CASES, failing, "halves")
    assert Study(path).run(CASES, function, "halves") == HALVES
    assert function.asked == [3, 4, 5]


SCRIPT = """
import sys, time
from treet.study import Study
def slow(case):
    print(case["number"], flush=True)
    time.sleep(0.01)
    return {"half": case["number"] / 2}
Study(sys.argv[1]).run([{"number": number} for number in range(40)], slow, "halves")
"""


def test_a_killed_process_loses_at_most_the_running_case(path):
    chance, starts = random.Random(0), []
    for _ in range(4):
        command = [sys.executable, "-c", SCRIPT, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            starts.append(int(process.stdout.readline()))
            time.sleep(chance.uniform(0.01, 0.1))
            process.send_signal(signal.SIGKILL)
            last = int([starts[-1], *process.stdout.read().split()][-1])
    assert starts == sorted(starts)
    function = Counted()
    cases = [{"number": number} for number in range(40)]
    assert Study(path).run(cases, function, "halves") == [{"half": number / 2} for number in range(40)]
    # What ran last when the process was killed may be lost, nothing before it.
    assert len(function.asked) <= 40 - last


def test_two_processes_may_share_a_file(path):
    functions = [Counted(), Counted()]
    threads = [
        threading.Thread(target=Study(path).run, args=(CASES, function, "halves")) for function in functions
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = Counted()
    assert Study(path).run(CASES, last, "halves") == HALVES
    assert last.asked == []


def test_files_that_are_something_else_are_refused_and_left_alone(tmp_path):
    text, other = tmp_path / "notes.txt", tmp_path / "other.sqlite"
    text.write_text("no database\n" * 100)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE results (key TEXT)")
    connection.close()
    before = other.read_bytes()
    with pytest.raises(TreetError, match=r"notes.txt: file is not a database. Choose another file"):
        Study(text).run(CASES, Counted(), "halves")
    with pytest.raises(TreetError, match=r"other.sqlite is a database of something else"):
        Study(other).run(CASES, Counted(), "halves")
    with pytest.raises(TreetError, match="unable to open database file"):
        Study(tmp_path / "nowhere" / "study.sqlite").run(CASES, Counted(), "halves")
    assert other.read_bytes() == before


@pytest.mark.parametrize("what", ["case", "outcome"])
def test_what_json_cannot_hold_is_refused(path, what):
    case = {"number": object()} if what == "case" else {"number": 0}
    with pytest.raises(TreetError, match=rf"{what}.* must hold only what JSON can"):
        Study(path).run([case], lambda case: {"array": np.zeros(2)}, "halves")


def test_the_digest_of_data_sees_every_value_name_and_trial():
    values = np.arange(6.0).reshape(3, 2)
    recording = Recording((values,), ("x", "y"))
    others = [
        Recording((values + np.eye(3, 2) * 1e-12,), ("x", "y")),
        Recording((values,), ("y", "x")),
        Recording((values[:1], values[1:]), ("x", "y")),
        Recording((values.reshape(2, 3),), ("x", "y", "z")),
    ]
    digests = [data_digest(part) for part in (recording, *others)]
    digests += [data_digest(recording, None), data_digest(None, recording)]
    assert len(set(digests)) == 7
    assert data_digest(Recording((np.asfortranarray(values),), ("x", "y"))) == digests[0]


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(treet.study).failed == 0
