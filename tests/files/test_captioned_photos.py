"""A folder of photos with texts beside them is rows; what is missing is told by name."""

from __future__ import annotations

import json

import pytest

from capscore.errors import InputError
from capscore.files.image_folder import pair_captions
from capscore.files.read import open_rows


def folder_of(tmp_path, **files):
    """A folder with files of a name and content; "__" in a name is a dot."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    return folder


def rows_of(source, size=2):
    return [row for chunk in source.chunks(size) for row in chunk.dicts()]


def test_each_line_that_is_not_blank_is_a_row(tmp_path):
    folder = folder_of(
        tmp_path,
        b__JPG=b"photo",
        b__txt=b"\xef\xbb\xbfa dog\r\n\r\n  two dogs \n",
        a__png=b"photo",
        a__txt="eine Kätze".encode(),
        c__v2__webp=b"photo",
        c__v2__TXT=b" \n",
        notes__md=b"not read",
    )
    (folder / ".hidden.jpg").write_bytes(b"not read")
    (folder / "more").mkdir()
    source = open_rows(folder)
    assert rows_of(source) == [
        {"image": "a.png", "caption": "eine Kätze"},
        {"image": "b.JPG", "caption": "a dog"},
        {"image": "b.JPG", "caption": "two dogs"},
        {"image": "c.v2.webp", "caption": ""},
    ]
    assert (source.columns, source.n_rows, source.folder) == (["image", "caption"], 4, folder)
    _, second = source.chunks(2)
    assert source.place(second, 0) == f"{folder / 'b.txt'}, line 3"
    assert source.schema().names == ["image", "caption"]
    assert source.notes == ()


def test_a_photo_without_a_text_is_one_bad_row_and_a_text_without_a_photo_a_note(tmp_path):
    folder = folder_of(tmp_path, a__jpg=b"x", b__jpg=b"x", b__txt=b"a dog", c__txt=b"?", d__txt=b"?")
    source = open_rows(folder)
    (chunk,) = source.chunks(5)
    assert {row: str(error) for row, error in source.problems(chunk).items()} == {
        0: "candidate: there is no a.txt beside it, which holds its captions"
    }
    assert source.place(chunk, 0) == str(folder / "a.jpg")
    assert "c.txt" in source.notes[0]


def test_a_folder_may_hold_one_file_of_captions(tmp_path):
    rows = [{"image_id": "a", "caption": "a dog"}]
    folder = folder_of(tmp_path, a__jpg=b"x", captions__json=json.dumps(rows).encode())
    source = open_rows(folder)
    assert rows_of(source) == rows and source.folder == folder
    (folder / "a.txt").write_text("a dog")
    with pytest.raises(InputError, match=r"text files and a captions.json"):
        open_rows(folder)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "is a folder with 0 photos and no saved data set; expected JSONL"),
        ({"preds__csv": b"image,caption\n"}, "is a folder with 0 photos"),
        ({"a__txt": b"a dog"}, "is a folder with 0 photos"),
        (
            {"a__jpg": b"x", "b__png": b"x"},
            "2 photos .* text file beside each",
        ),
        ({"a__jpg": b"x", "a__png": b"x", "a__txt": b"y"}, "a.jpg and a.png share one text file, a.txt"),
        ({"a__jpg": b"x", "a__txt": "Kätze".encode("latin-1")}, "a.txt, line 1 is no text in UTF-8"),
    ],
)
def test_a_folder_that_cannot_be_read_says_what_was_expected(tmp_path, files, message):
    with pytest.raises(InputError, match=message):
        open_rows(folder_of(tmp_path, **files))


def test_photos_that_are_dangling_links_are_none(tmp_path):
    folder = folder_of(tmp_path, a__txt=b"a dog")
    (folder / "a.jpg").symlink_to(tmp_path / "nowhere.jpg")
    with pytest.raises(InputError, match="is a folder with 0 photos"):
        open_rows(folder)


def test_a_split_belongs_to_a_data_set(tmp_path):
    with pytest.raises(InputError, match="not a data set"):
        open_rows(folder_of(tmp_path, a__jpg=b"x", a__txt=b"y"), split="test")


@pytest.mark.parametrize(
    ("photos", "captions", "references", "rows"),
    [
        (["a"], ["x", "y"], [], [{"image": "a", "caption": "x"}, {"image": "a", "caption": "y"}]),
        (["a", "b"], ["x", "y"], [], [{"image": "a", "caption": "x"}, {"image": "b", "caption": "y"}]),
        ([], ["x"], ["r", "s"], [{"caption": "x", "references": ["r", "s"]}]),
        (["a"], ["x"], ["r"], [{"image": "a", "caption": "x", "references": ["r"]}]),
    ],
)
def test_photos_and_captions_that_are_typed_pair_up(photos, captions, references, rows):
    source = pair_captions(photos, captions, references)
    assert rows_of(source) == rows
    (chunk,) = source.chunks(9)
    assert source.place(chunk, len(rows) - 1) == f"caption {len(rows)}"


@pytest.mark.parametrize(
    ("photos", "captions", "references", "message"),
    [
        (["a", "b"], ["x"], [], "photo: 2 photos; expected one caption per photo"),
        (["a", "b"], ["x", "y", "z"], [], "photo: 2 photos"),
        (["a", "b"], ["x", "y"], ["r"], "photo: 2 photos"),
        (["a"], [], [], "caption: at least one is needed"),
    ],
)
def test_numbers_that_do_not_fit_are_one_error(photos, captions, references, message):
    with pytest.raises(InputError, match=message):
        pair_captions(photos, captions, references)
