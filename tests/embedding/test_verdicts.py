"""What a backbone's gate says of a text travels with its embedding: in memory, on disk, in any order."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from capscore.embedding.cache import EmbeddingCache
from capscore.embedding.embedder import Embedder

from ..toy import GREEN, RED, ColourBackbone, JudgingColours

TEXTS = ["red", "red red", "green green green", "red"]
# shares of the tokens that differ, start and end among them
KEPT = [1.0, 0.75, 0.6, 1.0]


def kept(rows):
    return rows.verdicts[rows.index][:, 0]


def test_each_distinct_text_is_judged_once():
    backbone = JudgingColours()
    embedder = Embedder(backbone)
    np.testing.assert_allclose(kept(embedder.texts(TEXTS)), KEPT, atol=1e-7)
    np.testing.assert_allclose(kept(embedder.texts(TEXTS[::-1])), KEPT[::-1], atol=1e-7)
    assert backbone.judged_texts == backbone.encoded_texts == 3


def test_without_a_gate_and_for_images_there_are_none():
    assert Embedder(ColourBackbone()).texts(TEXTS).verdicts.shape == (3, 0)
    assert Embedder(JudgingColours()).images([RED, GREEN, RED]).verdicts.shape == (2, 0)


def test_a_later_run_finds_them_in_the_cache(tmp_path):
    first, second = JudgingColours(), JudgingColours()
    for backbone in (first, second):
        embedder = Embedder(backbone, cache=EmbeddingCache(tmp_path))
        rows = embedder.texts(TEXTS)
        np.testing.assert_allclose(kept(rows), KEPT, atol=1e-7)
        assert rows.verdicts.shape == (3, 3) and rows.matrix.shape == (3, 3)
        assert embedder.images([RED, GREEN]).matrix.tolist() == [[1, 0, 0], [0, 1, 0]]
    assert (first.judged_texts, second.judged_texts) == (3, 0)
    assert (first.encoded_images, second.encoded_images) == (2, 0)


def test_an_entry_without_a_verdict_counts_as_absent(tmp_path):
    plain = ColourBackbone(fingerprint="judging-colours-1")
    Embedder(plain, cache=EmbeddingCache(tmp_path)).texts(TEXTS)
    judging = JudgingColours()
    rows = Embedder(judging, cache=EmbeddingCache(tmp_path)).texts(TEXTS)
    np.testing.assert_allclose(kept(rows), KEPT, atol=1e-7)
    assert judging.judged_texts == 3


@given(
    st.lists(st.lists(st.sampled_from(["red", "green", "sky"]), max_size=5).map(" ".join), max_size=12),
    st.integers(1, 5),
)
def test_order_duplicates_and_batch_size_do_not_matter(texts, batch_size):
    rows = Embedder(JudgingColours(), batch_size=batch_size).texts(texts)
    found = kept(rows) if texts else []
    for text, share in zip(texts, found, strict=True):
        tokens = (
            ["start", *text.split()[:4], "end"] if len(text.split()) > 4 else ["start", *text.split(), "end"]
        )
        assert abs(share - len(set(tokens)) / len(tokens)) < 1e-6
