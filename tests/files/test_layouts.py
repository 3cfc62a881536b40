"""Layouts of JSON that people have: small files as each format's documents describe it, and their rows."""

from __future__ import annotations

import json

import pytest

from capscore.files.layouts import line_reader, nearest, rows_of_document
from capscore.files.read import open_rows
from capscore.registry import LAYOUTS, register_layout

from ..laws import every

CASES = {
    "COCO annotations": (
        {
            "info": {"year": 2014},
            "images": [
                {"id": 42, "file_name": "COCO_val2014_000000000042.jpg"},
                {"id": 7, "file_name": "x.jpg"},
            ],
            "annotations": [
                {"id": 1, "image_id": 42, "caption": "A dog."},
                {"id": 2, "image_id": 7, "caption": "A cat."},
                {"id": 3, "image_id": 42, "caption": "Two dogs."},
            ],
        },
        [
            ("COCO_val2014_000000000042.jpg", 42, "A dog."),
            ("x.jpg", 7, "A cat."),
            ("COCO_val2014_000000000042.jpg", 42, "Two dogs."),
        ],
    ),
    "Karpathy's splits": (
        {
            "dataset": "coco",
            "images": [
                {
                    "filepath": "val2014",
                    "filename": "COCO_val2014_000000000042.jpg",
                    "split": "test",
                    "imgid": 0,
                    "cocoid": 42,
                    "sentences": [
                        {"raw": "A dog.", "tokens": ["a", "dog"]},
                        {"raw": "Two dogs.", "tokens": []},
                    ],
                }
            ],
        },
        [("COCO_val2014_000000000042.jpg", 42, text) for text in ("A dog.", "Two dogs.")],
    ),
    "TextCaps": (
        {
            "dataset_name": "textcaps",
            "data": [
                {
                    "image_id": "0a",
                    "image_path": "train/0a.jpg",
                    "image_name": "0a",
                    "set_name": "val",
                    "caption_str": "A sign.",
                    "reference_strs": ["A sign.", "A stop sign."],
                }
            ],
        },
        [("0a.jpg", "0a", "A sign.")],
    ),
    "captions by photo": (
        {"dog.jpg": "a dog", "cat.jpg": ["a cat", "two cats"], "cow.jpg": []},
        [
            ("dog.jpg", None, "a dog"),
            ("cat.jpg", None, "a cat"),
            ("cat.jpg", None, "two cats"),
            ("cow.jpg", None, None),
        ],
    ),
    "samples of lmms-eval under `logs`": (
        {"model_configs": {}, "logs": [{"doc_id": 3, "doc": {}, "filtered_resps": ["a dog runs"]}]},
        [(3, None, "a dog runs")],
    ),
    "scores by photo": (
        {"dog.jpg": {"CLIPScore": 0.7}, "cat.jpg": 0.8},
        [("dog.jpg", None, None), ("cat.jpg", None, None)],
    ),
    "Crossmodal-3600": (
        {
            "image/key": "0a",
            "image/locale": "de",
            "de": {"caption": ["Ein Hund."], "caption/tokenized": ["ein"]},
        },
        [("0a.jpg", None, "Ein Hund.")],
    ),
    "samples of lmms-eval": (
        {"doc_id": 0, "doc": {"image_id": "dog.jpg"}, "target": "a dog", "filtered_resps": [["a dog runs"]]},
        [("dog.jpg", None, "a dog runs")],
    ),
    "several captions per row": (
        {"url": "…", "image_id": "0a.jpg", "caption": ["一只狗", "两只狗"]},
        [(None, "0a.jpg", "一只狗"), (None, "0a.jpg", "两只狗")],
    ),
}


def rows_of(value, lines):
    return line_reader()(value) if lines else rows_of_document(value, [])


@every("layout")
def test_a_layout_is_recognised_and_gives_a_row_per_caption(layout):
    known = LAYOUTS.get(layout)
    written, expected = CASES[layout]
    rows = rows_of(written, known.lines)
    assert [(row.get("image"), row.get("image_id"), row.get("caption")) for row in rows] == expected
    assert rows == known(written, []) and nearest(written).startswith(f"{layout}: ")
    example = json.loads(known.example)
    assert rows_of(example, known.lines) == known(example, []) != []


@pytest.mark.parametrize("lines", [False, True])
def test_a_layout_of_another_package_comes_before_those_of_the_library(tmp_path, lines):
    @register_layout("photos", '{"id": 1, "photos": [{"file": "a.jpg", "tag": "a dog"}]}', lines=lines)
    def photos(value, notes):
        if "photos" in value:
            return [{"image": photo["file"], "caption": photo["tag"]} for photo in value["photos"]]

    try:
        value = {"id": 1, "photos": [{"file": f"{tag}.jpg", "tag": tag} for tag in "ab"]}
        path = tmp_path / "a.json"
        path.write_text(f"{json.dumps(value)}\n" * (1 + lines))
        found = open_rows(path).cells("image", "caption")
        assert found == [["a.jpg", "b.jpg"] * (1 + lines), ["a", "b"] * (1 + lines)]
        path.write_text('{"id": 1, "photographs": [{"file": "a.jpg", "tag": "a dog"}], "tags": 1}')
        assert nearest(json.loads(path.read_text())).startswith("photos: ")
    finally:
        LAYOUTS.unregister("photos")


def test_captions_that_vizwiz_leaves_out_are_left_out_and_counted():
    document = {
        "images": [{"id": 1, "file_name": "VizWiz_val_00000000.jpg"}],
        "annotations": [
            {
                "image_id": 1,
                "caption": "Quality issues are too severe",
                "is_precanned": True,
                "is_rejected": False,
            },
            {"image_id": 1, "caption": "spam", "is_precanned": False, "is_rejected": True},
            {"image_id": 1, "caption": "A can.", "is_precanned": False, "is_rejected": False},
        ],
    }
    notes: list[str] = []
    assert [row["caption"] for row in rows_of_document(document, notes)] == ["A can."]
    assert "2 rejected or precanned" in notes[0] and "0 photos have no other" in notes[0]


def test_samples_without_a_document_have_photo_and_references_of_what_metrics_got():
    """lmms-eval 0.3 and later drop `doc` from the samples that they log."""
    found = {"answer": ["A dog.", "Dogs."], "pred": "a dog", "image_id": 1007129816}
    line = {"doc_id": 0, "target": "", "filtered_resps": ["a dog"], "doc_hash": "0", "flickr_CIDEr": found}
    (row,) = rows_of(line, True)
    assert row == {"image": 1007129816, "caption": "a dog", "answer": ["A dog.", "Dogs."]}


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ({"image": "dog.jpg", "caption": "a dog"}, True),
        ({"image": "dog.jpg", "caption": []}, True),
        ({"a": None}, False),
        ({"image": "dog.jpg", "caption": "a dog"}, False),
        ([], False),
        ({}, False),
        ("text", False),
    ],
)
def test_rows_as_they_are_and_what_is_unknown_have_no_layout(value, lines):
    assert rows_of_document(value, []) is None
    if lines:
        assert line_reader()(value) is None
