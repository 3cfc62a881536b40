"""Which photos are held out, out of small files in the official formats."""

import json

import pytest

from capscore.errors import CapscoreError
from tools.tiny.sources_of_weights import HELD, write_data
from weights.making.held_out import TESTED, Photo, first_names, held_out_photos, photo_files, photo_of

# set → all of its photos in the files of `write_data`
EXPECTED = {
    "Multi30k, test splits": "flickr 666, flickr 888, coco 56, flickr 121",
    "xFlickr&CO, test split": "flickr 333, flickr 502, flickr 704, coco 77",
    "Flickr8k, test split": "flickr 703",
    "Flickr8k-Expert": "flickr 701",
    "Flickr8k-CF": "flickr 444",
    "the photos in flickr8k/images": "flickr 702",
    "Flickr8k, development split": "flickr 710",
    "Multi30k, validation split": "flickr 501, flickr 502",
    "Composite": "flickr 333, flickr 444, flickr 555, coco 7",
    "VICR": "coco 21, flickr 777",
    "THumB": "coco 31, coco 57",
    "CapEval1k": "coco 64, coco 73",
    "Pascal-50S": "voc 2008000001, voc 2008000002",
    "VALSE": "coco 7, coco 8, coco 9, coco 10, coco 12",
    "XVNLI": "flickr 3001, flickr 3002",
    "COCO val2014": ", ".join(f"coco {n}" for n in (56, 77, 7, 21, 31, 57, 64, 73, 10, 12)),
}
NAMES = {
    "coco": ("COCO_train2014_{:012d}.jpg", "COCO_val2014_{:012d}#zhm#0", "train2017/{:012d}.jpg"),
    "voc": ("{}.jpg", "VOC2012/JPEGImages/{}.jpg"),
    "flickr": ("{}.jpg", "{}_693b08cb0e.jpg#3", "{}_aa.jpg#zhc#0", "flickr8k/{}_aa.jpg"),
}

pytestmark = pytest.mark.usefixtures("prepared_here")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("official"))


@pytest.fixture(scope="module")
def held(data):
    return held_out_photos(data)


@pytest.mark.parametrize("name", EXPECTED)
def test_the_photos_of_every_set_are_held_out_under_every_name(held, name):
    for photo in EXPECTED[name].split(", "):
        collection, number = photo.split()
        written = f"{number[:4]}_{number[4:]}" if collection == "voc" else int(number)
        for form in NAMES[collection]:
            found = photo_of(form.format(written))
            assert found == Photo(collection, int(number)) and name in held.sets[found]
            assert name in held.reason(found, form.format(written))


def test_nothing_else_is_held_out(held):
    for name, photos in EXPECTED.items():
        assert sum(name in names for names in held.sets.values()) == len(photos.split(", "))
        assert f"{name} ({len(photos.split(', '))})" in held.statement() or name == "COCO val2014"
    for free in ("111_aa.jpg", "700_bb.jpg", "COCO_train2014_000000000099.jpg"):
        assert held.reason(photo_of(free), free) == ""
    # a number of Flickr is no number of COCO
    assert not held.reason(Photo("coco", 666), "COCO_train2014_0666.jpg")


def test_every_shipped_weight_leaves_out_the_same_tested_photos(data):
    assert {str(photo.number) for photo in held_out_photos(data, sets=TESTED).sets} == HELD


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("COCO_val2014_000000000130.jpg", "in COCO val2014"),
        ("COCO_test2014_000000000132.jpg", "in COCO test2014"),
        ("val2017/000000000140.jpg", "in COCO val2014"),
        ("train2017/000000000140.jpg", "nothing shows"),
        ("COCO_train2014_000000000140.jpg", ""),
    ],
)
def test_a_coco_photo_is_held_out_by_its_name(held, name, reason):
    found = held.reason(photo_of(name), name)
    assert reason in found and bool(reason) == bool(found)


def test_a_split_is_learned_from_other_names(data):
    later = held_out_photos(data, ["COCO_val2014_000000000130.jpg", "COCO_train2014_000000000131.jpg"])
    assert "val2014" in later.reason(Photo("coco", 130), "train2017/000000000130.jpg")
    assert later.reason(Photo("coco", 131), "train2017/000000000131.jpg") == ""


def test_cocos_own_list_settles_it(tmp_path):
    listed = write_data(tmp_path) / "coco" / "captions_val2014.json"
    listed.parent.mkdir()
    listed.write_text(json.dumps({"images": [{"id": 140}, {"id": 141}], "annotations": []}))
    held = held_out_photos(tmp_path)
    assert "val2014" in held.reason(Photo("coco", 140), "train2017/000000000140.jpg")
    assert held.reason(Photo("coco", 142), "train2017/000000000142.jpg") == ""
    for damaged in ('{"images": []}', '{"images": [{"id": "x"}]}'):
        listed.write_text(damaged)
        with pytest.raises(CapscoreError, match="captions_val2014"):
            held_out_photos(tmp_path)


def test_photos_are_found_by_their_number(tmp_path):
    (tmp_path / "flickr8k").mkdir()
    with pytest.raises(CapscoreError, match=r"no photo \(\*\.jpg\)"):
        photo_files(tmp_path)
    for name in ("flickr8k/12_ab.jpg", "flickr8k/12.jpg", "COCO_train2014_000000000012.jpg", "sunset.jpg"):
        (tmp_path / name).touch()
    assert len(photo_files(tmp_path)) == 3
    assert first_names(photo_files(tmp_path)) == {
        Photo("coco", 12): "COCO_train2014_000000000012.jpg",
        Photo("flickr", 12): "flickr8k/12.jpg",
    }


@pytest.mark.parametrize(
    ("path", "message"), [("flickr8k/Flickr_8k.devImages.txt", "devImages"), ("vicr/VICR.csv", "VICR")]
)
def test_an_official_file_that_is_missing_is_named(tmp_path, path, message):
    (write_data(tmp_path) / path).unlink()
    with pytest.raises(CapscoreError, match=message):
        held_out_photos(tmp_path)


def test_a_set_without_a_known_photo_is_refused(tmp_path):
    (write_data(tmp_path) / "flickr8k" / "own.txt").write_text("sunset.jpg\n")
    with pytest.raises(CapscoreError, match=r"own: no name of .* 'sunset\.jpg'"):
        held_out_photos(tmp_path, sets={"own": {"list": "own.txt"}})
