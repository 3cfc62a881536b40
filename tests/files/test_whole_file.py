"""A file has its name only once it is whole."""

from __future__ import annotations

import pytest

from capscore import ResultWriteError
from capscore.files.write import whole_file, write_text


def test_it_has_its_name_when_it_is_whole(tmp_path):
    path = tmp_path / "new" / "out.txt"
    with whole_file(path, make_folders=True) as file:
        file.write(b"half")
        assert not path.exists()
    assert path.read_bytes() == b"half"
    write_text(path, "τ")
    assert path.read_text(encoding="utf-8") == "τ"
    assert [entry.name for entry in path.parent.iterdir()] == ["out.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_was_there_stays_when_the_writing_breaks_off(tmp_path, error):
    path = tmp_path / "out.txt"
    path.write_text("before")
    with pytest.raises(error), whole_file(path) as file:
        file.write(b"half")
        raise error
    assert path.read_text() == "before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.txt"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.txt").write_text("before")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    write_text(tmp_path / "link.txt", "after")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "real.txt").read_text() == "after"


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(ResultWriteError, match="No such file"), whole_file(tmp_path / "new" / "out.txt"):
        pass


def test_a_folder_cannot_be_a_file(tmp_path):
    with pytest.raises(ResultWriteError, match=r"the report '.*' could not be written"):
        write_text(tmp_path, "text", "report")
    assert list(tmp_path.iterdir()) == []
