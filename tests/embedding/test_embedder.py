"""Each distinct thing is embedded once, whatever the order, the batch size, the duplicates and the cache."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import capscore
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.errors import CapscoreError, ImageError, InputError

from ..toy import BLUE, GREEN, RED, ColourBackbone, plain


def png(pixels: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return buffer.getvalue()


def test_each_distinct_image_is_embedded_once(tmp_path):
    path = tmp_path / "red.png"
    path.write_bytes(png(RED))
    (tmp_path / "copy.png").write_bytes(png(RED))
    backbone = ColourBackbone()
    rows = Embedder(backbone).images([path, str(path), path, tmp_path / "copy.png", png(RED), png(GREEN)])
    # a path, the same path as a string, a copy under another name, and its bytes are one image
    assert backbone.encoded_images == 2
    assert rows.index.tolist() == [0, 0, 0, 0, 0, 1]
    assert rows.matrix.tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    assert len(set(rows.keys)) == 2


def test_each_distinct_text_is_embedded_once_in_length_order():
    backbone = ColourBackbone()
    texts = ["red green blue", "red", "green blue", "red", "blue", "green blue"]
    rows = Embedder(backbone, batch_size=2).texts(texts)
    assert backbone.text_batches == [[3, 3], [4, 5]]
    got = rows.matrix[rows.index]
    third, half = 3**-0.5, 2**-0.5
    expected = [[third] * 3, [1, 0, 0], [0, half, half], [1, 0, 0], [0, 0, 1], [0, half, half]]
    np.testing.assert_allclose(got, expected, atol=1e-7)


@pytest.mark.parametrize("batch_size", ["8", 1.5, True, 0])
def test_a_batch_size_that_is_no_count_is_refused_before_a_backbone_is_loaded(batch_size):
    with pytest.raises(InputError, match="batch_size="):
        capscore.load("mcs", backbone="./nowhere", batch_size=batch_size)


def test_a_batch_size_may_be_a_number_of_numpy():
    assert Embedder(ColourBackbone(), batch_size=np.int64(2)).text_batch == 2


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_texts_that_were_cut_are_told_in_the_order_of_the_texts(batch_size):
    """They are encoded in the order of their lengths."""
    texts = ["red " * 9, "red", "blue " * 8, "green blue", "green"]
    rows = Embedder(ColourBackbone(), batch_size=batch_size).texts(texts)
    assert rows.truncated[rows.index].tolist() == [True, False, True, False, False]
    assert rows.matrix[rows.index].argmax(axis=1).tolist()[:3] == [0, 0, 2]


def test_prefix_is_part_of_the_text():
    backbone = ColourBackbone()
    embedder = Embedder(backbone)
    plain_rows = embedder.texts(["red"])
    prefixed = embedder.texts(["red"], prefix="blue ")
    assert plain_rows.matrix.tolist() == [[1.0, 0.0, 0.0]]
    np.testing.assert_allclose(prefixed.matrix, [[2**-0.5, 0, 2**-0.5]], atol=1e-7)
    assert plain_rows.keys != prefixed.keys


@given(
    texts=st.lists(
        st.lists(st.sampled_from(["red", "green", "blue", "cat"]), min_size=1, max_size=8), min_size=1
    ),
    batch_size=st.integers(1, 7),
    data=st.data(),
)
def test_order_duplicates_and_batch_size_do_not_matter(texts, batch_size, data):
    captions = [" ".join(words) for words in texts]
    order = data.draw(st.permutations(range(len(captions))))
    reference = np.concatenate([ColourBackbone().encode_texts([caption]) for caption in captions])
    rows = Embedder(ColourBackbone(), batch_size=batch_size).texts([captions[place] for place in order])
    np.testing.assert_allclose(rows.matrix[rows.index], reference[order], atol=1e-6)
    assert len(rows.matrix) == len(set(captions))


@given(
    colours=st.lists(
        st.sampled_from([(255, 0, 0), (0, 255, 0), (9, 9, 9), (0, 0, 0)]), min_size=1, max_size=12
    ),
    batch_size=st.integers(1, 5),
)
def test_images_come_back_in_order(colours, batch_size):
    images = [plain(colour) for colour in colours]
    backbone = ColourBackbone()
    rows = Embedder(backbone, batch_size=batch_size).images(images)
    for row, colour in zip(rows.matrix[rows.index], colours, strict=True):
        light = np.array(colour if sum(colour) else (1, 1, 1), dtype=np.float64)
        np.testing.assert_allclose(row, light / np.linalg.norm(light), atol=1e-6)
    assert backbone.encoded_images == len(set(colours))


def test_memory_serves_the_next_call_and_disk_the_next_run(tmp_path):
    first = ColourBackbone()
    embedder = Embedder(first, cache=EmbeddingCache(tmp_path))
    before = embedder.images([RED, GREEN])
    embedder.images([GREEN, RED])
    assert first.encoded_images == 2
    second = ColourBackbone()
    fresh = Embedder(second, cache=EmbeddingCache(tmp_path))
    after = fresh.images([RED, GREEN, BLUE])
    assert second.encoded_images == 1
    np.testing.assert_array_equal(after.matrix[:2], before.matrix)
    # another fingerprint is another backbone: nothing of the first may be served
    third = ColourBackbone(fingerprint="colours-2")
    Embedder(third, cache=EmbeddingCache(tmp_path)).images([RED])
    assert third.encoded_images == 1


@pytest.mark.parametrize("version", ["DECODING", "ENCODING"])
def test_what_was_decoded_or_encoded_otherwise_is_not_served(tmp_path, monkeypatch, version):
    """Neither number depends on the weights, so it must be a part of the fingerprint."""
    Embedder(ColourBackbone(), cache=EmbeddingCache(tmp_path)).images([RED])
    monkeypatch.setattr(f"capscore.embedding.embedder.{version}", 10**6)
    backbone = ColourBackbone()
    Embedder(backbone, cache=EmbeddingCache(tmp_path)).images([RED])
    assert backbone.encoded_images == 1


def test_truncation_is_remembered_by_the_cache(tmp_path):
    texts = ["red", "red green blue cat dog"]
    for encoded in (2, 0):
        backbone = ColourBackbone()
        rows = Embedder(backbone, cache=EmbeddingCache(tmp_path)).texts(texts)
        assert rows.truncated.tolist() == [False, True]
        assert backbone.encoded_texts == encoded


def test_bad_image_raises_with_its_first_row(tmp_path):
    bad = tmp_path / "torn.png"
    bad.write_bytes(png(RED)[:40])
    with pytest.raises(ImageError):
        Embedder(ColourBackbone()).images([RED, GREEN, bad, bad])


def test_skip_lists_every_row_that_has_the_bad_image(tmp_path):
    torn, missing = tmp_path / "torn.png", tmp_path / "missing.png"
    torn.write_bytes(png(RED)[:40])
    rows = Embedder(ColourBackbone()).images([RED, torn, missing, GREEN, torn, missing], on_error="skip")
    assert sorted(rows.failures) == [1, 2, 4, 5]
    assert rows.index.tolist() == [0, -1, -1, 1, -1, -1]
    assert [bool(key) for key in rows.keys] == [True, False, False, True, False, False]
    assert [rows.failures[row].row for row in sorted(rows.failures)] == [1, 2, 4, 5]


def test_work_done_before_an_error_is_kept(tmp_path):
    """An interrupted run resumes from the cache."""

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


def test_an_image_that_changes_between_reading_and_decoding_is_an_error(tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(png(RED))
    embedder = Embedder(ColourBackbone())
    look_up = embedder._look_up

    def overwritten(keys):
        path.write_bytes(png(GREEN))
        return look_up(keys)

    embedder._look_up = overwritten
    with pytest.raises(ImageError):
        embedder.images([path])


def test_nan_embeddings_are_an_error_not_a_score():
    class Broken(ColourBackbone):
        def encode_tokens(self, ids):
            return np.full((len(ids), 3), np.nan, np.float32)

    with pytest.raises(CapscoreError):
        Embedder(Broken()).texts(["red"])


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, "8", True])
def test_batch_size_is_checked(batch_size):
    with pytest.raises(InputError):
        Embedder(ColourBackbone(), batch_size=batch_size)


def test_on_error_is_checked():
    with pytest.raises(InputError):
        Embedder(ColourBackbone()).images([RED], on_error="bogus")


def test_texts_in_slabs_are_the_same(monkeypatch):
    texts = [" ".join(["red"] * (n % 4 + 1) + ["blue"] * (n % 3)) + f" {n}" for n in range(40)]
    whole = Embedder(ColourBackbone(), batch_size=3).texts(texts)
    monkeypatch.setattr("capscore.embedding.embedder.TEXT_BATCHES_A_SLAB", 2)
    backbone = ColourBackbone()
    slabs = Embedder(backbone, batch_size=3).texts(texts)
    np.testing.assert_allclose(slabs.matrix[slabs.index], whole.matrix[whole.index], rtol=0, atol=1e-6)
    assert max(map(len, backbone.text_batches)) == 3 and backbone.encoded_texts == 40


def test_threads_take_turns(monkeypatch):
    monkeypatch.setattr("capscore.embedding.embedder.MEMORY_ENTRIES", 5)
    embedder = Embedder(ColourBackbone(), batch_size=2)
    captions = [f"red {'blue ' * (n % 5)}{n}" for n in range(30)]
    expected = Embedder(ColourBackbone()).texts(captions)

    def work(turn: int):
        rows = embedder.texts(captions[turn % 7 :])
        np.testing.assert_allclose(
            rows.matrix[rows.index], expected.matrix[expected.index][turn % 7 :], rtol=0, atol=1e-6
        )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(80)))


def test_a_bad_row_is_named_before_a_later_one(tmp_path):
    """Whatever the rows are: files are looked up many at once, other images one by one."""
    good = tmp_path / "red.png"
    good.write_bytes(png(RED))
    rows = [str(good), str(tmp_path / "gone.png"), b"", str(tmp_path / "gone too.png")]
    with pytest.raises(ImageError) as caught:
        Embedder(ColourBackbone()).images(rows)
    assert caught.value.row == 1
    found = Embedder(ColourBackbone()).images([*rows, rows[1]], on_error="skip")
    assert sorted(found.failures) == [1, 2, 3, 4] and found.keys[1:] == [""] * 4
    assert found.index.tolist() == [0, -1, -1, -1, -1]


class Answers(BaseHTTPRequestHandler):
    """Serves another picture at every request; /gone is not there."""

    count = 0

    def do_GET(self):
        Answers.count += 1
        body = png(plain((Answers.count, 255, 0)))
        self.send_response(503 if self.path == "/gone" else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_a_url_is_fetched_once():
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        Answers.count = 0
        rows = Embedder(ColourBackbone(), allow_urls=True, allow_private_urls=True).images(
            [f"{url}/a", f"{url}/a", {"path": f"{url}/a", "bytes": None}, f"{url}/gone"], on_error="skip"
        )
        assert Answers.count == 2
        assert rows.index.tolist() == [0, 0, 0, -1]
        assert "/gone' answered HTTP 503" in str(rows.failures[3])
        with pytest.raises(ImageError):
            Embedder(ColourBackbone()).images([f"{url}/a"])
        server.shutdown()


def test_no_rows():
    embedder = Embedder(ColourBackbone())
    assert embedder.images([]).matrix.shape == (0, 3)
    assert embedder.texts([]).matrix.shape == (0, 3)


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr("capscore.embedding.embedder.MEMORY_ENTRIES", 3)
    embedder = Embedder(ColourBackbone())
    embedder.texts(["red", "green", "blue", "red red", "green green"])
    assert len(embedder._memory) == 3


def test_a_name_that_is_no_text_fails_its_row_alone(tmp_path):
    rows = Embedder(ColourBackbone()).images(["\ud800.jpg", RED], on_error="skip")
    assert list(rows.failures) == [0] and rows.index.tolist() == [-1, 0]


def test_progress_is_quiet_without_a_terminal(capsys):
    Embedder(ColourBackbone(), batch_size=1).texts([f"red {n}" for n in range(50)])
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err == ""
