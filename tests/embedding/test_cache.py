"""The embedding cache: what is put comes back, from any process; nothing that breaks it breaks scoring."""

from __future__ import annotations

import os
import pickle
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from contextlib import closing
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.embedding.cache import EmbeddingCache, resolve_cache
from capscore.errors import CacheWarning, CapscoreError

from ..processes import Process

ROOT = Path(__file__).parents[2]
FINGERPRINT = "0123456789abcdef0123456789abcdef"
ROWS = np.array([[1.0, -2.5, 0.125], [0.0, 3.0, 1e-30], [-0.0, 7.0, 1e30]], np.float32)
KEYS = ["text:a", "text:b", "file:c"]


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture
def cache(tmp_path):
    return EmbeddingCache(tmp_path / "cache")


def sql(path: Path, *statements: str) -> list[tuple]:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [row for statement in statements for row in connection.execute(statement).fetchall()]


def same(found: dict, expected: dict) -> bool:
    return found.keys() == expected.keys() and all(np.array_equal(found[key], expected[key]) for key in found)


# What is put comes back


def test_rows_come_back_to_the_bit_also_in_another_run(cache):
    cache.put(FINGERPRINT, KEYS, ROWS, name="a/b")
    for reader in (cache, EmbeddingCache(cache.folder), pickle.loads(pickle.dumps(cache))):
        found = reader.get(FINGERPRINT, 3, ["file:c", "text:a", "nobody", "text:a"])
        assert sorted(found) == ["file:c", "text:a"]
        assert found["text:a"].dtype == np.float32 and found["text:a"].shape == (3,)
        assert found["text:a"].tobytes() == bytes.fromhex("0000803f 000020c0 0000003e")
        assert found["file:c"].tobytes() == bytes.fromhex("00000080 0000e040 caf24971")
        assert reader.get(FINGERPRINT, 4, KEYS) == {}, "rows of another length"


def test_fingerprints_do_not_mix(cache):
    names = ["model@v1", "model@v2", "MODEL@v1", "../outside", "f00d", "F00D", ""]
    for number, name in enumerate(names):
        cache.put(name, ["text:a"], np.full((1, 2), number))
    for number, name in enumerate(names):
        assert cache.get(name, 2, ["text:a"])["text:a"].tolist() == [number, number]
    assert {backbone["fingerprint"] for backbone in cache.info()["backbones"]} == set(names)
    assert sorted(path.name for path in cache.folder.parent.iterdir()) == ["cache"]


def test_more_keys_than_a_query_takes(cache):
    keys = [f"text:{number}" for number in range(2000)]
    rows = np.arange(4000, dtype=np.float32).reshape(2000, 2)
    cache.put(FINGERPRINT, keys, rows)
    found = cache.get(FINGERPRINT, 2, [*keys[::-1], "text:none"])
    assert len(found) == 2000 and np.array_equal(np.stack([found[key] for key in keys]), rows)


puts = st.tuples(
    st.sampled_from(["one", "two"]), st.lists(st.sampled_from("abcdef"), max_size=8), st.booleans()
)


@settings(max_examples=15, deadline=None)
@given(st.lists(puts, max_size=12), st.randoms(use_true_random=False))
def test_any_puts_and_gets_are_those_of_a_dictionary(steps, random):
    with tempfile.TemporaryDirectory() as folder:
        cache = EmbeddingCache(folder)
        truth: dict[str, dict[str, list[float]]] = {"one": {}, "two": {}}
        for number, (fingerprint, keys, reopen) in enumerate(steps):
            rows = [[float(number), float(index)] for index in range(len(keys))]
            cache.put(fingerprint, keys, np.array(rows, np.float32).reshape(len(keys), 2))
            truth[fingerprint].update(zip(keys, rows, strict=True))
            if reopen:
                cache = EmbeddingCache(folder)
            asked = random.choices("abcdefgh", k=10)
            for name, known in truth.items():
                found = {key: row.tolist() for key, row in cache.get(name, 2, asked).items()}
                assert found == {key: known[key] for key in asked if key in known}


@pytest.mark.parametrize(
    "rows",
    [
        *(np.where(ROWS == 3, bad, ROWS) for bad in (np.nan, np.inf)),
        *map(np.zeros, [(2, 3), (9,), (3, 1, 3)]),
    ],
)
def test_rows_that_are_not_finite_or_of_another_shape_are_refused(cache, rows):
    with pytest.raises(ValueError, match="expected"):
        cache.put(FINGERPRINT, KEYS, rows)
    cache.put(FINGERPRINT, [], np.zeros((0, 3)))
    assert cache.get(FINGERPRINT, 3, KEYS) == {} and cache.info()["entries"] == cache.clear() == 0
    assert not cache.folder.exists(), "where nothing is stored, nothing is made"


# Where it is


def test_where_a_cache_is(tmp_path, monkeypatch):
    import platformdirs

    monkeypatch.setenv("CAPSCORE_CACHE", str(tmp_path / "chosen"))
    assert resolve_cache(None).folder == resolve_cache(True).folder == tmp_path / "chosen"
    assert resolve_cache(False) is None
    assert resolve_cache(str(tmp_path)).folder == resolve_cache(tmp_path).folder == tmp_path
    cache = EmbeddingCache(tmp_path / "50% of #1? größe & more")
    assert resolve_cache(cache) is cache
    cache.put(FINGERPRINT, KEYS, ROWS)
    assert len(cache.get(FINGERPRINT, 3, KEYS)) == 3
    monkeypatch.setenv("CAPSCORE_CACHE", "")
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name, **_: str(tmp_path / name))
    assert EmbeddingCache().folder == tmp_path / "capscore" / "embeddings"
    monkeypatch.chdir(tmp_path)
    relative = EmbeddingCache("here")
    monkeypatch.chdir("/")
    assert relative.folder == tmp_path / "here"


IMPOSSIBLE = ["a\0b", "/tmp/x\ud800", "/tmp/" + "x" * 300, "~nobody-of-this-name/x"]


@pytest.mark.parametrize("wrong", [0, 1, 3.5, "", ["folder"], *IMPOSSIBLE, *map(Path, IMPOSSIBLE)])
def test_what_no_folder_can_be_is_refused(wrong, monkeypatch):
    with pytest.raises(CapscoreError) as caught:
        resolve_cache(wrong)
    assert caught.value.option == "cache" and len(str(caught.value)) < 300
    if isinstance(wrong, str) and wrong.isascii() and wrong > "\0" and "\0" not in wrong:
        monkeypatch.setenv("CAPSCORE_CACHE", wrong)
        with pytest.raises(CapscoreError):
            resolve_cache(None)


# Counting and clearing


def test_info_counts(cache):
    before = time.time()
    cache.put("beef", KEYS[:2], ROWS[:2])
    cache.put("f00d", KEYS, ROWS, name="family/first")
    cache.put("f00d", KEYS[:1], ROWS[:1])  # neither a new entry nor a lost name
    info = cache.info()
    assert (info["folder"], info["entries"], info["readable"]) == (str(cache.folder), 5, True)
    assert [(b["fingerprint"], b["name"], b["entries"], b["bytes"]) for b in info["backbones"]] == [
        ("f00d", "family/first", 3, 36),
        ("beef", "", 2, 24),
    ]
    last = datetime.fromisoformat(info["backbones"][1]["last_stored"]).timestamp()
    assert before - 1 <= last <= time.time() + 1
    assert info["bytes"] == sum(path.stat().st_size for path in cache.folder.iterdir())
    cache.put("beef", KEYS[:1], ROWS[:1], name="model\udcff")
    names = [(b["name"], b["entries"]) for b in cache.info()["backbones"]]
    assert names == [("model\\udcff", 2), ("family/first", 3)]


def test_clearing_one_then_all_frees_the_disk_and_leaves_other_files(cache):
    rows = np.random.default_rng(0).standard_normal((500, 512)).astype(np.float32)
    cache.put("f00d", [f"text:{number}" for number in range(500)], rows)
    cache.put("Odd/Name", KEYS[:2], ROWS[:2])
    other = EmbeddingCache(cache.folder)
    mine = [
        cache.folder / name for name in ("photos.sqlite", "embeddings-old.sqlite", "embeddings-0.sqlite.copy")
    ]
    for file in mine:
        file.write_text("mine")
    assert cache.info()["bytes"] > 500 * 512 * 4
    assert (other.clear("Odd/Name"), other.clear("nobody")) == (2, 0)
    assert cache.get("Odd/Name", 3, KEYS) == {} and len(cache.get("f00d", 512, ["text:7"])) == 1
    assert other.clear() == 500
    assert cache.get("f00d", 512, ["text:7"]) == {} and cache.info()["backbones"] == []
    assert cache.info()["bytes"] < 200_000 and all(file.read_text() == "mine" for file in mine)
    cache.put("f00d", KEYS, ROWS)
    assert len(other.get("f00d", 3, KEYS)) == 3


# Damage


@pytest.mark.parametrize(
    "damage",
    [
        "SET vector = substr(vector, 1, 6)",
        "SET vector = zeroblob(12)",
        "SET vector = 7",
        "SET checksum = x'00'",
        "SET vector = (SELECT vector FROM embeddings WHERE key = 'text:a'),"  # another's row
        " checksum = (SELECT checksum FROM embeddings WHERE key = 'text:a')",
    ],
)
def test_a_damaged_entry_is_absent_and_can_be_put_again(cache, damage):
    cache.put(FINGERPRINT, KEYS, ROWS)
    sql(cache.path, f"UPDATE embeddings {damage} WHERE key = 'text:b'")
    assert sorted(cache.get(FINGERPRINT, 3, KEYS)) == ["file:c", "text:a"]
    cache.put(FINGERPRINT, ["text:b"], ROWS[1:2])
    assert same(cache.get(FINGERPRINT, 3, KEYS), dict(zip(KEYS, ROWS, strict=True)))


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def garbage(path: Path) -> None:
    path.write_bytes(np.random.default_rng(0).bytes(50_000))


@pytest.mark.parametrize(("damage", "first"), [(cut_in_half, "get"), (garbage, "put")])
def test_another_file_follows_a_damaged_one(cache, damage, first):
    keys = [f"text:{number}" for number in range(300)]
    rows = np.random.default_rng(1).standard_normal((300, 512)).astype(np.float32)
    cache.put(FINGERPRINT, keys, rows, name="a/b")
    path = cache.path
    damage(path)
    if damage is garbage:
        info = cache.info()
        assert (info["backbones"], info["readable"], info["bytes"]) == ([], False, 50_000)
    with pytest.warns(CacheWarning, match=r"is damaged \(.*\): .*kept in embeddings-1\.sqlite") as heard:
        if first == "get":
            cache.get(FINGERPRINT, 512, keys)
        cache.put(FINGERPRINT, keys[:200], rows[:200])
    assert len(heard) == 1 and heard[0].filename == __file__
    assert path.exists() and cache.path.name == "embeddings-1.sqlite"
    assert same(cache.get(FINGERPRINT, 512, keys), dict(zip(keys[:200], rows[:200], strict=True)))
    assert cache.clear() == 200 and not path.exists()
    garbage(cache.path)
    assert cache.clear() == 0 and cache.info()["bytes"] == 0


def used(folder) -> list[str]:
    """Every use of a cache of two rows: right numbers or none; and what it warned of."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        cache = EmbeddingCache(folder)
        cache.info()
        for keys in (KEYS[:2], KEYS[:1]):
            for key, row in cache.get("f00d", 3, keys).items():
                assert row.tolist() == ROWS[KEYS.index(key)].tolist()
        cache.put("f00d", KEYS[:1], ROWS[:1])
        cache.info()
    assert all(issubclass(warning.category, CacheWarning) for warning in heard)
    return [str(warning.message) for warning in heard]


CONTENTS = {
    "a name of bytes": "UPDATE backbones SET name = x'fe'",
    "swapped keys": "UPDATE embeddings SET key = CASE key WHEN 'text:a' THEN 'x' ELSE 'text:a' END",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON embeddings BEGIN DELETE FROM embeddings; END",
    "a view": "DROP TABLE embeddings|CREATE VIEW embeddings AS"
    " SELECT 'f00d' backbone, 'text:a' key, 1 checksum, x'00' vector",
}


@pytest.mark.parametrize("name", CONTENTS)
def test_content_that_another_program_wrote_is_no_wrong_number(name, cache):
    cache.put("f00d", KEYS[:2], ROWS[:2])
    sql(cache.path, *CONTENTS[name].split("|"))
    heard = used(cache.folder)
    assert len(heard) <= 1 and (name != "a view" or "cannot be written" in heard[0])


# What the disk, the folder and people do


@pytest.mark.parametrize("path", ["/dev/full", "taken", "taken/below", "link"])
def test_a_path_that_cannot_be_a_folder_is_gone_without(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("not a folder")
    os.symlink("nowhere/at/all", "link")
    assert len(used(path)) <= 1 and Path("taken").read_text() == "not a folder"
    if path.startswith("taken"):
        (heard,) = used(path)
        assert "cannot be" in heard and "scores are the same" in heard
        assert EmbeddingCache(path).clear() == 0


def test_a_lock_that_stays_is_warned_of_once_and_one_that_ends_is_waited_for(cache):
    cache.put(FINGERPRINT, KEYS[:1], ROWS[:1])
    impatient = EmbeddingCache(cache.folder, timeout=0.05)
    busy = sqlite3.connect(cache.path, isolation_level=None, check_same_thread=False)
    busy.execute("BEGIN IMMEDIATE")
    with pytest.warns(CacheWarning, match=r"cannot be written \(database is locked\)") as heard:
        impatient.put(FINGERPRINT, KEYS, ROWS)
        impatient.put(FINGERPRINT, KEYS, ROWS)
    assert len(heard) == 1
    assert list(impatient.get(FINGERPRINT, 3, KEYS)) == ["text:a"]
    threading.Timer(0.2, busy.close).start()
    cache.put(FINGERPRINT, KEYS, ROWS)
    assert len(cache.get(FINGERPRINT, 3, KEYS)) == 3


# Several processes and threads. All write the same row n, so that it does not matter who was last.


WORKER = """
import sys, time
import numpy as np
from pathlib import Path
from capscore.embedding.cache import EmbeddingCache

def row(number):
    return np.full(64, number, np.float32) + np.arange(64, dtype=np.float32) / 64

folder, me, start = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
cache = EmbeddingCache(folder)
time.sleep(max(0.0, start - time.time()))
"""
OVERLAPPING = """
for first in range(0, 400, 20):
    first = (first + me * 100) % 400
    numbers = list(range(first, first + 40))
    cache.put("f00d", [f"text:{n}" for n in numbers], np.stack([row(n) for n in numbers]), name="a/b")
    for key, found in cache.get("f00d", 64, [f"text:{n}" for n in range(440)]).items():
        assert np.array_equal(found, row(int(key[5:]))), key
"""
FORKING = """
import os, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # forking beside NumPy's own threads
cache.put("f00d", ["text:0"], row(0)[None])
pid = os.fork()
if pid == 0:
    thread = threading.Thread(target=cache.get, args=("f00d", 64, ["text:0"]), daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()  # and no lock of the parent's is held
    for n in range(20):
        cache.put("f00d", [f"text:{n}"], row(n)[None])
    sys.exit(0)  # with everything that Python does at its end
for n in range(10, 30):
    cache.put("f00d", [f"text:{n}"], row(n)[None])
assert os.waitpid(pid, 0)[1] == 0
"""
FILLING = """
import resource, warnings
resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))
keys, rows = [f"text:{n}" for n in range(600)], np.stack([np.tile(row(n), 8) for n in range(600)])
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    for first in range(0, 600, 50):
        cache.put("f00d", keys[first:first + 50], rows[first:first + 50])
said = [str(warning.message) for warning in heard]
assert len(said) == 1 and "cannot be written (" in said[0], said
found = cache.get("f00d", 512, keys)
assert len(found) % 50 == 0 and len(found) < 600 and bool(found) == (LIMIT > 500_000), len(found)
assert all(np.array_equal(found[key], rows[keys.index(key)]) for key in found)
"""
ENDLESS = """
for batch in range(10000):
    numbers = range(10 * batch, 10 * batch + 10)
    cache.put("f00d", [f"text:{n}" for n in numbers], np.stack([row(n) for n in numbers]))
"""


def run_workers(body: str, folder: Path, count: int) -> list[str]:
    """Run WORKER + body in `count` processes that begin together; → what each wrote to stderr."""
    start = time.time() + (0.3 if count > 1 else 0)
    workers = [Process(["-c", WORKER + body, folder, number, start], cwd=ROOT) for number in range(count)]
    heard = [worker.communicate(timeout=60)[1] for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * count, heard
    return heard


def whole(folder: Path) -> list[int]:
    """The numbers of the rows in a cache, each the right one, in a file that is whole."""
    cache = EmbeddingCache(folder)
    assert sql(cache.path, "PRAGMA integrity_check") == [("ok",)]
    found = cache.get("f00d", 64, [f"text:{number}" for number in range(2000)])
    for key, row in found.items():
        assert np.array_equal(row, int(key[5:]) + np.arange(64, dtype=np.float32) / 64)
    return sorted(int(key[5:]) for key in found)


def test_processes_write_at_once_also_where_they_find_damage(tmp_path):
    assert run_workers(OVERLAPPING, tmp_path, 3) == [""] * 3
    # The last batch begins at (380 + 100 · me) mod 400 + 0…39, so that 0…419 were written.
    assert whole(tmp_path) == [*range(420)]
    garbage(EmbeddingCache(tmp_path).path)
    heard = run_workers(OVERLAPPING, tmp_path, 3)
    assert "".join(heard).count("CacheWarning: ") == 1, heard  # who found it first says so
    assert whole(tmp_path) == [*range(420)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_after_a_fork_both_sides_go_on(tmp_path):
    assert run_workers(FORKING, tmp_path, 1) == [""]
    assert whole(tmp_path) == [*range(30)]


@pytest.mark.skipif(sys.platform == "win32", reason="no file size limits on this system")
@pytest.mark.parametrize("limit", [0, 700_000])
def test_a_disk_that_is_full_keeps_whole_batches(tmp_path, limit):
    assert run_workers(f"LIMIT = {limit}\n{FILLING}", tmp_path, 1) == [""]
    cache = EmbeddingCache(tmp_path)
    cache.put("beef", KEYS, ROWS)
    assert len(cache.get("beef", 3, KEYS)) == 3


def test_a_killed_process_leaves_whole_batches(tmp_path):
    worker = Process(["-c", WORKER + ENDLESS, tmp_path, 0, 0], cwd=ROOT)
    try:
        until = time.time() + 30
        while time.time() < until and EmbeddingCache(tmp_path).get("f00d", 64, ["text:99"]) == {}:
            time.sleep(0.01)
    finally:
        worker.kill()
        worker.wait()
    numbers = whole(tmp_path)
    assert len(numbers) >= 100 and len(numbers) % 10 == 0
    EmbeddingCache(tmp_path).put("f00d", ["text:0"], np.zeros((1, 64)))


def test_import_brings_no_torch():
    code = "import sys, capscore.embedding.cache; print(*{'torch', 'PIL', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
