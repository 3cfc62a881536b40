"""The base of the loading scripts: a tiny benchmark of its own, so that nothing here depends on a script."""

import os
import pickle
import sys
import warnings
from pathlib import Path
from unittest import mock

import datasets
import pytest

import capscore
from capscore.benchmarks.data import load as data_sets
from capscore.registry import BENCHMARKS

from ..photos import encode, noise

PHOTO = encode(noise(seed=0), "JPEG")
SCRIPTS = Path(__file__).parent / "scripts"


@pytest.fixture(autouse=True)
def _tiny(monkeypatch):
    monkeypatch.setattr(data_sets, "benchmark_folder", lambda slug: str(SCRIPTS / slug))
    monkeypatch.setitem(BENCHMARKS.builtin, "tiny", "tiny")


def build(folder, cache, **options):
    return data_sets.benchmark_builder("tiny", data_dir=folder, cache_dir=cache, **options)


def load(folder, cache, **options):
    builder = build(folder, cache, **options)
    builder.download_and_prepare()
    return builder.as_dataset(split="test")


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "tiny"
    (made / "images").mkdir(parents=True)
    (made / "captions.tsv").write_text("a.jpg\tein Hund\nb.jpg\tein Haus\nc.jpg\tgrün\n", encoding="utf-8")
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        (made / "images" / name).write_bytes(PHOTO)
    return made


def with_photos(rows):
    return [row["image"] is not None for row in rows.cast_column("image", datasets.Image(decode=False))]


def kept(cache):
    return sorted(path.name for path in cache.rglob("*") if path.is_file() and path.suffix != ".lock")


def test_files_and_photos_may_lie_in_other_places_and_a_missing_file_is_named_with_all(folder, cache):
    (folder / "text").mkdir()
    (folder / "captions.tsv").rename(folder / "text" / "de.tsv")
    (folder / "photos").mkdir()
    (folder / "images").rename(folder / "photos" / "de")
    assert with_photos(load(folder, cache, images=True)) == [True] * 3
    (folder / "text" / "de.tsv").unlink()
    (folder / "captions.tsv").symlink_to(folder / "nowhere")
    message = r"reads captions\.tsv or text/de\.tsv or .*not found under"
    with pytest.raises(capscore.MissingAnnotations, match=message):
        load(folder, cache)


def test_rows_are_prepared_once_and_again_when_a_file_has_changed(folder, cache):
    for where in (cache, folder / "cache"):
        first = load(folder, where)
        assert load(folder, where).cache_files == first.cache_files and len([*where.rglob("*.arrow")]) == 1
    status, content = os.stat(folder / "captions.tsv"), (folder / "captions.tsv").read_bytes()
    (folder / "captions.tsv").write_bytes(content.replace(b"Hund", b"Mund"))
    os.utime(folder / "captions.tsv", ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert load(folder, where)["caption"][0] == first["caption"][0].replace("Hund", "Mund") == "ein Mund"


def test_photos_behind_a_link_are_watched_too_and_a_link_to_a_folder_above_ends(folder, cache, tmp_path):
    (folder / "images").rename(tmp_path / "elsewhere")
    (folder / "images").symlink_to(tmp_path / "elsewhere")
    (folder / "again").symlink_to(folder)
    (tmp_path / "elsewhere" / "b.jpg").unlink()
    with pytest.warns(capscore.BenchmarkWarning):
        assert with_photos(load(folder, cache)) == [True, False, True]
    (tmp_path / "elsewhere" / "b.jpg").write_bytes(PHOTO)
    assert with_photos(load(folder, cache)) == [True, True, True]


def test_a_warning_is_given_whenever_the_rows_are_loaded_and_may_be_an_error(folder, cache):
    (folder / "captions.tsv").write_text("a.jpg\tein Hund\nz.jpg\tein Haus\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error", capscore.BenchmarkWarning)
        with pytest.raises(capscore.BenchmarkWarning, match="2 rows where 3 were published"):
            load(folder, cache)
    assert kept(cache) == []
    for _ in range(2):
        with pytest.warns(capscore.BenchmarkWarning) as caught:
            load(folder, cache)
        rows, photos = [str(warning.message) for warning in caught]
        assert "has 2 rows where 3 were published" in rows
        assert "1 of its 2 photos are in" in photos and "missing is z.jpg" in photos


def test_a_full_disk_leaves_nothing(folder, cache, monkeypatch):
    builder = build(folder, cache)
    full = mock.Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr("datasets.arrow_writer.ArrowWriter.write", full)
    with pytest.raises(capscore.ResultWriteError, match=r"in .*cache \(No space left on device\)"):
        builder.download_and_prepare()
    assert kept(cache) == []


def test_only_files_count_as_photos(folder, cache):
    images = folder / "images"
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        (images / name).unlink()
    (images / "a.jpg").mkdir()
    (images / "b.jpg").symlink_to(folder / "nowhere.jpg")
    (images / "linked.jpg").write_bytes(PHOTO)
    (images / "c.jpg").symlink_to(images / "linked.jpg")
    with pytest.warns(capscore.BenchmarkWarning, match=r"1 of its 3 photos are in"):
        assert with_photos(load(folder, cache)) == [False, False, True]
    with pytest.raises(capscore.MissingImages, match=r"no a\.jpg in .*images=True asks for all"):
        load(folder, cache, images=True)


def test_a_file_names_no_photo_outside_the_folders_of_photos(folder, cache, tmp_path):
    (tmp_path / "private.jpg").write_bytes(PHOTO)
    names = ["../private.jpg", "../../private.jpg", str(tmp_path / "private.jpg"), "x/../a.jpg"]
    (folder / "captions.tsv").write_text("".join(f"{name}\tein Hund\n" for name in names))
    with pytest.warns(capscore.BenchmarkWarning):
        assert with_photos(load(folder, cache)) == [False] * 4


def test_a_builder_is_sent_to_a_process_that_has_not_loaded_its_script(folder, cache):
    stream = build(folder, cache).as_streaming_dataset(split="test")
    sent = pickle.dumps(stream)
    del sys.modules["capscore_benchmarks.tiny"]
    assert list(pickle.loads(sent)) == list(stream)


def test_nothing_is_left_beside_the_scripts(folder, cache):
    """datasets 3 makes a lock beside the folder of a builder's file, which may be an installed one."""
    load(folder, cache)
    assert list(SCRIPTS.parent.glob("*.lock")) == []
    if datasets.__version__ < "4":
        copy = Path(sys.modules["capscore_benchmarks.tiny"].__file__)
        assert copy.is_relative_to(datasets.config.HF_MODULES_CACHE)
        assert copy.read_bytes() == (SCRIPTS / "tiny" / "tiny.py").read_bytes()
