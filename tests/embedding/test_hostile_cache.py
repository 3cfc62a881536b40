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
    cache = EmbeddingCache(tmp_path)
    cache.put("f00d", ["text:a", "text:b"], ROWS)
    return cache.path


def run(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def use(folder) -> list[str]:
    """Every use of a cache: right numbers or none, and what it warned of."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        cache = EmbeddingCache(folder)
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


@pytest.mark.parametrize("size", [99, 100, 4_096, 20_000])
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
    "a time beyond all calendars": "UPDATE backbones SET last_stored = 1e300",
    "a time of text": "UPDATE backbones SET last_stored = 'yesterday'",
    "a name of bytes": "UPDATE backbones SET name = x'fe'",
    "no backbones": "DROP TABLE backbones",
    "keys of bytes": "UPDATE embeddings SET key = x'ff' WHERE key = 'text:a'",
    "swapped keys": "UPDATE embeddings SET key = CASE key WHEN 'text:a' THEN 'x' ELSE 'text:a' END",
    "vectors of text": "UPDATE embeddings SET vector = 'aaaaaaaa'",
    "short vectors": "UPDATE embeddings SET vector = x'00'",
    "other numbers": "UPDATE embeddings SET vector = x'0000803f0000803f'",
    "no checksums": "UPDATE embeddings SET checksum = x''",
    "another version": "PRAGMA user_version = 99",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON embeddings BEGIN DELETE FROM embeddings; END",
    "no table": "DROP TABLE embeddings",
    "another table": "DROP TABLE embeddings; CREATE TABLE embeddings (title TEXT)",
}


@pytest.mark.parametrize("name", CONTENTS)
def test_content_that_another_program_wrote(tmp_path, database, name):
    run(database, *CONTENTS[name].split("; ") if "DROP" in CONTENTS[name] else [CONTENTS[name]])
    assert len(use(tmp_path)) <= 1


def test_a_view_in_place_of_the_table(tmp_path, database):
    view = "CREATE VIEW embeddings AS SELECT 'f00d' backbone, 'text:a' key, 1 checksum, x'00' vector"
    run(database, "DROP TABLE embeddings", view)
    (heard,) = use(tmp_path)
    assert "cannot be written" in heard


def test_a_link_that_leads_nowhere(tmp_path, database):
    database.unlink()
    os.symlink("nowhere.sqlite", database)
    assert len(use(tmp_path)) <= 1


@pytest.mark.parametrize(
    "path", ["a\0b", "/tmp/x\ud800", "/tmp/" + "x" * 300, "x/" * 4_000, "~nobody-of-this-name/x"]
)
def test_a_path_that_no_folder_can_have(path, monkeypatch):
    for given in (path, Path(path)):
        with pytest.raises(CapscoreError) as caught:
            resolve_cache(given)
        assert caught.value.option == "cache" and len(str(caught.value)) < 300
    if "\0" not in path and "\ud800" not in path:  # no variable can hold these
        monkeypatch.setenv("CAPSCORE_CACHE", path)
        with pytest.raises(CapscoreError):
            resolve_cache(None)


@pytest.mark.parametrize("path", ["/dev/full", "/proc/none", "/etc/hostname"])
def test_a_path_that_cannot_be_a_folder_is_gone_without(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert len(use(path)) <= 1


def test_a_name_of_a_backbone_that_is_not_text(tmp_path):
    cache = EmbeddingCache(tmp_path)
    cache.put("f00d", ["text:a"], ROWS[:1], name="model\udcff")
    assert cache.info()["backbones"][0]["name"] == "model\\udcff"
