"""Rows in blocks: what is put comes back, many at once, and a damaged block holds nothing."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest

from capscore.embedding import blocks
from capscore.embedding.cache import EmbeddingCache
from capscore.errors import CacheWarning

N = 3 * blocks.ROWS + 7
KEYS = [f"text:{number}" for number in range(N)]
ROWS = np.arange(2 * N, dtype=np.float32).reshape(N, 2)


@pytest.fixture
def cache(tmp_path):
    with EmbeddingCache(tmp_path / "cache") as cache:
        yield cache


def sql(cache: EmbeddingCache, statement: str, *values: object) -> list[tuple]:
    (path,) = cache.folder.glob("*.sqlite")
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement, values).fetchall()


def rows_of(found: dict[str, np.ndarray]) -> dict[str, list[float]]:
    return {key: row.tolist() for key, row in found.items()}


def test_many_rows_are_few_entries(cache):
    cache.put("f00d", KEYS, ROWS)
    assert sql(cache, "SELECT n FROM blocks") == [(64,), (64,), (64,), (7,)]
    assert sql(cache, "SELECT count(*) FROM entries") == [(0,)]
    assert cache.info().entries == N and cache.clear() == N


def test_few_rows_stand_alone(cache):
    cache.put("f00d", KEYS[: blocks.ROWS - 1], ROWS[: blocks.ROWS - 1])
    assert sql(cache, "SELECT count(*) FROM entries") == [(63,)]
    cache.put("f00d", KEYS, ROWS)
    cache.put("f00d", ["text:alone"], ROWS[:1])
    assert len(cache.get("f00d", 2, [*KEYS, "text:alone"])) == N + 1


def test_any_order_and_any_part_come_back(cache):
    cache.put("f00d", KEYS, ROWS)
    draws = np.random.default_rng(0)
    for size in (1, 5, 100, N):
        asked = draws.permutation(N)[:size].tolist()
        found = cache.get("f00d", 2, [*(KEYS[row] for row in asked), "text:none"])
        assert rows_of(found) == {KEYS[row]: [2.0 * row, 2.0 * row + 1] for row in asked}


def test_visit_says_what_it_found(cache):
    cache.put("f00d", KEYS, ROWS)
    matrix = np.zeros((3, 2), np.float32)

    def take(places, rows):
        assert rows.dtype == np.float32
        matrix[places] = rows

    found = cache.visit("f00d", 2, [KEYS[70], "text:none", KEYS[3]], take)
    assert found.tolist() == [True, False, True]
    assert matrix.tolist() == [[140.0, 141.0], [0.0, 0.0], [6.0, 7.0]]


def test_the_last_row_counts_wherever_it_was_put(cache):
    def now(key):
        return cache.get("f00d", 2, [key])[key].tolist()

    cache.put("f00d", KEYS, ROWS)
    cache.put("f00d", KEYS[:70], ROWS[:70] + 0.5)
    assert now(KEYS[0]) == [0.5, 1.5] and now(KEYS[70]) == [140.0, 141.0]
    cache.put("f00d", [KEYS[0]], np.array([[7.0, 7.0]]))
    assert now(KEYS[0]) == [7.0, 7.0]
    cache.put("f00d", KEYS, ROWS + 2)
    assert now(KEYS[0]) == [2.0, 3.0]
    # in one call too
    cache.put("f00d", [*KEYS, KEYS[5]], np.concatenate([ROWS, [[9.0, 9.0]]]))
    assert now(KEYS[5]) == [9.0, 9.0]


def test_other_processes_rows_are_seen(cache):
    cache.put("f00d", KEYS[:64], ROWS[:64])
    with EmbeddingCache(cache.folder) as other:
        assert len(other.get("f00d", 2, KEYS)) == 64
        cache.put("f00d", KEYS[64:], ROWS[64:])
        assert len(other.get("f00d", 2, KEYS)) == N


def test_a_key_of_the_same_hash_is_not_taken_for_another(cache, monkeypatch):
    monkeypatch.setattr(blocks, "_hashes", lambda keys: np.full(len(keys), 5, "<u8"))
    cache.put("f00d", KEYS[:64], ROWS[:64])
    # the last of the keys of one hash can be found, the others count as absent; none gets another's row
    assert rows_of(cache.get("f00d", 2, KEYS[:64])) == {KEYS[63]: [126.0, 127.0]}


def test_rows_of_another_length_are_absent(cache):
    cache.put("f00d", KEYS, ROWS)
    assert cache.get("f00d", 3, KEYS) == {}


def test_a_sign_between_keys_within_a_key(cache):
    odd = [f"text\0{number}" for number in range(100)]
    cache.put("f00d", odd, ROWS[:100])
    assert rows_of(cache.get("f00d", 2, odd)) == dict(zip(odd, ROWS[:100].tolist(), strict=True))


def test_a_file_of_an_older_version_gets_blocks_when_it_is_written(cache):
    cache.put("f00d", KEYS[:3], ROWS[:3])
    assert sql(cache, "SELECT name FROM sqlite_master WHERE name = 'blocks'") == []
    assert len(cache.get("f00d", 2, KEYS)) == 3 and cache.info().entries == 3
    cache.put("f00d", KEYS[3:], ROWS[3:])
    assert rows_of(cache.get("f00d", 2, KEYS)) == dict(zip(KEYS, ROWS.tolist(), strict=True))


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE blocks SET vectors = zeroblob(512) WHERE id = 2",
        "UPDATE blocks SET vectors = substr(vectors, 1, 100) WHERE id = 2",
        "UPDATE blocks SET vectors = 'text' WHERE id = 2",
        "UPDATE blocks SET checksum = x'00' WHERE id = 2",
        "UPDATE blocks SET keys = replace(CAST(keys AS TEXT), '8', '9') WHERE id = 2",
        "UPDATE blocks SET keys = 7 WHERE id = 2",
        "UPDATE blocks SET hashes = zeroblob(512) WHERE id = 2",
        "UPDATE blocks SET hashes = x'0102' WHERE id = 2",
        "UPDATE blocks SET n = 63 WHERE id = 2",
        "UPDATE blocks SET n = 'many' WHERE id = 2",
        "UPDATE blocks SET n = 9000000000000000000 WHERE id = 2",
        "UPDATE blocks SET n = -1 WHERE id = 2",
        "UPDATE blocks SET vectors = (SELECT vectors FROM blocks WHERE id = 1) WHERE id = 2",
        "UPDATE blocks SET id = -5 WHERE id = 2",
        "DELETE FROM blocks WHERE id = 2",
    ],
)
def test_a_damaged_block_is_absent_and_can_be_put_again(cache, damage):
    cache.put("f00d", KEYS, ROWS)
    sql(cache, damage)
    expected = {key: row for key, row in zip(KEYS, ROWS.tolist(), strict=True)}
    found = rows_of(cache.get("f00d", 2, KEYS))
    assert found == {key: expected[key] for key in [*KEYS[:64], *KEYS[128:]]}
    cache.put("f00d", KEYS[64:128], ROWS[64:128])
    assert rows_of(cache.get("f00d", 2, KEYS)) == expected


def test_a_block_of_an_impossible_number_is_damage_of_the_file(cache):
    cache.put("f00d", KEYS, ROWS)
    sql(cache, "UPDATE blocks SET id = 9000000000000000000 WHERE id = 2")
    with pytest.warns(CacheWarning, match="is damaged .its last block has the number 9000000000000000000"):
        assert cache.get("f00d", 2, KEYS) == {}
    cache.put("f00d", KEYS, ROWS)
    assert len(cache.get("f00d", 2, KEYS)) == N
