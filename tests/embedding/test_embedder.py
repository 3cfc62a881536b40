"""Each distinct thing is embedded once, whatever the order, the batch size, the duplicates and the cache."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.embedding import photos
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.embedding.photos import PhotoPipeline
from capscore.errors import CapscoreError, ImageError, InputError
from tools.tiny.colours import BLUE, GREEN, RED, ColourBackbone, JudgingColours, plain

from ..images.test_fetch import Site, serving
from ..photos import encode

GUARD_S = 300  # against hanging alone


@pytest.fixture
def torn(tmp_path):
    path = tmp_path / "torn.png"
    path.write_bytes(encode(RED)[:40])
    return path


def all_rows(rows):
    return rows.matrix[rows.index]


def test_each_distinct_image_is_embedded_once(tmp_path):
    path = tmp_path / "red.png"
    path.write_bytes(encode(RED))
    (tmp_path / "copy.png").write_bytes(encode(RED))
    backbone = ColourBackbone()
    images = [path, str(path), path, tmp_path / "copy.png", encode(RED), encode(GREEN)]
    rows = Embedder(backbone).images(images)
    # a path, the same path as a string, a copy under another name, and its bytes are one image
    assert backbone.encoded_images == 2 and len(set(rows.keys)) == 2
    assert rows.index.tolist() == [0, 0, 0, 0, 0, 1]
    assert rows.matrix.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


def test_a_file_is_read_once_for_all_embedders_until_it_changes(tmp_path, monkeypatch):
    read, key_of, path = [], photos.content_key, tmp_path / "photo.png"
    monkeypatch.setattr(photos, "content_key", lambda image: read.append(image) or key_of(image))
    monkeypatch.setattr(photos, "SETTLED_NS", 10**18)
    path.write_bytes(encode(RED))
    forms = [path, str(path), {"path": str(path), "bytes": None}]
    keys = lambda: Embedder(ColourBackbone()).images(forms).keys  # noqa: E731
    assert keys() == keys() == [key_of(path)] * 3 and len(read) == 2, "it was written a moment ago"
    monkeypatch.setattr(photos, "SETTLED_NS", -1)
    assert keys() == keys() == [key_of(path)] * 3 and len(read) == 3
    about, other = path.stat(), encode(RED)[:-1] + b"?"
    path.write_bytes(other)  # of the same length
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns + 1))
    assert PhotoPipeline().photos(forms).__enter__().keys == [key_of(path)] * 3 and len(read) == 4


def test_each_distinct_text_is_embedded_once_in_length_order_and_a_prefix_is_part_of_it():
    backbone = ColourBackbone()
    texts = ["red green blue", "red", "green blue", "red", "blue", "green blue"]
    embedder = Embedder(backbone, batch_size=np.int64(2))
    rows = embedder.texts(texts)
    assert backbone.text_batches == [[3, 3], [4, 5]] and rows.index.tolist() == [0, 1, 2, 1, 3, 2]
    third, half = 3**-0.5, 2**-0.5
    np.testing.assert_allclose(rows.matrix, [[third] * 3, [1, 0, 0], [0, half, half], [0, 0, 1]], atol=1e-7)
    prefixed = embedder.texts(["red"], prefix="blue ")
    np.testing.assert_allclose(prefixed.matrix, [[half, 0, half]], atol=1e-7)
    assert prefixed.keys[0] not in rows.keys


words = st.lists(st.sampled_from(["red", "green", "blue", "cat"]), min_size=1, max_size=8).map(" ".join)


@settings(max_examples=20)
@given(captions=st.lists(words, min_size=1), batch_size=st.integers(1, 7), data=st.data())
def test_order_duplicates_and_batch_size_do_not_matter(captions, batch_size, data):
    order = data.draw(st.permutations(range(len(captions))))
    backbone = JudgingColours()
    with mock.patch("capscore.embedding.embedder.TEXT_BATCHES_A_SLAB", 2):
        rows = Embedder(backbone, batch_size=batch_size).texts([captions[index] for index in order])
    expected = np.concatenate([ColourBackbone().encode_texts([caption]) for caption in captions])
    np.testing.assert_allclose(all_rows(rows), expected[order], atol=1e-6)
    long = np.array([len(caption.split()) > 4 for caption in captions])
    assert rows.truncated[rows.index].tolist() == long[order].tolist()
    tokens = [["start", *caption.split()[:4], "end"] for caption in captions]
    kept = np.array([len(set(own)) / len(own) for own in tokens])
    np.testing.assert_allclose(rows.verdicts[rows.index][:, 0], kept[order], atol=1e-6)
    assert len(rows.matrix) == backbone.judged_texts == len(set(captions))


SHADES = st.sampled_from([(255, 0, 0), (0, 255, 0), (9, 9, 9), (0, 0, 0)])


@settings(max_examples=20)
@given(colours=st.lists(SHADES, min_size=1, max_size=12), batch_size=st.integers(1, 5))
def test_embeddings_of_images_keep_their_order(colours, batch_size):
    backbone = ColourBackbone()
    rows = Embedder(backbone, batch_size=batch_size).images([plain(colour) for colour in colours])
    light = np.array([colour if sum(colour) else (1, 1, 1) for colour in colours], float)
    np.testing.assert_allclose(all_rows(rows), light / np.linalg.norm(light, axis=1)[:, None], atol=1e-6)
    assert backbone.encoded_images == len(set(colours)) and rows.verdicts.shape[1] == 0


def test_memory_serves_the_next_call_and_disk_the_next_run(tmp_path, monkeypatch):
    first, second, third = ColourBackbone(), ColourBackbone(), ColourBackbone(fingerprint="colours-2")
    embedder = Embedder(first, cache=EmbeddingCache(tmp_path))
    before = embedder.images([RED, GREEN])
    embedder.images([GREEN, RED])
    assert first.encoded_images == 2
    after = Embedder(second, cache=EmbeddingCache(tmp_path)).images([RED, GREEN, BLUE])
    assert second.encoded_images == 1
    np.testing.assert_array_equal(after.matrix[:2], before.matrix)
    # nothing is served to another backbone, nor what was decoded or encoded otherwise
    Embedder(third, cache=EmbeddingCache(tmp_path)).images([RED])
    assert third.encoded_images == 1
    for version in ("DECODING", "ENCODING"):
        with monkeypatch.context() as patch:
            patch.setattr(f"capscore.embedding.embedder.{version}", 10**6)
            Embedder(second, cache=EmbeddingCache(tmp_path)).images([RED])
    assert second.encoded_images == 3


def test_truncation_and_verdicts_are_remembered_and_an_entry_without_one_is_absent(tmp_path):
    texts = ["red", "red red", "green green green", "red green blue cat dog"]
    plain_rows = Embedder(ColourBackbone(fingerprint="judging-colours-1"), cache=EmbeddingCache(tmp_path))
    assert plain_rows.texts(texts).verdicts.shape == (4, 0)
    for judged in (4, 0):
        backbone = JudgingColours()
        rows = Embedder(backbone, cache=EmbeddingCache(tmp_path)).texts(texts)
        assert rows.truncated.tolist() == [False, False, False, True] and rows.verdicts.shape == (4, 3)
        # shares of the tokens that differ, start and end among them
        np.testing.assert_allclose(rows.verdicts[:, 0], [1.0, 0.75, 0.6, 1.0], atol=1e-7)
        assert backbone.judged_texts == judged


def test_work_done_before_an_interruption_is_kept(tmp_path):
    class Interrupted(ColourBackbone):
        def encode_pixels(self, pixels):
            if self.encoded_images == 2:
                raise KeyboardInterrupt
            return super().encode_pixels(pixels)

    with pytest.raises(KeyboardInterrupt):
        Embedder(Interrupted(), cache=EmbeddingCache(tmp_path), batch_size=1).images([RED, GREEN, BLUE])
    backbone = ColourBackbone()
    Embedder(backbone, cache=EmbeddingCache(tmp_path)).images([RED, GREEN, BLUE])
    assert backbone.encoded_images == 1


def test_memory_is_bounded_and_threads_take_turns(monkeypatch):
    monkeypatch.setattr("capscore.embedding.embedder.MEMORY_ENTRIES", 5)
    embedder = Embedder(ColourBackbone(), batch_size=2)
    captions = [f"red {'blue ' * (n % 5)}{n}" for n in range(20)]
    expected = all_rows(Embedder(ColourBackbone()).texts(captions))

    def work(turn):
        rows = embedder.texts(captions[turn % 7 :])
        np.testing.assert_allclose(all_rows(rows), expected[turn % 7 :], rtol=0, atol=1e-6)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(40)))
    assert len(embedder._memory) == 5


def test_a_bad_row_is_named_before_a_later_one_and_skipping_lists_all(tmp_path, torn):
    """Whatever the rows are: files are looked up many at once, other images one by one."""
    good = tmp_path / "red.png"
    good.write_bytes(encode(RED))
    rows = [str(good), torn, b"", "gone.png", torn, "\ud800.jpg", GREEN, "gone.png"]
    # that there is no file is noticed before a file is decoded
    for images, first in (([*rows[:2], *rows[3:]], 2), (rows[:2], 1)):
        with pytest.raises(ImageError) as caught:
            Embedder(ColourBackbone()).images(images)
        assert caught.value.row == first
    found = Embedder(ColourBackbone()).images(rows, on_error="skip")
    assert {row: error.row for row, error in found.failures.items()} == {n: n for n in (1, 2, 3, 4, 5, 7)}
    assert found.index.tolist() == [0, -1, -1, -1, -1, -1, 1, -1] and len(found.matrix) == 2
    assert [bool(key) for key in found.keys] == [True, *[False] * 5, True, False]
    skipping = Embedder(ColourBackbone()).images([RED, torn, GREEN], skip={1})
    assert skipping.index.tolist() == [0, -1, 1] and not skipping.failures and skipping.keys[1] == ""
    with pytest.raises(InputError, match="on_error='bogus'"):
        Embedder(ColourBackbone()).images([RED], on_error="bogus")


def test_an_image_that_changes_between_reading_and_decoding_is_an_error(tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(encode(RED))
    embedder = Embedder(ColourBackbone())
    look_up = embedder._look_up

    def overwritten(keys):
        path.write_bytes(encode(GREEN))
        return look_up(keys)

    embedder._look_up = overwritten
    with pytest.raises(ImageError, match="changed while being scored"):
        embedder.images([path])


@pytest.mark.parametrize("value", [np.nan, 0.0, 1e6])
def test_embeddings_that_are_not_finite_or_not_of_unit_length_are_refused(tmp_path, monkeypatch, value):
    backbone, cache = ColourBackbone(), EmbeddingCache(tmp_path)
    problem = "NaN or infinite embeddings" if np.isnan(value) else "not of unit length"
    wrong = np.array([[value, 0, 0, 0]], np.float32)
    monkeypatch.setattr(cache, "get_rows", lambda fingerprint, dim, keys: ([*keys], wrong))
    with pytest.raises(CapscoreError, match=rf"embeddings-0.sqlite has .*{problem}: `capscore cache clear`"):
        Embedder(backbone, cache=cache).texts(["red"])
    monkeypatch.setattr(backbone, "encode_tokens", lambda ids: wrong[:, :3])
    with pytest.raises(CapscoreError, match=f"colours gave .*{problem} in float32"):
        Embedder(backbone).texts(["red"])


def test_a_url_is_fetched_once():
    with serving() as port:
        url, options = f"http://127.0.0.1:{port}", {"allow_urls": True, "allow_private_urls": True}
        given = [f"{url}/photo"] * 2 + [{"path": f"{url}/photo", "bytes": None}, f"{url}/gone"]
        rows = Embedder(ColourBackbone(), **options).images(given, on_error="skip")
        assert sorted(page for page, _ in Site.requested) == ["/gone", "/photo"]
        assert rows.index.tolist() == [0, 0, 0, -1] and "/gone' answered HTTP 404" in str(rows.failures[3])
        with pytest.raises(ImageError, match="allow_urls=True"):
            Embedder(ColourBackbone()).images([f"{url}/photo"])


def test_after_an_error_no_waiting_image_is_read(monkeypatch):
    begun, stopped, read, pipeline = threading.Event(), threading.Event(), [], PhotoPipeline()
    pipeline.workers, shutdown = 1, ThreadPoolExecutor.shutdown

    def stop(pool, wait=True, *, cancel_futures=False):
        shutdown(pool, wait=False, cancel_futures=cancel_futures)
        stopped.set()
        shutdown(pool, wait=wait)

    def work(key, image):
        read.append(key)
        if len(read) > 1:
            begun.set()
            stopped.wait(GUARD_S)

    monkeypatch.setattr(ThreadPoolExecutor, "shutdown", stop)
    colours = [plain((level, 0, 0)) for level in range(9)]
    with pytest.raises(InputError), pipeline.photos(colours) as photos:
        next(photos.each(work, ahead=5))
        begun.wait(GUARD_S)
        raise InputError("an image is damaged")
    assert len(read) == 2, "the first, and the one that was being read"


def test_a_broken_photo_is_decoded_once(torn):
    with mock.patch.object(photos, "load_image", wraps=photos.load_image) as loaded:
        pipeline = PhotoPipeline()
        with pipeline.photos([str(torn)], on_error="skip") as opened:
            assert [*opened.each(lambda key, photo: None)] == []
            pipeline.find_blank(opened)
    assert loaded.call_count == 1 and [*opened.failures] == [0]
