"""Captions to measure on, of photos that no weights learned from."""

from __future__ import annotations

import json

import pytest

from weights.measuring.held_out import XTD10, described_photo, main, xtd10_rows


@pytest.fixture
def xtd10(tmp_path):
    photos = [
        "COCO_train2014_000000000009.jpg",
        "COCO_val2014_000000000031.jpg",
        "COCO_val2014_000000000045.jpg",
    ]
    (tmp_path / "test_image_names.txt").write_text("\n".join(photos) + "\n", encoding="utf-8")
    for language in ("en", *XTD10):
        lines = "".join(f"{language} {number}\n" for number in range(3))
        (tmp_path / f"test_1kcaptions_{language}.txt").write_text(lines, encoding="utf-8")
    return tmp_path


def write_trained(folder, *ids):
    path = folder / "captions.jsonl"
    path.write_text("".join(json.dumps({"id": name}) + "\n" for name in ids), encoding="utf-8")
    return path


def test_photos_that_the_training_describes_are_left_out(xtd10):
    trained = write_trained(
        xtd10, "jsts/jsts/31-7", "tatoeba/tatoeba/ab", "mscoco-it/mscoco-it/COCO_val2014_000000000009.jpg#1"
    )
    rows = xtd10_rows(xtd10, trained)
    assert {row["id"] for row in rows} == {"COCO_val2014_000000000045.jpg"} and len(rows) == len(XTD10)
    assert rows[0] == {
        "id": "COCO_val2014_000000000045.jpg",
        "stand_in": "en 2",
        "caption": "es 2",
        "language": "es",
    }


def test_the_command_writes_them(xtd10, capsys):
    trained = write_trained(xtd10, "tatoeba/tatoeba/ab")
    main(["--xtd10", str(xtd10), "--trained", str(trained), "--out", str(xtd10 / "out")])
    assert capsys.readouterr().out.endswith("xtd10.jsonl: 21 captions\n")
    assert len((xtd10 / "out" / "xtd10.jsonl").read_text(encoding="utf-8").splitlines()) == 21


@pytest.mark.parametrize(
    ("name", "photo"),
    [
        ("flickr8k/3558683579", "Flickr 3558683579"),
        ("flickr8k-cn/flickr8k-cn/667626_18933d713e.jpg#zhc#0", "Flickr 667626"),
        ("turkish-coco/turkish-coco/COCO_val2014_000000000599.jpg#4212", "COCO 599"),
        ("grammar/12", "None"),
    ],
)
def test_photos_of_training_captions(name, photo):
    assert str(described_photo(name)) == photo
