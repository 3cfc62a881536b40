"""Image files whose content is known are not read again, and every change of them is noticed."""

from __future__ import annotations

import os
import shutil
import warnings

import pytest

from capscore.embedding import known_files
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.known_files import KnownFiles, signature
from capscore.errors import CacheWarning
from capscore.images.load import content_key


@pytest.fixture(autouse=True)
def settled(monkeypatch):
    """Files count as settled as soon as they are written."""
    monkeypatch.setattr(known_files, "SETTLED_NS", -1)


@pytest.fixture
def cache(tmp_path):
    with EmbeddingCache(tmp_path / "cache") as cache:
        yield cache


@pytest.fixture
def files(tmp_path):
    """Paths of 100 files of the same size."""
    paths = []
    for number in range(100):
        path = tmp_path / f"{number:03d}.jpg"
        path.write_bytes(f"{number:03d}".encode())
        paths.append(str(path))
    return paths


def learn(known: KnownFiles, paths: list[str]) -> list[str]:
    """Read what is not known; the content keys of all."""
    keys, signatures = known.look_up(paths)
    for place, path in enumerate(paths):
        if not keys[place]:
            keys[place] = content_key(path)
            known.remember(path, signatures[place], keys[place])
    known.store()
    return keys


def test_another_process_knows_them(cache, files):
    keys = learn(KnownFiles(cache), files)
    assert keys == [content_key(path) for path in files] and len(set(keys)) == 100
    found, signatures = KnownFiles(cache).look_up(files)
    assert found == keys and signatures == [signature(path) for path in files]


def test_without_a_cache_they_are_known_in_memory_alone(files):
    known = KnownFiles()
    keys = learn(known, files)
    assert known.look_up(files)[0] == keys
    assert KnownFiles().look_up(files)[0] == [""] * 100


def rewritten(path):
    """Other bytes of the same length, with the old times of the content."""
    about = os.stat(path)
    with open(path, "wb") as file:
        file.write(b"xyz")
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def replaced(path):
    """Another file of the same length under its name, with the old times of the content."""
    about = os.stat(path)
    with open(f"{path}.new", "wb") as file:
        file.write(b"xyz")
    os.utime(f"{path}.new", ns=(about.st_atime_ns, about.st_mtime_ns))
    os.replace(f"{path}.new", path)


def copied_over(path):
    """A copy of another file, with the times of that one."""
    shutil.copy2(path.replace("003", "004"), path)


def grown(path):
    with open(path, "ab") as file:
        file.write(b"more")


@pytest.mark.parametrize("change", [rewritten, replaced, copied_over, grown, os.remove])
def test_a_changed_file_is_read_again(cache, files, change):
    learn(KnownFiles(cache), files)
    change(files[3])
    assert [place for place, key in enumerate(KnownFiles(cache).look_up(files)[0]) if not key] == [3]


def test_a_file_that_was_just_written_is_not_trusted(cache, files, monkeypatch):
    monkeypatch.setattr(known_files, "SETTLED_NS", 3_600 * 10**9)
    learn(KnownFiles(cache), files)
    assert KnownFiles(cache).look_up(files)[0] == [""] * 100


def test_a_relative_path_is_that_of_its_folder(cache, tmp_path, monkeypatch):
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0.jpg").write_bytes(folder.encode())
    monkeypatch.chdir(tmp_path / "a")
    (first,) = learn(KnownFiles(cache), ["0.jpg"])
    assert KnownFiles(cache).look_up([str(tmp_path / "a" / "0.jpg")])[0] == [first]
    monkeypatch.chdir(tmp_path / "b")
    assert KnownFiles(cache).look_up(["0.jpg"])[0] == [""]


@pytest.mark.parametrize(
    "text", ["http://a.org/b.jpg", "~/a.jpg", "data:image/png;base64,AA", "gone", "a\0b", ""]
)
def test_what_is_no_file_has_no_signature(text):
    assert signature(text) is None
    assert KnownFiles().look_up([text]) == ([""], [None])


def test_a_slow_file_system_is_asked_several_things_at_once(files, monkeypatch):
    monkeypatch.setattr(known_files, "_SLOW_SECONDS", -1.0)
    asked = []

    def each(work, paths):
        asked.extend(paths)
        return map(work, paths)

    assert KnownFiles().look_up(files, each)[1] == [signature(path) for path in files]
    assert asked == files[16:]


def test_they_are_no_embeddings(cache, files):
    learn(KnownFiles(cache), files)
    info = cache.info()
    assert info.entries == 0 and info.backbones == () and info.bytes > 0
    assert cache.clear() == 0 and cache.info().bytes == 0
    assert KnownFiles(cache).look_up(files)[0] == [""] * 100


def test_damage_of_what_is_known_is_harmless(cache, files):
    keys = learn(KnownFiles(cache), files)
    (path,) = cache.folder.glob("*.sqlite")
    data = bytearray(path.read_bytes())
    cache.close()
    path.write_bytes(data[: len(data) // 2] + bytes(len(data) - len(data) // 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)
        found = KnownFiles(cache).look_up(files)[0]
    assert all(key in ("", expected) for key, expected in zip(found, keys, strict=True))
