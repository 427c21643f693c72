"""The harness of the benchmarks on a script of no cost, and the page that is made from results."""

import importlib
import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from treet.lags import Lags
from treet.nn.paper_critic import PaperCritic

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"

SCRIPT = """
import sys
from harness import Benchmark

def measure(case):
    if case["fails"]:
        raise ValueError("this case fails")
    with open({log!r}, "a") as log:
        log.write(f"{{case['value']}} ")
    return {{"square": case["value"] ** 2, "torch": "torch" in sys.modules}}

def case(value, fails=False):
    return {{"value": value, "fails": fails}}

CASES = [case(1), case(2, fails=True), case(3)]
BENCHMARK = Benchmark(__file__, "Squares.", CASES, [case(10)], measure, imports=())
if __name__ == "__main__":
    sys.exit(BENCHMARK.main())
"""


@pytest.fixture(scope="module")
def bench():
    """The modules of the folder; their short names are free again afterwards."""
    names = [path.stem for path in BENCHMARKS.glob("*.py")]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in names})
    for name in names:
        del sys.modules[name]


@pytest.fixture
def squares(tmp_path):
    """Runs the script of no cost: its exit code, its rows, and the values that were measured."""
    script, log, results = tmp_path / "squares.py", tmp_path / "log", tmp_path / "results"
    script.write_text(SCRIPT.format(log=str(log)))

    def run(*arguments):
        log.write_text("")
        command = [sys.executable, str(script), "--results", str(results), *arguments]
        environment = os.environ | {"PYTHONPATH": str(BENCHMARKS)}
        code = subprocess.run(command, env=environment, capture_output=True).returncode
        assert [path.name for path in results.glob("*")] in ([], ["squares.json"])
        return code, log.read_text().split()

    run.file = results / "squares.json"
    return run


def _rows(file):
    return json.loads(file.read_text())["rows"]


def test_a_case_that_fails_costs_no_other_row(squares):
    assert squares() == (1, ["1", "3"])
    rows = _rows(squares.file)
    assert [(row["value"], row["square"]) for row in rows] == [(1, 1), (3, 9)]
    # A fresh process for each: without what other cases imported, and small.
    assert all(not row["torch"] and 0 < row["peak_mb"] < 200 and row["added_mb"] >= 0 for row in rows)


def test_a_run_goes_on_where_the_last_one_ended(squares):
    assert squares("--only", "value=3") == (0, ["3"])
    assert squares("--only", "fails=False") == (0, ["1"])
    assert [row["value"] for row in _rows(squares.file)] == [1, 3]
    assert squares("--only", "value=1", "--again") == (0, ["1"])


def test_quick_cases_leave_the_others_in_the_file(squares):
    assert squares("--only", "value=3") == (0, ["3"])
    assert squares("--quick") == (0, ["10"])
    assert [row["value"] for row in _rows(squares.file)] == [3, 10]


@pytest.mark.parametrize(
    ("change", "measured"),
    [
        (lambda content: content["rows"][0].update(source="older code"), ["1"]),
        (lambda content: content["versions"].update(torch="0.1"), ["1"]),
        (lambda content: content.update(commit="0000000", date="2000-01-01"), []),
    ],
)
def test_only_what_can_have_changed_is_measured_again(squares, change, measured):
    squares("--only", "value=1")
    content = json.loads(squares.file.read_text())
    change(content)
    squares.file.write_text(json.dumps(content))
    assert squares("--only", "value=1") == (0, measured)


def test_a_file_says_where_its_numbers_come_from_and_not_on_which_host(squares):
    squares("--only", "value=1")
    content = json.loads(squares.file.read_text())
    assert list(content) == ["name", "what", "machine", "versions", "commit", "date", "rows"]
    assert set(content["machine"]) == {"cpu", "cores", "platform"}
    assert re.fullmatch(r"[0-9a-f]{7,}(\+changes)?|unknown", content["commit"])
    assert platform.node() not in {*map(str, content["machine"].values()), *content["versions"].values()}
    assert '"/' not in squares.file.read_text()


def test_the_file_is_replaced_in_one_go(bench, tmp_path):
    case = {"value": 1}
    benchmark = bench.harness.Benchmark("squares.py", "Squares.", [case], [], dict, ())
    path, stamp = tmp_path / "squares.json", bench.harness.Stamp({}, {}, "c", "s", "d")
    benchmark._write(path, {bench.harness.words(case): {**case, "square": 1}}, stamp)
    with path.open() as old:
        benchmark._write(path, {bench.harness.words(case): {**case, "square": 2}}, stamp)
        # Who had the old file open still reads all of it.
        assert json.load(old)["rows"] == [{"value": 1, "square": 1}]
    assert _rows(path) == [{"value": 1, "square": 2}]
    assert [found.name for found in tmp_path.iterdir()] == ["squares.json"]


def test_the_peak_is_that_of_this_process(bench):
    code = "x = bytearray(300_000_000); import harness; print(harness.peak_mb())"
    environment = os.environ | {"PYTHONPATH": str(BENCHMARKS)}
    peak = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    assert 300 < float(peak) < 400


@pytest.mark.parametrize("name", ["accuracy", "intervals", "growth", "paper_step", "methods"])
def test_cases_are_flat_and_differ(bench, name):
    benchmark = getattr(bench, name).BENCHMARK
    every = [*benchmark.cases, *benchmark.quick]
    assert len({bench.harness.words(case) for case in every}) == len(every)
    assert all(isinstance(value, str | int | float) for case in every for value in case.values())
    assert benchmark.name == name


def test_every_scenario_of_accuracy_has_an_exact_value_and_a_limit(bench):
    for scenario in bench.accuracy.SCENARIOS.values():
        forward, reverse = (
            bench.harness.exact_value(scenario.process, scenario.lags, *scenario.direction(coupled))
            for coupled in (True, False)
        )
        assert forward > 1e-3
        assert reverse == 0.0
        # The histories are long enough: longer ones would add nothing to speak of.
        longer = Lags(2 * scenario.lags.target_history, 2 * scenario.lags.source_history, scenario.lags.delay)
        assert scenario.process.transfer_entropy(longer) == pytest.approx(forward, rel=1e-3)
        assert bench.accuracy.error_limit(scenario, forward, 1.0, None) == 2.0
        assert bench.accuracy.error_limit(scenario, forward, 0.0, None) == scenario.share * forward
        assert bench.accuracy.error_limit(scenario, 0.0, 0.0, 1e-4) == 0.002


def test_the_published_form_gives_the_same_scores_and_gradients(bench):
    torch.manual_seed(0)
    critic = PaperCritic(Lags.from_memory(5), 1, 2).double()
    published = bench.paper_step.PublishedForm(critic)
    y, x = torch.randn(3, 5 + 7, 1).double(), torch.randn(3, 5 + 7, 2).double()
    drawn = torch.rand(3, 7, 1, 1).double()
    found = []
    for form in (critic, published):
        scores = form(y, x, drawn)
        gradients = torch.autograd.grad(scores[0].sum() + scores[1].square().sum(), critic.parameters())
        found.append([*scores, *gradients])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_both_forms_of_the_step_start_from_the_same_loss(bench):
    cases = [dict(case, batch=8) for case in bench.paper_step.BENCHMARK.quick]
    first, second, *_ = (bench.paper_step.make_step(case)() for case in cases)
    assert first == pytest.approx(second, rel=1e-4)


ABOUT = {
    "what": "What it is.",
    "machine": {"cpu": "Some CPU", "cores": 2, "platform": "Linux x86_64"},
    "versions": {"treet": "0.1.0", "Python": "3.11", "machine": "Linux x86_64"},
    "commit": "abc1234",
    "date": "2025-01-01",
}
COSTS = {"peak_mb": 500.0, "added_mb": 100.0, "converged": True, "commit": "abc1234"}
ESTIMATE = {"lags": "target lags 1..2, source lags 0..2", "n": 1000, "seconds": 1.5, "std_error": 0.01}
WITHIN = {"within": True, "limit": 0.02, "seconds_limit": 60, "oracle_te": 0.41, "direction": "x -> y"}
PEERS = ("ksg", "infomeasure", "tigramite", "copula", "copent")
RESULTS = {
    "accuracy": [
        {"case": "a", "coupled": True, "seed": 0, "te": 0.4321, "error": 0.01, "exact": 0.42}
        | {**ESTIMATE, **WITHIN},
        {"case": "a", "coupled": True, "seed": 1, "te": 0.4765, "error": 0.0565, "exact": 0.42}
        | {**ESTIMATE, **WITHIN, "within": False, "seconds": 61.0},
        {"case": "a", "coupled": False, "seed": 0, "te": -0.001, "error": -0.001, "exact": 0.0}
        | {**ESTIMATE, **WITHIN, "direction": "y -> x"},
    ],
    "intervals": [
        {"case": "a", "seed": seed, "te": 0.4, "exact": 0.42, "covered": seed > 0} | ESTIMATE
        for seed in range(4)
    ],
    "growth": [
        {"part": "samples", "n": n, "memory": 10, "seconds": n / 1e4, "steps": 50, "seconds_a_step": n / 5e5}
        for n in (1000, 10_000)
    ]
    + [{"part": "attention, memory", "length": 100, "memory": m, "seconds": m**2 / 1e3} for m in (5, 50)],
    "methods": [
        {"process": "a", "history": 5, "coupled": True, "seed": seed, "method": method, "te": 0.4}
        | {"exact": 0.42, "error": error, "covered": True, "direction": "x -> y"}
        | ESTIMATE
        for method, error in (("treet", -0.08), ("ksg", -0.02))
        for seed in (0, 1)
    ],
    "peers": [
        {"history": history, "n": 1000, "seed": 0, "exact": 0.42}
        | {name: 0.4 if history == 1 or name != "copent" else None for name in PEERS}
        | {f"{name}_seconds": 2.0 if name == "ksg" else 3.0 for name in PEERS}
        for history in (1, 5)
    ],
    "paper_step": [
        {"implementation": name, "memory": 30, "batch": 1024, "sequence": 60, "threads": 2}
        | {"seconds_a_step": seconds, "published_seconds": 3.4, "published_mb": 1000.0}
        for name, seconds in (
            ("published form", 4.2),
            ("treet", 0.15),
            ("treet, two folds at a time", 0.1),
        )
    ],
}


@pytest.fixture
def page(bench, tmp_path):
    for name, rows in RESULTS.items():
        content = {"name": name, **ABOUT, "rows": [{**COSTS, **row} for row in rows]}
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    return bench.tables.page(tmp_path)


def test_the_page_holds_the_numbers_of_the_rows(page):
    assert "| a | x -> y | target lags 1..2, source lags 0..2 | 1,000 | 0.4200 | 0.4321, 0.4765 |" in page
    assert "| 1 of 2 | 61.0 | 60 | 500 |" in page
    assert "| a | y -> x | target lags 1..2, source lags 0..2 | 1,000 | -0.00100 |" in page
    assert (
        "| a | target lags 1..2, source lags 0..2 | 1,000 | 0.4200 | -0.0200 | 0.0000 | 0.0100 | 3 of 4 |"
        in page
    )
    assert "Time grows like the samples to the power of 1.00" in page
    assert "a step of treet is 28.0 times faster" in page
    assert "| a | x -> y | 0.4200 | 0.0800 | **0.0200** |" in page
    assert "| 5 | 1,000 | 0.4200 | 0.4000 | 0.4000 | 0.4000 | 0.4000 | - |" in page
    assert (
        "Measured on Some CPU, 2 cores, Linux x86_64, with treet 0.1.0, Python 3.11; commit abc1234;" in page
    )


def test_the_page_says_what_is_missed(page):
    missed = page.partition("## What is missed")[2].partition("\n## ")[0]
    assert "a, x -> y, seed 1: the error is +0.0565, the limit 0.0200." in missed
    assert "a, x -> y, seed 1: it took 61.0 s, the limit is 60 s." in missed
    assert "a: 3 of 4 intervals hold the exact value, at least 4 should." in missed
    assert "attention, memory: time grows like the power 2.00, above 1.1." in missed
    assert "A step takes 2.0 times less memory, 4 were asked for." in missed
    assert "treet is first or tied in 0 of 1 settings with history 5 or more." in missed
    assert "Only 3 of 90 cases are measured." in missed
    assert "seed 0" not in missed


def test_the_page_without_results_says_so(bench, tmp_path):
    assert bench.tables.page(tmp_path).count("not measured yet") == len(bench.tables.SECTIONS)


def test_a_table_without_rows_is_still_a_table(bench):
    assert bench.formatting.table(["case", "n"], []).splitlines() == ["| case | n |", "| --- | --- |"]


def test_the_page_in_docs_is_made_from_the_results_in_the_repository(bench):
    if not any(bench.harness.RESULTS.glob("*.json")):
        pytest.skip("There are no results.")
    assert bench.tables.PAGE.read_text(encoding="utf-8") == bench.tables.page(bench.harness.RESULTS)
