"""Files in every format: what is read, and one clear line for what cannot be."""

import decimal
import io
import os
import sys
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treet.errors import MissingExtraError, TreetError
from treet.readers import READERS, read_recording, read_table

NAN = np.nan
quickly = settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def file(tmp_path):
    """A function that writes a file and returns its path."""

    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def npy(array, **settings):
    buffer = io.BytesIO()
    np.save(buffer, array, **settings)
    return buffer.getvalue()


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def parquet(**columns):
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def hdf5(**arrays):
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as archive:
        for key, array in arrays.items():
            archive[key] = array
    return buffer.getvalue()


def same(recording, names, *trials):
    assert recording.names == names
    assert len(recording.trials) == len(trials)
    for got, expected in zip(recording.trials, trials, strict=True):
        np.testing.assert_array_equal(got, expected)


def refused(function, path, *arguments, **settings):
    """The message of the error: one line that names the file."""
    with pytest.raises(TreetError) as caught:
        function(path, *arguments, **settings)
    message = str(caught.value)
    assert message.isprintable()
    assert str(path) in message
    return message.replace(str(path), "PATH")


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("a,b\n1,2\n3,4\n", ("a", "b"), [[1, 2], [3, 4]]),
        ("1,2\n3,4", ("0", "1"), [[1, 2], [3, 4]]),
        ("1\n2\n3", ("0",), [[1], [2], [3]]),
        ("a\n1\n\n3\n\n", ("a",), [[1], [NAN], [3]]),
        ("a,b\r\n1,2\r\n\r\n3,4\r\n", ("a", "b"), [[1, 2], [NAN, NAN], [3, 4]]),
        ("a,b\r1,2\r3,4", ("a", "b"), [[1, 2], [3, 4]]),
        ("\ufeffa,b\n1,2", ("a", "b"), [[1, 2]]),
        ("a;b\n1;2.5", ("a", "b"), [[1, 2.5]]),
        ("a\tb\n1\t2.5", ("a", "b"), [[1, 2.5]]),
        (" a , b\n 1 , 2 \n3,  4", ("a", "b"), [[1, 2], [3, 4]]),
        ("a,b\nNA,nan\n,NaN\nnull,n/a\n1,2", ("a", "b"), [[NAN, NAN]] * 3 + [[1, 2]]),
        ("a,b\n1, NA\n , 2", ("a", "b"), [[1, NAN], [NAN, 2]]),
        ("NA,\n1,2", ("0", "1"), [[NAN, NAN], [1, 2]]),
        ("a,b\n1\n3,4", ("a", "b"), [[1, NAN], [3, 4]]),
        ("a,b\n1,2,\n3,4,", ("a", "b"), [[1, 2], [3, 4]]),
        (",a\n0,1\n1,2", ("0", "a"), [[0, 1], [1, 2]]),
        ("1_0,2\n3,4", ("1_0", "2"), [[3, 4]]),
        ("1,b\n3,4", ("1", "b"), [[3, 4]]),
        ("a,a\n1,2", ("a", "a"), [[1, 2]]),
        ("a,b\nTrue,-inf\nFalse,1e3", ("a", "b"), [[1, -np.inf], [0, 1000]]),
        ('"1.5","b"\n"2","3"', ("1.5", "b"), [[2, 3]]),
        ('"a,b","say ""c"""\n1,2', ("a,b", 'say "c"'), [[1, 2]]),
        ('"a,b";c\n1;2', ("a,b", "c"), [[1, 2]]),
        ('"heart\n(mV)",b\n1,2', ("heart (mV)", "b"), [[1, 2]]),
        ('5" disk,b\n1,2\n3,4', ('5" disk', "b"), [[1, 2], [3, 4]]),
        ("höhe,心,🫀\n1,2,3", ("höhe", "心", "🫀"), [[1, 2, 3]]),
        ("# made by hand\na,b\n1,2", ("a", "b"), [[1, 2]]),
        ("# made by hand\n\n## a, b\n1,2\n3,4", ("a", "b"), [[1, 2], [3, 4]]),
        ("# 250 Hz\n\n1,2", ("0", "1"), [[1, 2]]),
        ("#10\n2\n3", ("10",), [[2], [3]]),
    ],
)
def test_csv(file, text, names, rows):
    same(read_recording(file("x.csv", text)), names, rows)


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("a b\n1 2\n3 4", ("a", "b"), [[1, 2], [3, 4]]),
        ("  a   b \n 1   2 \n  3  4  \n", ("a", "b"), [[1, 2], [3, 4]]),
        ("1e-3 -2\n\n3 nan", ("0", "1"), [[0.001, -2], [NAN, NAN], [3, NAN]]),
        ("# a b\n1 2", ("a", "b"), [[1, 2]]),
        ('"left hand" right\n1 2', ("left hand", "right"), [[1, 2]]),
        ("left hand\tright\n1\t2", ("left hand", "right"), [[1, 2]]),
        ("a,b\n1,2", ("a", "b"), [[1, 2]]),
        ("a;b\n1;2", ("a", "b"), [[1, 2]]),
        ("a\n1\n2", ("a",), [[1], [2]]),
    ],
)
def test_txt(file, text, names, rows):
    same(read_recording(file("x.txt", text)), names, rows)


def test_tsv_is_separated_by_tabs_only(file):
    same(read_recording(file("x.tsv", "a,b\tc;d e\n1\t\n3\t4")), ("a,b", "c;d e"), [[1, NAN], [3, 4]])
    same(read_recording(file("x.TSV", "a,b\n1\n2")), ("a,b",), [[1], [2]])


def test_numbers_in_text_are_read_exactly(file):
    values = np.random.default_rng(0).normal(size=(2000, 1)) * 10.0 ** np.arange(-20, 20).repeat(50)[:, None]
    text = "a\n" + "\n".join(map(repr, values[:, 0].tolist()))
    np.testing.assert_allclose(read_recording(file("x.csv", text)).trials[0], values, rtol=4e-16)
    huge = read_recording(file("x.csv", "a\n123456789012345678901234567890\n1"))
    same(huge, ("a",), [[123456789012345678901234567890.0], [1]])


@pytest.mark.parametrize("text", ["x y\n1 2 3\n4 5 6", "x y\n1 2 3", "x y\n1 2 3\n9 9 9\n1 2 3"])
def test_surplus_columns_never_shift_the_others(file, text):
    message = refused(read_recording, file("x.txt", text))
    assert message.startswith("Cannot read PATH: The first row has 2 columns, a later one has more.")
    assert "has more" in refused(read_recording, file("x.csv", text.replace(" ", ",")))


def test_a_late_surplus_column_is_named_with_its_row(file):
    message = refused(read_recording, file("x.csv", "# comment\na,b\n1,2\n3,4\n5,6,7\n"))
    assert "Expected 2 fields in data row 3, saw 3. Check that" in message


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("x.csv", "", "PATH is an empty file."),
        ("x.csv", " \n\n", "PATH is an empty file."),
        ("x.csv", "\ufeff", "PATH is an empty file."),
        ("x.parquet", b"", "PATH is an empty file."),
        ("x.csv", "a,b\n", "PATH has a header but no rows of data."),
        ("x.csv", "# a,b\n", "PATH has a header but no rows of data."),
        ("x.txt", "a b", "PATH has a header but no rows of data."),
        ("x.csv", "when,what\nnow,this\n", "PATH has no numeric data in it."),
        ("x.csv", "a,b\n,\n,\n", None),
        ("x.csv", bytes(range(256)), "PATH is not text in UTF-8, as its ending .csv says."),
        ("x.csv", b"\x7fELF\x02\x01\x01\x00\x00\x00", "PATH is not text in UTF-8"),
        ("x.csv", "a,b\n1,2".encode("utf-16"), "PATH is not text in UTF-8"),
        ("x.txt", "höhe b\n1 2".encode("latin-1"), "PATH is not text in UTF-8"),
        ("x.csv", npy(np.zeros(3)), "PATH is not text in UTF-8"),
        ("x.csv", 'a\n"1', "Cannot read PATH: Error tokenizing data. C error: EOF inside string"),
        ("x.csv", "a" * 200_000 + ",b\n1,2", "Cannot read PATH: field larger than field limit"),
        (
            "x.dat",
            "1",
            "PATH: a data file must end in .csv, .tsv, .txt, .parquet, .npy, .npz, .h5, .hdf5. Got the",
        ),
        ("x", "1", "Got no ending instead."),
        ("x.npy", "a,b\n1,2", "Cannot read PATH: EOF: reading magic string"),
        ("x.npy", npz(a=np.zeros(3)), "Cannot read PATH: the magic string is not correct"),
        ("x.npz", npy(np.zeros(3)), "Cannot read PATH: File is not a zip file. Check that"),
        ("x.npz", "a,b\n1,2", "Cannot read PATH: File is not a zip file."),
        ("x.h5", "a,b\n1,2", "Cannot read PATH: Unable to"),
        ("x.parquet", "a,b\n1,2\n3,4\n", "Cannot read PATH: Parquet magic bytes not found"),
        (
            "x.npy",
            npy(np.float64(1)),
            "Cannot read PATH: The array must be (time,), (time, channels) or (tri",
        ),
        (
            "x.npy",
            npy(np.zeros((1, 1, 1, 1))),
            "Cannot read PATH: The array must be (time,), (time, channels)",
        ),
        ("x.npy", npy(np.zeros(3, [("a", float)])), "Cannot read PATH: The array must be"),
        ("x.npy", npy(np.zeros((0, 2))), "PATH has no numeric data in it."),
        ("x.npy", npy(np.zeros((0, 3, 2))), "PATH has no numeric data in it."),
        ("x.npy", npy(np.array(["a", "b"])), "PATH has no numeric data in it."),
        ("x.npy", npy(np.array([1j])), "PATH has no numeric data in it."),
        ("x.npz", npz(), "PATH has no numeric data in it."),
        ("x.npz", npz(a=np.float64(1)), "PATH has no numeric data in it."),
        ("x.h5", hdf5(a=1.5), "PATH has no numeric data in it."),
        ("x.parquet", parquet(a=pa.array([], pa.float64())), "PATH has no numeric data in it."),
        ("x.parquet", parquet(a=[[1.0], [2.0, 3.0]]), "PATH has no numeric data in it."),
    ],
)
def test_a_file_without_a_recording_says_so_in_one_line(file, name, content, words):
    path = file(name, content)
    if words is None:  # all gaps, but numeric by type: the checks of the channels name it
        assert np.isnan(read_recording(path).trials[0]).all()
    else:
        assert words in refused(read_recording, path)


def test_a_path_that_is_no_file_says_so_in_one_line(tmp_path):
    assert refused(read_table, tmp_path / "none.csv") == "There is no file PATH. Check the path."
    (tmp_path / "folder.npy").mkdir()
    assert "PATH is not a file." in refused(read_table, tmp_path / "folder.npy")
    assert "File name too long" in refused(read_table, tmp_path / f"{'a' * 300}.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read anything")
def test_no_permission_is_one_line(file):
    path = file("x.csv", "a\n1\n2")
    path.chmod(0)
    assert "Permission denied" in refused(read_table, path)


class Bomb:
    """Does harm when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_python_objects_are_never_unpickled(file, tmp_path):
    bomb = np.array([Bomb(tmp_path / "harm")] * 3, dtype=object)
    message = refused(read_recording, file("x.npy", npy(bomb, allow_pickle=True)))
    assert "Object arrays cannot be loaded when allow_pickle=False. Check that" in message
    path = file("x.npz", npz(bomb=bomb, good=np.arange(3)))
    assert read_table(path).names == ("good",)
    assert "no channel 'bomb'" in refused(read_recording, path, "bomb")
    assert "no numeric data" in refused(read_recording, file("y.npz", npz(bomb=bomb)))
    assert not (tmp_path / "harm").exists()
    np.load(io.BytesIO(npy(bomb, allow_pickle=True)), allow_pickle=True)
    assert (tmp_path / "harm").exists()  # so the bomb is live


RNG_COLUMN = np.random.default_rng(0).normal(size=50)
WHOLE_FILES = {
    "x.npy": npy(RNG_COLUMN),
    "x.npz": npz(a=RNG_COLUMN, b=RNG_COLUMN),
    "x.parquet": parquet(a=RNG_COLUMN, b=RNG_COLUMN),
    "x.h5": hdf5(a=RNG_COLUMN, b=RNG_COLUMN),
}


@pytest.mark.parametrize("name", WHOLE_FILES)
@quickly
@given(data=st.data())
def test_a_truncated_file_is_one_line(file, name, data):
    whole = WHOLE_FILES[name]
    path = file(name, whole[: data.draw(st.integers(1, len(whole) - 1))])
    message = refused(read_recording, path)
    assert message.startswith("Cannot read PATH: ")
    assert message.endswith(f". Check that the file is what its ending {path.suffix} says.")


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv"])
@quickly
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused_in_one_line(file, name, data):
    content = bytearray(WHOLE_FILES.get(name, b"a,b\n1.5,2\n3,4\n"))
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
        content[place] = data.draw(st.integers(0, 255))
    try:
        recording = read_recording(file(name, bytes(content)))
    except TreetError as error:
        assert "\n" not in str(error)
    else:
        assert recording.n_samples > 0


def test_a_header_that_promises_more_than_the_memory_is_one_line(file, tmp_path):
    content = npy(np.zeros(3)).replace(b"(3,), }" + b" " * 15, b"(3" + b"0" * 15 + b",), }")
    assert len(content) == len(npy(np.zeros(3)))
    assert "Cannot read PATH: " in refused(read_recording, file("x.npy", content))
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as archive:
        archive.create_dataset("a", (10**14,), dtype="f8", chunks=(1000,))
    assert "Cannot read PATH: Unable to allocate" in refused(read_recording, path)


@pytest.mark.parametrize(
    "dtype", [bool, np.int8, np.uint64, np.float16, np.float32, ">f8", float, np.longdouble]
)
@pytest.mark.parametrize("shape", [(4,), (4, 1), (4, 2), (3, 4, 2), (3, 4, 1)])
def test_npy_of_any_real_type_and_shape(file, dtype, shape):
    array = (np.arange(np.prod(shape)) % 2).astype(dtype).reshape(shape)
    names = ("0", "1") if len(shape) > 1 and shape[-1] == 2 else ("0",)
    trials = array.reshape(-1, 4, len(names)).astype(float)
    for order in "CF":
        same(read_recording(file("x.NPY", npy(np.asarray(array, order=order)))), names, *trials)


ARRAYS = {"a": np.arange(4.0), "b": np.arange(8).reshape(4, 2), "c": np.arange(4.0).reshape(1, 4, 1)}


@pytest.mark.parametrize(("ending", "pack"), [(".npz", npz), (".h5", hdf5), (".hdf5", hdf5)])
class TestKeyedArrays:
    def test_every_array_is_a_channel_or_several(self, file, ending, pack):
        recording = read_recording(file(f"x{ending}", pack(**ARRAYS)))
        same(recording, ("a", "b[0]", "b[1]", "c"), np.column_stack([ARRAYS["a"], ARRAYS["b"], ARRAYS["a"]]))

    def test_trials_are_kept(self, file, ending, pack):
        cube = np.arange(12.0).reshape(3, 4, 1)
        path = file(f"x{ending}", pack(s=cube, t=cube + 0.5, u=np.arange(12)))
        same(read_recording(path, ["t", "s"]), ("t", "s"), *np.concatenate([cube + 0.5, cube], axis=2))
        assert "'t' has 3 trials of 4 samples, 'u' has 12 samples." in refused(
            read_recording, path, ["t", "u"]
        )
        assert "PATH already holds 3 trials." in refused(read_recording, path, "s", "t")
        assert "equally long" in refused(read_recording, path, "s", "u")

    def test_other_things_in_the_file_are_in_nobodys_way(self, file, ending, pack):
        others = {
            "compound": np.zeros(4, [("x", float)]),
            "text": np.array([b"a", b"a", b"b", b"b"]),
            "number": np.float64(3),
            "deep": np.zeros((1, 1, 1, 1)),
            "none": np.zeros((0, 5, 1)),
            "complex": np.zeros(4, complex),
        }
        path = file(f"x{ending}", pack(a=ARRAYS["a"], **others))
        assert set(read_table(path).names) == {"a", "text", "none", "complex"}
        same(read_recording(path, "a"), ("a",), ARRAYS["a"][:, None])
        same(read_recording(path, "a", trial_column="text"), ("a",), [[0], [1]], [[2], [3]])
        assert "'a' has 4 samples, 'none' has 0 samples" in refused(read_recording, path, ["a", "none"])
        assert "column 'complex' is not numeric. Row 1" in refused(read_recording, path, "complex")
        with pytest.raises(TreetError, match="at least one sample"):
            read_recording(path, "none")


def test_an_npz_file_may_hold_other_files(file):
    buffer = io.BytesIO(npz(a=np.arange(3)))
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr("readme.txt", "made by hand")
        archive.writestr("folder/", "")
    assert read_table(file("x.npz", buffer.getvalue())).names == ("a",)


def test_a_compressed_npz_file(file):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, a=np.arange(3))
    same(read_recording(file("x.npz", buffer.getvalue())), ("a",), [[0], [1], [2]])


def test_hdf5_groups_are_in_the_names_and_links_lead_nowhere(file, tmp_path):
    path = file("x.h5", hdf5(**{"eeg/left": np.arange(3), "eeg/right": np.arange(6).reshape(3, 2)}))
    with h5py.File(path, "a") as archive:
        archive["soft"] = h5py.SoftLink("/nowhere")
        archive["outside"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/a")
        archive["eeg/self"] = h5py.SoftLink("/eeg")
        archive.create_dataset("ragged", (2,), dtype=h5py.vlen_dtype(float))[0] = [1.0, 2.0]
    (tmp_path / "other.h5").write_bytes(hdf5(a=np.arange(3)))
    assert read_table(path).names == ("eeg/left", "eeg/right[0]", "eeg/right[1]", "ragged")
    assert read_recording(path, "eeg/right[1]").trials[0].tolist() == [[1], [3], [5]]
    assert "column 'ragged' is not numeric. Row 1" in refused(read_recording, path, "ragged")


def test_parquet_types_and_missing_values(file):
    path = file(
        "x.parquet",
        parquet(
            whole=pa.array([1, None, 3], pa.int64()),
            single=pa.array([1.5, 2.5, None], pa.float32()),
            truth=[True, None, False],
            exact=[decimal.Decimal("1.5"), None, decimal.Decimal("-2.25")],
            text=["a", "a", "b"],
            when=pa.array([1, 2, 3], pa.timestamp("ns")),
        ),
    )
    numeric = ("whole", "single", "truth", "exact")
    rows = [[1, 1.5, 1, 1.5], [NAN, 2.5, NAN, NAN], [3, NAN, 0, -2.25]]
    same(read_recording(path, numeric), numeric, rows)
    same(read_recording(path, numeric, "text"), numeric, rows[:2], rows[2:])
    assert "column 'when' is not numeric. Row 1" in refused(read_recording, path, "when")


def test_parquet_columns_of_one_name_are_told_apart_by_index(file):
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), buffer)
    same(read_recording(file("x.parquet", buffer.getvalue()), [1, 0]), ("a", "a"), [[2, 1]])


TABLE = "night,comment,heart,breath\n1,ok,1,5\n1,,2,6\n2,ok,,7\n3,bad,4,8\n"


def test_channels_are_chosen_by_name_and_index(file):
    path = file("x.csv", TABLE)
    table = read_table(str(path))
    assert table.path == path
    assert table.names == ("night", "comment", "heart", "breath")
    same(
        table.recording(["breath", "heart"], "source"),
        ("breath", "heart"),
        [[5, 1], [6, 2], [7, NAN], [8, 4]],
    )
    same(table.recording("breath"), ("breath",), [[5], [6], [7], [8]])
    same(table.recording(3), ("breath",), [[5], [6], [7], [8]])
    same(table.recording(np.int64(3)), ("breath",), [[5], [6], [7], [8]])
    same(table.recording("0"), ("night",), [[1], [1], [2], [3]])


def test_a_trial_is_a_run_of_equal_values(file):
    table = read_table(file("x.csv", TABLE))
    trials = [[5], [6]], [[7]], [[8]]
    for column in ("night", 0, "0"):
        same(table.recording("breath", trial_column=column), ("breath",), *trials)
    same(table.recording(["night"], trial_column="night"), ("night",), [[1], [1]], [[2]], [[3]])
    path = file("y.csv", "breath,night\n5,1\n6,1\n7,2\n8,3\n")
    same(read_recording(path, trial_column="night"), ("breath",), *trials)


def test_a_trial_column_may_be_text(file):
    path = file("x.csv", "who,a\nann,1\nann,2\nbob,3\n")
    same(read_recording(path, trial_column="who"), ("a",), [[1], [2]], [[3]])
    same(read_recording(file("x.csv", "a\n1\n2"), trial_column=None), ("a",), [[1], [2]])


@pytest.mark.parametrize(
    ("channels", "trial_column", "words"),
    [
        (
            "hart",
            None,
            "PATH: recording: there is no channel 'hart'. Did you mean 'heart'? There are: night, com",
        ),
        (4, None, "PATH: recording: there is no channel 4. There are: night, comment, heart, breath."),
        (["heart", 2], None, "PATH: recording names the channel 'heart' twice."),
        ([], None, "PATH: No channel is given for recording."),
        (
            "comment",
            None,
            "PATH: column 'comment' is not numeric. Row 1 (the first row of data is 1) holds 'ok'.",
        ),
        (None, None, "PATH: column 'comment' is not numeric."),
        ("heart", "day", "PATH: trial column: there is no channel 'day'. There are: night"),
        (
            "heart",
            "comment",
            "PATH: the trial column 'comment' is empty in row 2 (the first row of data is 1).",
        ),
    ],
)
def test_what_cannot_be_chosen_is_named(file, channels, trial_column, words):
    assert words in refused(read_recording, file("x.csv", TABLE), channels, trial_column)


def test_columns_of_one_name_are_asked_for_by_index(file):
    path = file("x.csv", "a,b,a\n1,2,3\n")
    assert "source: 2 channels are named 'a'. Give an index instead: 0 and 2." in refused(
        lambda path: read_table(path).recording("a", "source"), path
    )
    same(read_recording(path, 2), ("a",), [[3]])


def test_the_first_bad_row_of_a_column_is_named_in_a_short_line(file):
    path = file("x.csv", "a,b\n1,2\n,\n3,4 mV\nx,y\n")
    assert "column 'b' is not numeric. Row 3 (the first row of data is 1) holds '4 mV'." in refused(
        read_recording, path, "b"
    )
    path = file("x.csv", 'a,b\n1,"two\nlines"\n3,4\n')
    assert r"Row 1 (the first row of data is 1) holds 'two\nlines'." in refused(read_recording, path)
    assert len(refused(read_recording, file("x.csv", f"a,b\n1,{'long' * 9999}\n"))) < 300


def test_decimal_commas_are_no_numbers(file):
    assert "holds '1,5'" in refused(read_recording, file("x.csv", "a;b\n1,5;2\n"))


def test_a_trial_that_comes_back_is_named_with_its_row(file):
    message = refused(read_recording, file("x.csv", "t,a\n1,5\n2,6\n2,7\n1,8\n"), trial_column="t")
    assert (
        "PATH: trial '1' begins again in row 4 (the first row of data is 1) after another trial." in message
    )
    message = refused(read_recording, file("x.csv", "t,a\nx,5\ny,6\nx,8\n"), trial_column="t")
    assert "PATH: trial 'x' begins again in row 3" in message


def test_a_trial_column_alone_is_no_recording(file):
    message = refused(read_recording, file("x.csv", "t\n1\n2\n"), trial_column="t")
    assert message == "PATH has no channel besides the trial column."


@pytest.mark.parametrize(
    ("name", "library", "words"),
    [
        ("x.parquet", "pyarrow", r"reading Parquet files .*pip install 'transfer-entropy\[parquet\]'"),
        ("x.h5", "h5py", r"reading HDF5 files .*pip install 'transfer-entropy\[hdf5\]'"),
        ("x.hdf5", "h5py", r"reading HDF5 files .*pip install 'transfer-entropy\[hdf5\]'"),
    ],
)
def test_a_missing_library_names_the_extra(file, monkeypatch, name, library, words):
    path = file(name, b"anything")
    for module in [module for module in sys.modules if module.split(".")[0] == library]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=words) as caught:
        read_table(path)
    assert "\n" not in str(caught.value)


def test_no_file_is_changed_by_reading(file):
    for name, content in [*WHOLE_FILES.items(), ("x.csv", b"a,b\n1,2\n"), ("x.hdf5", WHOLE_FILES["x.h5"])]:
        path = file(name, content)
        assert read_recording(path).n_samples in (1, 50)
        assert path.read_bytes() == content
    assert {path.suffix for path in path.parent.iterdir()} <= set(READERS)
