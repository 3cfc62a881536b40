"""Captions to measure on, of photos that no weights learned from."""

import gzip
import json

import pytest

from capscore.errors import InputError
from tools.tiny.official import write_jsonl, write_lines
from weights.measuring.held_out import SHARED, XTD10, main, translated


@pytest.fixture
def folder(tmp_path):
    """A photo with captions in two languages, which is the only one in the test split."""
    flickr8k = tmp_path / "flickr8k"
    write_lines(flickr8k / "images" / "1_a.jpg", [])
    listed = {"1_a.jpg": {"en": ["one", "two"], "hi_mt": ["x"], "de": ["eins"], "split": "test"}}
    listed["2_b.jpg"] = {"en": ["y"]}
    (flickr8k / "multilingual_captions.json").write_text(json.dumps(listed))
    write_lines(flickr8k / "Flickr_8k.testImages.txt", ["1_a.jpg"])
    tokens = ["1_a.jpg#0\tfirst", "1_a.jpg#1\tsecond", "3_c.jpg#0\tthird"]
    write_lines(flickr8k / "Flickr8k.token.txt", tokens)
    return tmp_path


def written(folder, name, **options):
    given = {"data": folder, "out": folder / "out", **options}
    main([f"--{option}={path}" for option, path in given.items()])
    lines = (folder / "out" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_flickr8k_s_captions_in_many_languages_and_those_of_its_test_photos(folder, capsys):
    rows = written(folder, "photos")
    expected = [("one", "en"), ("two", "en"), ("eins", "de")]
    assert [(row["caption"], row["language"]) for row in rows] == expected
    assert rows[0]["image"] == str(folder / "flickr8k" / "images" / "1_a.jpg")
    (folder / "flickr8k" / "multilingual_captions.json").unlink()
    stands_for_photo = {"id": "1_a.jpg", "stand_in": "first", "caption": "second", "language": "en"}
    assert written(folder, "english") == [stands_for_photo]
    assert "photos.jsonl: not written: " in capsys.readouterr().out


def test_dutch_descriptions_are_paired_with_multi30k_s_english(folder):
    for number in range(5):
        lines = [f"nl {number}", "" if number else "twee"]
        write_lines(folder / "Data" / "Dutch" / "Test" / f"test.{number}", lines)
    (folder / "multi30k").mkdir()
    english = gzip.compress(b"english one\nenglish two\n")
    (folder / "multi30k" / "test_2016_flickr.en.gz").write_bytes(english)
    rows = written(folder, "dutch", descriptions=folder / "Data")
    assert len(rows) == 6
    assert rows[1] == {"id": "1", "stand_in": "english two", "caption": "twee", "language": "nl"}
    with pytest.raises(InputError, match=r"dutch\.jsonl"):
        written(folder, "dutch", descriptions=folder)


def test_photos_that_the_training_describes_are_left_out(folder):
    files = [
        f"COCO_{split}_{n:0>12}.jpg" for split, n in (("train2014", 9), ("val2014", 31), ("val2014", 45))
    ]
    write_lines(folder / "test_image_names.txt", files)
    for language in ("en", *XTD10):
        write_lines(folder / f"test_1kcaptions_{language}.txt", (f"{language} {n}" for n in range(3)))
    ids = ("jsts/jsts/31-7", "tatoeba/tatoeba/ab", "mscoco-it/mscoco-it/COCO_val2014_000000000009.jpg#1")
    write_jsonl(folder / "trained.jsonl", ({"id": name} for name in ids))
    rows = written(folder, "xtd10", xtd10=folder, trained=folder / "trained.jsonl")
    assert {row["id"] for row in rows} == {files[2]} and len(rows) == len(XTD10)
    assert rows[0] == {"id": files[2], "stand_in": "en 2", "caption": "es 2", "language": "es"}
    write_jsonl(folder / "trained.jsonl", [{"id": ids[1]}])
    for trained in ({}, {"trained": folder / "trained.jsonl"}):
        with pytest.raises(InputError, match="trained"):
            written(folder, "xtd10", xtd10=folder, **trained)


def test_captions_of_shared_photos_are_found_by_the_photo_s_number(tmp_path):
    lines = [{"id": n, "img_path": f"{n}.jpg", "sentences": [f"Un {n}."]} for n in ("12", "13")]
    write_jsonl(tmp_path / "xflickrco" / "es" / "test.jsonl", lines)
    photos = ["12_ab.jpg", "14_cd.jpg"]
    assert translated(tmp_path, "xflickrco", "es", photos, ["test"]) == [("12_ab.jpg", "Un 12.")]


def test_captions_to_calibrate_on_are_those_of_photos_that_test_sets_share(folder):
    photos = folder / "photos"
    for name in ("1_a.jpg", "2_b.jpg", "3_c.jpg"):
        write_lines(photos / name, [])
    for code in SHARED["xflickrco"][1]:
        lines = [{"id": n, "img_path": f"{n}.jpg", "sentences": [f"{code} {n}"]} for n in "12"]
        write_jsonl(folder / "xflickrco" / code / "test.jsonl", lines)
    write_lines(folder / "multi30k" / "image_splits" / "test_2016_flickr.txt", ["9.jpg", "2.jpg"])
    for code in ("en", "fr"):
        lines = gzip.compress(f"{code} 9\n{code} 2\n".encode())
        (folder / "multi30k" / f"test_2016_flickr.{code}.gz").write_bytes(lines)
    for number in range(5):
        write_lines(folder / "Data" / "Dutch" / "Test" / f"test.{number}", ["nl 9", f"nl 2 {number} "])
    rows = written(folder, "calibration", photos=photos, descriptions=folder / "Data")
    assert [row["caption"] for row in rows[:3]] == ["one", "two", "eins"]
    assert {row["image"] for row in rows[3:]} == {str(photos / "2_b.jpg")}
    expected = [f"{code} 2" for code in (*SHARED["xflickrco"][1], "fr")] + [f"nl 2 {n}" for n in range(5)]
    assert sorted(row["caption"] for row in rows[3:]) == sorted(expected)
