"""Texts to numbers: every distinct text tokenised once, every n-gram counted as a dict counts it."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from capscore.metrics.formulas.ngrams import Documents, NGrams, TokenRows, blocks, spans

from ...token_rows import split


def text_of(ngrams: NGrams, number: int) -> tuple[str, ...]:
    """The tokens of an n-gram, followed back from its last."""
    last = ngrams.words[ngrams.lasts[number]]
    prefix = int(ngrams.prefixes[number])
    return (last,) if prefix < 0 else (*text_of(ngrams, prefix), last)


def counted(tokens: list[str]) -> Counter[tuple[str, ...]]:
    return Counter(
        tuple(tokens[start : start + n]) for n in range(1, 5) for start in range(len(tokens) - n + 1)
    )


def test_each_distinct_text_is_tokenised_once_and_all_at_once():
    calls = []

    def tokenize(texts):
        calls.append(list(texts))
        return split(texts)

    rows = TokenRows.build(["a cat", "a cat"], [["one cat", "a cat"], ["one cat"]], tokenize)
    assert calls == [["a cat", "one cat"]]
    assert rows.candidates.tolist() == [0, 0] and rows.references.tolist() == [1, 0, 1]
    assert rows.offsets.tolist() == [0, 2, 3] and len(rows) == 2 and rows.lengths.tolist() == [2, 2]


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=8), max_size=6))
@settings(max_examples=20)
def test_every_ngram_is_counted_as_a_dict_counts_it(texts):
    ngrams = NGrams.count(texts)
    numbers = [text_of(ngrams, number) for number in range(len(ngrams))]
    assert len(set(numbers)) == len(numbers) and (np.diff(ngrams.keys) > 0).all()
    assert [len(text) - 1 for text in numbers] == ngrams.orders.tolist()
    which, ids, counts = ngrams.of(np.arange(len(texts)))
    found = [Counter() for _ in texts]
    for text, number, count in zip(which, ids, counts, strict=True):
        found[text][numbers[number]] = int(count)
    assert found == [counted(text) for text in texts]
    for text, expected in enumerate(found):
        row = np.full(len(numbers), text)
        assert ngrams.counts_in(row, np.arange(len(numbers))).tolist() == [expected[item] for item in numbers]


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 20))
@example([2, 3, 1, 9, 1], 4)
@settings(max_examples=20)
def test_blocks_cover_everything_once_and_stay_small(sizes, limit):
    cut = list(blocks(np.array(sizes, dtype=np.int64), limit))
    assert [number for block in cut for number in range(block.start, block.stop)] == list(range(len(sizes)))
    assert all(sum(sizes[block]) <= limit or block.stop - block.start == 1 for block in cut)


def test_spans_skip_empty_groups_and_nothing_has_no_ngrams():
    assert spans(np.array([5, 0, 9]), np.array([2, 0, 1])).tolist() == [5, 6, 9]
    assert spans(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []
    assert len(Documents.distinct(np.zeros(0, np.int64), np.zeros(1, np.int64))) == 0
    assert len(NGrams.count([])) == 0 and len(NGrams.count([[], []])) == 0
