"""Captions of a system: which rows are taken, and what is said of those that cannot be."""

from __future__ import annotations

import pytest

from capscore import InputError
from capscore.benchmarks.systems import read_captions

from .tiny import rows_of, write_rows

KNOWN = ["de", "qu", "en"]


def test_rows_are_found_by_photo_and_language(tmp_path):
    path = write_rows(tmp_path / "small.jsonl", rows_of("small"))
    found = read_captions(path, ["de", "qu"])
    assert found["qu"]["22cc"][0] == "puka awto"
    assert found["de"]["11bb"][1] == f"{path}, line 2 (row 1 counted from 0)"
    german = read_captions(path, ["de"], known=KNOWN)
    assert set(german) == {"de"}


@pytest.mark.parametrize("name", ["00aa", "00aa.jpg", "photos/00aa.JPG", "C:\\photos\\00aa.png"])
def test_folder_and_suffix_of_a_photo_do_not_count(tmp_path, name):
    path = write_rows(tmp_path / "a.jsonl", [{"image": name, "caption": "ein Hund", "lang": "deu"}])
    assert list(read_captions(path, KNOWN)["de"]) == ["00aa"]


def test_without_a_column_of_languages_there_must_be_one(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("image_id,caption\n00aa,ein Hund\n", encoding="utf-8")
    assert read_captions(path, ["de"])["de"]["00aa"][0] == "ein Hund"
    with pytest.raises(InputError, match=r"a.csv has no column of languages"):
        read_captions(path, KNOWN)


ROW = {"image_id": "00aa", "language": "de", "caption": "ein Hund"}


@pytest.mark.parametrize(
    "rows, message",
    [
        (
            [ROW, {**ROW, "image_id": "x/00aa.jpg"}],
            r"a second caption of the photo '00aa'; the first is in ",
        ),
        ([ROW, {**ROW, "language": "xx"}], r"language: unknown language code 'xx'"),
        ([ROW, {**ROW, "language": "ta"}], r"there are no references in 'ta'; there are in de, qu, en"),
        ([ROW, {**ROW, "language": None}], r"there are no references in ''"),
        ([ROW, {**ROW, "image_id": " "}], r"the column 'image_id' holds ' '; expected the name of a photo"),
        ([ROW, {**ROW, "image_id": None}], r"the column 'image_id' holds None"),
        ([ROW, {**ROW, "image_id": "1", "caption": ""}], r"expected a caption, got an empty string"),
        ([ROW, {**ROW, "image_id": "1", "caption": 7}], r"7 \(int\); expected a caption"),
    ],
)
def test_bad_rows(tmp_path, rows, message):
    with pytest.raises(InputError, match=rf"a\.jsonl, line 2 \(row 1 counted from 0\): {message}"):
        read_captions(write_rows(tmp_path / "a.jsonl", rows), KNOWN)


@pytest.mark.parametrize(
    "row, message",
    [
        ({"image_id": "00aa", "text": "x"}, "has no column of captions: expected one of caption, candidate"),
        ({"photo": "00aa", "caption": "x"}, "has no column of photos: expected one of image_id, image"),
    ],
)
def test_columns_that_are_missing(tmp_path, row, message):
    with pytest.raises(InputError, match=rf"a\.jsonl {message}"):
        read_captions(write_rows(tmp_path / "a.jsonl", [row]), KNOWN)


def test_empty_captions_where_they_may_be(tmp_path):
    path = write_rows(tmp_path / "a.jsonl", [{**ROW, "caption": " "}])
    assert read_captions(path, KNOWN, may_be_empty=True)["de"]["00aa"][0] == " "
