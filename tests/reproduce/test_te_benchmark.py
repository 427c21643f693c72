"""The paper's first table: its cells, what is kept of them, and how they are judged and shown."""

import doctest
import math

import pandas as pd
import pytest

import treet.reproduce.runs
import treet.reproduce.tables
import treet.reproduce.te_benchmark as experiment
from treet.cli import main
from treet.errors import TreetError
from treet.reproduce.runs import Part, run
from treet.reproduce.tables import te_markdown
from treet.reproduce.te_benchmark import PAPER_PRESET, TeBenchmark, cases, judged, measure, paper_figure


@pytest.fixture(scope="module")
def quick():
    return experiment.te_benchmark(quick=True, methods=["gaussian", "ksg"])


def row(method="treet", te=0.41, threshold=0, memory=1, **changes):
    measured = {"exact": 0.4152, "oracle_std_error": 0.001, "seconds": 3.0, "warnings": [], "converged": True}
    return {"method": method, "threshold": threshold, "memory": memory, "te": te, **measured, **changes}


@pytest.mark.parametrize("module", [experiment, treet.reproduce.runs, treet.reproduce.tables])
def test_the_doctests(module):
    assert doctest.testmod(module).failed == 0


def test_the_cells_are_those_of_the_paper():
    chosen = cases()
    for method in ("treet", "tene", "copula", "ksg", "gaussian"):
        assert sum(case["method"] == method for case in chosen) == 56
    assert {(case["threshold"], case["memory"]) for case in chosen if case["method"] == PAPER_PRESET} == {
        (0, 1),
        (0, 9),
        (0, 49),
    }
    assert {case["memory"] for case in chosen if case["method"] == "kernel"} == {1, 2}
    assert {case["samples"] for case in chosen} == {100_000}
    assert len(cases(quick=True)) == 45


def test_a_method_that_does_not_exist():
    with pytest.raises(TreetError, match=r"method must be one of 'treet', .* Got 'magic' instead"):
        cases(methods=["magic"])


def test_a_cell_is_the_estimate_and_what_the_oracle_says_of_the_same_data():
    (case,) = [
        case for case in cases(quick=True, methods=["ksg"]) if (case["threshold"], case["memory"]) == (0, 1)
    ]
    found = measure(case)
    assert found["exact"] == pytest.approx(0.415183, abs=1e-6)
    assert found["oracle_std_error"] == pytest.approx(0.00760, abs=1e-5)
    assert found["oracle_te"] == pytest.approx(found["exact"], abs=4 * found["oracle_std_error"])
    assert found["te"] == pytest.approx(found["oracle_te"], abs=0.02)
    assert found["converged"] is True


def test_the_papers_figures_are_where_they_belong():
    """The corners of the published table."""
    assert paper_figure("treet", -3, 1) == 0.812
    assert paper_figure("treet", 3, 99) == 0.001
    assert paper_figure(PAPER_PRESET, 0, 49) == 0.409
    assert paper_figure("copula", 0, 99) == 43.421
    assert paper_figure("tene", -3, 7) == math.inf
    assert paper_figure("tene", -3, 49) == -math.inf
    assert paper_figure("gaussian", 0, 1) is None
    assert paper_figure("treet", 0, 3) is None


@pytest.mark.parametrize(
    ("te", "changes", "within"),
    [
        (0.4152 * 1.009, {}, True),
        (0.4152 * 1.011, {}, False),
        (0.4152 + 0.0095, {"oracle_std_error": 0.005}, True),
        (0.4152 - 0.0105, {"oracle_std_error": 0.005}, False),
        (0.395 * 1.029, {"method": PAPER_PRESET}, True),
        (0.4152, {"method": PAPER_PRESET}, False),
    ],
)
def test_what_is_within_the_limit(te, changes, within):
    assert judged(row(te=te, **changes))["within"] is within


def test_a_table_for_each_method_and_the_verdict_first(quick):
    text = te_markdown(quick)
    assert quick.methods == ("gaussian", "ksg")
    assert text.index("What was reached") < text.index("## gaussian") < text.index("## ksg")
    assert "- `gaussian`: 0 of 9 cells within the limit" in text


def test_doubt_and_divergence_are_shown_in_a_cell():
    text = te_markdown(TeBenchmark((row("tene", 0.2, -3, 7, exact=0.83, warnings=["it diverged"]),)))
    assert "0.2000† (-75.9 %), 3 s; *p* diverged" in text


def test_the_frame_has_a_row_for_each_cell(quick):
    frame = quick.to_frame()
    assert len(frame) == 18
    assert {"method", "threshold", "memory", "te", "error", "limit", "within", "published"} <= set(frame)


def test_an_interrupted_run_continues_where_it_was(tmp_path, monkeypatch):
    calls, measured = [], experiment.measure

    def interrupted(case):
        calls.append(case)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return measured(case)

    monkeypatch.setattr(experiment, "measure", interrupted)
    with pytest.raises(KeyboardInterrupt):
        experiment.te_benchmark(tmp_path, quick=True, methods=["gaussian"])
    found = experiment.te_benchmark(tmp_path, quick=True, methods=["gaussian"])
    assert len(calls) == 4 + 6
    undisturbed = experiment.te_benchmark(quick=True, methods=["gaussian"])
    for one, other in zip(found.rows, undisturbed.rows, strict=True):
        assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_the_command(tmp_path, capsys):
    words = ["reproduce", "te-benchmark", "--quick", "--method", "gaussian", "-o", str(tmp_path / "out")]
    assert main(words) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "gaussian: 0 of 9 cells within their limit"
    assert len(pd.read_csv(tmp_path / "out" / "te-benchmark.csv")) == 9
    assert (tmp_path / "out" / "te-benchmark.png").read_bytes().startswith(b"\x89PNG")
    assert printed[1:] == [str(tmp_path / "out" / f"te-benchmark{end}") for end in (".csv", ".md", ".png")]


def test_parts_are_put_together(tmp_path, capsys, monkeypatch):
    words = ["reproduce", "te-benchmark", "--quick", "--method", "gaussian", "-o", str(tmp_path)]
    assert main([*words, "--part", "1/2"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"5 results in {tmp_path / 'results-1-of-2.sqlite'}"
    assert main([*words, "--part", "2/2"]) == 0
    monkeypatch.setattr(experiment, "measure", None)
    assert main(words) == 0
    assert len(pd.read_csv(tmp_path / "te-benchmark.csv")) == 9


@pytest.mark.parametrize("text", ["0/2", "3/2", "2", "a/b", "1/2/3", ""])
def test_a_part_that_makes_no_sense(text, tmp_path, capsys):
    words = ["reproduce", "te-benchmark", "--quick", "--part", text, "-o", str(tmp_path / "out")]
    assert main(words) == 2
    assert "part" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_part_without_cases():
    with pytest.raises(TreetError, match="nothing to compute in this part"):
        run("squares", [{"number": 1}], dict, part=Part(2, 2))


def test_a_wrong_name_is_one_line_and_nothing_is_written(tmp_path, capsys):
    assert main(["reproduce", "te-benchmark", "--method", "magic", "-o", str(tmp_path / "out")]) == 2
    assert "method must be one of" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
