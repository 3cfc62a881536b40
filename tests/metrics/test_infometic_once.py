"""InfoMetIC decodes, reads, tags and encodes each distinct thing once, and sharing changes no number."""

from collections import Counter

import numpy as np
import pytest
from PIL import Image

from capscore.embedding import photos as embedding
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.metrics import infometic
from capscore.metrics.infometic import InfoMetIC
from capscore.text import word_classes
from tools.tiny.colours import ColourBackbone

from .test_infometic import CAT, ROCKET, halves

BOX = [[0, 0, 3, 3]]
CAPTIONS = ["A tabby cat looks to the side.", "A dog.", "An astronaut stands by a flag.", "Of the."]
ROWS = [(caption, (CAT, ROCKET)[row % 2]) for caption in CAPTIONS for row in range(4)]  # each pair twice


def score(scorer, rows=ROWS):
    captions, photos = zip(*rows, strict=True)
    return scorer.score(captions, photos, language="en")


@pytest.fixture(scope="module")
def scored(embedded):
    return score(InfoMetIC(Embedder(embedded, progress=False)))


def flat(detail):
    """All numbers of a detail, in order."""
    numbers = [detail["p_fits"], detail["null"]]
    for word in detail["words"]:
        numbers += [
            word["score"],
            word["p_correct"] or 0.0,
            {None: 0.5}.get(word["correct"], word["correct"]),
        ]
    for region in detail["regions"]:
        numbers += [region["score"], region["p_mentioned"], *region["box"]]
    return numbers


def same(first, second):
    for one, other in zip(first.details, second.details, strict=True):
        assert flat(one) == pytest.approx(flat(other), abs=1e-5)
    for name in ("infometic_plus", "precision", "recall"):
        np.testing.assert_allclose(first.components[name], second.components[name], atol=1e-5)


def test_each_distinct_text_is_read_and_tagged_and_each_image_encoded_once(embedded, scored, monkeypatch):
    read, tagged, encoded = Counter(), Counter(), []
    encode, tag = type(embedded).encode_judged, word_classes.tag
    scorer = InfoMetIC(Embedder(embedded, progress=False))
    encode_images = scorer.aligner.encode_images

    def encode_judged(self, ids):
        read.update(map(tuple, ids))
        return encode(self, ids)

    def tag_once(texts, language=None):
        tagged.update(set(texts))
        return tag(texts, language)

    def encode_once(whole, *rest):
        encoded.append(len(whole))
        return encode_images(whole, *rest)

    monkeypatch.setattr(type(embedded), "encode_judged", encode_judged)
    monkeypatch.setattr(word_classes, "tag", tag_once)
    monkeypatch.setattr(scorer.aligner, "encode_images", encode_once)
    found = score(scorer)
    assert set(read.values()) == {1} and tagged == Counter(CAPTIONS) and encoded == [2]
    # whole captions, and one without each of their words
    texts = [*CAPTIONS, "A cat looks to the side.", "A tabby looks to the side.", "An stands by a flag."]
    assert {tuple(ids) for ids in embedded.tokenize(texts).ids} <= read.keys()
    same(found, scored)
    # rows of one pair do not share their details
    first, again = found.details[0], found.details[2]
    assert ROWS[0] == ROWS[2] and first["words"][0] is not again["words"][0]
    assert first["regions"][0]["box"] is not again["regions"][0]["box"]


def test_small_blocks_and_another_order_change_nothing(embedded, scored, monkeypatch):
    for name, size in (("_AT_ONCE", 3), ("_PAIRS", 2), ("_IMAGES", 1)):
        monkeypatch.setattr(infometic, name, size)
    scorer = InfoMetIC(Embedder(embedded, progress=False))
    same(score(scorer), scored)
    backwards = score(scorer, ROWS[::-1])
    np.testing.assert_allclose(backwards.scores[::-1], scored.scores, atol=1e-5)
    for row in (0, 11):
        assert flat(backwards.details[15 - row]) == pytest.approx(flat(scored.details[row]), abs=1e-5)


@pytest.fixture
def photos(tmp_path):
    """Six files that differ."""
    paths = [str(tmp_path / f"{number}.png") for number in range(6)]
    for number, path in enumerate(paths):
        pixels = np.random.default_rng(number).integers(0, 255, (8, 12, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path)
    return paths


@pytest.fixture
def decoded(monkeypatch):
    """The files that the embedder decodes, in order."""
    paths, real = [], embedding.load_image

    def watched(image, **options):
        paths.extend([image] * isinstance(image, str))
        return real(image, **options)

    monkeypatch.setattr(embedding, "load_image", watched)
    return paths


def on_toy(cache=None, **options):
    embedder = Embedder(ColourBackbone(), cache=cache, **options)
    return InfoMetIC(embedder, weights="info_clip", regions=halves())


def of_dogs(scorer, photos, **more):
    return scorer.score(["a red dog"] * len(photos), photos, language="en", **more)


def test_a_photo_is_decoded_once_for_its_embedding_and_its_regions(photos, decoded, tmp_path):
    scorer, rows = on_toy(), [*photos, photos[0], photos[3]]
    first = of_dogs(scorer, rows)
    assert sorted(decoded) == photos and scorer.finder.asked == 6
    decoded.clear()
    # nothing is decoded again while embeddings and regions are remembered
    assert of_dogs(scorer, rows).to_dict() == first.to_dict()
    assert (decoded, scorer.finder.asked) == ([], 6)
    # regions at given boxes need the pixels again, each photo's once
    of_dogs(scorer, rows, boxes=[BOX, None, BOX, None, None, None, [[1, 1, 5, 5]], None])
    assert sorted(decoded) == [photos[0], photos[2]]
    decoded.clear()
    cache = EmbeddingCache(tmp_path / "cache")
    on_disk = [of_dogs(on_toy(cache), photos).to_dict() for _ in range(2)]
    assert sorted(decoded) == sorted(photos * 2) and on_disk[0] == on_disk[1]
    decoded.clear()
    matrix, _ = on_toy().score_matrix(["red", "blue dog"], [photos[1], photos[0], photos[1]], "en")
    assert sorted(decoded) == photos[:2] and matrix[0].tolist() == matrix[2].tolist()
