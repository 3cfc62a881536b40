"""Where a long text is cut into sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore import load_backbone
from capscore.backbones.embedded.noise_gate import LONGEST, SHORTEST, sentence_cuts


def pieces_of(text: str) -> list[str]:
    """Words as pieces, punctuation apart, as SentencePiece has them."""
    pieces: list[str] = []
    for word in text.split():
        core = word.rstrip(".!?…,\"”)'")
        if core:
            pieces.append("▁" + core)
        pieces += list(word[len(core) :])
    return pieces


def parts_of(text: str) -> list[str]:
    pieces = pieces_of(text)
    cuts = sentence_cuts(pieces)
    starts = [0, *cuts[:-1]]
    return ["".join(pieces[a:b]).replace("▁", " ").strip() for a, b in zip(starts, cuts, strict=True)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("two dogs", ["two dogs"]),
        ("A dog runs home. It is brown.", ["A dog runs home.", "It is brown."]),
        # noise moves full stops: in a short text a sentence ends only where a capital follows
        ("runs home. a dog brown the", ["runs home. a dog brown the"]),
        ("A man reads “the news.” He is old now.", ["A man reads “the news.”", "He is old now."]),
        ("A man in St. Petersburg Square waits today.", ["A man in St. Petersburg Square waits today."]),
        ("Is it a cat? A dog is here!", ["Is it a cat?", "A dog is here!"]),
    ],
)
def test_sentences_of_short_texts(text, parts):
    assert parts_of(text) == parts


def test_a_long_text_in_lower_case_is_cut_too():
    text = " ".join(["a man reads on a bench."] * 12)
    assert parts_of(text) == ["a man reads on a bench."] * 12


def test_full_width_signs_need_no_blank():
    pieces = list("犬が走っている。猫が寝ている。" * 4)
    cuts = sentence_cuts(pieces)
    assert cuts == [8, 15, 23, 30, 38, 45, 53, 60]


def test_a_text_without_full_stops_is_cut_where_words_begin():
    pieces = ["▁dog", "s"] * 150
    cuts = sentence_cuts(pieces)
    assert cuts[-1] == 300 and len(cuts) == 4
    assert all(pieces[cut].startswith("▁") for cut in cuts[:-1])


@given(st.lists(st.sampled_from(["▁a", "▁Dog", "s", ".", "。", "?", "”", "▁"]), max_size=400))
def test_parts_make_up_the_text_and_none_is_too_long(pieces):
    cuts = sentence_cuts(pieces)
    assert cuts[-1] == len(pieces) and cuts == sorted(set(cuts))
    sizes = [b - a for a, b in zip([0, *cuts], cuts, strict=False)]
    assert all(size <= LONGEST + 8 for size in sizes)
    if len(pieces) < SHORTEST:
        assert cuts == [len(pieces)]


@pytest.mark.usefixtures("embedded_is_read_once")
def test_the_tokenizer_names_the_pieces_that_are_cut():
    tokenizer = load_backbone("embedded-free", device="cpu").tokenizer
    (ids,) = tokenizer(["A dog runs. It is brown."])
    assert "".join(tokenizer.pieces(ids[1:-1])) == "▁A▁dog▁runs.▁It▁is▁brown."
