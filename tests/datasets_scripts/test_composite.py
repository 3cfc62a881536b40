"""Composite's options, and what is special to its files."""

from __future__ import annotations

import json
import warnings

import pytest

import capscore
from capscore.benchmarks.data.load import benchmark_builder

from .official import composite

CAT = "COCO_val2014_000000000007.jpg"


@pytest.fixture
def folder(tmp_path):
    composite.write(tmp_path)
    return tmp_path


def rows(folder, config="coco", **options):
    return [
        row
        for _, row in benchmark_builder("composite", config, data_dir=folder, options=options).rows("test")
    ]


def test_the_human_candidate_is_no_reference_of_any_candidate(folder):
    assert [row["references"] for row in rows(folder)] == [["A cat sleeps on a keyboard."]] * 3
    kept = rows(folder, human_reference=True)
    assert [row["references"] for row in kept] == [["A cat sleeps on a keyboard.", "A cat, lying down."]] * 3


def test_a_human_candidate_like_no_reference_is_pointed_out(folder):
    table = folder / "coco_correctness.csv"
    table.write_text(table.read_text().replace("A cat, lying down", "Nothing of the kind, 12 zebras"))
    with pytest.warns(capscore.BenchmarkWarning, match=rf"none of the references of 1 photos, such as {CAT}"):
        assert [len(row["references"]) for row in rows(folder)] == [2, 2, 2]


def test_all_parts_together(folder):
    everything = rows(folder, "all")
    parts = [row for part in ("flickr8k", "flickr30k", "coco") for row in rows(folder, part)]
    assert everything == parts
    assert benchmark_builder("composite", data_dir=folder).config.name == "all"


def test_thoroughness(folder):
    assert [row["rating"] for row in rows(folder)] == [4.0, 5.0, 4.0]
    assert [row["rating"] for row in rows(folder, question="thoroughness")] == [3.0, 4.0, 3.0]


def test_the_fourth_candidate(folder):
    four = rows(folder, candidates=4)
    assert [(row["system"], row["rating"]) for row in four] == [
        ("Human", 4.0),
        ("Karpathy", 5.0),
        ("SDG", 4.0),
        ("fourth", 1.0),
    ]
    assert len(rows(folder, "flickr8k", candidates=4)) == 6  # Flickr8k has three


def test_other_rows_than_published_are_not_compared_with_published_counts(folder):
    for options in ({"candidates": 4}, {"question": "thoroughness"}):
        with warnings.catch_warnings():
            warnings.simplefilter("error", capscore.BenchmarkWarning)
            capscore.load_benchmark("composite", "coco", data_dir=folder, options=options)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"question": "correct"}, r"expected one of correctness, thoroughness"),
        ({"candidates": 5}, r"expected one of 3, 4"),
    ],
)
def test_unknown_options(folder, options, message):
    with pytest.raises(capscore.InputError, match=message):
        rows(folder, **options)


def test_only_the_last_two_rows_may_lack_a_photo(folder):
    table = folder / "coco_correctness.csv"
    lines = table.read_text().splitlines()
    table.write_text("\n".join(lines[:-2]))
    assert len(rows(folder)) == 3
    table.write_text("\n".join([*lines, lines[-1]]))
    with pytest.raises(capscore.AnnotationError, match=r"line 3: 'Input\.image_url' is ''"):
        rows(folder)


def test_references_are_empty_without_caption_files(folder):
    (folder / "annotations" / "captions_val2014.json").unlink()
    with pytest.warns(capscore.BenchmarkWarning, match=r"1 photos have no references") as caught:
        assert [row["references"] for row in rows(folder)] == [[], [], []]
    assert len(caught) == 1


def test_decoded_rows_have_the_official_names_of_photos(tmp_path):
    composite.write_decoded(tmp_path)
    assert {row["image_id"] for row in rows(tmp_path)} == {CAT}
    assert {row["image_id"] for row in rows(tmp_path, "flickr30k")} == {"555.jpg"}
    first = rows(tmp_path, "flickr8k")[0]
    assert (first["image_id"], first["caption"]) == ("333_c.jpg", "a girl in a red dress jumps over a puddle")
    assert first["references"] == ["A girl jumps .", "Girl in the rain ."]


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda rated: rated.pop(), r"entry 0: expected three rows of one photo"),
        (
            lambda rated: rated[1].update(img="coco_val2014_000000000008.npz"),
            r"entry 0: expected three rows of one photo",
        ),
        (
            lambda rated: rated[0].update(img="flickr8k_1_a.npz"),
            r"entry 0: expected three rows of one photo",
        ),
        (lambda rated: rated[2].update(score=0), r"entry 2: 'score' is 0, expected a number from 1 to 5"),
        (lambda rated: rated[2].pop("caption"), r"entry 2: lacks the field 'caption'"),
    ],
)
def test_damaged_decoded_files(tmp_path, change, message):
    composite.write_decoded(tmp_path)
    path = tmp_path / "umic_composite_coco_decoded.json"
    rated = json.loads(path.read_text())
    change(rated)
    path.write_text(json.dumps(rated))
    with pytest.raises(capscore.AnnotationError, match=message):
        rows(tmp_path)
