"""Things in COCO's photos → captions."""

from __future__ import annotations

import json

import pytest

from capscore.errors import InputError
from weights.making.image_tower.marked_objects import captions, main, things_of

INSTANCES = {
    "categories": [{"id": 1, "name": "person"}, {"id": 18, "name": "dog"}, {"id": 28, "name": "umbrella"}],
    "annotations": [
        {"image_id": 9, "category_id": 18},
        {"image_id": 9, "category_id": 1},
        {"image_id": 9, "category_id": 18},
        {"image_id": 25, "category_id": 28},
    ],
}


def write(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_each_thing_of_a_photo_is_listed_once(tmp_path):
    found = things_of(write(tmp_path / "instances.json", INSTANCES))
    assert found == {9: ["dog", "person"], 25: ["umbrella"]}


def test_captions_name_each_thing_once_in_two_orders(tmp_path):
    out = tmp_path / "things.jsonl"
    main(["--labels", str(write(tmp_path / "instances.json", INSTANCES)), "--out", str(out)])
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [row["photo"] for row in rows] == [9, 9, 25, 25]
    assert {row["language"] for row in rows} == {"en"}
    assert rows[0]["caption"] in ("a dog and a person", "a person and a dog")
    assert rows[1]["caption"] in ("A dog and a person.", "A person and a dog.")
    assert [row["caption"] for row in rows[2:]] == ["an umbrella", "An umbrella."]
    # the order of a photo does not depend on the other photos
    alone = list(captions({9: ["dog", "person"]}))
    assert alone == rows[:2]


@pytest.mark.parametrize(
    "content, message",
    [
        ([1], "expected COCO's annotations of instances"),
        ({"annotations": [], "images": []}, "KeyError: 'categories'"),
        ({**INSTANCES, "annotations": [{"image_id": 9, "category_id": 7}]}, "KeyError: 7"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        things_of(write(tmp_path / "labels.json", content))


def test_a_damaged_or_missing_file_is_named(tmp_path):
    (tmp_path / "half.json").write_text('{"a": ')
    for name in ("half.json", "none.json"):
        with pytest.raises(InputError, match=name):
            things_of(tmp_path / name)
