"""Which photos are held out, out of small files in the official formats."""

from __future__ import annotations

import doctest
import json
import re

import pytest

from capscore.errors import CapscoreError, InputError
from weights.making import held_out
from weights.making.held_out import (
    SETS,
    TESTED,
    HeldOut,
    Photo,
    TrainingPhoto,
    coco_split,
    held_out_photos,
    photo_of,
)

from .image_tower.sources import write_data
from .test_captions import HELD

# set → all of its photos in the files of `write_data`
EXPECTED = {
    "Multi30k, test splits": {"flickr 666", "flickr 888", "coco 56", "flickr 121"},
    "xFlickr&CO, test split": {"flickr 333", "flickr 502", "flickr 704", "coco 77"},
    "Flickr8k, test split": {"flickr 703"},
    "Flickr8k-Expert": {"flickr 701"},
    "Flickr8k-CF": {"flickr 444"},
    "the photos in flickr8k/images": {"flickr 702"},
    "Flickr8k, development split": {"flickr 710"},
    "Multi30k, validation split": {"flickr 501", "flickr 502"},
    "Composite": {"flickr 333", "flickr 444", "flickr 555", "coco 7"},
    "VICR": {"coco 21", "flickr 777"},
    "THumB": {"coco 31", "coco 57"},
    "CapEval1k": {"coco 64", "coco 73"},
    "Pascal-50S": {"voc 2008000001", "voc 2008000002"},
    "VALSE": {"coco 7", "coco 8", "coco 9", "coco 10", "coco 12"},
    "XVNLI": {"flickr 3001", "flickr 3002"},
    "COCO val2014": {f"coco {n}" for n in (56, 77, 7, 21, 31, 57, 64, 73, 10, 12)},
}
CASES = [(name, photo) for name, photos in EXPECTED.items() for photo in sorted(photos)]

pytestmark = [
    pytest.mark.usefixtures("prepared_here"),
    pytest.mark.filterwarnings("ignore::capscore.benchmarks.data.builder.BenchmarkWarning"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("official"))


@pytest.fixture(scope="module")
def held(data):
    return held_out_photos(data)


def photo(text: str) -> Photo:
    collection, number = text.split(" ")
    return Photo(collection, int(number))


def names_of(one: Photo) -> list[str]:
    """The names that data sets in different languages have for a photo."""
    if one.collection == "coco":
        padded = f"{one.number:012d}"
        return [
            f"COCO_train2014_{padded}.jpg",  # whatever the name says
            f"COCO_val2014_{padded}#zhm#0",
            f"train2017/{padded}.jpg",
            f"coco_val2014_{padded}.npz",
            f"http://images.cocodataset.org/val2014/COCO_val2014_{padded}.jpg",
        ]
    if one.collection == "voc":
        year, number = divmod(one.number, 10**6)
        return [f"{year}_{number:06d}.jpg", f"VOC2012/JPEGImages/{year}_{number:06d}.jpg"]
    return [
        f"{one.number}.jpg",
        f"{one.number}_693b08cb0e.jpg",
        f"{one.number}_693b08cb0e.jpg#3",
        f"{one.number}_aa.jpg#zhc#0",
        f"flickr8k/{one.number}_aa.jpg",
    ]


@pytest.mark.parametrize(("name", "given"), CASES)
def test_a_photo_of_every_set_is_refused_under_every_name(held, name, given):
    for form in names_of(photo(given)):
        one = photo_of(form)
        assert one == photo(given)
        assert name in held.sets[one]
        with pytest.raises(
            InputError,
            match=rf"^row 3, some-set: .*\({re.escape(form)}\) may not be trained on.*{re.escape(name)}",
        ) as caught:
            held.refuse([TrainingPhoto(one, form, "some-set", 3)])
        assert (caught.value.row, caught.value.field) == (3, "some-set")


def test_nothing_else_is_held_out(held):
    everything = set.union(*EXPECTED.values())
    assert {f"{one.collection} {one.number}" for one in held.sets} == everything
    counts = held.counts()
    assert counts == {name: len(photos) for name, photos in EXPECTED.items()}
    for free in ("111_aa.jpg", "700_bb.jpg", "COCO_train2014_000000000099.jpg"):
        assert held.reason(photo_of(free), free) == ""
    held.refuse([TrainingPhoto(photo_of("111_aa.jpg"), "111_aa.jpg", "flickr8k", 0)])


def test_every_shipped_weight_leaves_out_the_same_tested_photos(data):
    assert {str(one.number) for one in held_out_photos(data, sets=TESTED).sets} == HELD
    assert set(TESTED) < set(SETS)


def test_a_number_of_flickr_is_no_number_of_coco(held):
    assert held.reason(Photo("flickr", 666)) and not held.reason(
        Photo("coco", 666), "COCO_train2014_0666.jpg"
    )


def test_a_photo_of_val2014_is_known_by_its_name_and_then_by_its_number(data):
    name = "COCO_val2014_000000000130.jpg"
    assert "COCO val2014" in held_out_photos(data).reason(photo_of(name), name)
    later = held_out_photos(data, [name, "COCO_train2014_000000000131.jpg"])
    assert later.reason(Photo("coco", 130), "train2017/000000000130.jpg") == "it is in COCO val2014"
    assert later.reason(Photo("coco", 131), "train2017/000000000131.jpg") == ""
    for name in ("COCO_test2014_000000000132.jpg", "COCO_test2015_000000000132.jpg"):
        assert held_out_photos(data).reason(photo_of(name), name) == f"it is in COCO {coco_split(name)}"


def test_a_name_of_2017_is_no_proof_that_a_photo_is_of_train2014(held):
    assert "nothing shows that it is in COCO train2014" in held.reason(
        Photo("coco", 140), "train2017/000000000140.jpg"
    )
    # val2017 is a part of val2014
    assert held.reason(Photo("coco", 140), "val2017/000000000140.jpg") == "it is in COCO val2014"


def test_cocos_own_list_settles_it(tmp_path):
    data = write_data(tmp_path)
    listed = data / "coco" / "captions_val2014.json"
    listed.parent.mkdir()
    listed.write_text(json.dumps({"images": [{"id": 140}, {"id": 141}], "annotations": []}))
    held = held_out_photos(data)
    assert held.val2014_is_complete
    assert held.reason(Photo("coco", 140), "train2017/000000000140.jpg") == "it is in COCO val2014"
    assert held.reason(Photo("coco", 142), "train2017/000000000142.jpg") == ""
    for damaged, message in (
        ('{"images": []}', r"captions_val2014\.json: names no photo"),
        ('{"images": [{"id": 140}, {"id": "x"}]}', r"images\[1\].*'id' is 'x'"),
        ('{"images": [', "captions_val2014"),
    ):
        listed.write_text(damaged)
        with pytest.raises(CapscoreError, match=message):
            held_out_photos(data)


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("flickr8k/Flickr_8k.devImages.txt", None, r"devImages\.txt: cannot be read"),
        ("flickr8k/Flickr_8k.devImages.txt", b"\n\n", r"devImages\.txt: names no photo"),
        ("flickr8k/Flickr_8k.devImages.txt", b"710_hh.jpg\n711_h", r"line 2: '711_h': expected the name"),
        ("flickr8k/Flickr_8k.testImages.txt", b"703_ff.jpg\n\xff\xfe\n", "line 2: is not UTF-8"),
        ("multi30k/image_splits/val.txt", None, r"val\.txt"),
        ("composite/8k_correctness.csv", b"Input.image_url\n", "8k_correctness"),
        ("vicr/VICR.csv", None, "VICR"),
        ("thumb/mscoco_THumB-1.0.jsonl", b'{"image"\n', "THumB"),
        ("capeval1k/capeval1k.json", b"[", "capeval1k"),
        ("pascal50s/pascal_50s.json", None, "pascal_50s"),
        ("valse/plurals.json", None, "plurals"),
        ("xvnli/en/test.jsonl", b"", "en/test"),
    ],
)
def test_an_official_file_that_is_missing_or_damaged_is_named(tmp_path, path, content, message):
    file = write_data(tmp_path) / path
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with pytest.raises(CapscoreError, match=message):
        held_out_photos(tmp_path)


@pytest.mark.parametrize("name", ["", "sunset.jpg", "v7w_3.jpg", "_12.jpg", "helping_6.jpg", "12 ab.jpg"])
def test_a_name_without_a_number_names_no_photo(name):
    assert photo_of(name) is None


def test_examples():
    for module in (held_out,):
        found = doctest.testmod(module)
        assert found.attempted and not found.failed


def test_reason_lists_every_set():
    held = HeldOut({Photo("flickr", 1): ("VICR", "XVNLI")})
    assert held.reason(Photo("flickr", 1)) == "it is in VICR, XVNLI"
