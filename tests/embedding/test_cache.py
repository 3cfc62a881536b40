"""The embedding cache: what is put comes back, from any process; nothing that breaks it breaks scoring."""

from __future__ import annotations

import os
import pickle
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

import capscore.embedding.cache
from capscore.embedding.cache import EmbeddingCache, resolve_cache
from capscore.errors import CacheWarning, CapscoreError

from ..processes import Process

ROOT = Path(__file__).parents[2]
FINGERPRINT = "0123456789abcdef0123456789abcdef"
ROWS = np.array([[1.0, -2.5, 0.125], [0.0, 3.0, 1e-30], [-0.0, 7.0, 1e30]], np.float32)
KEYS = ["text:a", "text:b", "file:c"]

# What the processes below begin with. All write the same row n, so that it does not matter who was last.
WORKER = """
import sys, time
import numpy as np
from pathlib import Path
import capscore.embedding.cache
from capscore.embedding.cache import EmbeddingCache

def row(number):
    return np.full(64, number, np.float32) + np.arange(64, dtype=np.float32) / 64

folder, me, start = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
time.sleep(max(0.0, start - time.time()))
"""


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def cache(tmp_path):
    with EmbeddingCache(tmp_path / "cache") as cache:
        yield cache


def databases(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.sqlite"))


def sql(path: Path, statement: str, *values: object) -> list[tuple]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(statement, values).fetchall()


def same(found: dict, expected: dict) -> bool:
    return found.keys() == expected.keys() and all(np.array_equal(found[key], expected[key]) for key in found)


def run_workers(body: str, folder: Path, count: int) -> list[str]:
    """Run WORKER + body in `count` processes that begin together; → what each wrote to stderr."""
    start = time.time() + (0.3 if count > 1 else 0)
    workers = [Process(["-c", WORKER + body, folder, number, start], cwd=ROOT) for number in range(count)]
    heard = [worker.communicate(timeout=60)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * count, heard
    return heard


def expected_row(number: int) -> np.ndarray:
    return np.array([number + step / 64 for step in range(64)], np.float32)


# What is put comes back


def test_rows_come_back_to_the_bit(cache):
    cache.put(FINGERPRINT, KEYS, ROWS, name="a/b")
    found = cache.get(FINGERPRINT, 3, ["file:c", "text:a", "nobody", "text:a"])
    assert sorted(found) == ["file:c", "text:a"]
    assert found["text:a"].dtype == np.float32 and found["text:a"].shape == (3,)
    assert found["text:a"].tobytes() == bytes.fromhex("0000803f 000020c0 0000003e")
    assert found["file:c"].tobytes() == bytes.fromhex("00000080 0000e040 caf24971")


def test_what_is_on_the_disk(cache):
    cache.put(FINGERPRINT, ["text:a"], ROWS[:1], name="a/b")
    (path,) = databases(cache.folder)
    assert re.fullmatch(FINGERPRINT + r"\.[0-9a-f]{16}\.v1\.sqlite", path.name)
    vector = bytes.fromhex("0000803f 000020c0 0000003e")
    checksum = xxhash.xxh3_64_intdigest(b"text:a" + vector).to_bytes(8, "big")
    assert sql(path, "SELECT * FROM entries") == [("text:a", checksum, vector)]
    assert sql(path, "SELECT fingerprint, name FROM about") == [(FINGERPRINT, "a/b")]
    assert sql(path, "PRAGMA integrity_check") == [("ok",)]


def test_another_run_finds_them(cache):
    cache.put(FINGERPRINT, KEYS, ROWS)
    with EmbeddingCache(cache.folder) as other:
        assert same(other.get(FINGERPRINT, 3, KEYS), dict(zip(KEYS, ROWS, strict=True)))


def test_the_last_row_put_stays(cache):
    cache.put(FINGERPRINT, ["text:a"], ROWS[:1])
    cache.put(FINGERPRINT, ["text:a", "text:a"], ROWS[1:])
    assert cache.get(FINGERPRINT, 3, ["text:a"])["text:a"].tolist() == [0.0, 7.0, float(np.float32(1e30))]


def test_fingerprints_do_not_mix(cache):
    names = ["model@v1", "model@v2", "MODEL@v1", "../outside", "f00d", "F00D", ""]
    for number, name in enumerate(names):
        cache.put(name, ["text:a"], np.full((1, 2), number))
    for number, name in enumerate(names):
        assert cache.get(name, 2, ["text:a"])["text:a"].tolist() == [number, number]
    assert {backbone.fingerprint for backbone in cache.info().backbones} == set(names)
    assert len(databases(cache.folder)) == 7
    assert sorted(path.name for path in cache.folder.parent.iterdir()) == ["cache"]


def test_many_keys_at_once(cache):
    keys = [f"text:{number}" for number in range(5000)]
    rows = np.arange(10000, dtype=np.float32).reshape(5000, 2)
    cache.put(FINGERPRINT, keys, rows)
    found = cache.get(FINGERPRINT, 2, [*keys[::-1], "text:none"])
    assert len(found) == 5000
    assert np.array_equal(np.stack([found[key] for key in keys]), rows)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["one", "two"]), st.lists(st.sampled_from("abcdef"), max_size=8), st.booleans()
        ),
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_any_puts_and_gets_are_those_of_a_dictionary(steps, random):
    with tempfile.TemporaryDirectory() as folder, EmbeddingCache(folder) as cache:
        truth: dict[str, dict[str, list[float]]] = {"one": {}, "two": {}}
        for number, (fingerprint, keys, reopen) in enumerate(steps):
            rows = [[float(number), float(place)] for place in range(len(keys))]
            cache.put(fingerprint, keys, np.array(rows, np.float32).reshape(len(keys), 2))
            truth[fingerprint].update(zip(keys, rows, strict=True))
            if reopen:
                cache.close()
            asked = random.choices("abcdefgh", k=10)
            for name, known in truth.items():
                found = cache.get(name, 2, asked)
                assert {key: row.tolist() for key, row in found.items()} == {
                    key: known[key] for key in asked if key in known
                }


def test_nothing_asked_nothing_made(cache):
    assert cache.get(FINGERPRINT, 3, KEYS) == {}
    cache.put(FINGERPRINT, [], np.zeros((0, 3)))
    assert cache.info().entries == 0 and cache.clear() == 0
    assert not cache.folder.exists()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_numbers_are_refused(cache, bad):
    rows = ROWS.copy()
    rows[1, 2] = bad
    with pytest.raises(ValueError, match=r"row 1 \('text:b'\) holds NaN or infinity"):
        cache.put(FINGERPRINT, KEYS, rows)
    assert cache.get(FINGERPRINT, 3, KEYS) == {}


@pytest.mark.parametrize("shape", [(2, 3), (4, 3), (9,), (3, 1, 3)])
def test_rows_of_another_shape_are_refused(cache, shape):
    with pytest.raises(
        ValueError, match=rf"rows of shape {re.escape(str(shape))} for 3 keys: expected \(3, d\)"
    ):
        cache.put(FINGERPRINT, KEYS, np.zeros(shape))


def test_a_folder_with_an_odd_name(tmp_path):
    with EmbeddingCache(tmp_path / "50% of #1? größe & more") as cache:
        cache.put(FINGERPRINT, KEYS, ROWS)
        cache.close()
        assert len(cache.get(FINGERPRINT, 3, KEYS)) == 3


# Where it is


def test_resolve(tmp_path, monkeypatch):
    monkeypatch.setenv("CAPSCORE_CACHE", str(tmp_path / "chosen"))
    assert resolve_cache(None).folder == resolve_cache(True).folder == tmp_path / "chosen"
    assert resolve_cache(False) is None
    assert resolve_cache(str(tmp_path)).folder == resolve_cache(tmp_path).folder == tmp_path
    cache = EmbeddingCache(tmp_path)
    assert resolve_cache(cache) is cache
    for wrong in (0, 1, 3.5, "", [str(tmp_path)]):
        with pytest.raises(CapscoreError, match="expected True, False, a folder, or an EmbeddingCache"):
            resolve_cache(wrong)


def test_default_folder_is_the_users_cache(tmp_path, monkeypatch):
    import platformdirs

    monkeypatch.setenv("CAPSCORE_CACHE", "")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name, **_: str(tmp_path / name))
    assert EmbeddingCache().folder == tmp_path / "capscore" / "embeddings"


def test_a_relative_folder_stays_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cache = EmbeddingCache("here")
    monkeypatch.chdir("/")
    assert cache.folder == tmp_path / "here"


# Counting and clearing


def test_info_counts(cache):
    before = time.time()
    cache.put("f00d", KEYS, ROWS, name="family/first")
    cache.put("f00d", KEYS[:1], ROWS[:1])  # neither a new entry nor a lost name
    cache.put("beef", KEYS[:2], ROWS[:2])
    os.utime(databases(cache.folder)[0], (1e9, 1e9))  # "beef" was last used in 2001
    info = cache.info()
    assert (info.folder, info.entries) == (cache.folder, 5)
    assert [(b.fingerprint, b.name, b.entries, b.readable) for b in info.backbones] == [
        ("f00d", "family/first", 3, True),
        ("beef", "", 2, True),
    ]
    assert info.backbones[1].last_used.timestamp() == 1e9
    assert before - 1 <= info.backbones[1].created.timestamp() <= time.time() + 1
    on_disk = sum(path.stat().st_size for path in cache.folder.iterdir())
    assert info.bytes == on_disk == sum(backbone.bytes for backbone in info.backbones)
    cache.put("beef", KEYS[:1], ROWS[:1], name="family/second")
    assert [(b.name, b.entries) for b in cache.info().backbones] == [
        ("family/second", 2),
        ("family/first", 3),
    ]


def test_looking_up_counts_as_use(cache):
    cache.put(FINGERPRINT, KEYS, ROWS)
    os.utime(databases(cache.folder)[0], (1e9, 1e9))
    cache.get(FINGERPRINT, 3, KEYS)
    assert cache.info().backbones[0].last_used.timestamp() > 1.5e9


def test_clear_one_then_all(cache):
    cache.put("f00d", KEYS, ROWS)
    cache.put("Odd/Name", KEYS[:2], ROWS[:2])
    cache.put("beef", KEYS[:1], ROWS[:1])
    assert cache.clear("Odd/Name") == 2
    assert cache.clear("nobody") == 0
    assert cache.get("Odd/Name", 3, KEYS) == {}
    assert len(cache.get("f00d", 3, KEYS)) == 3
    assert cache.clear() == 4
    assert cache.info().bytes == 0 and cache.info().backbones == ()
    assert [path.name for path in cache.folder.iterdir()] == ["capscore.lock"]


def test_clear_leaves_other_peoples_files(cache):
    cache.put(FINGERPRINT, KEYS, ROWS)
    others = ["photos.sqlite", "notes.txt", "f00d.v1.sqlite", "f00d.0123456789abcdef.v1.sqlite.bak"]
    for name in others:
        (cache.folder / name).write_text("mine")
    cache.clear()
    assert sorted(path.name for path in cache.folder.iterdir()) == sorted([*others, "capscore.lock"])


def test_others_notice_that_it_was_cleared(cache):
    cache.put(FINGERPRINT, KEYS, ROWS)
    with EmbeddingCache(cache.folder) as other:
        assert other.clear() == 3
        assert cache.get(FINGERPRINT, 3, KEYS) == {}
        cache.put(FINGERPRINT, KEYS[:2], ROWS[:2])
        assert len(other.get(FINGERPRINT, 3, KEYS)) == 2


@pytest.mark.parametrize("use", ["get", "put"])
def test_a_file_cleared_between_finding_and_opening_it(tmp_path, use):
    with EmbeddingCache(tmp_path) as other:
        other.put(FINGERPRINT, KEYS, ROWS)

        class Unlucky(EmbeddingCache):
            def _connect(self, path):
                other.clear()
                self._connect = super()._connect
                return super()._connect(path)

        with Unlucky(tmp_path) as cache:
            if use == "put":
                cache.put(FINGERPRINT, KEYS[:1], ROWS[:1])
            assert list(cache.get(FINGERPRINT, 3, KEYS)) == (KEYS[:1] if use == "put" else [])
        assert len(databases(tmp_path)) == (use == "put")


def test_clear_says_what_it_cannot_do(cache, tmp_path):
    cache.put(FINGERPRINT, KEYS, ROWS)
    impatient = EmbeddingCache(cache.folder, timeout=0.05)
    with closing(sqlite3.connect(cache.folder / "capscore.lock", isolation_level=None)) as busy:
        busy.execute("BEGIN EXCLUSIVE")
        with pytest.raises(CapscoreError, match=r"cannot be cleared: database is locked"):
            impatient.clear()
    assert impatient.clear() == 3


# Damage


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE entries SET vector = substr(vector, 1, 6) WHERE key = 'text:b'",  # cut in half
        "UPDATE entries SET vector = vector || x'00000000' WHERE key = 'text:b'",  # too long
        "UPDATE entries SET vector = zeroblob(12) WHERE key = 'text:b'",
        "UPDATE entries SET vector = (SELECT vector FROM entries WHERE key = 'text:a'), checksum ="
        " (SELECT checksum FROM entries WHERE key = 'text:a') WHERE key = 'text:b'",  # another's row
        "UPDATE entries SET checksum = x'00' WHERE key = 'text:b'",
        "UPDATE entries SET vector = 7 WHERE key = 'text:b'",
        "UPDATE entries SET vector = CAST(x'ff00ff00ff00ff00ff00ff00' AS TEXT) WHERE key = 'text:b'",
    ],
)
def test_a_damaged_entry_is_absent_and_can_be_put_again(cache, damage):
    cache.put(FINGERPRINT, KEYS, ROWS)
    sql(databases(cache.folder)[0], damage)
    assert sorted(cache.get(FINGERPRINT, 3, KEYS)) == ["file:c", "text:a"]
    cache.put(FINGERPRINT, ["text:b"], ROWS[1:2])
    assert same(cache.get(FINGERPRINT, 3, KEYS), dict(zip(KEYS, ROWS, strict=True)))


def test_an_entry_of_another_length_is_absent(cache):
    cache.put(FINGERPRINT, KEYS, ROWS)
    assert cache.get(FINGERPRINT, 4, KEYS) == {}


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def cut_inside_a_page(path: Path) -> None:
    os.truncate(path, 1000)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def garbage(path: Path) -> None:
    path.write_bytes(np.random.default_rng(0).bytes(50_000))


def other_database(path: Path) -> None:
    path.unlink()
    sql(path, "CREATE TABLE songs (title TEXT)")


def other_backbone(path: Path) -> None:
    sql(path, "UPDATE about SET fingerprint = 'somebody else'")


def pages_overwritten(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(3 * 16384)
        file.write(b"\xa5" * (size - 3 * 16384))


@pytest.mark.parametrize(
    "damage",
    [cut_in_half, cut_inside_a_page, empty, garbage, other_database, other_backbone, pages_overwritten],
)
@pytest.mark.parametrize("first", ["get", "put"])
def test_a_damaged_file_is_set_aside(cache, damage, first):
    keys = [f"text:{number}" for number in range(300)]
    rows = np.random.default_rng(1).standard_normal((300, 512)).astype(np.float32)
    cache.put(FINGERPRINT, keys, rows, name="a/b")
    cache.put("beef", KEYS, ROWS)
    cache.close()
    path = next(path for path in databases(cache.folder) if path.name.startswith(FINGERPRINT))
    damage(path)
    with pytest.warns(CacheWarning, match=r"is damaged \(.*\): it is now .*\.corrupt, and its emb") as heard:
        if first == "get":
            assert cache.get(FINGERPRINT, 512, keys) == {}
        cache.put(FINGERPRINT, keys[:200], rows[:200])
    assert len(heard) == 1
    assert heard[0].filename == __file__
    assert path.with_suffix(".corrupt").exists() and not path.exists()
    found = cache.get(FINGERPRINT, 512, keys)
    assert same(found, dict(zip(keys[:200], rows[:200], strict=True)))
    assert len(cache.get("beef", 3, KEYS)) == 3  # the others lost nothing
    assert cache.clear(FINGERPRINT) == 200
    assert not path.with_suffix(".corrupt").exists()


def test_a_file_cut_while_it_is_open(cache):
    keys = [f"text:{number}" for number in range(300)]
    rows = np.random.default_rng(1).standard_normal((300, 512)).astype(np.float32)
    cache.put(FINGERPRINT, keys, rows)
    cache.close()
    cache.get(FINGERPRINT, 512, keys[:1])
    cut_in_half(databases(cache.folder)[0])
    with pytest.warns(CacheWarning, match="is damaged"):
        found = cache.get(FINGERPRINT, 512, keys)
        cache.put(FINGERPRINT, keys, rows)
    assert all(np.array_equal(found[key], rows[keys.index(key)]) for key in found)
    assert same(cache.get(FINGERPRINT, 512, keys), dict(zip(keys, rows, strict=True)))


def test_info_of_a_damaged_file(cache):
    cache.put(FINGERPRINT, KEYS, ROWS)
    cache.close()
    garbage(databases(cache.folder)[0])
    info = cache.info()
    assert [(b.fingerprint, b.entries, b.readable, b.created) for b in info.backbones] == [
        (FINGERPRINT, 0, False, None)
    ]
    assert info.bytes == 50_000
    assert cache.clear() == 0 and cache.info().bytes == 0


# Several processes and threads


OVERLAPPING = """
cache = EmbeddingCache(folder)
for first in range(0, 400, 20):
    first = (first + me * 100) % 400
    numbers = list(range(first, first + 40))
    cache.put("f00d", [f"text:{n}" for n in numbers], np.stack([row(n) for n in numbers]), name="a/b")
    for key, found in cache.get("f00d", 64, [f"text:{n}" for n in range(440)]).items():
        assert np.array_equal(found, row(int(key[5:]))), key
"""


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_eight_processes_write_at_once(tmp_path, journal):
    force = "" if journal == "wal" else "capscore.embedding.cache._on_network = lambda folder: True\n"
    heard = run_workers(force + OVERLAPPING, tmp_path, 8)
    assert heard == [""] * 8
    (path,) = databases(tmp_path)
    if not capscore.embedding.cache._on_network(tmp_path):
        assert sql(path, "PRAGMA journal_mode") == [(journal,)]
    found = EmbeddingCache(tmp_path).get("f00d", 64, [f"text:{number}" for number in range(440)])
    # The last batch begins at (380 + 100 · me) mod 400 + 0…39, so that 0…419 were written.
    assert same(found, {f"text:{number}": expected_row(number) for number in range(420)})
    assert sql(path, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("damage", [cut_in_half, empty, garbage])
def test_four_processes_find_the_damage_at_once(tmp_path, damage):
    with EmbeddingCache(tmp_path) as cache:
        numbers = range(420)
        cache.put("f00d", [f"text:{n}" for n in numbers], np.stack([expected_row(n) for n in numbers]))
    (path,) = databases(tmp_path)
    damage(path)
    heard = run_workers(OVERLAPPING, tmp_path, 4)
    assert "".join(heard).count("CacheWarning") == 1, heard  # who set it aside says so
    assert len(databases(tmp_path)) == 1
    found = EmbeddingCache(tmp_path).get("f00d", 64, [f"text:{n}" for n in range(420)])
    assert same(found, {f"text:{n}": expected_row(n) for n in range(420)})


def test_clearing_while_others_write(tmp_path):
    body = """
cache = EmbeddingCache(folder)
for turn in range(30):
    if me == 0:
        cache.clear()
        time.sleep(0.005)
    else:
        cache.put("f00d", [f"text:{n}" for n in range(20)], np.stack([row(n) for n in range(20)]))
        for key, found in cache.get("f00d", 64, [f"text:{n}" for n in range(20)]).items():
            assert np.array_equal(found, row(int(key[5:]))), key
"""
    assert run_workers(body, tmp_path, 3) == [""] * 3
    with EmbeddingCache(tmp_path) as cache:
        cache.put("f00d", ["text:7"], expected_row(7)[None])
        assert same(cache.get("f00d", 64, ["text:7"]), {"text:7": expected_row(7)})


def test_threads_share_one_cache(cache):
    failed = []

    def work(me: int) -> None:
        try:
            for first in range(0, 200, 10):
                keys = [f"text:{n}" for n in range(first, first + 20)]
                cache.put(FINGERPRINT, keys, np.stack([expected_row(n) for n in range(first, first + 20)]))
                assert len(cache.get(FINGERPRINT, 64, keys)) == 20
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    found = cache.get(FINGERPRINT, 64, [f"text:{n}" for n in range(210)])
    assert same(found, {f"text:{n}": expected_row(n) for n in range(210)})


def test_a_pickled_cache_opens_its_own_files(cache):
    cache.put(FINGERPRINT, KEYS, ROWS)
    with pickle.loads(pickle.dumps(EmbeddingCache(cache.folder, timeout=1.5))) as copy:
        assert (copy.folder, copy.timeout) == (cache.folder, 1.5)
    with pickle.loads(pickle.dumps(cache)) as copy:
        assert len(copy.get(FINGERPRINT, 3, KEYS)) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_after_a_fork_both_sides_go_on(tmp_path):
    body = """
import os, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # forking beside NumPy's own threads
cache = EmbeddingCache(folder)
cache.put("f00d", ["text:0"], row(0)[None])
children = []
for child in range(1, 4):
    pid = os.fork()
    if pid == 0:
        assert not cache._open  # the parent's connections are out of reach
        thread = threading.Thread(target=cache.get, args=("f00d", 64, ["text:0"]), daemon=True)
        thread.start()
        thread.join(20)
        assert not thread.is_alive()  # and no lock of the parent's is held
        for turn in range(20):
            numbers = [0, child, 10 * child + turn]
            cache.put("f00d", [f"text:{n}" for n in numbers], np.stack([row(n) for n in numbers]))
        sys.exit(0)  # with everything that Python does at its end
    children.append(pid)
for turn in range(100, 120):
    cache.put("f00d", [f"text:{turn}"], row(turn)[None])
assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0]
cache.put("f00d", ["text:200"], row(200)[None])
"""
    assert run_workers(body, tmp_path, 1) == [""]
    numbers = {0, 1, 2, 3, 200, *range(100, 120), *range(10, 30), *range(20, 40), *range(30, 50)}
    found = EmbeddingCache(tmp_path).get("f00d", 64, [f"text:{n}" for n in range(300)])
    assert same(found, {f"text:{n}": expected_row(n) for n in numbers})
    assert sql(databases(tmp_path)[0], "PRAGMA integrity_check") == [("ok",)]


# What the disk, the folder and people do


class SmallDisk(EmbeddingCache):
    """SQLite itself says "database or disk is full" past 20 pages of 16 KiB."""

    def _connect(self, path):
        connection = super()._connect(path)
        connection.execute("PRAGMA max_page_count=20")
        return connection


def test_disk_full(tmp_path):
    rows = np.random.default_rng(0).standard_normal((400, 512)).astype(np.float32)
    keys = [f"text:{number}" for number in range(400)]
    with SmallDisk(tmp_path) as cache:
        cache.put(FINGERPRINT, keys[:50], rows[:50])
        with pytest.warns(CacheWarning, match=r"cannot be written \(database or disk is full\)") as heard:
            cache.put(FINGERPRINT, keys[50:], rows[50:])
            cache.put(FINGERPRINT, keys[50:60], rows[50:60])  # not tried, and not said again
        assert len(heard) == 1 and heard[0].filename == __file__
        # All or nothing, and what was there is still read.
        assert same(cache.get(FINGERPRINT, 512, keys), dict(zip(keys[:50], rows[:50], strict=True)))
    assert sql(databases(tmp_path)[0], "PRAGMA integrity_check") == [("ok",)]
    with EmbeddingCache(tmp_path) as cache:  # room again
        cache.put(FINGERPRINT, keys, rows)
        assert len(cache.get(FINGERPRINT, 512, keys)) == 400


FILLING = """
import warnings
cache = EmbeddingCache(folder / "cache")
rows = np.random.default_rng(0).standard_normal((2000, 512)).astype(np.float32)
keys = [f"text:{n}" for n in range(2000)]
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    for first in range(0, 2000, 50):
        cache.put("f00d", keys[first:first + 50], rows[first:first + 50])
        assert set(keys[:50]) <= set(cache.get("f00d", 512, keys)) or not EXPECT_SOME
said = [str(warning.message) for warning in heard]
assert len(said) == 1 and "cannot be written (" + SAID in said[0], said
found = cache.get("f00d", 512, keys)
assert len(found) % 50 == 0 and len(found) < 2000, len(found)
assert all(np.array_equal(found[key], rows[keys.index(key)]) for key in found)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no file size limits on this system")
@pytest.mark.parametrize("limit", [0, 60_000, 700_000])
def test_files_may_not_grow(tmp_path, limit):
    body = f"""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
SAID, EXPECT_SOME = "", {limit > 500_000}
"""
    assert run_workers(body + FILLING, tmp_path, 1) == [""]
    for path in databases(tmp_path / "cache"):
        assert sql(path, "PRAGMA integrity_check") == [("ok",)]
    with EmbeddingCache(tmp_path / "cache") as cache:
        cache.put("f00d", KEYS, ROWS)
        assert len(cache.get("f00d", 3, KEYS)) == 3


def can_mount() -> bool:
    try:
        command = ["unshare", "--mount", "mount", "-t", "tmpfs", "-o", "size=64k", "none", "/mnt"]
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize("size", ["8k", "64k", "1m"])
def test_a_disk_that_is_really_full(tmp_path, size):
    if not can_mount():
        pytest.skip("may not mount a small disk here")
    body = f"SAID, EXPECT_SOME = 'database or disk is full', {size == '1m'}\n" + FILLING
    script = 'mount -t tmpfs -o size=$0 none "$1" && exec "$2" -c "$3" "$1" 0 0'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, size, tmp_path, sys.executable, WORKER + body],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "cache").write_text("not a folder")
    for use in ("get", "put"):
        cache = EmbeddingCache(tmp_path / "cache")
        with pytest.warns(CacheWarning, match=r"cannot be .* \(it is a file, not a folder\)") as heard:
            for _ in range(2):
                if use == "put":
                    cache.put(FINGERPRINT, KEYS, ROWS)
                assert cache.get(FINGERPRINT, 3, KEYS) == {}
                cache.put(FINGERPRINT, KEYS, ROWS)
        assert len(heard) == 1
        assert cache.info().entries == 0
        with pytest.raises(CapscoreError, match="cannot be cleared"):
            cache.clear()
    assert (tmp_path / "cache").read_text() == "not a folder"


def test_a_folder_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    cache = EmbeddingCache(tmp_path / "file" / "cache")
    with pytest.warns(CacheWarning, match=r"cannot be written \(.*Not a directory") as heard:
        cache.put(FINGERPRINT, KEYS, ROWS)
        assert cache.get(FINGERPRINT, 3, KEYS) == {}
    assert len(heard) == 1


@pytest.mark.skipif(getattr(os, "geteuid", lambda: 0)() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o500)
    cache = EmbeddingCache(tmp_path / "cache")
    with pytest.warns(CacheWarning, match="cannot be written"):
        cache.put(FINGERPRINT, KEYS, ROWS)


def test_a_file_that_another_process_keeps_locked(cache):
    cache.put(FINGERPRINT, KEYS[:1], ROWS[:1])
    impatient = EmbeddingCache(cache.folder, timeout=0.05)
    with closing(sqlite3.connect(databases(cache.folder)[0], isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        with pytest.warns(CacheWarning, match=r"cannot be written \(database is locked\)") as heard:
            impatient.put(FINGERPRINT, KEYS, ROWS)
            impatient.put(FINGERPRINT, KEYS, ROWS)
        assert len(heard) == 1
        assert list(impatient.get(FINGERPRINT, 3, KEYS)) == ["text:a"]


def test_a_lock_that_ends_in_time_is_waited_for(cache):
    cache.put(FINGERPRINT, KEYS[:1], ROWS[:1])
    path = databases(cache.folder)[0]
    busy = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    busy.execute("BEGIN IMMEDIATE")
    threading.Timer(0.2, busy.close).start()
    cache.put(FINGERPRINT, KEYS, ROWS)
    assert len(cache.get(FINGERPRINT, 3, KEYS)) == 3


def test_an_interrupt_within_put_leaves_all_or_nothing(cache, monkeypatch):
    cache.put(FINGERPRINT, KEYS[:1], ROWS[:1])
    real, calls = capscore.embedding.cache._checksum, []

    def interrupted(key, vector):
        calls.append(key)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return real(key, vector)

    monkeypatch.setattr(capscore.embedding.cache, "_checksum", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.put(FINGERPRINT, KEYS, -ROWS)
    monkeypatch.undo()
    with EmbeddingCache(cache.folder, timeout=0.05) as other:  # no lock is left
        assert same(other.get(FINGERPRINT, 3, KEYS), {"text:a": ROWS[0]})
        other.put(FINGERPRINT, ["text:b"], ROWS[1:2])
    cache.put(FINGERPRINT, ["file:c"], ROWS[2:])
    assert same(cache.get(FINGERPRINT, 3, KEYS), dict(zip(KEYS, ROWS, strict=True)))
    assert sql(databases(cache.folder)[0], "PRAGMA integrity_check") == [("ok",)]


def test_a_killed_process_leaves_whole_batches(tmp_path):
    body = """
cache = EmbeddingCache(folder)
for batch in range(10000):
    numbers = range(10 * batch, 10 * batch + 10)
    cache.put("f00d", [f"text:{n}" for n in numbers], np.stack([row(n) for n in numbers]))
"""
    worker = Process(["-c", WORKER + body, tmp_path, 0, 0], cwd=ROOT)
    try:
        until = time.time() + 30
        while time.time() < until and EmbeddingCache(tmp_path).get("f00d", 64, ["text:99"]) == {}:
            time.sleep(0.01)
    finally:
        worker.kill()
        worker.wait()
    with EmbeddingCache(tmp_path) as cache:
        found = cache.get("f00d", 64, [f"text:{n}" for n in range(100_000)])
        assert len(found) >= 100 and len(found) % 10 == 0
        assert same(found, {f"text:{n}": expected_row(n) for n in range(len(found))})
        cache.put("f00d", ["text:0"], expected_row(5)[None])


def test_what_a_dead_process_left_is_swept_up(cache):
    cache.folder.mkdir()
    (cache.folder / "f00d.0123456789abcdef.v1.new").write_bytes(b"half a file")
    cache.put(FINGERPRINT, KEYS, ROWS)
    assert not list(cache.folder.glob("*.new"))


def test_import_brings_no_torch():
    code = "import sys, capscore.embedding.cache; print(*{'torch', 'PIL', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_network_file_systems_are_told_by_their_mount(monkeypatch, tmp_path):
    table = "/dev/sda1 / ext4 rw 0 0\nserver:/data /data nfs4 rw 0 0\nx /data/my\\040disk xfs rw 0 0\n"
    table += "pod /pod fuse.sshfs rw 0 0\n"
    monkeypatch.setattr(Path, "read_text", lambda self, **_: table)
    monkeypatch.setattr(os.path, "realpath", str)
    told = {
        place: capscore.embedding.cache._on_network(Path(place))
        for place in ("/", "/datas/x", "/data", "/data/x/cache", "/data/my disk/cache", "/data/my", "/pod")
    }
    assert told == {
        "/": False,
        "/datas/x": False,
        "/data": True,
        "/data/x/cache": True,
        "/data/my disk/cache": False,
        "/data/my": True,
        "/pod": True,
    }
