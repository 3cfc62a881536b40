"""Captions of a benchmark's photos from the caption files of Flickr8k, Flickr30k and COCO."""

from __future__ import annotations

import json
import warnings

import pytest

import capscore
from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import COCO, letters_and_digits, photo_captions, references_of
from capscore.benchmarks.data.load import benchmark_builder

A, B = "COCO_val2014_000000000001.jpg", "COCO_val2014_000000000002.jpg"


def coco(path, captions):
    names = sorted({name for name, _ in captions})
    images = [{"id": number, "file_name": name} for number, name in enumerate(names)]
    annotations = [{"image_id": names.index(name), "caption": text} for name, text in captions]
    path.write_text(json.dumps({"images": images, "annotations": annotations}))


def references(folder, photos):
    builder = benchmark_builder("capeval1k", data_dir=folder)
    return references_of(builder, photos, COCO)


def test_captions_keep_the_order_of_the_file(tmp_path):
    coco(tmp_path / "captions_val2014.json", [(B, "z"), (A, "b"), (B, "a\n c"), (A, "a")])
    assert references(tmp_path, [A, B]) == {A: ["b", "a"], B: ["z", "a c"]}


def test_a_second_file_is_read_for_the_photos_that_are_left(tmp_path):
    coco(tmp_path / "captions_val2014.json", [(A, "from the first")])
    coco(tmp_path / "captions_train2014.json", [(A, "from the second"), (B, "only there")])
    assert references(tmp_path, [A, B]) == {A: ["from the first"], B: ["only there"]}
    (tmp_path / "captions_train2014.json").write_text("damaged, but not needed")
    assert references(tmp_path, [A]) == {A: ["from the first"]}


def test_karpathys_file(tmp_path):
    sentences = [{"raw": "One  caption.", "tokens": ["one"]}, {"raw": "Another."}]
    (tmp_path / "dataset_coco.json").write_text(
        json.dumps({"images": [{"filename": B, "sentences": []}, {"filename": A, "sentences": sentences}]})
    )
    assert references(tmp_path, [A]) == {A: ["One caption.", "Another."]}


def test_no_file_is_pointed_out_once(tmp_path):
    with pytest.warns(
        capscore.BenchmarkWarning, match=r"2 photos have no references.*captions_val2014\.json"
    ):
        assert references(tmp_path, [A, B]) == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert references(tmp_path, []) == {}


def test_a_photo_that_no_file_has(tmp_path):
    coco(tmp_path / "captions_val2014.json", [(A, "a")])
    coco(tmp_path / "captions_train2014.json", [(A, "a")])
    with pytest.raises(
        capscore.AnnotationError, match=rf"no captions of 1 of 2 photos in .* or .*; one is {B}"
    ):
        references(tmp_path, [A, B])


def test_only_captions_that_are_asked_for_are_checked(tmp_path):
    path = tmp_path / "captions_val2014.json"
    coco(path, [(A, "a"), (B, " ")])
    assert photo_captions(AnnotationSource(path), [A]) == {A: ["a"]}
    with pytest.raises(capscore.AnnotationError, match=r"entry annotations\[1\]: 'caption' is ' '"):
        photo_captions(AnnotationSource(path), [B])


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("x.token", "photo.jpg\ta caption\n", r"line 1: 'caption id' is 'photo\.jpg', expected"),
        ("x.token", "photo.jpg#0 a caption\n", r"line 1: expected 2 tab-separated columns"),
        ("x.json", '{"annotations": []}', r"lacks the field 'images'"),
        ("x.json", '{"images": [{"filename": "p"}]}', r"entry images\[0\]: lacks the field 'sentences'"),
        ("x.json", "[]", r"expected a JSON object, found list"),
    ],
)
def test_damage(tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(capscore.AnnotationError, match=message):
        photo_captions(AnnotationSource(tmp_path / name), ["p"])


def test_letters_and_digits():
    assert letters_and_digits("Two well-maintained DOGS' toys, №2 .") == "twowellmaintaineddogstoys2"
    assert letters_and_digits("Ein großer Hund") == letters_and_digits("EIN GROSSER HUND")
    assert letters_and_digits("?!") == ""
