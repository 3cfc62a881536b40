"""Photos with all their captions: which photo is in which split, and what the command writes."""

from __future__ import annotations

import json

import pytest

from capscore.errors import InputError
from tools.tiny.official import write_jsonl
from weights.making.held_out import HeldOut, Photo
from weights.making.jsonl import write_sources
from weights.making.mark_calibration import rows as mark_rows
from weights.making.mark_calibration.rows import names_of_things, photo_files, read_mark_rows, split_of

HELD = HeldOut({Photo("flickr", number): ("Flickr8k test",) for number in range(100, 110)})


def test_the_split_of_a_photo():
    splits = [split_of(Photo("flickr", number), f"{number}.jpg", HELD) for number in (99, 100, 101, 102, 106)]
    assert splits == ["train", "calibrate", "calibrate", "measure", "calibrate"]
    always = Photo("flickr", 100)
    assert split_of(always, "100.jpg", HELD, frozenset([always])) == "measure"
    of_coco = ("COCO_train2014_000000000009.jpg", "COCO_val2014_000000000009.jpg", "000000000009.jpg")
    assert [split_of(Photo("coco", 9), name, HELD) for name in of_coco] == ["train", None, None]


def test_photos_are_found_by_their_number(tmp_path):
    (tmp_path / "flickr8k").mkdir()
    for name in ("flickr8k/12_ab.jpg", "COCO_train2014_000000000012.jpg", "sunset.jpg"):
        (tmp_path / name).touch()
    assert sorted(photo_files(tmp_path)) == [Photo("coco", 12), Photo("flickr", 12)]
    with pytest.raises(InputError, match="no photo"):
        photo_files(tmp_path / "nowhere")


def test_names_of_things_are_single_words():
    names = names_of_things()
    assert len(names) > 200 and len({own["en"] for own in names}) == len(names)
    assert not any(" " in name for own in names for name in own.values())
    assert not {"man", "heart", "smiling"} & {own["en"] for own in names}


def write_captions(path, *rows):
    write_sources(path, [{"name": path.stem, "license": "MIT", "url": "", "rows": 1}])
    return str(write_jsonl(path, rows))


def test_the_command_joins_captions_of_coco(tmp_path, monkeypatch):
    """No official captions, nothing held out."""
    monkeypatch.setattr(mark_rows, "captions_of", lambda data, texts: iter(()))
    monkeypatch.setattr(mark_rows, "held_out_photos", lambda data, sets: HeldOut({}))
    (tmp_path / "photos").mkdir()
    for number in (8, 9):
        (tmp_path / "photos" / f"COCO_train2014_{number:012d}.jpg").touch()
    coco = write_captions(
        tmp_path / "coco.jsonl",
        {"photo": 8, "caption": "Two bears sleep.", "language": "en"},
        {"photo": 9, "caption": "Ein Bär schläft.", "language": "de"},
    )
    out = tmp_path / "rows.jsonl"
    folders = ["--data", "data", "--texts", "texts", "--photos", str(tmp_path / "photos"), "--out", str(out)]
    mark_rows.main([*folders, "--coco", coco])
    rows = {row["photo"]: row for row in read_mark_rows(out)}
    # an even number: thresholds are set on it
    assert (rows["COCO 8"]["split"], rows["COCO 9"]["split"]) == ("calibrate", "train")
    assert rows["COCO 8"]["captions"] == [["Two bears sleep.", "en", "coco"]]
    assert rows["COCO 9"]["captions"] == [["Ein Bär schläft.", "de", "coco"]]
    sources = json.loads((tmp_path / "rows.jsonl.sources.json").read_text())["sources"]
    assert [item["name"] for item in sources] == ["coco"]


@pytest.mark.parametrize("line", ["7", '{"split": "test", "file": "a", "captions": []}'])
def test_a_damaged_row_is_named(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"split": "train", "file": "a", "captions": []}\n' + line + "\n")
    with pytest.raises(InputError, match="line 2"):
        read_mark_rows(path)
