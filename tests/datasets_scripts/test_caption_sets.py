"""What is particular to the sets of captions: which captions are kept, and which splits are offered."""

from __future__ import annotations

import gzip

import pytest

import capscore
from capscore.benchmarks.data.load import benchmark_builder, builder_class

from .official import (
    coco_captions,
    flickr30k_entities,
    multi30k,
    nocaps,
    vizwiz_captions,
    xflickrco,
    xm3600,
)

pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


_PARTS = ("in", "near", "out", "all")


def load(slug, config, folder, split):
    return capscore.load_benchmark(slug, config, data_dir=folder, split=split)


def test_xm3600_has_all_its_published_captions():
    counts = builder_class("xm3600").COUNTS
    assert len(counts) == 36
    assert sum(count["test"]["captions"] for count in counts.values()) == 261_375


def test_xm3600_without_the_list_of_photos_and_their_regions(tmp_path):
    xm3600.write(tmp_path)
    (tmp_path / "image_ids.txt").unlink()
    path = tmp_path / "captions.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"image/locale": "de", ', b"", 1))
    rows = load("xm3600", "de", tmp_path, "test")
    assert rows["image_locale"] == [None, "de"]


def test_multi30k_reads_the_same_captions_packed_and_unpacked(tmp_path):
    multi30k.write(tmp_path)
    before = load("multi30k", "de", tmp_path, "train")["references"]
    plain = tmp_path / "train.de"
    (tmp_path / "train.de.gz").write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    assert load("multi30k", "de", tmp_path, "train")["references"] == before


def test_multi30k_offers_the_splits_that_are_there(tmp_path):
    multi30k.write_repository(tmp_path)
    assert benchmark_builder("multi30k", "de", data_dir=tmp_path).splits() == ("train", "validation")
    assert benchmark_builder("multi30k", "cs").splits() == (
        "train",
        "validation",
        "test_2016_flickr",
        "test_2018_flickr",
    )


def test_multi30k_task_2_wants_all_five_captions(tmp_path):
    multi30k.write_repository(tmp_path)
    rows = load("multi30k", "task2_de", tmp_path, "train")
    assert {len(captions) for captions in rows["references"]} == {5}
    (tmp_path / "data/task2/raw/train.4.de.gz").unlink()
    with pytest.raises(capscore.MissingAnnotations, match=r"train\.4\.de\.gz"):
        load("multi30k", "task2_de", tmp_path, "train")


def test_xflickrco_a_photo_known_to_lack_its_caption_has_none(tmp_path):
    xflickrco.write(tmp_path)
    rows = load("xflickrco", "de", tmp_path, "test")
    assert rows["references"] == [["Ein Hund läuft."], [], ["Zwei Kinder."]]
    assert rows["id"] == ["111", "122239", "34"]
    assert builder_class("xflickrco").COUNTS["de"]["test"]["captions"] == 1999
    assert builder_class("xflickrco").COUNTS["ja"]["train_200x5"]["captions"] == 1000


def test_coco_captions_of_one_photo_need_not_be_side_by_side(tmp_path):
    coco_captions.write(tmp_path)
    rows = load("coco_captions", "2017", tmp_path, "train")
    assert rows["references"] == [["Two boys play.", "Boys"], ["A red ball."]]
    assert rows["caption_ids"] == [[80, 81], [90]]
    assert benchmark_builder("coco_captions", "2014", data_dir=tmp_path).splits() == ("validation",)


def test_nocaps_parts_are_all(tmp_path):
    nocaps.write(tmp_path)
    photos = {part: list(load("nocaps", part, tmp_path, "validation")["image_id"]) for part in _PARTS}
    assert photos["in"] + photos["near"] + photos["out"] == photos["all"]
    counts = builder_class("nocaps").COUNTS
    assert counts["all"]["validation"] == {"rows": 4500, "images": 4500, "captions": 45000}


def test_vizwiz_leaves_out_captions_that_describe_nothing_and_photos_without_others(tmp_path):
    vizwiz_captions.write(tmp_path)
    valid = load("vizwiz_captions", "valid", tmp_path, "validation")
    assert valid["image_id"] == ["VizWiz_val_00000000.jpg", "VizWiz_val_00000002.jpg"]
    assert valid["references"] == [["A bottle on a table", "A green bottle."], ["A dog."]]
    everything = load("vizwiz_captions", None, tmp_path, "validation")
    assert everything.num_rows == 2, "the default is what published work takes"


def test_flickr30k_entities_phrases_stand_where_they_say(tmp_path):
    flickr30k_entities.write(tmp_path)
    for split in ("train", "validation", "test"):
        for row in load("flickr30k_entities", "default", tmp_path, split):
            for phrase in row["phrases"]:
                words = row["references"][phrase["reference"]].split()[phrase["first_word"] :]
                assert words[: len(phrase["text"].split())] == phrase["text"].split()
    assert load("flickr30k_entities", "default", tmp_path, "test")["unrelated"] == [[4]]


def test_flickr30k_entities_archive_and_folder_give_the_same_rows(tmp_path):
    (tmp_path / "folder").mkdir()
    flickr30k_entities.write(tmp_path / "folder")
    (tmp_path / "archive").mkdir()
    flickr30k_entities.write_archive(tmp_path / "archive")
    folder, archive = (
        load("flickr30k_entities", "default", tmp_path / name, "train")[0] for name in ("folder", "archive")
    )
    assert archive.pop("unrelated") is None, "which captions are unrelated is not known without their list"
    assert folder.pop("unrelated") == [2]
    assert archive == folder


def test_flickr30k_entities_damaged_archive(tmp_path):
    flickr30k_entities.write_archive(tmp_path)
    path = tmp_path / "annotations.zip"
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(capscore.AnnotationError, match=r"annotations\.zip: cannot be unpacked"):
        load("flickr30k_entities", "default", tmp_path, "train")
