"""Texts are cut into parts, and what is said of the parts is said of the texts."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from capscore.backbones.embedded.noise_gate import LONGEST, TextParts, text_parts

LETTERS = ["▁a", "▁Dog", "▁runs", "."]


def pieces_of(ids):
    return [LETTERS[id_ % 4] for id_ in ids]


def a_text(pieces):
    return [1, *(LETTERS.index(piece) + 4 for piece in pieces), 2]


def test_each_sentence_is_a_part_with_start_and_end():
    long = a_text(LETTERS * 12)
    parts = text_parts([a_text(LETTERS), long, a_text(LETTERS[:1])], pieces_of)
    assert parts.ids == [a_text(LETTERS), *[a_text(LETTERS)] * 12, a_text(LETTERS[:1])]
    assert parts.owners == [0, *[1] * 12, 2]
    assert (parts.n_texts, parts.first, parts.cut, parts.in_one) == (3, [0, 1, 13], [1], False)


def test_a_text_without_full_stops_is_cut_where_words_begin():
    (text,) = [a_text(["▁a", "▁runs"] * 150)]
    parts = text_parts([text], pieces_of)
    assert len(parts.ids) > 1 and max(map(len, parts.ids)) <= LONGEST + 2 + 8
    assert [id_ for part in parts.ids for id_ in part[1:-1]] == text[1:-1]


def test_a_text_whose_parts_lose_nothing_keeps_all_of_its_score():
    parts = TextParts([[1, *[7] * n, 2] for n in range(1, 60)], [0] * 59, 1)
    assert parts.joined(torch.tensor([[1.0, 1.0, 0.0]] * 59))[0, 0].item() == 1.0


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(1, 50), st.floats(0, 1), st.floats(0.01, 0.99)), min_size=1, max_size=4
        ),
        min_size=1,
        max_size=5,
    )
)
def test_a_text_is_the_mean_of_its_parts_by_their_lengths(texts):
    rows = [(text, *part) for text, own in enumerate(texts) for part in own]
    parts = TextParts([[1, *[7] * n, 2] for _, n, _, _ in rows], [text for text, *_ in rows], len(texts))
    verdicts = torch.tensor([[kept, p, 1 - p] for _, _, kept, p in rows], dtype=torch.float32)
    found = parts.joined(verdicts).double().numpy()
    for text, own in enumerate(texts):
        lengths = np.array([n for n, _, _ in own]) / sum(n for n, _, _ in own)
        kept = np.array([share for _, share, _ in own])
        assert abs(found[text, 0] - (lengths * kept).sum()) < 1e-5
        assert abs(found[text, 1:].sum() - 1) < 1e-5
        if len(own) > 1 and kept.min() < 0.9:
            lost = lengths * (1 - kept)
            expected = (lost * np.array([p for _, _, p in own])).sum() / lost.sum()
            assert abs(found[text, 1] - expected) < 1e-3
