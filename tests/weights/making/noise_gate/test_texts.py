"""Captions → rows with their words, written and read again."""

from __future__ import annotations

import pytest

from capscore import InputError
from tests.datasets_scripts.official import write_jsonl
from weights.making.noise_gate.texts import (
    LONGEST,
    MarkedText,
    Settings,
    main,
    marked,
    read_texts,
    write_texts,
)


@pytest.mark.parametrize(
    ("caption", "language", "words", "classes", "objects"),
    [
        ("Two dogs run, fast.", "en", "Two dogs run, fast.", "anvr", "dogs"),
        ("L'homme mange une pomme.", "fr", "L'homme mange une pomme.", "nvan", "homme pomme"),
        # without blanks between words, a full stop is a word of its own
        ("犬が走る。", "ja", "犬 が 走る 。", "nava", "犬"),
        ("  a dog", "en", "a dog", "an", "dog"),
    ],
)
def test_words_classes_and_objects(caption, language, words, classes, objects):
    (text,) = marked([caption], language, [None])
    assert [text.text[start:end] for start, end in text.words] == words.split() and text.classes == classes
    assert [text.text[start:end] for start, end in text.objects] == objects.split()


def test_the_command_writes_each_caption_of_a_language_once_and_no_long_ones(tmp_path):
    rows = [
        {"caption": "A dog runs.", "language": "en", "id": "one/1", "objects": [[7, 10]]},
        {"caption": "Ein Hund rennt.", "language": "de", "id": "one/1"},
        {"caption": "A dog runs.", "language": "en", "id": "two/7"},
        {"caption": "dog " * (LONGEST // 4 - 1) + "dogs", "language": "en", "id": "one/3"},
        {"caption": "dog " * (LONGEST // 4) + "d", "language": "en", "id": "one/2"},
    ]
    captions, out = write_jsonl(tmp_path / "captions.jsonl", rows), tmp_path / "new" / "marked.jsonl"
    main(["--captions", str(captions), "--out", str(out)])
    *others, longest = read_texts(out)
    assert len(longest.text) == LONGEST and others == [
        MarkedText("Ein Hund rennt.", "de", ((0, 3), (4, 8), (9, 15)), "anv", ((4, 8),), "one/1"),
        MarkedText("A dog runs.", "en", ((0, 1), (2, 5), (6, 11)), "anv", ((7, 10),), "one/1"),
    ]


@pytest.mark.parametrize(
    "row", [[], {"caption": "A dog runs."}, {"caption": "A", "language": None, "id": "1"}]
)
def test_a_row_that_is_no_caption_is_named(tmp_path, row):
    good = {"caption": "A dog runs.", "language": "en", "id": "one/1"}
    captions = write_jsonl(tmp_path / "captions.jsonl", [good, row])
    with pytest.raises(InputError, match=r"captions\.jsonl, line 2: expected a row of captions"):
        write_texts(Settings([str(captions)], str(tmp_path / "marked.jsonl")))
    assert [path.name for path in tmp_path.iterdir()] == ["captions.jsonl"]


@pytest.mark.parametrize("row", [3, ["a dog", "en"], ["a dog", "en", [0, 1, 2], "an", [], "o"]])
def test_a_row_of_another_form_is_named(tmp_path, row):
    path = write_jsonl(tmp_path / "marked.jsonl", [["a dog", "en", [0, 1, 2, 5], "an", [2, 5], "one/1"], row])
    with pytest.raises(InputError, match=r"marked\.jsonl, line 2: expected a row of noise_gate"):
        list(read_texts(path))


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "rows.jsonl").write_bytes(b"\xff\xfe{}")
    for name, message in (("rows.jsonl", "is not UTF-8"), ("gone.jsonl", "cannot be read: No such file")):
        with pytest.raises(InputError, match=message):
            list(read_texts(tmp_path / name))
