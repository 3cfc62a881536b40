"""Captions → rows with their words, written and read again."""

from __future__ import annotations

import json

import pytest

from capscore import InputError
from weights.making.noise_gate.texts import LONGEST, MarkedText, Settings, marked, read_texts, write_texts


def words_of(text: MarkedText) -> list[str]:
    return [text.text[start:end] for start, end in text.words]


@pytest.mark.parametrize(
    ("caption", "language", "words", "classes", "objects"),
    [
        ("Two dogs run, fast.", "en", ["Two", "dogs", "run,", "fast."], "anvr", ["dogs"]),
        ("L'homme mange une pomme.", "fr", ["L'homme", "mange", "une", "pomme."], "nvan", ["homme", "pomme"]),
        # without blanks between words, a full stop is a word of its own
        ("犬が走る。", "ja", ["犬", "が", "走る", "。"], "nava", ["犬"]),
        ("  a dog", "en", ["a", "dog"], "an", ["dog"]),
    ],
)
def test_words_classes_and_objects(caption, language, words, classes, objects):
    (text,) = marked([caption], language, [None])
    assert words_of(text) == words and text.classes == classes
    assert [text.text[start:end] for start, end in text.objects] == objects


def test_given_objects_are_taken_as_they_are():
    given, found = marked(["A dog runs.", "A dog runs."], "en", [[(7, 11)], None])
    assert given.objects == ((7, 11),) and found.objects == ((2, 5),)


def write(path, *rows) -> str:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def test_each_caption_of_a_language_is_there_once_and_long_ones_are_not(tmp_path):
    captions = write(
        tmp_path / "captions.jsonl",
        {"caption": "A dog runs.", "language": "en", "id": "one/1", "objects": [[2, 5]]},
        {"caption": "Ein Hund rennt.", "language": "de", "id": "one/1"},
        {"caption": "A dog runs.", "language": "en", "id": "two/7"},
        {"caption": "dog " * (LONGEST // 4) + "d", "language": "en", "id": "one/2"},
    )
    settings = Settings([captions], str(tmp_path / "new" / "marked.jsonl"))
    assert write_texts(settings) == 2
    assert list(read_texts(settings.out)) == [
        MarkedText("Ein Hund rennt.", "de", ((0, 3), (4, 8), (9, 15)), "anv", ((4, 8),), "one/1"),
        MarkedText("A dog runs.", "en", ((0, 1), (2, 5), (6, 11)), "anv", ((2, 5),), "one/1"),
    ]


GOOD = {"caption": "A dog runs.", "language": "en", "id": "one/1"}


@pytest.mark.parametrize(
    "row",
    [[], "a dog", 3, {"caption": "A dog runs."}, {**GOOD, "caption": 3}, {**GOOD, "language": None}],
)
def test_a_row_that_is_no_caption_is_named(tmp_path, row):
    captions = write(tmp_path / "captions.jsonl", GOOD, row)
    with pytest.raises(InputError, match=r"captions\.jsonl, line 2: expected a row of captions"):
        write_texts(Settings([captions], str(tmp_path / "marked.jsonl")))
    assert [path.name for path in tmp_path.iterdir()] == ["captions.jsonl"]


@pytest.mark.parametrize(
    "row",
    [
        3,
        None,
        ["a dog", "en"],
        ["a dog", "en", [0, 1, 2], "an", [], "one/1"],  # a place without its end
        ["a dog", "en", 3, "an", [], "one/1"],
        [7, "en", [0, 1], "a", [], "one/1"],
    ],
)
def test_a_row_of_another_form_is_named(tmp_path, row):
    good = ["a dog", "en", [0, 1, 2, 5], "an", [2, 5], "one/1"]
    path = write(tmp_path / "marked.jsonl", good, row)
    with pytest.raises(InputError, match=r"marked\.jsonl, line 2: expected a row of noise_gate"):
        list(read_texts(path))


@pytest.mark.parametrize(
    ("content", "message"), [(None, "cannot be read: No such file"), (b"\xff\xfe{}", "is not UTF-8")]
)
def test_files_that_cannot_be_read(tmp_path, content, message):
    path = tmp_path / "rows.jsonl"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(read_texts(path))
    with pytest.raises(InputError, match=message):
        write_texts(Settings([str(path)], str(tmp_path / "marked.jsonl")))


@pytest.mark.parametrize("missing", ["captions", "out"])
def test_what_is_missing_is_said(missing):
    given = {"captions": ["captions.jsonl"], "out": "marked.jsonl"}
    with pytest.raises(InputError, match=f"--{missing} is missing"):
        Settings(**{**given, missing: given[missing][:0]})
