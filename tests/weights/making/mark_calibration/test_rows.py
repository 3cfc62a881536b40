"""Photos with all their captions: which photo is in which split."""

from __future__ import annotations

import json

import pytest

from capscore.errors import InputError
from weights.making.held_out import HeldOut, Photo
from weights.making.mark_calibration import rows as mark_rows
from weights.making.mark_calibration.rows import Settings, photo_files, read_mark_rows, split_of

HELD = HeldOut({Photo("flickr", number): ("Flickr8k test",) for number in range(100, 110)})


def test_the_split_of_a_photo():
    splits = [split_of(Photo("flickr", number), f"{number}.jpg", HELD) for number in (99, 100, 101, 102, 106)]
    assert splits == ["train", "calibrate", "calibrate", "measure", "calibrate"]


def test_some_photos_are_always_measured_on():
    photo = Photo("flickr", 100)
    assert split_of(photo, "100.jpg", HELD, frozenset([photo])) == "measure"


def test_a_photo_of_coco_must_be_of_train2014():
    photo = Photo("coco", 9)
    assert split_of(photo, "COCO_train2014_000000000009.jpg", HELD) == "train"
    assert split_of(photo, "COCO_val2014_000000000009.jpg", HELD) is None
    assert split_of(photo, "000000000009.jpg", HELD) is None


def test_files_by_photo(tmp_path):
    (tmp_path / "flickr8k").mkdir()
    for name in ("flickr8k/12_ab.jpg", "COCO_train2014_000000000012.jpg", "sunset.jpg"):
        (tmp_path / name).touch()
    found = photo_files(tmp_path)
    assert sorted(found) == [Photo("coco", 12), Photo("flickr", 12)]
    with pytest.raises(InputError, match="no photo"):
        photo_files(tmp_path / "nowhere")


def write_lines(path, *rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sources = {"held_out": "", "sources": [{"name": path.stem, "license": "MIT", "url": "", "rows": 1}]}
    path.with_name(path.name + ".sources.json").write_text(json.dumps(sources))
    return str(path)


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Photos of COCO and a labelled one; no official captions, nothing held out."""
    monkeypatch.setattr(mark_rows, "captions_of", lambda data, texts: iter(()))
    monkeypatch.setattr(mark_rows, "held_out_photos", lambda data, sets: HeldOut({}))
    folder = tmp_path / "photos"
    (folder / "things").mkdir(parents=True)
    for number in (8, 9, 10):
        (folder / f"COCO_train2014_{number:012d}.jpg").touch()
    (folder / "things" / "1.jpg").write_bytes(b"one")
    return folder


def test_labels_things_and_captions_of_coco(photos, tmp_path):
    coco = write_lines(
        tmp_path / "coco.jsonl",
        {"photo": 8, "caption": "Two bears sleep.", "language": "en"},
        {"photo": 9, "caption": "Ein Bär schläft.", "language": "de"},
    )
    things = write_lines(
        tmp_path / "things.jsonl",
        {"photo": 8, "caption": "a bear", "language": "en"},
        {"photo": 9, "caption": "a bear and a hot dog", "language": "en"},
        {"photo": 9, "caption": "A bear and a hot dog.", "language": "en"},
        {"photo": 10, "caption": "a toaster", "language": "en"},
    )
    labelled = write_lines(
        tmp_path / "labels.jsonl", {"file": "things/1.jpg", "caption": "an Accordion", "language": "en"}
    )
    out = tmp_path / "judged.jsonl"
    settings = Settings("data", "texts", str(photos), str(out), [labelled], [coco], [things])
    mark_rows.write_rows(settings)
    rows = {row["photo"].split()[0] + row["photo"][-1]: row for row in read_mark_rows(out)}
    # an even number, with captions: thresholds are set on it, and names are no captions
    assert rows["COCO8"]["split"] == "calibrate"
    assert rows["COCO8"]["captions"] == [["Two bears sleep.", "en", "coco"]]
    own = rows["COCO9"]
    assert own["split"] == "train" and ["Ein Bär schläft.", "de", "coco"] in own["captions"]
    names = {(name, language) for name, language, source in own["captions"] if source == "things"}
    assert {("bear", "en"), ("hot dog", "en"), ("bär", "de"), ("ayı", "tr")} <= names
    assert rows["COCO0"]["split"] == "train"  # names alone set no thresholds
    (label,) = (row for name, row in rows.items() if name.startswith("labelled"))
    assert ["accordion", "en", "labelled"] in label["captions"]
    assert ["akkordeon", "de", "labelled"] in label["captions"]
    sources = json.loads((tmp_path / "judged.jsonl.sources.json").read_text())["sources"]
    assert [one["name"] for one in sources] == ["labels", "coco", "things"]


def test_rows_are_read_back(tmp_path):
    row = {"photo": "Flickr 1", "file": "1.jpg", "split": "train", "captions": [["A dog.", "en", "flickr8k"]]}
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row) + "\n")
    assert read_mark_rows(path) == [row]


@pytest.mark.parametrize(
    "line",
    ["7", "{}", '{"split": "test", "file": "a", "captions": []}', '{"split": "train", "file": "a"}'],
)
def test_a_damaged_row_is_named(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"split": "train", "file": "a", "captions": []}\n' + line + "\n")
    with pytest.raises(InputError, match="line 2"):
        read_mark_rows(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_mark_rows(tmp_path / "rows.jsonl")


@pytest.mark.parametrize("name", ["data", "texts", "photos", "out"])
def test_a_missing_setting(name):
    given = {"data": "d", "texts": "t", "photos": "p", "out": "o", name: ""}
    with pytest.raises(InputError, match=f"--{name} is missing"):
        Settings(**given)
