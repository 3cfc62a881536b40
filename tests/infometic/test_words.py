"""The words of captions, which of them are semantic, and their scores from those of their pieces."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.errors import InputError
from capscore.infometic.words import (
    _NUMBERS,
    SEMANTIC_CLASSES,
    CaptionWord,
    Pieces,
    caption_words,
    nearest_regions,
    split_pieces,
    word_scores,
    word_shares,
)
from capscore.text import word_classes

# A caption, its semantic words and its numbers, as a reader finds them.
CAPTIONS = [
    ("en", "Two dogs are chasing a red ball near 3 girls.", "Two dogs chasing red ball 3 girls", "Two 3"),
    ("de", "Zwölf Kinder essen ein großes Eis.", "Zwölf Kinder essen großes Eis", "Zwölf"),
    ("fr", "Deux chiens noirs courent sur la plage.", "Deux chiens noirs courent plage", "Deux"),
    ("es", "Tres perros corren por la playa.", "Tres perros corren playa", "Tres"),
    ("zh", "两只狗在草地上跑", "两只 狗 草地 跑", "两只"),
    ("zh", "一个男人和一只狗", "男人 狗", ""),
    ("ja", "二人の少女が公園を走っている。", "二人 少女 公園 走っ", "二人"),
    ("ko", "두 소녀가 자전거를 탄다.", "두 소녀 자전거 탄다", "두"),
]


@pytest.mark.parametrize(("language", "caption", "semantic", "numbers"), CAPTIONS)
def test_semantic_words(language, caption, semantic, numbers):
    (words,) = caption_words([caption], language)
    assert " ".join(word.text for word in words if word.semantic) == semantic
    assert " ".join(word.text for word in words if word.word_class == "number") == numbers
    assert all(caption[word.start : word.end] == word.text for word in words)


def test_words_and_classes_but_for_numbers_are_those_of_the_tagger():
    captions = [caption for language, caption, _, _ in CAPTIONS if language == "en"] + ["", "…", "one dog"]
    rows = caption_words(captions)
    tagged = word_classes.tag(captions)
    assert [[word[:3] for word in row] for row in rows] == [[word[:3] for word in row] for row in tagged]
    for row, tags in zip(rows, tagged, strict=True):
        for word, tag in zip(row, tags, strict=True):
            assert word.word_class in (tag.word_class, "number")
            assert word.semantic == (word.word_class in SEMANTIC_CLASSES)
    assert rows[1:3] == [[], []]
    assert rows[3][0] == CaptionWord("one", 0, 3, False, "other")


def test_digits_of_any_script_are_numbers():
    (words,) = caption_words(["٣ كلاب"], "ar")
    assert words[0].word_class == "number"
    (words,) = caption_words(["the 2nd of 3.5 dogs"], "en")
    assert [word.text for word in words if word.word_class == "number"] == ["2nd", "3.5"]


def test_every_language_with_numbers_has_a_tagger():
    assert _NUMBERS.keys() | {"zh"} == word_classes._SOURCES.keys()  # Chinese ones are told by their signs
    for words in _NUMBERS.values():
        assert all(word == word.lower() for word in words.split())


def test_a_language_without_a_tagger_and_a_row_that_is_no_caption_are_refused():
    with pytest.raises(InputError, match="'mi'") as caught:
        caption_words(["he kurī"], "mi")
    assert caught.value.field == "language"
    with pytest.raises(InputError, match="expected a string") as caught:
        caption_words(["a dog", None], "en")
    assert caught.value.row == 1


# ---- scores ----


def pieces(*spans, n_cut=0, read_to=100):
    places = np.array(spans, np.int64).reshape(-1, 2)
    return Pieces(list(range(len(spans))), places[:, 0], places[:, 1], n_cut, read_to)


def word(start, end):
    return CaptionWord("x" * (end - start), start, end, True, "noun")


def test_a_word_has_the_sum_of_its_pieces():
    # "a surfboard!" as a, surf, board, !
    found = word_scores(
        pieces((0, 1), (2, 6), (6, 11), (11, 12)),
        np.array([0.125, 0.25, 0.5, 0.125]),
        [word(0, 1), word(2, 11)],
    )
    assert found == [0.125, 0.75]


def test_a_piece_of_two_words_is_shared_by_characters():
    # four characters in a piece: one of the first word, a sign between, two of the second
    shares = word_shares(pieces((0, 4), (4, 6)), [word(0, 1), word(2, 5)])
    np.testing.assert_allclose(shares, [[1 / 3, 2 / 3], [0, 1]])
    scores = word_scores(pieces((0, 4), (4, 6)), np.array([0.75, 0.25]), [word(0, 1), word(2, 5)])
    assert scores == pytest.approx([0.25, 0.75])


def test_pieces_of_one_character_all_count():
    assert word_scores(pieces((0, 1), (0, 1), (0, 1)), np.array([0.25, 0.25, 0.5]), [word(0, 1)]) == [1.0]


def test_words_that_were_not_read_have_no_score():
    # the caption is cut before its sixth character, within the second word; the third is never reached
    cut = pieces((0, 3), (3, 5), n_cut=2, read_to=5)
    assert word_scores(cut, np.array([0.5, 0.5]), [word(0, 3), word(3, 8), word(9, 12)]) == [0.5, None, None]
    # a word of which the tokenizer makes nothing, and a piece that writes nothing
    found = word_scores(pieces((0, 0), (0, 3)), np.array([0.5, 0.5]), [word(0, 3), word(4, 6)])
    assert found == [0.5, None]
    assert word_scores(pieces(), np.zeros(0), [word(0, 3)]) == [None]
    assert word_scores(pieces((0, 1)), np.ones(1), []) == []


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=12),
    st.lists(st.integers(1, 6), min_size=1, max_size=8),
    st.integers(0, 2**32 - 1),
)
def test_nothing_is_lost_where_words_cover_the_caption(piece_lengths, word_lengths, seed):
    total = min(sum(piece_lengths), sum(word_lengths))
    piece_ends = [0, *(end for end in np.cumsum(piece_lengths) if end < total), total]
    word_ends = [0, *(end for end in np.cumsum(word_lengths) if end < total), total]
    spans = list(itertools.pairwise(piece_ends))
    words = [word(int(a), int(b)) for a, b in itertools.pairwise(word_ends)]
    scores = np.random.default_rng(seed).dirichlet(np.ones(len(spans)))
    found = word_scores(pieces(*spans), scores, words)
    assert sum(found) == pytest.approx(1.0)
    # the same by characters, one by one
    by_character = np.repeat(scores / [b - a for a, b in spans], [b - a for a, b in spans])
    assert found == pytest.approx([by_character[w.start : w.end].sum() for w in words])


@pytest.mark.parametrize(("language", "caption", "semantic", "numbers"), CAPTIONS)
def test_every_word_of_a_real_caption_is_read(embedded, language, caption, semantic, numbers):
    (row,) = split_pieces(embedded, [caption])
    (words,) = caption_words([caption], language)
    scores = word_scores(row, np.full(len(row), 1 / len(row)), words)
    assert all(score is not None and score > 0 for score in scores)
    assert sum(scores) <= 1 + 1e-9


def test_the_nearest_region_of_each_word_written_out():
    pieces = Pieces([5, 6, 7], np.array([0, 4, 9]), np.array([3, 8, 12]), 0, 12)
    words = [
        CaptionWord("red", 0, 3, True, "adjective"),
        CaptionWord("on", 4, 8, False, "other"),
        CaptionWord("ballcar", 4, 12, True, "noun"),
    ]
    rows = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.2, 1.0]])
    regions = np.array([[0.0, 0.0, 9.0], [0.1, 0.0, 0.0], [0.0, 5.0, 5.0]])
    # "ballcar" is the sum of its pieces, (0, 1.2, 1): cosines 0.64 with the first, 0.996 with the last region
    found = nearest_regions(pieces, rows, words, regions)
    assert found == [1, None, 2]
    assert nearest_regions(pieces, rows, words, regions[::-1]) == [1, None, 0]
    assert nearest_regions(pieces, rows, words, np.zeros((0, 3))) == [None] * 3
