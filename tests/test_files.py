"""Files are replaced whole or not at all."""

import os
import stat

import pytest

from treet.errors import TreetError
from treet.files import replacing, write_text


def test_text_is_written_and_replaced(tmp_path):
    path = tmp_path / "out.json"
    write_text(path, "first")
    write_text(str(path), "zweites ü")
    assert path.read_bytes() == "zweites ü".encode()
    assert [file.name for file in tmp_path.iterdir()] == ["out.json"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_crash_leaves_the_old_file_and_nothing_else(tmp_path, error):
    path = tmp_path / "out.json"
    path.write_text("old")
    with pytest.raises(error), replacing(path) as temporary:
        temporary.write_text("half of the n")
        raise error
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["out.json"]


def test_nothing_is_seen_at_the_path_before_the_block_ends(tmp_path):
    path = tmp_path / "model.safetensors"
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
        assert temporary.parent == path.parent
        assert temporary.suffix == ".safetensors"
    assert path.read_text() == "new"


def test_the_file_has_the_rights_that_a_plain_new_file_would_have(tmp_path):
    plain = tmp_path / "plain"
    plain.touch()
    write_text(tmp_path / "ours", "")
    assert stat.S_IMODE((tmp_path / "ours").stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    target.unlink()
    write_text(link, "newer")
    assert target.read_text() == "newer"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link", "target"]


def test_a_pipe_or_a_device_is_written_to_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_text(pipe, "text")
        assert os.read(reader, 100) == b"text"
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_text_that_utf8_cannot_hold_is_written_as_an_escape(tmp_path):
    write_text(tmp_path / "out", "ü\udcff")
    assert (tmp_path / "out").read_bytes() == "ü\\udcff".encode()


def test_a_missing_folder_is_one_clear_line(tmp_path):
    path = tmp_path / "nowhere" / "out.json"
    with pytest.raises(TreetError, match=r"Cannot write .*out\.json: No such file or directory") as caught:
        write_text(path, "text")
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_no_permission_is_one_clear_line(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(TreetError, match=r"Cannot write .*: Permission denied"):
            write_text(tmp_path / "out.json", "text")
    finally:
        tmp_path.chmod(0o700)


def test_a_full_disk_is_one_clear_line_and_leaves_nothing(tmp_path):
    with pytest.raises(TreetError, match="No space left on device"), replacing(tmp_path / "out") as temporary:
        temporary.write_text("a part")
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_way_is_one_clear_line(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(TreetError, match=r"Cannot write .*out: Is a directory"):
        write_text(tmp_path / "out", "text")
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
