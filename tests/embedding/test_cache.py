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
    return EmbeddingCache(tmp_path / "cache")


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


def test_another_run_finds_them(cache):
    cache.put(FINGERPRINT, KEYS, ROWS)
    other = EmbeddingCache(cache.folder)
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
    assert {backbone["fingerprint"] for backbone in cache.info()["backbones"]} == set(names)
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
    with tempfile.TemporaryDirectory() as folder:
        cache = EmbeddingCache(folder)
        truth: dict[str, dict[str, list[float]]] = {"one": {}, "two": {}}
        for number, (fingerprint, keys, reopen) in enumerate(steps):
            rows = [[float(number), float(place)] for place in range(len(keys))]
            cache.put(fingerprint, keys, np.array(rows, np.float32).reshape(len(keys), 2))
            truth[fingerprint].update(zip(keys, rows, strict=True))
            if reopen:
                cache = EmbeddingCache(folder)
            asked = random.choices("abcdefgh", k=10)
            for name, known in truth.items():
                found = cache.get(name, 2, asked)
                assert {key: row.tolist() for key, row in found.items()} == {
                    key: known[key] for key in asked if key in known
                }


def test_nothing_asked_nothing_made(cache):
    assert cache.get(FINGERPRINT, 3, KEYS) == {}
    cache.put(FINGERPRINT, [], np.zeros((0, 3)))
    assert cache.info()["entries"] == 0 and cache.clear() == 0
    assert not cache.folder.exists()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_rows_that_are_not_numbers_are_refused(cache, bad):
    rows = ROWS.copy()
    rows[1, 2] = bad
    with pytest.raises(ValueError):
        cache.put(FINGERPRINT, KEYS, rows)
    assert cache.get(FINGERPRINT, 3, KEYS) == {}


@pytest.mark.parametrize("shape", [(2, 3), (4, 3), (9,), (3, 1, 3)])
def test_rows_of_another_shape_are_refused(cache, shape):
    with pytest.raises(ValueError):
        cache.put(FINGERPRINT, KEYS, np.zeros(shape))


def test_a_folder_with_an_odd_name(tmp_path):
    cache = EmbeddingCache(tmp_path / "50% of #1? größe & more")
    cache.put(FINGERPRINT, KEYS, ROWS)
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
        with pytest.raises(CapscoreError):
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
    cache.put("beef", KEYS[:1], ROWS[:1], name="family/second")
    assert [(b["name"], b["entries"]) for b in cache.info()["backbones"]] == [
        ("family/second", 2),
        ("family/first", 3),
    ]


def test_clear_one_then_all(cache):
    cache.put("f00d", KEYS, ROWS)
    cache.put("Odd/Name", KEYS[:2], ROWS[:2])
    cache.put("beef", KEYS[:1], ROWS[:1])
    assert cache.clear("Odd/Name") == 2
    assert cache.clear("nobody") == 0
    assert cache.get("Odd/Name", 3, KEYS) == {}
    assert len(cache.get("f00d", 3, KEYS)) == 3
    assert cache.clear() == 4
    assert cache.info()["entries"] == 0 and cache.info()["backbones"] == []


def test_clearing_frees_the_disk_and_leaves_other_peoples_files(cache):
    rows = np.random.default_rng(0).standard_normal((500, 512)).astype(np.float32)
    cache.put(FINGERPRINT, [f"text:{number}" for number in range(500)], rows)
    assert cache.info()["bytes"] > 500 * 512 * 4
    for name in ("photos.sqlite", "notes.txt"):
        (cache.folder / name).write_text("mine")
    assert cache.clear() == 500
    assert cache.info()["bytes"] < 200_000
    assert (cache.folder / "photos.sqlite").read_text() == (cache.folder / "notes.txt").read_text() == "mine"


def test_others_notice_that_it_was_cleared(cache):
    cache.put(FINGERPRINT, KEYS, ROWS)
    other = EmbeddingCache(cache.folder)
    assert other.clear() == 3
    assert cache.get(FINGERPRINT, 3, KEYS) == {}
    cache.put(FINGERPRINT, KEYS[:2], ROWS[:2])
    assert len(other.get(FINGERPRINT, 3, KEYS)) == 2


# Damage


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE embeddings SET vector = substr(vector, 1, 6) WHERE key = 'text:b'",  # cut in half
        "UPDATE embeddings SET vector = zeroblob(12) WHERE key = 'text:b'",
        "UPDATE embeddings SET vector = (SELECT vector FROM embeddings WHERE key = 'text:a'), checksum ="
        " (SELECT checksum FROM embeddings WHERE key = 'text:a') WHERE key = 'text:b'",  # another's row
        "UPDATE embeddings SET checksum = x'00' WHERE key = 'text:b'",
        "UPDATE embeddings SET vector = 7 WHERE key = 'text:b'",
    ],
)
def test_a_damaged_entry_is_absent_and_can_be_put_again(cache, damage):
    cache.put(FINGERPRINT, KEYS, ROWS)
    sql(cache.path, damage)
    assert sorted(cache.get(FINGERPRINT, 3, KEYS)) == ["file:c", "text:a"]
    cache.put(FINGERPRINT, ["text:b"], ROWS[1:2])
    assert same(cache.get(FINGERPRINT, 3, KEYS), dict(zip(KEYS, ROWS, strict=True)))


def test_an_entry_of_another_length_is_absent(cache):
    cache.put(FINGERPRINT, KEYS, ROWS)
    assert cache.get(FINGERPRINT, 4, KEYS) == {}


def cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def garbage(path: Path) -> None:
    path.write_bytes(np.random.default_rng(0).bytes(50_000))


@pytest.mark.parametrize("damage", [cut_in_half, garbage])
@pytest.mark.parametrize("first", ["get", "put"])
def test_another_file_follows_a_damaged_one(cache, damage, first):
    keys = [f"text:{number}" for number in range(300)]
    rows = np.random.default_rng(1).standard_normal((300, 512)).astype(np.float32)
    cache.put(FINGERPRINT, keys, rows, name="a/b")
    path = cache.path
    damage(path)
    with pytest.warns(CacheWarning, match=r"is damaged \(.*\): .*kept in embeddings-1\.sqlite") as heard:
        if first == "get":
            cache.get(FINGERPRINT, 512, keys)
        cache.put(FINGERPRINT, keys[:200], rows[:200])
    assert len(heard) == 1 and heard[0].filename == __file__
    assert path.exists() and cache.path.name == "embeddings-1.sqlite"
    assert same(cache.get(FINGERPRINT, 512, keys), dict(zip(keys[:200], rows[:200], strict=True)))
    assert cache.clear() == 200
    assert not path.exists()
    cache.put(FINGERPRINT, KEYS, ROWS)
    assert len(cache.get(FINGERPRINT, 3, KEYS)) == 3


def test_info_of_a_damaged_file(cache):
    cache.put(FINGERPRINT, KEYS, ROWS)
    garbage(cache.path)
    info = cache.info()
    assert (info["backbones"], info["readable"], info["bytes"]) == ([], False, 50_000)
    assert cache.clear() == 0 and cache.info()["bytes"] == 0


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


def test_eight_processes_write_at_once(tmp_path):
    assert run_workers(OVERLAPPING, tmp_path, 8) == [""] * 8
    found = EmbeddingCache(tmp_path).get("f00d", 64, [f"text:{number}" for number in range(440)])
    # The last batch begins at (380 + 100 · me) mod 400 + 0…39, so that 0…419 were written.
    assert same(found, {f"text:{number}": expected_row(number) for number in range(420)})
    assert sql(EmbeddingCache(tmp_path).path, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("damage", [cut_in_half, garbage])
def test_four_processes_find_the_damage_at_once(tmp_path, damage):
    cache, numbers = EmbeddingCache(tmp_path), range(420)
    cache.put("f00d", [f"text:{n}" for n in numbers], np.stack([expected_row(n) for n in numbers]))
    damage(cache.path)
    heard = run_workers(OVERLAPPING, tmp_path, 4)
    assert "".join(heard).count("CacheWarning: ") == 1, heard  # who found it first says so
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
    cache = EmbeddingCache(tmp_path)
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
    copy = pickle.loads(pickle.dumps(cache))
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
    assert sql(EmbeddingCache(tmp_path).path, "PRAGMA integrity_check") == [("ok",)]


# What the disk, the folder and people do


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
    cache = EmbeddingCache(tmp_path / "cache")
    cache.put("f00d", KEYS, ROWS)
    assert len(cache.get("f00d", 3, KEYS)) == 3
    assert sql(cache.path, "PRAGMA integrity_check") == [("ok",)]


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
        with pytest.warns(CacheWarning, match="cannot be ") as heard:
            for _ in range(2):
                if use == "put":
                    cache.put(FINGERPRINT, KEYS, ROWS)
                assert cache.get(FINGERPRINT, 3, KEYS) == {}
                cache.put(FINGERPRINT, KEYS, ROWS)
        assert len(heard) == 1
        assert cache.info()["entries"] == 0
        assert cache.clear() == 0
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
    with closing(sqlite3.connect(cache.path, isolation_level=None)) as busy:
        busy.execute("BEGIN IMMEDIATE")
        with pytest.warns(CacheWarning, match=r"cannot be written \(database is locked\)") as heard:
            impatient.put(FINGERPRINT, KEYS, ROWS)
            impatient.put(FINGERPRINT, KEYS, ROWS)
        assert len(heard) == 1
        assert list(impatient.get(FINGERPRINT, 3, KEYS)) == ["text:a"]


def test_a_lock_that_ends_in_time_is_waited_for(cache):
    cache.put(FINGERPRINT, KEYS[:1], ROWS[:1])
    path = cache.path
    busy = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    busy.execute("BEGIN IMMEDIATE")
    threading.Timer(0.2, busy.close).start()
    cache.put(FINGERPRINT, KEYS, ROWS)
    assert len(cache.get(FINGERPRINT, 3, KEYS)) == 3


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
    cache = EmbeddingCache(tmp_path)
    found = cache.get("f00d", 64, [f"text:{n}" for n in range(100_000)])
    assert len(found) >= 100 and len(found) % 10 == 0
    assert same(found, {f"text:{n}": expected_row(n) for n in range(len(found))})
    cache.put("f00d", ["text:0"], expected_row(5)[None])


def test_import_brings_no_torch():
    code = "import sys, capscore.embedding.cache; print(*{'torch', 'PIL', 'transformers'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
