"""InfoMetIC reads, tags and encodes each distinct thing once, and sharing changes no number."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from skimage import data

from capscore.embedding.embedder import Embedder
from capscore.files.columns import ColumnNames
from capscore.files.image_folder import ImageFolder
from capscore.files.read import open_rows
from capscore.metrics import infometic
from capscore.metrics.infometic import InfoMetIC
from capscore.text import word_classes

CAPTIONS = ["A tabby cat looks to the side.", "A dog.", "A cup of coffee stands on a table.", "Of the."]
ROWS = [(caption, place % 2) for caption in CAPTIONS for place in range(4)]  # each pair twice


@pytest.fixture(scope="module")
def photos():
    return data.chelsea(), data.coffee()


def score(scorer, photos, rows=ROWS):
    return scorer.score([caption for caption, _ in rows], [photos[photo] for _, photo in rows], language="en")


@pytest.fixture(scope="module")
def scored(embedded, photos):
    return score(InfoMetIC(Embedder(embedded, progress=False)), photos)


def test_each_distinct_text_is_read_once(embedded, photos, monkeypatch):
    read = Counter()
    original = type(embedded).encode_judged

    def encode(self, ids):
        read.update(map(tuple, ids))
        return original(self, ids)

    monkeypatch.setattr(type(embedded), "encode_judged", encode)
    scorer = InfoMetIC(Embedder(embedded, progress=False))
    score(scorer, photos)
    assert set(read.values()) == {1}
    # whole captions, and one without each of their words
    texts = [
        *CAPTIONS,
        "A cat looks to the side.",
        "A tabby looks to the side.",
        "A cup of coffee stands on a .",
    ]
    for ids in embedded.tokenize(texts).ids:
        assert tuple(ids) in read


def test_each_distinct_caption_is_tagged_once(embedded, photos, monkeypatch):
    tagged = Counter()
    original = word_classes.tag

    def tag(texts, language=None):
        tagged.update(texts)
        return original(texts, language)

    monkeypatch.setattr(word_classes, "tag", tag)
    score(InfoMetIC(Embedder(embedded, progress=False)), photos)
    assert tagged == Counter(CAPTIONS)


def test_each_distinct_image_is_encoded_once(embedded, photos, monkeypatch):
    scorer = InfoMetIC(Embedder(embedded, progress=False))
    encoded = []
    original = scorer.aligner.encode_images
    monkeypatch.setattr(
        scorer.aligner,
        "encode_images",
        lambda whole, *rest: encoded.append(len(whole)) or original(whole, *rest),
    )
    score(scorer, photos)
    assert encoded == [2]


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


def test_small_blocks_change_nothing(embedded, photos, scored, monkeypatch):
    for name, size in (("_AT_ONCE", 3), ("_PAIRS", 2), ("_IMAGES", 1)):
        monkeypatch.setattr(infometic, name, size)
    same(score(InfoMetIC(Embedder(embedded, progress=False)), photos), scored)


def test_rows_alone_and_in_another_order(embedded, photos, scored):
    scorer = InfoMetIC(Embedder(embedded, progress=False))
    backwards = score(scorer, photos, ROWS[::-1])
    np.testing.assert_allclose(backwards.scores[::-1], scored.scores, atol=1e-5)
    for row in (0, 5, 11):
        alone = score(scorer, photos, [ROWS[row]])
        assert flat(alone.details[0]) == pytest.approx(flat(scored.details[row]), abs=1e-5)


def test_rows_of_one_pair_do_not_share_their_details(scored):
    first, again = scored.details[0], scored.details[2]
    assert ROWS[0] == ROWS[2] and first == again
    assert first is not again and first["words"][0] is not again["words"][0]
    assert first["regions"][0]["box"] is not again["regions"][0]["box"]


def test_words_past_the_limit_cost_nothing(embedded, photos):
    embedder = Embedder(embedded, progress=False)
    with pytest.warns(UserWarning, match="more than 32 pieces"):
        detail = InfoMetIC(embedder).score(["dogs " * 300], [photos[0]], language="en").details[0]
    assert detail["n_words_cut"] > 200
    # the caption, "dogs", and names of regions; a caption without one of its words is always the same
    names = len(InfoMetIC(embedder).mark_calibration.nouns["en"])
    assert sum(key.startswith("text:") for key in embedder._memory) <= names + 3


def test_a_file_keeps_no_details(embedded, photos, scored, tmp_path):
    from PIL import Image

    from capscore.metrics.score_file import ScoringRun

    for number, photo in enumerate(photos):
        Image.fromarray(photo).save(tmp_path / f"{number}.png")
    lines = [json.dumps({"image": f"{photo}.png", "caption": caption}) for caption, photo in ROWS]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    scorer = InfoMetIC(Embedder(embedded, progress=False))
    names, folder = ColumnNames("image", "caption"), ImageFolder(tmp_path)
    run = ScoringRun(open_rows(tmp_path / "rows.jsonl"), names, folder, [scorer], language="en")
    run.run(None, {})
    found = run.scores()["infometic"]
    assert found.details is None and found.signature == scored.signature
    np.testing.assert_allclose(found.scores, scored.scores, atol=1e-5)
