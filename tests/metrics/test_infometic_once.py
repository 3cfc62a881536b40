"""InfoMetIC decodes, reads, tags and encodes each distinct thing once, and sharing changes no number."""

from __future__ import annotations

import json
import weakref
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from capscore.embedding import embedder as embedding
from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder
from capscore.errors import ImageError, InputError
from capscore.files.columns import ColumnNames
from capscore.files.image_folder import ImageFolder
from capscore.files.read import open_rows
from capscore.metrics import infometic
from capscore.metrics.infometic import InfoMetIC
from capscore.metrics.score_file import ScoringRun
from capscore.text import word_classes

from ..toy import ColourBackbone
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


def test_each_distinct_text_is_read_and_tagged_and_each_image_encoded_once(embedded, scored, monkeypatch):
    read, tagged, encoded = Counter(), Counter(), []
    encode, tag = type(embedded).encode_judged, word_classes.tag
    scorer = InfoMetIC(Embedder(embedded, progress=False))
    encode_images = scorer.aligner.encode_images
    monkeypatch.setattr(
        type(embedded), "encode_judged", lambda self, ids: read.update(map(tuple, ids)) or encode(self, ids)
    )
    monkeypatch.setattr(
        word_classes, "tag", lambda texts, language=None: tagged.update(texts) or tag(texts, language)
    )
    monkeypatch.setattr(
        scorer.aligner,
        "encode_images",
        lambda whole, *rest: encoded.append(len(whole)) or encode_images(whole, *rest),
    )
    found = score(scorer)
    assert set(read.values()) == {1} and tagged == Counter(CAPTIONS) and encoded == [2]
    # whole captions, and one without each of their words
    texts = [*CAPTIONS, "A cat looks to the side.", "A tabby looks to the side.", "An stands by a flag."]
    assert {tuple(ids) for ids in embedded.tokenize(texts).ids} <= read.keys()
    same(found, scored)
    # rows of one pair do not share their details
    first, again = found.details[0], found.details[2]
    assert ROWS[0] == ROWS[2] and first == again and first["words"][0] is not again["words"][0]
    assert first["regions"][0]["box"] is not again["regions"][0]["box"]


def flat(detail):
    """All numbers of a detail, in order."""
    numbers = [detail["p_fits"], detail["null"]]
    for word in detail["words"]:
        numbers += [word["score"], word["p_correct"] or 0.0]
    for region in detail["regions"]:
        numbers += [region["score"], region["p_mentioned"], *region["box"]]
    return numbers


def same(first, second):
    for one, other in zip(first.details, second.details, strict=True):
        assert flat(one) == pytest.approx(flat(other), abs=1e-5)
        assert [word["correct"] for word in one["words"]] == [word["correct"] for word in other["words"]]
    np.testing.assert_allclose(first.scores, second.scores, atol=1e-5)
    for name in ("infometic_plus", "precision", "recall"):
        np.testing.assert_allclose(first.components[name], second.components[name], atol=1e-5)


def test_small_blocks_and_another_order_change_nothing(embedded, scored, monkeypatch):
    for name, size in (("_AT_ONCE", 3), ("_PAIRS", 2), ("_IMAGES", 1)):
        monkeypatch.setattr(infometic, name, size)
    scorer = InfoMetIC(Embedder(embedded, progress=False))
    same(score(scorer), scored)
    backwards = score(scorer, ROWS[::-1])
    np.testing.assert_allclose(backwards.scores[::-1], scored.scores, atol=1e-5)
    for row in (0, 11):
        assert flat(backwards.details[15 - row]) == pytest.approx(flat(scored.details[row]), abs=1e-5)


def test_words_past_the_limit_cost_nothing(embedded):
    embedder = Embedder(embedded, progress=False)
    scorer = InfoMetIC(embedder)
    with pytest.warns(UserWarning, match="more than 32 pieces"):
        (detail,) = scorer.score(["dogs " * 300], [CAT], language="en").details
    assert detail["n_words_cut"] > 200
    # the caption, "dogs", and names of regions; a caption without one of its words is always the same
    names = len(scorer.mark_calibration.nouns["en"])
    assert sum(key.startswith("text:") for key in embedder._memory) <= names + 3


def test_a_file_keeps_no_details(embedded, scored, tmp_path):
    lines = [json.dumps({"image": photo, "caption": caption}) for caption, photo in ROWS]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    scorer = InfoMetIC(Embedder(embedded, progress=False))
    names, folder = ColumnNames("image", "caption"), ImageFolder(tmp_path)
    run = ScoringRun(open_rows(tmp_path / "rows.jsonl"), names, folder, [scorer], language="en")
    run.run(None, {})
    found = run.scores()["infometic"]
    assert found.details is None and found.signature == scored.signature
    np.testing.assert_allclose(found.scores, scored.scores, atol=1e-5)


# ------------------------------------------------------------------ photos


@pytest.fixture
def photos(tmp_path):
    """Six files that differ."""
    paths = []
    for number in range(6):
        pixels = np.random.default_rng(number).integers(0, 255, (8, 12, 3), dtype=np.uint8)
        paths.append(str(tmp_path / f"{number}.png"))
        Image.fromarray(pixels).save(paths[-1])
    return paths


@pytest.fixture
def decoded(monkeypatch):
    """The files that the embedder decodes, in order, and the pictures that were alive after each."""
    paths, made, real = [], [], embedding.load_image

    def watched(image, **options):
        picture = real(image, **options)
        if isinstance(image, str):
            made.append(weakref.ref(picture))
            paths.append((image, sum(reference() is not None for reference in made)))
        return picture

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
    assert sorted(path for path, _ in decoded) == photos and scorer.finder.asked == 6
    decoded.clear()
    # nothing is decoded again while embeddings and regions are remembered
    assert of_dogs(scorer, rows).to_dict() == first.to_dict()
    assert (decoded, scorer.finder.asked) == ([], 6)
    # regions at given boxes need the pixels again, each photo's once
    boxes = [BOX, None, BOX, None, None, None, [[1, 1, 5, 5]], None]
    of_dogs(scorer, rows, boxes=boxes)
    assert sorted(path for path, _ in decoded) == [photos[0], photos[2]]
    decoded.clear()
    cache = EmbeddingCache(tmp_path / "cache")
    on_disk = [of_dogs(on_toy(cache), photos).to_dict() for _ in range(2)]
    assert sorted(path for path, _ in decoded) == sorted(photos * 2) and on_disk[0] == on_disk[1]
    decoded.clear()
    matrix, _ = on_toy().score_matrix(["red", "blue dog"], [photos[1], photos[0], photos[1]], "en")
    assert sorted(path for path, _ in decoded) == photos[:2]
    assert matrix.shape == (3, 2) and matrix[0].tolist() == matrix[2].tolist()


def test_few_photos_are_in_memory_at_a_time_and_batches_change_nothing(photos, decoded, monkeypatch):
    expected = of_dogs(on_toy(), photos).to_dict()
    decoded.clear()
    monkeypatch.setattr(embedding, "SHOWN_AT_ONCE", 2)
    found = of_dogs(on_toy(batch_size=1), photos).to_dict()
    # two are shown and two are decoded ahead; one may be on its way
    assert len(decoded) == 6 and max(alive for _, alive in decoded[1:]) - decoded[0][1] <= 4
    assert found["scores"] == pytest.approx(expected["scores"], abs=1e-6)
    assert found["regions"] == expected["regions"]


def test_failures_of_photos_and_boxes_keep_their_rows(photos, tmp_path):
    broken = tmp_path / "broken.png"
    broken.write_bytes(open(photos[0], "rb").read()[:60])
    rows = [photos[0], str(broken), photos[0], str(tmp_path / "gone.png"), photos[1], photos[1]]
    boxes = [BOX, None, [[5, 5, 1, 1]], None, [[50, 50, 60, 60]], None]
    scores = of_dogs(on_toy(), rows, boxes=boxes, on_error="skip")
    assert sorted(scores.failures) == [1, 2, 3, 4]
    assert scores.failures[2].startswith("boxes: ") and scores.failures[4].startswith("boxes: ")
    assert [key != "" for key in scores.image_keys] == [True, False, False, False, False, True]
    for bad, kind in ((1, ImageError), (3, ImageError), (2, InputError)):
        with pytest.raises(kind) as caught:
            of_dogs(on_toy(), [rows[0], rows[bad]], boxes=[None, boxes[bad]])
        assert caught.value.row == 1
