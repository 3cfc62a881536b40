"""Captions → their words, and rows of captions that are read again."""

import pytest

from capscore import InputError
from tools.tiny.official import write_jsonl
from weights.making.noise_gate.texts import LONGEST, MarkedText, marked, read_texts


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


def test_each_caption_of_a_language_is_read_once_and_no_long_ones(tmp_path):
    def row(caption, language="en", source="one/1"):
        known = {"words": [[0, 1]], "classes": "n", "objects": [[0, 1]]}
        return {"caption": caption, "language": language, "id": source, **known}

    rows = [row("A dog."), row("A dog.", "de"), row("A dog.", source="two/7"), row("d" * LONGEST)]
    path = write_jsonl(tmp_path / "captions.jsonl", [*rows, row("d" * (LONGEST + 1))])
    assert read_texts([str(path)]) == [
        MarkedText(caption, language, ((0, 1),), "n", ((0, 1),), "one/1")
        for caption, language in (("A dog.", "de"), ("A dog.", "en"), ("d" * LONGEST, "en"))
    ]


GOOD = {"caption": "A dog.", "language": "en", "words": [[0, 1]], "classes": "a", "objects": [], "id": "o/1"}


@pytest.mark.parametrize("change", [{"words": [[0, 1, 2]]}, {"language": None}, {"objects": 3}, None])
def test_a_row_of_another_form_is_named(tmp_path, change):
    path = write_jsonl(tmp_path / "captions.jsonl", [GOOD, [] if change is None else {**GOOD, **change}])
    with pytest.raises(InputError, match=r"captions\.jsonl, line 2: expected a row of weights"):
        read_texts([str(path)])


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "rows.jsonl").write_bytes(b"\xff\xfe{}")
    for name, message in (("rows.jsonl", "is not UTF-8"), ("gone.jsonl", "cannot be read: No such file")):
        with pytest.raises(InputError, match=message):
            read_texts([str(tmp_path / name)])
