"""MaRVL: groups of rows, and photos whose bare names every language has."""

from __future__ import annotations

import unicodedata

import pytest

import capscore
from capscore.benchmarks.data.load import benchmark_builder
from capscore.benchmarks.protocols import marvl

from ..photos import encode, noise
from .official import marvl as official

pytestmark = pytest.mark.filterwarnings("ignore::capscore.BenchmarkWarning")


@pytest.fixture
def data_dir(tmp_path):
    official.write(tmp_path / "marvl")
    return tmp_path / "marvl"


def _write_photos(folder):
    folder.mkdir(parents=True)
    for number in range(6):
        (folder / f"7-{number}.jpg").write_bytes(encode(noise(seed=number), "JPEG"))


def test_counts(data_dir):
    builder = benchmark_builder("marvl", "sw", data_dir=data_dir)
    rows = [row for _, row in builder.checked_rows("test")]
    # of the second caption there are three rows only: no group
    assert builder.count(rows) == {"rows": 7, "images": 6, "captions": 2, "groups": 1, "true": 3}


def test_counts_are_the_groups_of_the_protocol(data_dir):
    rows = capscore.load_benchmark("marvl", "zh", data_dir=data_dir, split="test")
    found = marvl([0.5] * 7, [0.25] * 7, rows["label"], rows["caption"], rows["id"])
    assert [(name, n) for name, _, n in found.table()] == [("accuracy 1", 4), ("accuracy 2", 1)]
    assert [group["ids"] for group in found.details["irregular"]] == [["zh-4", "zh-5", "zh-6"]]


@pytest.mark.parametrize("config, composed", [("tr", "7-Süpürge"), ("ta", "7-துடைப்பம்"), ("zh", "7-扫帚")])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_folder_of_a_concept_may_have_letters_and_accents_apart(config, composed, form, data_dir):
    folder = data_dir / "marvl-images" / config / "images" / unicodedata.normalize(form, composed)
    _write_photos(folder)
    rows = capscore.load_benchmark("marvl", config, data_dir=data_dir, split="test", images=True)
    assert len(rows) == 7


@pytest.mark.parametrize(
    "place", ["marvl-images/sw/images/7-Ufagio", "images/sw/images/7-Ufagio", "sw/images/7-Ufagio"]
)
def test_places_of_photos(place, data_dir):
    _write_photos(data_dir / place)
    assert len(capscore.load_benchmark("marvl", "sw", data_dir=data_dir, split="test", images=True)) == 7


@pytest.mark.parametrize("image_dir", ["photos", "photos/sw/images"])
def test_photos_elsewhere(image_dir, data_dir, tmp_path):
    _write_photos(tmp_path / "photos" / "sw" / "images" / "7-Ufagio")
    loaded = capscore.load_benchmark(
        "marvl", "sw", data_dir=data_dir, image_dir=tmp_path / image_dir, split="test", images=True
    )
    assert len(loaded) == 7


def test_a_photo_of_another_language_is_not_taken(data_dir):
    """7-0.jpg is a photo in all of them, and another one in each."""
    _write_photos(data_dir / "marvl-images" / "tr" / "images" / "7-Süpürge")
    _write_photos(data_dir / "images")
    with pytest.raises(
        capscore.MissingImages, match=r"no 7-Ufagio/7-0\.jpg or sw/images/7-Ufagio/7-0\.jpg in"
    ):
        capscore.load_benchmark("marvl", "sw", data_dir=data_dir, images=True)


def test_nothing_of_an_annotator_but_the_id(data_dir):
    rows = capscore.load_benchmark("marvl", "sw", data_dir=data_dir, split="test")
    assert set(rows["annotator_id"]) == {"sw_01"}
    assert not {"country_of_birth", "age", "gender"} & set(rows.column_names)


def test_two_photos_a_row_are_one_row(data_dir, monkeypatch, recwarn):
    builder = benchmark_builder("marvl", "sw", data_dir=data_dir)
    monkeypatch.setattr(type(builder), "published", lambda self, split: {"rows": 7})
    assert len(list(builder.examples("test"))) == 7
    assert not [warning for warning in recwarn if "were published" in str(warning.message)]
