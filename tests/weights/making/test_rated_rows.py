"""Rated rows of Flickr8k's photos, out of small files, and which of the photos may be trained on."""

from __future__ import annotations

import hashlib
import json

import pytest

from capscore.errors import InputError
from tests.datasets_scripts.official import write_lines
from weights.making import rated_rows as module
from weights.making.held_out import HeldOut, Photo
from weights.making.jsonl import sources_file
from weights.making.rated_rows import RatedSplit, check_rows, rated_rows, rated_split, split_numbers

from .official_files import draw_photo, write_data

# captions that the small files have of the photo
DOG = ["A brown dog rests near sign 444 .", "A dog lies beside sign 444."]
SPLIT = RatedSplit(training=frozenset({333, 444}), held_out=frozenset({703}))

pytestmark = [
    pytest.mark.usefixtures("prepared_here"),
    pytest.mark.filterwarnings("ignore::capscore.benchmarks.data.builder.BenchmarkWarning"),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = write_data(tmp_path_factory.mktemp("official"))
    lines = ["700_bb.jpg#2\tA red car .", "333_c.jpg#0\tA cat .", "444_d.jpg#0\tTwo men cook ."]
    with open(folder / "flickr8k" / "Flickr8k.token.txt", "a", encoding="utf-8") as file:
        file.write("\n".join([*lines, "444_d.jpg#1\tMen in a kitchen .", ""]))
    for number, name in enumerate(("333_c.jpg", "111_aa.jpg")):
        draw_photo(folder / "photos" / "flickr8k" / name, number)
    return folder


def test_references_without_the_rated_caption_stand_in_where_there_is_no_photo(data):
    rows = list(rated_rows(data, data / "photos" / "flickr8k", SPLIT, "composite"))
    assert [(row["id"], row["rating"]) for row in rows] == [
        *(("333_c.jpg", rating) for rating in (5, 1, 3)),
        *(("444_d.jpg", rating) for rating in (4, 2, 4)),
    ]
    assert all(row["image"].endswith("/333_c.jpg") and "stand_in" not in row for row in rows[:3])
    both = [*DOG, "Two men cook .", "Men in a kitchen ."]
    assert [row["stand_in"] for row in rows[3:]] == [[*DOG, "Men in a kitchen ."], both, both]
    alone = RatedSplit(frozenset({333}), frozenset({444}))
    assert {row["id"] for row in rated_rows(data, data / "photos" / "flickr8k", alone, "composite")} == {
        "333_c.jpg"
    }


def test_the_split_is_by_the_digests_of_the_numbers(tmp_path):
    for file, half in zip(module.RATINGS, (range(1000, 1500), range(1500, 2000)), strict=True):
        write_lines(tmp_path / file, (f"{n}_ab.jpg\t{n}_ab.jpg#{k}\t1\t1\t1" for n in half for k in (0, 1)))
    split = rated_split(tmp_path)
    digests = {n: hashlib.sha256(str(n).encode()).digest() for n in range(1000, 2000)}
    assert split.training == set(sorted(digests, key=digests.get)[:700])
    assert split.training | split.held_out == set(digests) and not split.training & split.held_out
    assert sorted(split.held_out)[:5] == [1001, 1002, 1014, 1016, 1017]
    assert split_numbers([5, 3, 1, 3, 2, 4], 3) == split_numbers(range(1, 6), 3)
    with pytest.raises(InputError, match="3 rated photos: expected more than the 700"):
        split_numbers(range(3))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("703_f.jpg", r"row 1, .*Flickr 703 .*measured on"),
        ("9_x.jpg", r"row 1, .*Flickr 9 \(9_x.jpg\) may not be trained on: it is in Multi30k"),
        ("sunset.jpg", r"'sunset\.jpg' has no Flickr number"),
    ],
)
def test_a_photo_that_is_measured_on_is_an_error(name, message):
    held = HeldOut({Photo("flickr", 333): ("Composite",), Photo("flickr", 9): ("Multi30k",)})
    check_rows([{"id": "333_c.jpg"}, {"id": "8_a.jpg"}], SPLIT, held, "captions")  # rated, and for training
    with pytest.raises(InputError, match=message):
        check_rows([{"id": "333_c.jpg"}, {"id": name}], SPLIT, held, "captions")


def test_the_command_writes_ratings_captions_and_their_sources(data, tmp_path, monkeypatch):
    # 333 and 444 are rated too; 111 is of the training split and nothing is measured on it
    monkeypatch.setattr(module, "rated_split", lambda folder: SPLIT)
    module.main(["--data", str(data), "--photos", str(data / "photos"), "--out", str(tmp_path)])
    rows = {
        name: [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        for name in ("crowdflower", "composite", "captions")
    }
    assert len(rows["composite"]) == 6
    (rated,) = rows["crowdflower"]
    assert (rated["id"], rated["caption"], rated["language"]) == ("444_cc.jpg", "A red car .", "en")
    assert {(row["id"], row["language"]) for row in rows["captions"]} == {
        ("333_c.jpg", "en"), ("333_c.jpg", "de"), ("333_c.jpg", "fr"),
        ("111_aa.jpg", "en"), ("111_aa.jpg", "de"), ("111_aa.jpg", "fr"),
    }  # fmt: skip
    beside = json.loads(sources_file(tmp_path / "captions.jsonl").read_text())
    assert [(part["name"], part["rows"]) for part in beside["sources"]] == [
        ("Flickr8k, en", 3), ("Multi30k, de", 2), ("Multi30k, fr", 2),
    ]  # fmt: skip
    assert beside["held_out"].startswith("1 of the 3 rated photos of Flickr8k")
