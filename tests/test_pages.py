"""The pages of experiments in docs/ are those that the kept results give."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import experiments  # noqa: E402

KEPT = [name for name in experiments.EXPERIMENTS if experiments._kept(experiments.RESULTS, name).exists()]


@pytest.mark.parametrize("name", KEPT)
def test_the_pages_are_up_to_date(name):
    for place, content in experiments.pages(experiments.RESULTS, name).items():
        kept = experiments.DOCS / place
        assert kept.exists(), f"{place} is missing: python benchmarks/experiments.py pages"
        if place.endswith(".md"):  # pictures differ in a bit between versions of the fonts
            assert kept.read_text(encoding="utf-8") == content.decode(), place


def test_outcomes_are_kept_and_shown(tmp_path, monkeypatch):
    from treet.reproduce import te_benchmark

    monkeypatch.setattr(experiments, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(te_benchmark, "SAMPLES", 2000)
    monkeypatch.setattr(te_benchmark, "MEMORIES", (1,))
    (tmp_path / "results").mkdir()
    te_benchmark.te_benchmark(tmp_path / "out", methods=["gaussian"])
    experiments.keep("te-benchmark", tmp_path / "out", "one machine", "abc")
    kept = json.loads((tmp_path / "results" / "te_benchmark.json").read_text(encoding="utf-8"))
    assert [row["method"] for row in kept["rows"]] == ["gaussian"] * 7
    assert kept["where"] == "one machine"
    experiments.write_pages(tmp_path / "results", tmp_path / "docs")
    text = (tmp_path / "docs" / "te-benchmark.md").read_text(encoding="utf-8")
    assert text.startswith("# The threshold process by threshold and memory\n\nWritten by `python")
    assert f"7 of {kept['cases']} cases, at commit abc: one machine." in text
    assert "![te-benchmark](images/te-benchmark.png)" in text
    assert (tmp_path / "docs" / "images" / "te-benchmark.png").exists()
