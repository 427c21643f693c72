"""A result converts, prints and saves itself."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest

from treet.errors import TreetError
from treet.lags import Lags
from treet.results import TransferEntropyResult, percent

LOCAL = (np.array([math.nan, 0.5, -0.25]), np.array([math.nan, 1.0]))
FULL = TransferEntropyResult(
    source=("x1", "x2"),
    target=("y",),
    condition=("z",),
    te=0.25,
    lags=Lags(2, 3, delay=1, condition_history=4),
    n_windows=300,
    estimator="treet",
    std_error=0.05,
    interval=(0.15, 0.35),
    confidence=0.95,
    d_y=0.5,
    d_xy=0.75,
    p_value=0.0125,
    seconds=3.5,
    seed=7,
    warnings=("short series",),
    settings={"layers": 2, "rate": 1e-3},
    local=LOCAL,
)
BARE = TransferEntropyResult(("x",), ("y",), (), -0.02, Lags(1, 1), 10, "linear")
FIELDS = [
    "source",
    "target",
    "condition",
    "te",
    "std_error",
    "interval",
    "confidence",
    "unit",
    "p_value",
    "test",
    "effective_te",
    "d_y",
    "d_xy",
    "target_history",
    "source_history",
    "condition_history",
    "delay",
    "n_windows",
    "estimator",
    "settings",
    "converged",
    "warnings",
    "seconds",
    "seed",
]


def test_direction() -> None:
    assert FULL.direction == "x1, x2 -> y | z"
    assert BARE.direction == "x -> y"


def test_every_information_is_in_the_unit_and_nothing_else_changes() -> None:
    bits, log2 = FULL.to_unit("bits"), math.log(2)
    assert bits.unit == "bits"
    for name in ("te", "std_error", "d_y", "d_xy"):
        assert getattr(bits, name) == pytest.approx(getattr(FULL, name) / log2, rel=1e-14)
    assert bits.interval == pytest.approx((0.15 / log2, 0.35 / log2), rel=1e-14)
    for trial, expected in zip(bits.local, LOCAL, strict=True):
        np.testing.assert_allclose(trial, expected / log2, rtol=1e-14)
    converted = {"te", "std_error", "interval", "d_y", "d_xy", "local", "unit"}
    for field in dataclasses.fields(FULL):
        if field.name not in converted:
            assert getattr(bits, field.name) == getattr(FULL, field.name)


def test_units_there_and_back() -> None:
    back = FULL.to_unit("bits").to_unit("nats")
    for name in ("te", "std_error", "interval", "d_y", "d_xy"):
        assert getattr(back, name) == pytest.approx(getattr(FULL, name), rel=1e-14)
    assert back.unit == "nats"
    assert FULL.to_unit("nats").te == FULL.te
    assert FULL.to_unit("bits").to_unit("bits").te == FULL.to_unit("bits").te


def test_what_is_not_there_stays_not_there() -> None:
    bits = BARE.to_unit("bits")
    assert bits.te == pytest.approx(-0.02 / math.log(2))
    assert (bits.std_error, bits.interval, bits.d_y, bits.d_xy, bits.local) == (None,) * 5


def test_an_unknown_unit() -> None:
    with pytest.raises(TreetError, match=r"unit must be one of 'nats', 'bits'\. Got 'bans' instead"):
        FULL.to_unit("bans")


def test_a_result_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        FULL.te = 1.0
    assert FULL.to_dict()["settings"] is not FULL.settings


def test_json_has_exactly_the_documented_fields() -> None:
    found = json.loads(FULL.to_json())
    assert list(found) == FIELDS
    assert found == {
        "source": ["x1", "x2"],
        "target": ["y"],
        "condition": ["z"],
        "te": 0.25,
        "std_error": 0.05,
        "interval": [0.15, 0.35],
        "confidence": 0.95,
        "unit": "nats",
        "p_value": 0.0125,
        "test": None,
        "effective_te": None,
        "d_y": 0.5,
        "d_xy": 0.75,
        "target_history": 2,
        "source_history": 3,
        "condition_history": 4,
        "delay": 1,
        "n_windows": 300,
        "estimator": "treet",
        "settings": {"layers": 2, "rate": 1e-3},
        "converged": True,
        "warnings": ["short series"],
        "seconds": 3.5,
        "seed": 7,
    }
    assert FULL.to_dict() == found


def test_json_of_a_result_with_little() -> None:
    found = json.loads(BARE.to_json())
    assert list(found) == FIELDS
    for name in ("std_error", "interval", "p_value", "d_y", "d_xy", "condition_history", "seed"):
        assert found[name] is None
    conditional = dataclasses.replace(BARE, condition=("z",), lags=Lags(1, 3))
    assert conditional.to_dict()["condition_history"] == 3


def test_json_has_no_nan_and_knows_foreign_numbers() -> None:
    strange = dataclasses.replace(
        BARE,
        te=np.float64("nan"),
        std_error=math.inf,
        interval=(-math.inf, math.nan),
        settings={"rate": np.float32(0.5), "sizes": (np.int64(3), {"deep": math.nan}), "kind": np.float64},
    )
    text = strange.to_json()
    assert "NaN" not in text
    assert "Infinity" not in text
    found = json.loads(text)
    assert (found["te"], found["std_error"], found["interval"]) == (None, None, [None, None])
    assert found["settings"] == {"rate": 0.5, "sizes": [3, {"deep": None}], "kind": "<class 'numpy.float64'>"}


def test_json_is_written(tmp_path) -> None:
    path = tmp_path / "result.json"
    named = dataclasses.replace(FULL, source=("Quelle ü",))
    text = named.to_json(path)
    assert path.read_text(encoding="utf-8") == text + "\n"
    assert json.loads(text)["source"] == ["Quelle ü"]
    assert text == named.to_json()


def test_frame_has_one_row_for_each_time_step() -> None:
    frame = FULL.to_frame()
    assert list(frame.columns) == ["trial", "time", "local_te"]
    assert frame["trial"].tolist() == [0, 0, 0, 1, 1]
    assert frame["time"].tolist() == [0, 1, 2, 0, 1]
    np.testing.assert_array_equal(frame["local_te"], np.concatenate(LOCAL))


def test_frame_without_local_values_is_empty_with_the_same_columns() -> None:
    frame = BARE.to_frame()
    assert frame.shape == (0, 3)
    assert list(frame.columns) == list(FULL.to_frame().columns)
    assert frame.dtypes.tolist() == FULL.to_frame().dtypes.tolist()


def test_printing() -> None:
    assert str(FULL) == (
        "x1, x2 -> y | z  TE = 0.25 nats, 95% interval 0.15 .. 0.35, p = 0.0125  "
        "(target lags 1..2, source lags 1..3, condition lags 1..4; 300 windows; treet)"
    )
    assert str(BARE) == "x -> y  TE = -0.02 nats  (target lag 1, source lag 1; 10 windows; linear)"
    assert "0.3607 bits" in str(FULL.to_unit("bits"))
    assert str(dataclasses.replace(BARE, converged=False)) == f"{BARE}  NOT CONVERGED"


@pytest.mark.parametrize(
    ("confidence", "words"),
    [(0.95, "95%"), (0.9, "90%"), (0.975, "97.5%"), (0.999, "99.9%"), (0.29, "29%"), (2 / 3, "66.6667%")],
)
def test_the_level_of_an_interval_is_not_rounded_away(confidence: float, words: str) -> None:
    assert percent(confidence) == words
    assert f", {words} interval" in str(dataclasses.replace(FULL, confidence=confidence))


def test_plot_and_html_are_those_of_their_modules(tmp_path) -> None:
    assert FULL.plot().get_ylabel() == "local transfer entropy (nats)"
    FULL.to_html(tmp_path / "report.html", "treet estimate series.csv")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "x1, x2 -&gt; y | z" in page
    assert "treet estimate series.csv" in page
