"""Flickr30k Entities' files, written by hand as its documentation describes them."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from capscore.benchmarks.data import flickr30k_entities
from capscore.benchmarks.data.annotation_files import AnnotationError
from capscore.benchmarks.data.flickr30k_entities import parse_sentence
from capscore.errors import InputError
from training.data.flickr30k_entities import read_entities

XML = """<annotation>
  <filename>17.jpg</filename>
  <size><width>100</width><height>60</height><depth>3</depth></size>
  <object><name>1</name><name>4</name>
    <bndbox><xmin>1</xmin><ymin>11</ymin><xmax>40</xmax><ymax>60</ymax></bndbox></object>
  <object><name>2</name>
    <bndbox><xmin>50</xmin><ymin>20</ymin><xmax>70</xmax><ymax>30</ymax></bndbox></object>
  <object><name>2</name>
    <bndbox><xmin>71</xmin><ymin>20</ymin><xmax>130</xmax><ymax>30</ymax></bndbox></object>
  <object><name>3</name><scene>1</scene><nobndbox>0</nobndbox></object>
  <object><name>5</name><scene>0</scene><nobndbox>1</nobndbox></object>
</annotation>
"""
SENTENCES = (
    "[/EN#1/people A tall man] throws [/EN#2/other two balls] in [/EN#3/scene a hall] .\n"
    "[/EN#4/people/other The juggler] looks at [/EN#0/notvisual each other] .\n"
    "\n"
    "Nothing is marked here .\n"
)


@pytest.fixture
def folder(tmp_path) -> Path:
    for name, text in (("Annotations/17.xml", XML), ("Sentences/17.txt", SENTENCES)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "train.txt").write_text("17\n")
    return tmp_path


def test_docstring_examples():
    result = doctest.testmod(flickr30k_entities, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert result.attempted >= 2 and not result.failed


def test_an_image_with_its_captions_phrases_and_boxes(folder):
    (image,) = read_entities(folder)
    assert (image.id, image.file_name) == ("17", "17.jpg")
    first, second, third = image.captions
    assert first.text == "A tall man throws two balls in a hall ."
    assert [phrase.text for phrase in first.phrases] == ["A tall man", "two balls", "a hall"]
    assert [phrase.first_word for phrase in first.phrases] == [0, 4, 7]
    assert second.phrases[0].types == ("people", "other")
    assert (third.text, third.phrases, third.line) == ("Nothing is marked here .", (), 4)
    # pixels are counted from 1, the last included; the third box reaches over the edge
    assert image.boxes == ((0, 10, 40, 60), (49, 19, 70, 30), (70, 19, 100, 30))
    assert image.chains == (frozenset({"1", "4"}), frozenset({"2"}), frozenset({"2"}))
    assert [image.mentioned(caption) for caption in image.captions] == [(0, 1, 2), (0,), ()]


def test_splits_and_unrelated_captions(folder):
    (folder / "UNRELATED_CAPTIONS").write_text("# format: <imageID> <sentence number>\n17 2\n99 1\n")
    (image,) = read_entities(folder, "train")
    assert [caption.line for caption in image.captions] == [1, 4]
    with pytest.raises(InputError, match=r"no list .*val\.txt of the photos in the split 'val'"):
        list(read_entities(folder, "val"))
    (folder / "UNRELATED_CAPTIONS").write_text("17 two\n")
    with pytest.raises(AnnotationError, match="line 1: 'caption' is 'two', expected"):
        list(read_entities(folder))


def test_a_sentence_whose_words_touch_the_brackets():
    text, phrases = parse_sentence("On[/EN#3/scene  the  beach ],[/EN#0/notvisual it]")
    assert text == "On the beach , it"
    assert [(p.text, p.first_word, p.chain) for p in phrases] == [("the beach", 1, "3"), ("it", 4, "0")]


@pytest.mark.parametrize(
    ("file", "before", "after", "message"),
    [
        ("Sentences/17.txt", "juggler]", "juggler", r"17\.txt, line 2: has a phrase that is not"),
        ("Sentences/17.txt", SENTENCES, "\n", r"17\.txt: has no caption"),
        ("Annotations/17.xml", "</annotation>", "", r"17\.xml, line \d+: is not XML"),
        (
            "Annotations/17.xml",
            "<xmin>50<",
            "<xmin>90<",
            r"object\[1\]: the box 90, 20, 70, 30 .* is none of a photo",
        ),
        (
            "Annotations/17.xml",
            "<xmax>70<",
            "<xmax>wide<",
            r"object\[1\]: '<bndbox/xmax>' is 'wide', expected",
        ),
        ("Annotations/17.xml", "<name>5</name>", "", r"entry object\[4\]: has no <name>"),
        ("Annotations/17.xml", "<scene>1</scene>", "", r"entry object\[3\]: '<scene>' is None"),
        ("Annotations/17.xml", "<width>100</width>", "", "<size/width>' is None"),
    ],
)
def test_damaged_files_are_named(folder, file, before, after, message):
    text = (folder / file).read_text(encoding="utf-8")
    assert before in text
    (folder / file).write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises(AnnotationError, match=message):
        list(read_entities(folder))


def test_missing_files_and_folders_are_named(folder):
    (folder / "Sentences" / "17.txt").unlink()
    with pytest.raises(AnnotationError, match=r"17\.txt: cannot be read"):
        list(read_entities(folder))
    (folder / "Sentences").rmdir()
    with pytest.raises(InputError, match="has no folder Sentences"):
        list(read_entities(folder))
