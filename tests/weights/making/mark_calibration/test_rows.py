"""Photos with all their captions: which photo is in which split, and what the command writes."""

import pytest

from capscore.errors import InputError
from weights.making.held_out import HeldOut, Photo
from weights.making.mark_calibration.rows import names_of_things, read_mark_rows, split_of

HELD = HeldOut({Photo("flickr", number): ("Flickr8k test",) for number in range(100, 110)})


def test_the_split_of_a_photo():
    splits = [split_of(Photo("flickr", number), f"{number}.jpg", HELD) for number in (99, 100, 101, 102, 106)]
    assert splits == ["train", "calibrate", "calibrate", "measure", "calibrate"]
    always = Photo("flickr", 100)
    assert split_of(always, "100.jpg", HELD, frozenset([always])) == "measure"
    of_coco = ("COCO_train2014_000000000009.jpg", "COCO_val2014_000000000009.jpg", "000000000009.jpg")
    assert [split_of(Photo("coco", 9), name, HELD) for name in of_coco] == ["train", None, None]
    # an even number: thresholds are set on it
    assert split_of(Photo("coco", 8), of_coco[0], HELD) == "calibrate"


def test_names_of_things_are_single_words():
    names = names_of_things()
    assert len(names) > 200 and len({own["en"] for own in names}) == len(names)
    assert not any(" " in name for own in names for name in own.values())
    assert not {"man", "heart", "smiling"} & {own["en"] for own in names}


@pytest.mark.parametrize("line", ["7", '{"split": "test", "file": "a", "captions": []}'])
def test_a_damaged_row_is_named(tmp_path, line):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"split": "train", "file": "a", "captions": []}\n' + line + "\n")
    with pytest.raises(InputError, match="line 2"):
        read_mark_rows(path)
