"""Rated rows of Flickr8k's photos, out of small files in the official formats."""

from __future__ import annotations

import doctest

import pytest

from capscore.errors import InputError
from weights.making import rated_rows as module
from weights.making.held_out import HeldOut, Photo
from weights.making.rated_rows import RatedSplit, check_rows, rated_rows

from .image_tower.sources import draw_photo, write_data

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
    with open(folder / "flickr8k" / "Flickr8k.token.txt", "a", encoding="utf-8") as file:
        file.write("444_d.jpg#0\tTwo men cook .\n444_d.jpg#1\tMen in a kitchen .\n")
    draw_photo(folder / "photos" / "333_c.jpg", 1)
    return folder


def test_references_stand_in_where_there_is_no_photo(data):
    rows = list(rated_rows(data, data / "photos", SPLIT, "composite"))
    assert [(row["id"], row["rating"]) for row in rows] == [
        *(("333_c.jpg", rating) for rating in (5, 1, 3)),
        *(("444_d.jpg", rating) for rating in (4, 2, 4)),
    ]
    assert all(row["image"].endswith("/333_c.jpg") and "stand_in" not in row for row in rows[:3])
    # the rated caption is no reference of itself
    assert [row["stand_in"] for row in rows[3:]] == [
        [*DOG, "Men in a kitchen ."],
        *2 * [[*DOG, "Two men cook .", "Men in a kitchen ."]],
    ]


def test_photos_of_neither_part_are_left_out(data):
    alone = RatedSplit(frozenset({333}), frozenset({444}))
    rows = list(rated_rows(data, data / "photos", alone, "composite"))
    assert {row["id"] for row in rows} == {"333_c.jpg"}


def test_a_photo_that_is_measured_on_is_an_error():
    held = HeldOut({Photo("flickr", 333): ("Composite",), Photo("flickr", 9): ("Multi30k",)})
    check_rows([{"id": "333_c.jpg"}, {"id": "8_a.jpg"}], SPLIT, held, "captions")  # rated, and for training
    with pytest.raises(InputError, match=r"Flickr 703 .*its ratings are measured on"):
        check_rows([{"id": "333_c.jpg"}, {"id": "703_f.jpg"}], SPLIT, held, "captions")
    with pytest.raises(InputError, match=r"Flickr 9 \(9_x.jpg\) may not be trained on: it is in Multi30k"):
        check_rows([{"id": "9_x.jpg"}], SPLIT, held, "captions")


def test_examples():
    assert doctest.testmod(module).failed == 0
