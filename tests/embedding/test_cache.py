"""The embedding cache: what is put comes back, from any process; nothing that breaks it breaks scoring."""

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


def sql(path, *statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [row for statement in statements for row in connection.execute(statement).fetchall()]


def test_cached_rows_are_bitwise_equal_in_another_run(cache):
    cache.put(FINGERPRINT, KEYS, ROWS, name="a/b")
    for reader in (cache, EmbeddingCache(cache.folder), pickle.loads(pickle.dumps(cache))):
        found = reader.get(FINGERPRINT, 3, ["file:c", "text:a", "nobody", "text:a"])
        assert sorted(found) == ["file:c", "text:a"]
        assert found["text:a"].dtype == np.float32 and found["text:a"].shape == (3,)
        assert found["text:a"].tobytes() == bytes.fromhex("0000803f 000020c0 0000003e")
        assert found["file:c"].tobytes() == bytes.fromhex("00000080 0000e040 caf24971")
        assert reader.get(FINGERPRINT, 4, KEYS) == {}, "rows of another length"
    # more keys than a query takes
    keys = [f"text:{number}" for number in range(2000)]
    rows = np.arange(4000, dtype=np.float32).reshape(2000, 2)
    cache.put("f00d", keys, rows)
    found = cache.get("f00d", 2, [*keys[::-1], "text:none"])
    assert len(found) == 2000 and np.array_equal(np.stack([found[key] for key in keys]), rows)


puts = st.tuples(st.sampled_from(["f00d", "F00D", ""]), st.lists(st.sampled_from("abcdef"), max_size=8))


@settings(max_examples=15, deadline=None)
@given(st.lists(puts, max_size=12), st.randoms(use_true_random=False))
def test_any_puts_and_gets_are_those_of_a_dictionary(steps, random):
    with tempfile.TemporaryDirectory() as folder:
        truth = {"f00d": {}, "F00D": {}, "": {}}
        for number, (fingerprint, keys) in enumerate(steps):
            rows = [[float(number), float(index)] for index in range(len(keys))]
            cache = EmbeddingCache(folder)
            cache.put(fingerprint, keys, np.array(rows, np.float32).reshape(len(keys), 2))
            truth[fingerprint].update(zip(keys, rows, strict=True))
            asked = random.choices("abcdefgh", k=10)
            for name, known in truth.items():
                found = {key: row.tolist() for key, row in cache.get(name, 2, asked).items()}
                assert found == {key: known[key] for key in asked if key in known}


@pytest.mark.parametrize(
    "rows", [*(np.where(ROWS == 3, bad, ROWS) for bad in (np.nan, np.inf)), np.zeros((2, 3)), np.zeros(9)]
)
def test_rows_that_are_not_finite_or_of_another_shape_are_refused(cache, rows):
    with pytest.raises(ValueError, match="expected"):
        cache.put(FINGERPRINT, KEYS, rows)
    cache.put(FINGERPRINT, [], np.zeros((0, 3)))
    assert cache.get(FINGERPRINT, 3, KEYS) == {} and cache.info()["entries"] == cache.clear() == 0
    assert not cache.folder.exists(), "where nothing is stored, nothing is made"


def test_the_folder_of_the_cache(tmp_path, monkeypatch):
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


@pytest.mark.parametrize("wrong", [0, 3.5, "", ["folder"], *IMPOSSIBLE, Path("a\0b")])
def test_impossible_folders_are_refused(wrong):
    with pytest.raises(CapscoreError) as caught:
        resolve_cache(wrong)
    assert caught.value.option == "cache" and len(str(caught.value)) < 300


def test_info_counts(cache):
    before = time.time()
    cache.put("beef", KEYS[:2], ROWS[:2])
    cache.put("f00d", KEYS, ROWS, name="family/first")
    cache.put("f00d", KEYS[:1], ROWS[:1])  # neither a new entry nor a lost name
    info = cache.info()
    assert (info["folder"], info["entries"], info["readable"]) == (str(cache.folder), 5, True)
    found = [(b["fingerprint"], b["name"], b["entries"], b["bytes"]) for b in info["backbones"]]
    assert found == [("f00d", "family/first", 3, 36), ("beef", "", 2, 24)]
    last = datetime.fromisoformat(info["backbones"][1]["last_stored"]).timestamp()
    assert before - 1 <= last <= time.time() + 1
    assert info["bytes"] == sum(path.stat().st_size for path in cache.folder.iterdir())
    cache.put("beef", KEYS[:1], ROWS[:1], name="model\udcff")
    assert {b["name"] for b in cache.info()["backbones"]} == {"model\\udcff", "family/first"}


def test_clearing_one_then_all_frees_the_disk_and_leaves_other_files(cache):
    rows = np.random.default_rng(0).standard_normal((500, 512)).astype(np.float32)
    cache.put("f00d", [f"text:{number}" for number in range(500)], rows)
    cache.put("Odd/Name", KEYS[:2], ROWS[:2])
    other, mine = EmbeddingCache(cache.folder), cache.folder / "embeddings-0.sqlite.copy"
    mine.write_text("mine")
    assert cache.info()["bytes"] > 500 * 512 * 4
    assert (other.clear("Odd/Name"), other.clear("nobody")) == (2, 0)
    assert cache.get("Odd/Name", 3, KEYS) == {} and len(cache.get("f00d", 512, ["text:7"])) == 1
    cache.tables.mkdir()
    (cache.tables / "words.npz").write_bytes(bytes(7))
    assert (other.clear("nobody"), other.info()["table_bytes"]) == (0, 7)
    assert (other.clear(), other.info()["table_bytes"], cache.tables.exists()) == (500, 0, False)
    assert cache.get("f00d", 512, ["text:7"]) == {} and cache.info()["backbones"] == []
    assert cache.info()["bytes"] < 200_000 and mine.read_text() == "mine"
    cache.put("f00d", KEYS, ROWS)
    assert len(other.get("f00d", 3, KEYS)) == 3


OF_A = "(SELECT {} FROM embeddings WHERE key = 'text:a')"
DAMAGES = ["vector = substr(vector, 1, 6)", "vector = zeroblob(12)", "vector = 7", "checksum = x'00'"]
DAMAGES.append(f"vector = {OF_A.format('vector')}, checksum = {OF_A.format('checksum')}")  # another's row


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_entry_is_absent_and_can_be_put_again(cache, damage):
    cache.put(FINGERPRINT, KEYS, ROWS)
    sql(cache.path, f"UPDATE embeddings SET {damage} WHERE key = 'text:b'")
    assert sorted(cache.get(FINGERPRINT, 3, KEYS)) == ["file:c", "text:a"]
    cache.put(FINGERPRINT, ["text:b"], ROWS[1:2])
    found = cache.get(FINGERPRINT, 3, KEYS)
    assert np.array_equal(np.stack([found[key] for key in KEYS]), ROWS)


@pytest.mark.parametrize("is_first_read", [True, False], ids=["cut in half, read", "garbage, written"])
def test_a_damaged_file_gives_one_warning_and_can_be_cleared(cache, is_first_read):
    keys = [f"text:{number}" for number in range(300)]
    rows = np.random.default_rng(1).standard_normal((300, 512)).astype(np.float32)
    cache.put(FINGERPRINT, keys, rows, name="a/b")
    if is_first_read:
        os.truncate(cache.path, cache.path.stat().st_size // 2)
    else:
        cache.path.write_bytes(np.random.default_rng(0).bytes(50_000))
        info = cache.info()
        assert (info["backbones"], info["readable"], info["bytes"]) == ([], False, 50_000)
    how = "read" if is_first_read else "written"
    with pytest.warns(CacheWarning, match=rf"cannot be {how} \(.*capscore cache clear") as heard:
        for _ in range(2):
            if is_first_read:
                assert len(cache.get(FINGERPRINT, 512, keys)) < 300
            cache.put(FINGERPRINT, keys[:200], rows[:200])
            cache.get(FINGERPRINT, 512, keys)
    assert len(heard) == 1 and heard[0].filename == __file__
    assert EmbeddingCache(cache.folder).clear() == cache.info()["bytes"] == 0
    again = EmbeddingCache(cache.folder)
    again.put(FINGERPRINT, KEYS, ROWS)
    assert len(again.get(FINGERPRINT, 3, KEYS)) == 3
    assert cache.get(FINGERPRINT, 3, KEYS) == {}, "it is no longer used"


def test_a_folder_that_may_not_be_entered_gives_one_warning(cache, monkeypatch):
    def refuse(path, **_):
        raise PermissionError(13, "Permission denied", str(path))

    for name in ("os.stat", "os.mkdir", "os.path.exists", "os.path.isfile", "sqlite3.connect"):
        monkeypatch.setattr(name, refuse)
    with pytest.warns(CacheWarning, match="cannot be read .*Permission denied") as heard:
        for _ in range(2):
            assert cache.get(FINGERPRINT, 3, KEYS) == {}
            cache.put(FINGERPRINT, KEYS, ROWS)
    assert len(heard) == 1
    assert (cache.info()["readable"], cache.info()["bytes"]) == (False, 0)
    with pytest.raises(CapscoreError, match="cannot be cleared"):
        cache.clear()


def test_content_from_another_program_never_gives_a_wrong_number(cache):
    cache.put("f00d", KEYS[:2], ROWS[:2])
    view = "CREATE VIEW embeddings AS SELECT 'f00d' backbone, 'text:a' key, 1 checksum, x'00' vector"
    for change in (
        ["UPDATE embeddings SET key = CASE key WHEN 'text:a' THEN 'x' ELSE 'text:a' END"],
        ["DROP TABLE embeddings", view],
    ):
        sql(cache.path, *change)
        assert cache.get("f00d", 3, KEYS[:2]) == {}
    with pytest.warns(CacheWarning, match="cannot be written"):
        cache.put("f00d", KEYS[:1], ROWS[:1])


@pytest.mark.parametrize("path", ["/dev/full", "taken", "taken/below", "link"])
def test_a_path_that_cannot_be_a_folder_is_gone_without(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("not a folder")
    os.symlink("link", "link")
    cache = EmbeddingCache(path)
    with pytest.warns(CacheWarning, match="cannot be written .*scores are the same") as heard:
        for _ in range(2):
            cache.put(FINGERPRINT, KEYS, ROWS)
            assert cache.get(FINGERPRINT, 3, KEYS) == {}
    assert len(heard) == 1 and cache.clear() == 0


def test_a_lasting_lock_gives_one_warning_and_a_short_one_is_waited_for(cache, monkeypatch):
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


# Several processes. All write the same row n, so that it does not matter who was last.

WORKER = """
import os, sys, warnings
import numpy as np
from capscore.embedding.cache import EmbeddingCache

def row(number):
    return np.full(64, number, np.float32) + np.arange(64, dtype=np.float32) / 64

def put(numbers):
    cache.put("f00d", [f"text:{n}" for n in numbers], np.stack([row(n) for n in numbers]), name="a/b")

me, cache = int(sys.argv[2]), EmbeddingCache(sys.argv[1])
print("ready", flush=True)
input()
"""
OVERLAPPING = """
for first in range(0, 200, 20) if me else range(180, -1, -20):
    put(range(first, first + 40))
    for key, found in cache.get("f00d", 64, [f"text:{n}" for n in range(220)]).items():
        assert np.array_equal(found, row(int(key[5:]))), key
"""
FILLING = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000))
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    for first in range(0, 2000, 50):
        put(range(first, first + 50))
(said,) = map(str, (warning.message for warning in heard))
assert "cannot be written (" in said, said
"""


def run_workers(body, folder, count):
    """Run WORKER + body in `count` processes, which begin when all are ready."""
    piped, workers = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE), []
    for number in range(count):
        command = [sys.executable, "-c", WORKER + body, str(folder), str(number)]
        workers.append(subprocess.Popen(command, cwd=ROOT, text=True, **piped))
    for worker in workers:
        worker.stdout.readline()
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
    heard = [worker.communicate(timeout=300)[1] for worker in workers]
    assert heard == [""] * count and not any(worker.returncode for worker in workers)


def whole(folder):
    """The numbers of the rows in a cache, each the right one, in a file that is whole and can be written."""
    cache = EmbeddingCache(folder)
    assert sql(cache.path, "PRAGMA integrity_check") == [("ok",)]
    found = cache.get("f00d", 64, [f"text:{number}" for number in range(2000)])
    for key, row in found.items():
        assert np.array_equal(row, int(key[5:]) + np.arange(64, dtype=np.float32) / 64)
    cache.put("beef", KEYS, ROWS)
    assert len(cache.get("beef", 3, KEYS)) == 3
    return sorted(int(key[5:]) for key in found)


def test_processes_write_at_once(tmp_path):
    run_workers(OVERLAPPING, tmp_path, 2)
    assert whole(tmp_path) == [*range(220)]


@pytest.mark.skipif(sys.platform == "win32", reason="no file size limits on this system")
def test_a_disk_that_is_full_keeps_whole_batches(tmp_path):
    run_workers(FILLING, tmp_path, 1)
    numbers = whole(tmp_path)
    assert 0 < len(numbers) < 2000 and len(numbers) % 50 == 0
