"""Captions of a benchmark's photos from the caption files of Flickr8k, Flickr30k and COCO."""

import json
import warnings

import pytest

import capscore
from capscore.benchmarks.data.annotation_files import AnnotationSource
from capscore.benchmarks.data.caption_files import COCO, letters_and_digits, photo_captions, references_of
from capscore.benchmarks.data.load import benchmark_builder

A, B = "COCO_val2014_000000000001.jpg", "COCO_val2014_000000000002.jpg"
FIRST, SECOND, KARPATHY = "captions_val2014.json", "captions_train2014.json", "dataset_coco.json"


def coco(path, captions):
    names = sorted({name for name, _ in captions})
    images = [{"id": number, "file_name": name} for number, name in enumerate(names)]
    annotations = [{"image_id": names.index(name), "caption": text} for name, text in captions]
    path.write_text(json.dumps({"images": images, "annotations": annotations}))


def references(folder, photos):
    return references_of(benchmark_builder("capeval1k", data_dir=folder), photos, COCO)


def test_captions_keep_the_order_of_the_file(tmp_path):
    coco(tmp_path / FIRST, [(B, "z"), (A, "b"), (B, "a\n c"), (A, "a")])
    assert references(tmp_path, [A, B]) == {A: ["b", "a"], B: ["z", "a c"]}
    (tmp_path / FIRST).unlink()
    sentences = [{"raw": "One  caption.", "tokens": ["one"]}, {"raw": "Another."}]
    images = [{"filename": B, "sentences": []}, {"filename": A, "sentences": sentences}]
    (tmp_path / KARPATHY).write_text(json.dumps({"images": images}))
    assert references(tmp_path, [A]) == {A: ["One caption.", "Another."]}


def test_a_second_file_is_read_for_the_photos_that_are_left(tmp_path):
    with pytest.warns(capscore.BenchmarkWarning, match=rf"2 photos have no references.*{FIRST}"):
        assert references(tmp_path, [A, B]) == {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert references(tmp_path, []) == {}
    coco(tmp_path / FIRST, [(A, "from the first")])
    coco(tmp_path / SECOND, [(A, "from the second"), (B, "only there")])
    assert references(tmp_path, [A, B]) == {A: ["from the first"], B: ["only there"]}
    with pytest.raises(capscore.AnnotationError, match=r"no captions for 1 of 3 photos .* one is C"):
        references(tmp_path, [A, B, "C"])
    (tmp_path / SECOND).write_text("damaged, but not needed")
    assert references(tmp_path, [A]) == {A: ["from the first"]}


def test_only_requested_captions_are_checked(tmp_path):
    coco(tmp_path / FIRST, [(A, "a"), (B, " ")])
    assert photo_captions(AnnotationSource(tmp_path / FIRST), [A]) == {A: ["a"]}
    with pytest.raises(capscore.AnnotationError, match=r"entry annotations\[1\]: 'caption' is ' '"):
        photo_captions(AnnotationSource(tmp_path / FIRST), [B])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.token", "photo.jpg\ta caption\n", r"line 1: 'caption id' is 'photo\.jpg', expected"),
        ("x.token", "photo.jpg#0 a caption\n", "line 1: expected 2 tab-separated columns"),
        ("x.token", "p#0\ta\np#0\tb\n", "line 2: caption p#0 appears twice"),
        ("x.json", '{"annotations": []}', "lacks the field 'images'"),
        ("x.json", '{"images": [{"filename": "p"}]}', r"entry images\[0\]: lacks the field 'sentences'"),
        ("x.json", "[]", "expected a JSON object, found list"),
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
