"""Saved estimators come back as they were; files that are damaged or hostile are refused and run nothing."""

import copy
import json
import os
import pickle
import struct
import time
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import save_file

from treet.errors import NotConvergedWarning, TreetError
from treet.estimators.neural import TREET
from treet.lags import Lags
from treet.processes import Threshold

REFUSED = "not a saved estimator, or it is damaged|The saved estimator is damaged"


def quiet_fit(*series, **parameters):
    """A fit at the least cost, whether it converges or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConvergedWarning)
        return TREET(random_state=0, **parameters).fit(*series)


def coupled(n_samples=260, seed=0):
    """Source and target of the threshold process, (time,) each."""
    x, y = Threshold().sample(n_samples, seed).trials[0].T
    return x, y


def vectors(lengths=(150, 110), seed=0):
    """Two source channels, two target channels and a condition over trials with gaps."""
    rng = np.random.default_rng(seed)
    trials = [rng.normal(size=(length, 5)) for length in lengths]
    trials[0][40:43, 1] = np.nan
    return (
        [t[:, :2] for t in trials],
        [t[:, 2:4] + 0.5 * np.roll(t[:, :2], 1, 0) for t in trials],
        [t[:, 4] for t in trials],
    )


PARAMETERS = {"default": {"folds": 2, "batch_size": 64}, "paper": {"preset": "paper", "epochs": 2}}
LAGS = {"target_history": 2, "source_history": 3, "delay": 1, "condition_history": 1}
CASES = {
    "default, scalars": lambda: quiet_fit(*coupled(), memory=1, **PARAMETERS["default"]),
    "default, vectors": lambda: quiet_fit(*vectors(), unit="bits", **LAGS, **PARAMETERS["default"]),
    "paper, scalars": lambda: quiet_fit(*coupled(), memory=2, unit="bits", **PARAMETERS["paper"]),
    "paper, vectors": lambda: quiet_fit(*vectors(), **LAGS, **PARAMETERS["paper"]),
    "paper, drawn": lambda: quiet_fit(
        *coupled(), memory=1, reference="gaussian given past", objective="ranking", **PARAMETERS["paper"]
    ),
}


@pytest.fixture(scope="module", params=CASES)
def case(request, tmp_path_factory):
    """A fitted estimator, the same one loaded, and new data for them."""
    path = tmp_path_factory.mktemp("saved") / "estimator.safetensors"
    fitted = CASES[request.param]()
    fitted.save(path)
    new = vectors((60, 50), seed=1) if "vectors" in request.param else coupled(90, seed=1)
    return fitted, TREET.load(path), new, path


# There and back


def test_the_result_comes_back(case):
    fitted, loaded, _, _ = case
    assert loaded.result_.to_dict() == fitted.result_.to_dict()
    assert loaded.result_.history == fitted.result_.history
    assert loaded.result_.lags == fitted.result_.lags
    for one, other in zip(loaded.result_.local, fitted.result_.local, strict=True):
        np.testing.assert_array_equal(one, other)
    assert str(loaded.result_) == str(fitted.result_)


def test_parameters_and_fitted_attributes_come_back(case):
    fitted, loaded, _, _ = case
    assert loaded.get_params() == fitted.get_params()
    assert {name for name in vars(loaded) if name.endswith("_")} == {
        name for name in vars(fitted) if name.endswith("_")
    }
    for name in ("te_", "std_error_", "interval_", "d_y_", "d_xy_", "n_windows_", "converged_", "seconds_"):
        assert getattr(loaded, name) == getattr(fitted, name)


def test_new_data_are_scored_the_same(case):
    fitted, loaded, new, _ = case
    assert loaded.score(*new) == fitted.score(*new)
    for one, other in zip(loaded.local_te(*new), fitted.local_te(*new), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_was_loaded_can_be_saved_again(case, tmp_path):
    _, loaded, _, path = case
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_loading_changes_no_global_state(case):
    before = torch.get_rng_state()
    TREET.load(case[3])
    assert torch.equal(torch.get_rng_state(), before)


def test_what_was_loaded_does_not_need_the_file(case, tmp_path):
    fitted, _, new, path = case
    moved = tmp_path / "moved"
    moved.write_bytes(path.read_bytes())
    loaded = TREET.load(moved)
    with moved.open("r+b") as file:
        file.truncate(0)
    assert loaded.score(*new) == fitted.score(*new)


def test_a_loaded_estimator_can_be_fitted_again(case):
    loaded = copy.deepcopy(case[1])
    with pytest.raises(TreetError, match="equally long"):
        loaded.fit(np.arange(5.0), np.arange(6.0))
    assert loaded.result_.to_dict() == case[0].result_.to_dict()


# How it is written


@pytest.fixture(scope="module")
def estimator():
    return quiet_fit(*coupled(), memory=2, **PARAMETERS["paper"])


@pytest.fixture(scope="module")
def saved(estimator, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "estimator.safetensors"
    estimator.save(path)
    return path


def parts_of(path):
    """The tensors and the description in a file."""
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        return tensors, json.loads(file.metadata()["treet"])


def write(path, tensors, description):
    save_file(tensors, path, metadata={"treet": json.dumps(description)})


def test_a_file_is_tensors_and_json(saved):
    tensors, description = parts_of(saved)
    assert description["format"] == "treet estimator 1"
    assert description["parameters"]["memory"] == 2
    assert all(tensor.numel() for tensor in tensors.values())
    assert saved.stat().st_size < 400_000


def test_numbers_of_numpy_and_devices_are_parameters_too(tmp_path):
    parameters = {"memory": np.int64(1), "learning_rate": np.float32(0.01), "epochs": np.int16(1)}
    given = quiet_fit(*coupled(), preset="paper", device=torch.device("cpu"), **parameters)
    given.save(tmp_path / "given")
    loaded = TREET.load(tmp_path / "given")
    assert loaded.get_params() | {"device": "cpu"} == given.get_params() | {"device": "cpu"}
    assert loaded.score(*coupled(90, seed=1)) == given.score(*coupled(90, seed=1))


def test_an_estimator_without_a_fit_has_nothing_to_save(tmp_path):
    with pytest.raises(TreetError, match=r"not fitted, so there is nothing to save\. Call fit first"):
        TREET().save(tmp_path / "nothing")
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_is_replaced(estimator, saved, tmp_path):
    path = tmp_path / "estimator"
    path.write_text("something old")
    estimator.save(str(path))
    assert path.read_bytes() == saved.read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == ["estimator"]


def test_a_folder_that_is_not_there_is_named(estimator, tmp_path):
    with pytest.raises(TreetError, match=r"Cannot write .*nowhere.*No such file or directory"):
        estimator.save(tmp_path / "nowhere" / "estimator")
    assert not list(tmp_path.iterdir())


def test_a_folder_is_not_written_over(estimator, tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(TreetError, match=r"Cannot write .*folder"):
        estimator.save(tmp_path / "folder")
    assert [file.name for file in tmp_path.iterdir()] == ["folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_no_permission_leaves_nothing_behind(estimator, tmp_path):
    tmp_path.chmod(0o555)
    with pytest.raises(TreetError, match=r"Cannot write .*Permission denied"):
        estimator.save(tmp_path / "estimator")
    tmp_path.chmod(0o755)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_file_that_cannot_be_finished_leaves_the_old_one(estimator, tmp_path, monkeypatch, error):
    path = tmp_path / "estimator"
    path.write_text("something old")

    def replace(*_):
        raise error

    monkeypatch.setattr("pathlib.Path.replace", replace)
    with pytest.raises(TreetError if isinstance(error, OSError) else KeyboardInterrupt):
        estimator.save(path)
    assert path.read_text() == "something old"
    assert [file.name for file in tmp_path.iterdir()] == ["estimator"]


# Files that are no good


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(TreetError, match=r"There is no file .*nothing\. Check the path"):
        TREET.load(tmp_path / "nothing")
    with pytest.raises(TreetError, match="There is no file"):
        TREET.load(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        b"\xff" * 8,
        struct.pack("<Q", 2**60) + b"{}",
        struct.pack("<Q", 2) + b"{}",
        struct.pack("<Q", 50) + b"{}",
        b"PK\x03\x04 not a zip",
        b'{"format": "treet estimator 1"}',
        b"x,y\n1,2\n" * 50,
    ],
    ids=repr,
)
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(TreetError, match=REFUSED):
        TREET.load(path)


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


@pytest.mark.parametrize("how", ["pickle", "torch", "description", "tensor"])
def test_nothing_in_a_file_is_run(saved, tmp_path, how):
    path, mark = tmp_path / "hostile", tmp_path / "mark"
    tensors, description = parts_of(saved)
    pickled = pickle.dumps(Bomb(mark))
    if how == "pickle":
        path.write_bytes(pickled)
    elif how == "torch":
        torch.save(Bomb(mark), path)
    elif how == "description":
        save_file(tensors, path, metadata={"treet": pickled.decode("latin-1")})
    else:
        tensors["scaler.0.mean"] = torch.frombuffer(bytearray(pickled), dtype=torch.uint8)
        write(path, tensors, description)
    with pytest.raises(TreetError, match=REFUSED):
        TREET.load(path)
    assert not mark.exists()


def test_safetensors_of_someone_else_are_refused(tmp_path):
    save_file({"weight": torch.zeros(3)}, tmp_path / "without")
    save_file({"weight": torch.zeros(3)}, tmp_path / "other", metadata={"format": "pt"})
    for name in ("without", "other"):
        with pytest.raises(TreetError, match=REFUSED):
            TREET.load(tmp_path / name)


def test_another_format_is_named(saved, tmp_path):
    tensors, description = parts_of(saved)
    write(tmp_path / "newer", tensors, description | {"format": "treet estimator 2"})
    with pytest.raises(TreetError, match="has the format 'treet estimator 2'; this version reads 'treet est"):
        TREET.load(tmp_path / "newer")


@settings(deadline=None, max_examples=40)
@given(st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_refused(saved, tmp_path_factory, share):
    path = tmp_path_factory.mktemp("cut") / "cut"
    content = saved.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(TreetError, match=REFUSED):
        TREET.load(path)


def loaded_or_refused(path):
    """The estimator in a file, used; or None where the file was refused in the way that is promised."""
    try:
        loaded = TREET.load(path)
    except TreetError as error:
        assert str(error).endswith(("Save it again.", "instead.", "'treet estimator 1'.", "or these."))
        return None
    loaded.result_.to_json()
    assert str(loaded.result_)
    assert repr(loaded)
    return loaded


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_a_flipped_byte_is_refused_or_does_no_harm(saved, tmp_path_factory, data):
    content = bytearray(saved.read_bytes())
    header = 8 + struct.unpack("<Q", content[:8])[0]
    where = data.draw(st.integers(0, header - 1))
    content[where] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("flipped") / "flipped"
    path.write_bytes(content)
    loaded_or_refused(path)


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=300))
def test_random_bytes_are_refused(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("random") / "random"
    path.write_bytes(content)
    with pytest.raises(TreetError, match=REFUSED):
        TREET.load(path)


def places(value, before=()):
    """The keys that lead to every value in a JSON object."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*before, key)
        yield from places(item, (*before, key))


WRONG = [None, True, -1, 0, 1.5, 10**400, 1e308, "", "x", [], {}, [None], {"x": []}, [[[[]]]], float("nan")]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: repr(wrong)[:20])
def test_json_of_the_wrong_type_is_refused_or_does_no_harm(saved, tmp_path, wrong):
    tensors, description = parts_of(saved)
    description["history"] = description["history"][:1]
    for place in places(description):
        if len(place) > 3 and place[-1]:
            continue
        changed = copy.deepcopy(description)
        inner = changed
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = wrong
        write(tmp_path / "changed", tensors, changed)
        loaded_or_refused(tmp_path / "changed")


@pytest.mark.parametrize("key", ["format", "parameters", "lags", "folds", "result", "trials", "history"])
def test_a_missing_key_is_refused(saved, tmp_path, key):
    tensors, description = parts_of(saved)
    del description[key]
    write(tmp_path / "changed", tensors, description)
    with pytest.raises(TreetError, match=REFUSED):
        TREET.load(tmp_path / "changed")


@pytest.mark.parametrize("description", [None, [], "treet", 1, {}])
def test_a_description_that_is_no_object_is_refused(saved, tmp_path, description):
    write(tmp_path / "changed", parts_of(saved)[0], description)
    with pytest.raises(TreetError, match=REFUSED):
        TREET.load(tmp_path / "changed")


def test_deeply_nested_json_is_refused(saved, tmp_path):
    for text in ("[" * 100_000, "[" * 100_000 + "]" * 100_000, "9" * 10_000):
        save_file(parts_of(saved)[0], tmp_path / "deep", metadata={"treet": text})
        with pytest.raises(TreetError, match=REFUSED):
            TREET.load(tmp_path / "deep")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("te", "0.4"),
        ("te", None),
        ("std_error", []),
        ("interval", None),
        ("interval", [0.1]),
        ("interval", ["low", "high"]),
        ("source", "x"),
        ("source", []),
        ("source", ["x", "another"]),
        ("condition", ["unheard of"]),
        ("converged", "yes"),
        ("unit", 7),
        ("n_windows", True),
        ("settings", None),
        ("a field too many", 1),
    ],
)
def test_a_result_that_cannot_be_is_refused(saved, tmp_path, name, value):
    tensors, description = parts_of(saved)
    description["result"][name] = value
    write(tmp_path / "changed", tensors, description)
    with pytest.raises(TreetError, match=REFUSED):
        TREET.load(tmp_path / "changed")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"preset": "best"}, "preset must be one of"),
        ({"preset": "default"}, REFUSED),
        ({"memory": -1}, "memory must be a whole number"),
        ({"confidence": 2}, "confidence must be a finite number"),
        ({"unit": "apples"}, "unit must be one of 'nats', 'bits'"),
        ({"unheard_of": 1}, REFUSED),
    ],
)
def test_parameters_that_cannot_be_are_refused(saved, tmp_path, parameters, message):
    tensors, description = parts_of(saved)
    description["parameters"] |= parameters
    write(tmp_path / "changed", tensors, description)
    with pytest.raises(TreetError, match=message):
        TREET.load(tmp_path / "changed")


@pytest.mark.parametrize(
    "change",
    [
        {"folds": 10**12},
        {"folds": 0},
        {"folds": -1},
        {"trials": 10**12},
        {"trials": 0},
        {"lags": {"target_history": 10**12, "source_history": 1, "delay": 0, "condition_history": None}},
        {"lags": {"target_history": 1, "source_history": 10**30, "delay": 0, "condition_history": None}},
        {"lags": {"target_history": 1, "source_history": 1, "delay": 10**9, "condition_history": None}},
        {"lags": {"target_history": 2, "source_history": 3, "delay": 0, "condition_history": 10**9}},
    ],
    ids=repr,
)
def test_huge_claims_are_refused_at_once(saved, tmp_path, change):
    tensors, description = parts_of(saved)
    write(tmp_path / "changed", tensors, description | change)
    started = time.perf_counter()
    with pytest.raises(TreetError, match=REFUSED):
        TREET.load(tmp_path / "changed")
    assert time.perf_counter() - started < 2


def test_a_hundred_thousand_channels_are_refused_at_once(saved, tmp_path):
    tensors, description = parts_of(saved)
    description["result"]["source"] = ["x"] * 100_000
    for fold in range(2):
        tensors[f"scaler.{fold}.mean"] = torch.zeros(100_001, dtype=torch.float64)
        tensors[f"scaler.{fold}.std"] = torch.ones(100_001, dtype=torch.float64)
    write(tmp_path / "changed", tensors, description)
    started = time.perf_counter()
    with pytest.raises(TreetError, match=REFUSED):
        TREET.load(tmp_path / "changed")
    assert time.perf_counter() - started < 5


def wrong_tensors(tensor):
    """What may stand in a tensor's place: nothing, other dimensions, more, fewer, other numbers."""
    yield from (None, tensor[None], torch.cat([tensor.flatten(), tensor.flatten()]))
    yield from (tensor.flatten()[:0], tensor.to(torch.int8), tensor.to(torch.bfloat16))


def test_every_tensor_must_be_there_and_of_its_shape_and_type(case, tmp_path):
    tensors, description = parts_of(case[3])
    for name, tensor in tensors.items():
        others = {other: value for other, value in tensors.items() if other != name}
        for wrong in wrong_tensors(tensor):
            if name.startswith("local.") and wrong is not None and wrong.ndim == 1:
                wrong = wrong.to(torch.float32)  # the length of a trial is free
            write(tmp_path / "changed", others | ({} if wrong is None else {name: wrong}), description)
            with pytest.raises(TreetError, match=REFUSED):
                TREET.load(tmp_path / "changed")


def test_a_weight_too_many_is_refused(saved, tmp_path):
    tensors, description = parts_of(saved)
    write(tmp_path / "changed", tensors | {"fold.0.y.extra": torch.zeros(3)}, description)
    with pytest.raises(TreetError, match=REFUSED):
        TREET.load(tmp_path / "changed")


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_scales_must_be_finite_and_positive(saved, tmp_path, value):
    tensors, description = parts_of(saved)
    tensors["scaler.1.std"][0] = value
    write(tmp_path / "changed", tensors, description)
    with pytest.raises(TreetError, match=r"scales of fold 1 are not finite and positive\. Save it again"):
        TREET.load(tmp_path / "changed")


def test_lags_of_the_file_are_those_that_are_used(case):
    fitted, loaded, _, _ = case
    assert isinstance(loaded.lags_, Lags)
    assert loaded.lags_ == fitted.lags_
