"""Captions to measure on, of photos that no weights learned from."""

from __future__ import annotations

import gzip
import json

from tools.tiny.official import write_jsonl, write_lines
from weights.measuring.held_out import SHARED, XTD10, main, translated


def written(folder, name):
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def test_flickr8k_s_captions_in_many_languages_and_those_of_its_test_photos(tmp_path):
    folder, out = tmp_path / "flickr8k", tmp_path / "out"
    write_lines(folder / "images" / "1_a.jpg", [])
    listed = {
        "1_a.jpg": {"en": ["one", "two"], "hi_mt": ["x"], "de": ["eins"], "split": "test"},
        "2_b.jpg": {"en": ["y"]},
    }
    (folder / "multilingual_captions.json").write_text(json.dumps(listed))
    write_lines(folder / "Flickr_8k.testImages.txt", ["1_a.jpg"])
    tokens = ["1_a.jpg#0\tfirst", "1_a.jpg#1\tsecond", "3_c.jpg#0\tthird"]
    write_lines(folder / "Flickr8k.token.txt", tokens)
    main(["--flickr8k", str(folder), "--out", str(out)])
    photos = written(out, "photos")
    assert [(row["caption"], row["language"]) for row in photos] == [
        ("one", "en"),
        ("two", "en"),
        ("eins", "de"),
    ]
    assert photos[0]["image"] == str(folder / "images" / "1_a.jpg")
    assert written(out, "english") == [
        {"id": "1_a.jpg", "stand_in": "first", "caption": "second", "language": "en"}
    ]


def test_dutch_descriptions_are_paired_with_multi30k_s_english(tmp_path):
    for number in range(5):
        write_lines(tmp_path / "Test" / f"test.{number}", [f"nl {number}", "" if number else "twee"])
    english = gzip.compress(b"english one\nenglish two\n")
    (tmp_path / "test_2016_flickr.en.gz").write_bytes(english)
    main(["--dutch", str(tmp_path / "Test"), "--multi30k", str(tmp_path), "--out", str(tmp_path / "out")])
    rows = written(tmp_path / "out", "dutch")
    assert len(rows) == 6
    assert rows[1] == {"id": "1", "stand_in": "english two", "caption": "twee", "language": "nl"}


def test_photos_that_the_training_describes_are_left_out(tmp_path):
    files = (
        "COCO_train2014_000000000009.jpg",
        "COCO_val2014_000000000031.jpg",
        "COCO_val2014_000000000045.jpg",
    )
    write_lines(tmp_path / "test_image_names.txt", files)
    for language in ("en", *XTD10):
        write_lines(tmp_path / f"test_1kcaptions_{language}.txt", (f"{language} {n}" for n in range(3)))
    ids = ("jsts/jsts/31-7", "tatoeba/tatoeba/ab", "mscoco-it/mscoco-it/COCO_val2014_000000000009.jpg#1")
    write_jsonl(tmp_path / "trained.jsonl", ({"id": name} for name in ids))
    main(["--xtd10", str(tmp_path), "--trained", str(tmp_path / "trained.jsonl"), "--out", str(tmp_path)])
    rows = written(tmp_path, "xtd10")
    assert {row["id"] for row in rows} == {"COCO_val2014_000000000045.jpg"} and len(rows) == len(XTD10)
    assert rows[0] == {"id": files[2], "stand_in": "en 2", "caption": "es 2", "language": "es"}


def test_captions_of_shared_photos_are_found_by_the_photo_s_number(tmp_path):
    lines = [
        {"id": n, "img_path": f"{n}.jpg", "sentences": [text]}
        for n, text in (("12", "Un perro."), ("13", "Un gato."))
    ]
    write_jsonl(tmp_path / "es" / "test.jsonl", lines)
    photos = ["12_ab.jpg", "14_cd.jpg"]
    assert translated(tmp_path, "xflickrco", "es", photos, ["test"]) == [("12_ab.jpg", "Un perro.")]


def test_captions_to_calibrate_on_are_those_of_photos_that_test_sets_share(tmp_path):
    folder, photos = tmp_path / "flickr8k", tmp_path / "photos"
    for name in ("flickr8k/images/1_a.jpg", "photos/1_a.jpg", "photos/2_b.jpg", "photos/3_c.jpg"):
        write_lines(tmp_path / name, [])
    (folder / "multilingual_captions.json").write_text(json.dumps({"1_a.jpg": {"en": ["one"]}}))
    write_lines(folder / "Flickr_8k.testImages.txt", ["1_a.jpg"])
    write_lines(folder / "Flickr8k.token.txt", ["1_a.jpg#0\tfirst"])
    for code in SHARED["xflickrco"][1]:
        lines = [{"id": n, "img_path": f"{n}.jpg", "sentences": [f"{code} {n}"]} for n in "12"]
        write_jsonl(tmp_path / "xflickrco" / code / "test.jsonl", lines)
    write_lines(tmp_path / "multi30k" / "image_splits" / "test_2016_flickr.txt", ["9.jpg", "2.jpg"])
    for code in ("en", "fr"):
        french = gzip.compress(f"{code} 9\n{code} 2\n".encode())
        (tmp_path / "multi30k" / f"test_2016_flickr.{code}.gz").write_bytes(french)
    for number in range(5):
        write_lines(tmp_path / "Data" / "Dutch" / "Test" / f"test.{number}", ["nl 9", f"nl 2 {number} "])
    given = ("flickr8k", "photos", "xflickrco", "multi30k", "descriptions")
    paths = (folder, photos, tmp_path / "xflickrco", tmp_path / "multi30k", tmp_path / "Data")
    options = [text for name, path in zip(given, paths, strict=True) for text in (f"--{name}", str(path))]
    main([*options, "--out", str(tmp_path)])
    first, *others = written(tmp_path, "calibration")
    assert first["caption"] == "one" and {row["image"] for row in others} == {str(photos / "2_b.jpg")}
    expected = [f"{code} 2" for code in (*SHARED["xflickrco"][1], "fr")] + [f"nl 2 {n}" for n in range(5)]
    assert sorted(row["caption"] for row in others) == sorted(expected)
