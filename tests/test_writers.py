"""What is written is read back: the same trials, names and values, or one clear line that says why not."""

import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from treet.data import Recording
from treet.errors import MissingExtraError, TreetError
from treet.readers import READERS, read_recording, read_table
from treet.writers import WRITERS, check_data_ending, check_table_ending, write_recording, write_table

TABLES = [".csv", ".tsv", ".parquet"]
NAMED = [*TABLES, ".npz"]
quickly = settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# Names that read like something else: numbers, gaps, comments, separators, quotes, files, keywords.
LIKE_NUMBERS = ["0", "1", "10", "-1e5", "nan", "NA", "inf", "True", "None", "1_0"]
LIKE_SYNTAX = ["#", "#a", "# a", "a;b", "a,b", "a, b", "a\tb", 'a"b', '"a"', "'", "\ufeffa", "é心🫀"]
LIKE_FILES = ["x", "x.npy", "../x", "a/b", "a\\b", "file", "allow_pickle", "trial"]
odd_names = st.sampled_from([*LIKE_NUMBERS, *LIKE_SYNTAX, *LIKE_FILES])
names = odd_names | st.text(min_size=1, max_size=8)
values = st.floats(allow_nan=True, allow_infinity=True)


def fits_a_header(name):
    spaces_around = name[0].isspace() or name[-1].isspace()
    return len(name.splitlines()) == 1 and not spaces_around and "\0" not in name


@st.composite
def recordings(draw, names=names, same_length=False):
    """One to three channels over one to three trials, with any values."""
    channels = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=3))
    if same_length:
        lengths = lengths[:1] * len(lengths)
    rows = st.lists(values, min_size=len(channels), max_size=len(channels))
    trials = [draw(st.lists(rows, min_size=length, max_size=length)) for length in lengths]
    return Recording(tuple(np.array(trial, float) for trial in trials), tuple(channels))


def one(*names, trials=1):
    """A recording of four samples a trial, all different."""
    values = np.arange(4.0 * len(names) * trials).reshape(trials, 4, len(names))
    return Recording(tuple(values), names)


def assert_same(got, expected, names=None):
    assert got.names == (expected.names if names is None else names)
    assert len(got.trials) == len(expected.trials)
    for one, other in zip(got.trials, expected.trials, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(np.signbit(one[~np.isnan(one)]), np.signbit(other[~np.isnan(other)]))


def read_back(path, recording):
    """The recording in the file, by index, since a channel may be called like the trial column."""
    if path.suffix.lower() not in TABLES or len(recording.trials) == 1:
        return read_recording(path)
    return read_table(path).recording([*range(1, recording.n_channels + 1)], trial_column=0)


def refused(recording, path):
    """The message of the error: one line, and the file that was there stays."""
    path.write_bytes(b"old")
    with pytest.raises(TreetError) as caught:
        write_recording(recording, path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == b"old"
    message = str(caught.value)
    assert message.isprintable()
    return message


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
@quickly
@given(recording=recordings(names.filter(fits_a_header)))
@example(one("0", "1"))
@example(one("10"))
@example(one("nan"))
@example(one("#a", "b"))
@example(one("a;b"))
@example(one("\ufeffa", "b"))
@example(Recording((np.array([[np.nan], [1.0], [np.nan], [np.nan]]),), ("a",)))
def test_a_text_file_is_read_back(tmp_path, ending, recording):
    assume("trial" not in recording.names or len(recording.trials) == 1)
    path = tmp_path / f"x{ending}"
    write_recording(recording, path)
    assert_same(read_back(path, recording), recording)


@quickly
@given(recording=recordings(names.filter(lambda name: "\0" not in name and name != "trial")))
def test_a_parquet_file_is_read_back(tmp_path, recording):
    path = tmp_path / "x.parquet"
    write_recording(recording, path)
    assert_same(read_back(path, recording), recording)


@quickly
@given(recording=recordings(names.filter(lambda name: "\0" not in name), same_length=True))
@example(one("file", "allow_pickle"))
@example(one("x", "x.npy", trials=2))
@example(one("a", trials=3))
def test_an_npz_file_is_read_back(tmp_path, recording):
    path = tmp_path / "x.npz"
    write_recording(recording, path)
    assert_same(read_back(path, recording), recording)


@quickly
@given(recording=recordings(same_length=True))
def test_an_npy_file_is_read_back_without_names(tmp_path, recording):
    path = tmp_path / "x.npy"
    write_recording(recording, path)
    names = tuple(str(index) for index in range(recording.n_channels))
    assert_same(read_back(path, recording), recording, names)


@pytest.mark.parametrize("ending", WRITERS)
def test_endings_in_capitals_and_paths_as_text(tmp_path, ending):
    path = tmp_path / f"x{ending.upper()}"
    recording = one("0", "1", trials=2)
    path.write_bytes(b"old")
    write_recording(recording, str(path))
    assert_same(read_back(path, recording), recording)
    assert list(tmp_path.iterdir()) == [path]


def test_a_plain_text_file_looks_plain(tmp_path):
    write_recording(one("heart", "breath[0]"), tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_bytes() == b"heart,breath[0]\n0.0,1.0\n2.0,3.0\n4.0,5.0\n6.0,7.0\n"
    write_recording(one("a", trials=2), tmp_path / "x.tsv")
    lines = (tmp_path / "x.tsv").read_text().splitlines()
    assert lines == ["trial\ta", *(f"{trial}\t{4 * trial + step}.0" for trial in (0, 1) for step in range(4))]
    write_recording(one("0", "1"), tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().startswith("# 0,1\n0.0,1.0\n")


@pytest.mark.parametrize("ending", TABLES)
def test_other_programs_read_the_tables(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    recording = one("a,b", 'say "c"', trials=2)
    write_recording(recording, path)
    readers = {".csv": pd.read_csv, ".tsv": pd.read_table, ".parquet": pd.read_parquet}
    frame = readers[ending](path)
    assert list(frame.columns) == ["trial", "a,b", 'say "c"']
    assert frame["trial"].tolist() == [0] * 4 + [1] * 4
    np.testing.assert_array_equal(frame.to_numpy()[:, 1:], np.concatenate(recording.trials))


def test_numpy_reads_the_arrays(tmp_path):
    write_recording(one("a", "b", trials=2), tmp_path / "x.npy")
    assert np.load(tmp_path / "x.npy").shape == (2, 4, 2)
    write_recording(one("a", "b"), tmp_path / "x.npz")
    with np.load(tmp_path / "x.npz") as archive:
        assert {key: archive[key].tolist() for key in archive} == {"a": [0, 2, 4, 6], "b": [1, 3, 5, 7]}


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
@pytest.mark.parametrize("name", ["", " ", " a", "a\t", "\r", "a\n", "two\nlines", "a\rb", "a\x85b", "a\0b"])
def test_a_name_that_cannot_be_a_header_is_refused(tmp_path, ending, name):
    message = refused(one("good", name), tmp_path / f"x{ending}")
    assert message.startswith(f"The channel name {name!r} cannot be a header in a {ending} file")


@pytest.mark.parametrize("ending", [".parquet", ".npz"])
def test_a_name_that_cannot_be_a_key_is_refused(tmp_path, ending):
    assert "The channel name 'a' cannot be a key" in refused(one("a", "b", "a"), tmp_path / f"x{ending}")
    assert r"The channel name 'a\x00b' cannot be a key" in refused(one("a\0b"), tmp_path / f"x{ending}")


def test_a_channel_called_trial_is_kept_apart_from_the_trials(tmp_path):
    recording = one("trial", "a", trials=2)
    assert "'trial' cannot be a key" in refused(recording, tmp_path / "x.parquet")
    write_recording(recording, tmp_path / "x.csv")
    assert_same(read_back(tmp_path / "x.csv", recording), recording)


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_text_files_hold_equal_names(tmp_path, ending):
    path = tmp_path / f"x{ending}"
    write_recording(one("a", "a"), path)
    assert_same(read_back(path, one("a", "a")), one("a", "a"))


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_arrays_do_not_hold_trials_of_different_lengths(tmp_path, ending):
    recording = Recording((np.zeros((4, 1)), np.zeros((5, 1))), ("a",))
    message = refused(recording, tmp_path / f"x{ending}")
    assert message.startswith("NPY and NPZ files hold trials of one length only.")


@pytest.mark.parametrize("name", ["x.txt", "x.h5", "x.xlsx", "x", ".csv"])
def test_an_ending_that_is_not_written_is_refused(tmp_path, name):
    message = refused(one("a"), tmp_path / name)
    assert message.startswith("A data file to write must end in .csv, .tsv, .parquet, .npy, .npz. Got ")
    with pytest.raises(TreetError, match="must end in"):
        check_data_ending(name)


@pytest.mark.parametrize("ending", WRITERS)
def test_every_ending_that_is_written_is_read(ending):
    assert ending in READERS
    check_data_ending(f"folder.h5/x{ending.upper()}")


@pytest.mark.parametrize("ending", WRITERS)
def test_a_missing_folder_is_one_line(tmp_path, ending):
    with pytest.raises(TreetError, match=r"Cannot write .*: No such file or directory") as caught:
        write_recording(one("a"), tmp_path / "none" / f"x{ending}")
    assert "\n" not in str(caught.value)


def test_a_missing_library_names_the_extra_and_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x.parquet"
    path.write_bytes(b"old")
    for library in ("pyarrow", "fastparquet"):
        for module in {library, *(module for module in sys.modules if module.startswith(f"{library}."))}:
            monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=r"writing Parquet files .*'transfer-entropy\[parquet\]'"):
        write_recording(one("a"), path)
    assert [file.name for file in tmp_path.iterdir()] == ["x.parquet"]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("ending", WRITERS)
def test_writing_leaves_the_recording_as_it_is(tmp_path, ending):
    recording, before = one("a", "b", trials=2), one("a", "b", trials=2)
    write_recording(recording, tmp_path / f"x{ending}")
    assert_same(recording, before)


@pytest.mark.parametrize(
    ("ending", "read"),
    [
        (".csv", pd.read_csv),
        (".tsv", pd.read_table),
        (".PARQUET", pd.read_parquet),
    ],
)
def test_a_table_is_what_was_written_and_nothing_else_is_left(tmp_path, ending, read):
    frame = pd.DataFrame({"time": [0, 1], "q0.5": [np.nan, 0.1]})
    write_table(frame, tmp_path / f"x{ending}")
    pd.testing.assert_frame_equal(read(tmp_path / f"x{ending}"), frame)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_link_is_followed_and_the_names_ending_counts(tmp_path):
    (tmp_path / "x.csv").symlink_to(tmp_path / "x.dat")
    write_table(pd.DataFrame({"a": [1]}), tmp_path / "x.csv")
    assert (tmp_path / "x.dat").read_text() == "a\n1\n"


@pytest.mark.parametrize("name", ["x.npy", "x.xlsx", "x"])
def test_an_ending_that_is_no_table_is_refused(tmp_path, name):
    with pytest.raises(TreetError, match=r"A table to write must end in \.csv, \.tsv, \.parquet\. Got"):
        write_table(pd.DataFrame({"a": [1]}), tmp_path / name)
    with pytest.raises(TreetError):
        check_table_ending(name)
