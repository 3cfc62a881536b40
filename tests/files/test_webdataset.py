"""WebDataset archives: a sample is a photo and a caption; one that lacks either is a row at fault."""

from __future__ import annotations

import io
import tarfile

import pytest

from capscore.errors import InputError
from capscore.files.read import open_rows

FILES = {
    "0.jpg": b"photo 0",
    "0.txt": b" a dog \n",
    "a/1.seg.png": b"photo 1",
    "a/1.json": b'{"caption": "a cat", "width": 3}',
    "2.txt": b"no photo",
    "3.webp": b"no caption",
    "4.JPEG": b"photo 4",
    "._5.jpg": b"of macOS",
    "5.jpg": b"photo 5",
    "4.caption": b"a cow",
    "5.txt": b"two cows",
}


def archive(path, files, kind="w"):
    with tarfile.open(path, kind) as opened:
        for name, content in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(content)
            opened.addfile(about, io.BytesIO(content))
    return path


@pytest.mark.parametrize("size", [1, 2, 9])
def test_samples_are_rows_and_incomplete_samples_are_named(tmp_path, size):
    source = open_rows(archive(tmp_path / "a.tar", FILES))
    rows = [row for chunk in source.chunks(size) for row in chunk.dicts()]
    assert [row["__key__"] for row in rows] == ["0", "a/1", "2", "3", "4", "5"]
    assert [row["caption"] for row in rows] == ["a dog", "a cat", "no photo", None, "a cow", "two cows"]
    photos = [row["image"] and row["image"]["bytes"] for row in rows]
    assert photos == [b"photo 0", b"photo 1", None, b"no caption", b"photo 4", b"photo 5"]
    found = {row: (error.field, str(error)) for row, error in source.faults.items()}
    assert found == {
        2: ("image", "image: the sample '2' has no photo"),
        3: ("candidate", "candidate: the sample '3' has no caption"),
    }
    texts = [value for chunk in source.chunks(size, ["caption"]) for value in chunk.values("caption")]
    assert texts == [row["caption"] for row in rows]
    assert source.place(next(source.chunks(9)), 1) == f"{tmp_path / 'a.tar'}, sample a/1"


def test_damaged_or_too_large_archives_are_named(tmp_path, monkeypatch):
    whole = archive(tmp_path / "a.tar", {"0.jpg": b"x" * 2000, "0.txt": b"a dog"})
    for content in (b"no archive", whole.read_bytes()[:1500]):
        (tmp_path / "b.tar").write_bytes(content)
        with pytest.raises(InputError, match=r"b\.tar is not a WebDataset archive"):
            open_rows(tmp_path / "b.tar")
    monkeypatch.setenv("CAPSCORE_MAX_ROW_BYTES", "1000")
    with pytest.raises(InputError, match=r"a\.tar, 0\.jpg: longer than 1\.0 KB"):
        list(open_rows(whole).chunks(1))
