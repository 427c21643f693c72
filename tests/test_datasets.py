"""The apnea recording: files that the test makes, and the real ones where TREET_DATA names them."""

import hashlib
import os
import sys
import types

import numpy as np
import pytest

from treet import datasets
from treet.datasets import APNEA_HASHES, APNEA_URL, fetch_apnea, load_apnea
from treet.errors import MissingExtraError, TreetError

CONTENT = {"b1.txt": "76.5 8320 7771\n79.25 6469 7769\n", "b2.txt": "1 2 3\n4 5 6\n7 8 9\n"}


@pytest.fixture
def made_up(monkeypatch, tmp_path):
    """Small files in place of the real ones, with hashes to match, in a folder that TREET_DATA names."""
    hashes = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in CONTENT.items()}
    monkeypatch.setattr(datasets, "APNEA_HASHES", hashes)
    monkeypatch.setenv("TREET_DATA", str(tmp_path))
    folder = tmp_path / "apnea"
    folder.mkdir()
    for name, text in CONTENT.items():
        (folder / name).write_text(text)
    return folder


class Pooch(types.ModuleType):
    """Stands in for the library: writes what PhysioNet would send, or fails as it does."""

    def __init__(self, error=None):
        super().__init__("pooch")
        self.error, self.asked = error, []

    def retrieve(self, url, known_hash, fname, path):
        self.asked.append((url, known_hash))
        if self.error is not None:
            raise self.error
        path.mkdir(parents=True, exist_ok=True)
        (path / fname).write_text(CONTENT[fname])


def test_two_trials_with_named_channels_and_their_rate(made_up):
    recording = load_apnea()
    assert recording.names == ("heart", "breath", "oxygen")
    assert recording.sampling_rate == 2.0
    assert [trial.tolist() for trial in recording.trials] == [
        [[76.5, 8320, 7771], [79.25, 6469, 7769]],
        [[1, 2, 3], [4, 5, 6], [7, 8, 9]],
    ]


def test_what_is_there_is_not_downloaded_and_comes_with_citation_and_licence(made_up, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    found = fetch_apnea()
    assert found.paths == (made_up / "b1.txt", made_up / "b2.txt")
    assert "Rigney" in found.citation
    assert "Circulation" in found.citation
    assert found.licence.startswith("Open Data Commons Attribution License")


def test_what_is_missing_is_downloaded_by_its_hash(made_up, monkeypatch):
    library = Pooch()
    monkeypatch.setitem(sys.modules, "pooch", library)
    (made_up / "b2.txt").unlink()
    assert len(load_apnea().trials[1]) == 3
    assert library.asked == [(APNEA_URL + "b2.txt", f"sha256:{datasets.APNEA_HASHES['b2.txt']}")]


def test_without_the_variable_a_cache_folder_is_used(made_up, monkeypatch, tmp_path):
    monkeypatch.delenv("TREET_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "pooch", Pooch())
    assert fetch_apnea().paths[0] == tmp_path / "cache" / "treet" / "apnea" / "b1.txt"
    monkeypatch.setitem(sys.modules, "pooch", None)
    assert len(load_apnea().trials) == 2


@pytest.mark.parametrize("error", [ConnectionError("no route"), ValueError("hash does not match")])
def test_without_a_network_the_error_says_how_to_get_the_files(made_up, monkeypatch, error):
    monkeypatch.setitem(sys.modules, "pooch", Pooch(error))
    (made_up / "b1.txt").unlink()
    with pytest.raises(
        TreetError, match=r"b1.txt .* could not be downloaded .* set TREET_DATA to the folder"
    ):
        load_apnea()


def test_without_the_extra_the_error_names_it(made_up, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    (made_up / "b1.txt").unlink()
    with pytest.raises(MissingExtraError, match=r"transfer-entropy\[datasets\]"):
        fetch_apnea()


def test_a_file_that_is_not_the_published_one_is_refused_and_kept(made_up):
    (made_up / "b2.txt").write_text("1 2 3\n")
    with pytest.raises(TreetError, match=r"b2.txt is not the file .* SHA-256 differs"):
        load_apnea()
    assert (made_up / "b2.txt").read_text() == "1 2 3\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [("1 2\n3 4\n", "must have 3 columns. Got 2"), ("a b c\n", "cannot be read as columns")],
)
def test_other_formats_are_refused(made_up, monkeypatch, text, message):
    (made_up / "b1.txt").write_text(text)
    right = datasets.APNEA_HASHES | {"b1.txt": hashlib.sha256(text.encode()).hexdigest()}
    monkeypatch.setattr(datasets, "APNEA_HASHES", right)
    with pytest.raises(TreetError, match=message):
        load_apnea()


@pytest.mark.skipif("TREET_DATA" not in os.environ, reason="TREET_DATA does not name a folder with the files")
def test_the_real_recording():
    recording = load_apnea()
    assert [trial.shape for trial in recording.trials] == [(17_000, 3), (17_000, 3)]
    np.testing.assert_array_equal(recording.trials[0][200, :2], [79.48, 6469])
    assert list(APNEA_HASHES) == [path.name for path in fetch_apnea().paths]
