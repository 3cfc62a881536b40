"""Cache files of any content and impossible paths: the run goes on or ends in one error; no wrong number."""

from __future__ import annotations

import os
import sqlite3
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from capscore.embedding.cache import EmbeddingCache, resolve_cache
from capscore.errors import CacheWarning, CapscoreError

ROWS = np.array([[0.25, 0.5], [0.75, 1.0]], np.float32)


@pytest.fixture
def database(tmp_path):
    """A cache file with two embeddings."""
    with EmbeddingCache(tmp_path) as cache:
        cache.put("f00d", ["text:a", "text:b"], ROWS)
    (path,) = tmp_path.glob("*.sqlite")
    run(path, "PRAGMA journal_mode=DELETE")
    return path


def run(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def use(folder) -> list[str]:
    """Every use of a cache: right numbers or none, and what it warned of."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with EmbeddingCache(folder) as cache:
            cache.info()
            for keys in (["text:a", "text:b"], ["text:a"]):
                for key, row in cache.get("f00d", 2, keys).items():
                    assert row.tolist() == ROWS["ab".index(key[-1])].tolist()
            cache.put("f00d", ["text:a"], ROWS[:1])
            cache.info()
    assert all(issubclass(warning.category, CacheWarning) for warning in heard)
    return [str(warning.message) for warning in heard]


@pytest.mark.parametrize("place", range(0, 400, 9))
def test_a_byte_of_the_schema(tmp_path, database, place):
    data = bytearray(database.read_bytes())
    data[data.index(b"CREATE TABLE") - 100 + place] ^= 0xFF
    database.write_bytes(data)
    assert len(use(tmp_path)) <= 1


def test_a_schema_that_is_not_utf_8(tmp_path, database):
    data = bytearray(database.read_bytes())
    data[data.index(b"CREATE TABLE entries") + 3] = 0xFF
    database.write_bytes(data)
    (heard,) = use(tmp_path)
    assert "is damaged (text in it is not UTF-8" in heard
    assert use(tmp_path) == []  # a new file took its place
    assert len(list(tmp_path.glob("*.corrupt"))) == 1


@pytest.mark.parametrize("size", [0, 1, 99, 100, 4_096, 20_000])
def test_a_file_that_is_cut(tmp_path, database, size):
    database.write_bytes(database.read_bytes()[:size])
    (heard,) = use(tmp_path)
    assert "is damaged" in heard
    assert use(tmp_path) == []


def test_a_folder_in_its_place(tmp_path, database):
    database.unlink()
    database.mkdir()
    (heard,) = use(tmp_path)
    assert "cannot be" in heard and "scores are the same" in heard


CONTENTS = {
    "owner of bytes": "UPDATE about SET fingerprint = x'ff', name = x'fe'",
    "another owner": "UPDATE about SET fingerprint = 'beef'",
    "no owner": "DELETE FROM about",
    "a time beyond all calendars": "UPDATE about SET created = 1e300",
    "a time of text": "UPDATE about SET created = 'yesterday'",
    "keys of bytes": "UPDATE entries SET key = x'ff' WHERE key = 'text:a'",
    "swapped keys": "UPDATE entries SET key = CASE key WHEN 'text:a' THEN 'x' ELSE 'text:a' END",
    "vectors of text": "UPDATE entries SET vector = 'aaaaaaaa'",
    "short vectors": "UPDATE entries SET vector = x'00'",
    "other numbers": "UPDATE entries SET vector = x'0000803f0000803f'",
    "no checksums": "UPDATE entries SET checksum = x''",
    "another version": "PRAGMA user_version = 99",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
    "no table": "DROP TABLE entries",
}


@pytest.mark.parametrize("name", CONTENTS)
def test_content_that_another_program_wrote(tmp_path, database, name):
    run(database, CONTENTS[name])
    assert len(use(tmp_path)) <= 1


def test_a_view_in_place_of_the_table(tmp_path, database):
    run(
        database, "DROP TABLE entries", "CREATE VIEW entries AS SELECT 'text:a' key, 1 checksum, x'00' vector"
    )
    (heard,) = use(tmp_path)
    assert "cannot be written" in heard


def test_a_link_that_leads_nowhere(tmp_path, database):
    database.unlink()
    os.symlink("nowhere.sqlite", database)
    assert len(use(tmp_path)) == 1


@pytest.mark.parametrize(
    "path", ["a\0b", "/tmp/x\ud800", "/tmp/" + "x" * 300, "x/" * 4_000, "~nobody-of-this-name/x"]
)
def test_a_path_that_no_folder_can_have(path, monkeypatch):
    for given in (path, Path(path)):
        with pytest.raises(CapscoreError, match="no folder can have this path") as caught:
            resolve_cache(given)
        assert caught.value.option == "cache" and len(str(caught.value)) < 300
    if "\0" not in path and "\ud800" not in path:  # no variable can hold these
        monkeypatch.setenv("CAPSCORE_CACHE", path)
        with pytest.raises(CapscoreError, match="CAPSCORE_CACHE"):
            resolve_cache(None)


@pytest.mark.parametrize("path", ["/dev/full", "/proc/none", "/etc/hostname"])
def test_a_path_that_cannot_be_a_folder_is_gone_without(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(use(path)) <= 1


def test_a_name_of_a_backbone_that_is_not_text(tmp_path):
    with EmbeddingCache(tmp_path) as cache:
        cache.put("f00d", ["text:a"], ROWS[:1], name="model\udcff")
        assert cache.info().backbones[0].name == "model\\udcff"
