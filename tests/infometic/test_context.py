"""What words add to their captions, by hand: pieces of one word and of several, words without pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.infometic.words import (
    CaptionWord,
    Pieces,
    added_by_words,
    caption_words,
    split_pieces,
    spread,
    without_word,
    word_shares,
)


def pieces(*spans):
    places = np.array(spans, np.int64).reshape(-1, 2)
    return Pieces(list(range(len(spans))), places[:, 0], places[:, 1], 0, 100)


def word(start, end):
    return CaptionWord("x" * (end - start), start, end, True, "noun")


def word_context(split, words, counted, added):
    return spread(word_shares(split, words)[:, list(counted)], added)


def place(caption, text, nth=0):
    """The nth time that a text stands in a caption, as a word."""
    start = -1
    for _ in range(nth + 1):
        start = caption.index(text, start + 1)
    return CaptionWord(text, start, start + len(text), True, "noun")


# Without a word


@pytest.mark.parametrize(
    ("caption", "text", "nth", "left"),
    [
        ("Two red dogs run", "Two", 0, "red dogs run"),
        ("Two red dogs run", "dogs", 0, "Two red run"),
        ("Two red dogs run", "run", 0, "Two red dogs"),
        ("a dog and a dog", "dog", 0, "a and a dog"),
        ("a dog and a dog", "dog", 1, "a dog and a"),
        ("A  red,\n round ball .", "red", 0, "A , round ball ."),
        ("A water-bottle", "water", 0, "A -bottle"),
        ("Dogs", "Dogs", 0, ""),
        ("两只狗在草地上跑", "狗", 0, "两只在草地上跑"),
        ("两只狗在草地上跑", "跑", 0, "两只狗在草地上"),
    ],
)
def test_a_caption_without_a_word(caption, text, nth, left):
    word = place(caption, text, nth)
    assert without_word(caption, word.start, word.end) == left


# Pieces


def test_pieces_of_one_word_share_what_it_adds_and_a_weight_of_1():
    # "ball|oon s in a red": a word of three pieces, two that do not count, a word of one
    added, weight = word_context(
        pieces((0, 4), (4, 7), (7, 8), (9, 11), (12, 13), (14, 17)),
        [word(0, 8), word(9, 11), word(14, 17)],
        [0, 2],
        np.array([[0.5, -1.0], [0.25, 2.0]]),
    )
    assert added.tolist() == [[0.5, -1.0]] * 3 + [[0.0, 0.0]] * 2 + [[0.25, 2.0]]
    assert weight == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0, 0, 1])
    assert added.dtype == weight.dtype == np.float32


def test_a_piece_of_two_words_has_something_of_both():
    # abcd|efg, words "ab" and "cdefg": half of the first piece is of either, the second all of the second;
    # the second word has 1.5 pieces, so that the first has 1 + 0.5/1.5 of a weight, which is at most 1
    added, weight = word_context(
        pieces((0, 4), (4, 7)), [word(0, 2), word(2, 7)], [0, 1], np.array([[1.0, 0.0], [0.0, 3.0]])
    )
    assert added.tolist() == [[0.5, 1.5], [0.0, 3.0]]
    assert weight == pytest.approx([1, 2 / 3])
    # ab|cdef|gh of "abc" and "defgh": 1 + 1/4 and 3/4 + 1 pieces
    added, weight = word_context(
        pieces((0, 2), (2, 6), (6, 8)), [word(0, 3), word(3, 8)], [0, 1], np.array([[4.0], [8.0]])
    )
    assert added.tolist() == [[4.0], [0.25 * 4 + 0.75 * 8], [8.0]]
    assert weight == pytest.approx([1 / 1.25, 0.25 / 1.25 + 0.75 / 1.75, 1 / 1.75])


def test_a_piece_that_writes_two_words_weighs_no_more_than_one():
    added, weight = word_context(
        pieces((0, 2), (2, 3)), [word(0, 1), word(1, 2)], [0, 1], np.array([[1.0], [3.0]])
    )
    assert added.tolist() == [[2.0], [0.0]]
    assert weight.tolist() == [1.0, 0.0]


def test_a_word_without_pieces_and_a_piece_that_writes_nothing():
    added, weight = word_context(
        pieces((0, 0), (0, 3)), [word(0, 3), word(4, 6)], [0, 1], np.array([[1.0, 2.0], [9.0, 9.0]])
    )
    assert added.tolist() == [[0.0, 0.0], [1.0, 2.0]]
    assert weight.tolist() == [0.0, 1.0]


def test_no_words_and_no_pieces():
    added, weight = word_context(pieces((0, 3), (4, 6)), [], [], np.zeros((0, 2)))
    assert added.tolist() == [[0.0, 0.0], [0.0, 0.0]] and weight.tolist() == [0.0, 0.0]
    added, weight = word_context(pieces(), [word(0, 3)], [0], np.ones((1, 2)))
    assert added.shape == (0, 2) and weight.shape == (0,)


def test_shares_are_spread_whatever_their_kind():
    shares = np.array([[1, 0], [0.25, 0], [0, 0]], np.float32)
    added, weight = spread(shares, np.array([[4, 8], [1, 1]], np.float16))
    assert added.tolist() == [[4, 8], [1, 2], [0, 0]]
    assert weight == pytest.approx([0.8, 0.2, 0])


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=5),
)
def test_weights_are_shares_and_those_of_a_word_of_whole_pieces_are_1(lengths, gaps):
    ends = np.cumsum(lengths)
    words, at = [], 0
    for gap, length in gaps:
        words.append(word(at + gap, at + gap + length))
        at += gap + length
    _, weight = word_context(
        pieces(*zip(ends - lengths, ends, strict=True)), words, range(len(words)), np.zeros((len(words), 1))
    )
    assert (weight >= 0).all() and (weight <= 1).all()
    borders = {0, *ends.tolist()}
    for one in words:
        if one.start in borders and one.end in borders:
            inside = (ends - lengths >= one.start) & (ends <= one.end)
            assert weight[inside].sum() == pytest.approx(1, abs=1e-6)
            assert len(set(weight[inside].tolist())) == 1


# What words add


class Written:
    """Embeds a text as how often it has each of three letters, and remembers what it was asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, texts):
        self.asked.append(list(texts))
        return np.array([[text.count(letter) for letter in "abc"] for text in texts], np.float64)


def test_what_words_add_written_out():
    embed = Written()
    first, second = added_by_words(
        ["ab ccc", "b a"],
        [[place("ab ccc", "ab"), place("ab ccc", "ccc")], [place("b a", "a")]],
        embed,
    )
    assert first.tolist() == [[1, 1, 0], [0, 0, 3]]
    assert second.tolist() == [[1, 0, 0]]
    assert first.dtype == np.float32
    assert embed.asked == [["ab ccc", "ccc", "ab", "b a", "b"]]


def test_equal_texts_are_embedded_once():
    embed = Written()
    # the second caption is the first without its last word, and its word leaves what the third one is
    captions = ["a b c", "a b", "a", "a b c"]
    words = [
        [place("a b c", "c"), place("a b c", "b")],
        [place("a b", "b")],
        [],
        [place("a b c", "c")],
    ]
    found = added_by_words(captions, words, embed)
    assert embed.asked == [["a b c", "a b", "a c", "a"]]
    assert [rows.tolist() for rows in found] == [
        [[0, 0, 1], [0, 1, 0]],
        [[0, 1, 0]],
        [],
        [[0, 0, 1]],
    ]
    assert found[2].shape == (0, 3)


def test_captions_of_blanks_more_or_less_are_two_captions():
    embed = Written()
    found = added_by_words(["a  b", "a b"], [[place("a  b", "b")], [place("a b", "b")]], embed)
    assert embed.asked == [["a  b", "a", "a b"]]
    assert [rows.tolist() for rows in found] == [[[0, 1, 0]]] * 2


def test_a_chinese_caption(embedded):
    caption = "两只狗在草地上跑"
    (words,), (split,) = caption_words([caption], "zh"), split_pieces(embedded, [caption])
    counted = [one for one in words if one.semantic]
    assert [one.text for one in counted] == ["两只", "狗", "草地", "跑"]
    (added,) = added_by_words([caption], [counted], embedded.encode_texts)
    texts = [caption, "狗在草地上跑", "两只在草地上跑", "两只狗在上跑", "两只狗在草地上"]
    whole, *without = embedded.encode_texts(texts)
    np.testing.assert_allclose(added, whole - np.array(without), atol=1e-6)
    numbers = [number for number, one in enumerate(words) if one.semantic]
    told, weight = word_context(split, words, numbers, added)
    written = [caption[a:b] for a, b in zip(split.starts, split.ends, strict=True)]
    # 草地 has all of 草 and a part of 地上
    assert written == ["", "两", "只", "狗", "在", "草", "地上", "跑"]
    assert (weight > 0).tolist() == [False, True, True, True, False, True, True, True]
    assert weight[[1, 2, 3, 7]].tolist() == [0.5, 0.5, 1, 1]
    np.testing.assert_allclose(told[[1, 2, 3, 7]], added[[0, 0, 1, 3]], atol=1e-7)
    assert not told[[0, 4]].any()
