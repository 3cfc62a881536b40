"""InfoMetIC decodes each photo once, for its embedding and its regions, and holds few of them at a time."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from PIL import Image

import capscore
from capscore.embedding import embedder as embedding
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.errors import ImageError, InputError
from capscore.metrics.infometic import InfoMetIC

from ..toy import ColourBackbone
from .test_infometic import Halves

BOX = [[0, 0, 3, 3]]


@pytest.fixture
def photos(tmp_path):
    """Six files that differ."""
    paths = []
    for number in range(6):
        pixels = np.random.default_rng(number).integers(0, 255, (8, 12, 3), dtype=np.uint8)
        paths.append(str(tmp_path / f"{number}.png"))
        Image.fromarray(pixels).save(paths[-1])
    return paths


def watch_decoding(monkeypatch, told):
    """Call `told` with the path and the picture of every file that the embedder decodes."""
    real = embedding.load_image

    def watched(image, **options):
        picture = real(image, **options)
        if isinstance(image, str):
            told(image, picture)
        return picture

    monkeypatch.setattr(embedding, "load_image", watched)


@pytest.fixture
def decoded(monkeypatch):
    """The files that were decoded, in order."""
    paths = []
    watch_decoding(monkeypatch, lambda path, picture: paths.append(path))
    return paths


def scorer(cache=None, **options):
    embedder = Embedder(ColourBackbone(), cache=cache, **options)
    return InfoMetIC(embedder, weights="info_clip", regions=Halves())


def captions(rows):
    return ["a red dog"] * len(rows)


def test_an_uncached_photo_is_decoded_once(photos, decoded):
    made = scorer()
    rows = [*photos, photos[0], photos[3]]
    first = made.score(captions(rows), rows, language="en")
    assert sorted(decoded) == photos and made.finder.asked == 6
    decoded.clear()
    # nothing is decoded again while embeddings and regions are remembered
    again = made.score(captions(rows), rows, language="en")
    assert (decoded, made.finder.asked) == ([], 6)
    assert again.to_dict() == first.to_dict()
    # regions at given boxes need the pixels again, each photo's once
    boxes = [BOX, None, BOX, None, None, None, [[1, 1, 5, 5]], None]
    made.score(captions(rows), rows, language="en", boxes=boxes)
    assert sorted(decoded) == [photos[0], photos[2]]


def test_a_photo_whose_embedding_is_on_disk_is_decoded_once(photos, decoded, tmp_path):
    cache = EmbeddingCache(tmp_path / "cache")
    first = scorer(cache).score(captions(photos), photos, language="en")
    decoded.clear()
    again = scorer(cache).score(captions(photos), photos, language="en")
    assert sorted(decoded) == photos
    assert again.to_dict() == first.to_dict()


def test_score_matrix_decodes_a_photo_once(photos, decoded):
    made = scorer()
    rows = [photos[1], photos[0], photos[1]]
    matrix, _ = made.score_matrix(["red", "blue dog"], rows, "en")
    assert sorted(decoded) == photos[:2]
    assert matrix.shape == (3, 2) and matrix[0].tolist() == matrix[2].tolist()


@pytest.mark.parametrize("batch_size", [1, 2, 7])
def test_batches_change_nothing(photos, batch_size, monkeypatch):
    expected = scorer().score(captions(photos), photos, language="en").to_dict()
    monkeypatch.setattr(embedding, "SHOWN_AT_ONCE", batch_size)
    found = scorer(batch_size=batch_size).score(captions(photos), photos, language="en").to_dict()
    assert found["scores"] == pytest.approx(expected["scores"], abs=1e-6)
    assert found["regions"] == expected["regions"]


def test_few_photos_are_in_memory_at_a_time(photos, monkeypatch):
    monkeypatch.setattr(embedding, "SHOWN_AT_ONCE", 2)
    made, counts = [], []

    def told(path, picture):
        gc.collect()
        made.append(weakref.ref(picture))
        counts.append(sum(one() is not None for one in made))

    watch_decoding(monkeypatch, told)
    scorer(batch_size=1).score(captions([*photos, *photos]), [*photos, *photos], language="en")
    # two are shown and two are decoded ahead; one may be on its way
    assert len(made) == 6 and max(counts) <= 5


def test_failures_of_photos_and_boxes_keep_their_rows(photos, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(open(photos[0], "rb").read()[:60])
    rows = [photos[0], str(broken), photos[0], str(tmp_path / "gone.png"), photos[1], photos[1]]
    boxes = [BOX, None, [[5, 5, 1, 1]], None, [[50, 50, 60, 60]], None]
    scores = scorer().score(captions(rows), rows, language="en", boxes=boxes, on_error="skip")
    assert sorted(scores.failures) == [1, 2, 3, 4]
    assert scores.failures[2].startswith("boxes: ") and scores.failures[4].startswith("boxes: ")
    assert [key != "" for key in scores.image_keys] == [True, False, False, False, False, True]
    for bad, kind, row in ((1, ImageError, 1), (3, ImageError, 1), (2, InputError, 1)):
        with pytest.raises(kind) as caught:
            scorer().score(["a dog"] * 2, [rows[0], rows[bad]], language="en", boxes=[None, boxes[bad]])
        assert caught.value.row == row


def test_the_library_says_what_it_is_told(photos):
    with pytest.raises(capscore.InputError, match="boxes: got 1; expected 2, one per candidate"):
        scorer().score(captions(photos[:2]), photos[:2], language="en", boxes=[BOX])
