"""Batches: pairs of right and damaged texts, the same for the same seed, with marks where damage is."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from capscore import InputError, load_backbone
from weights.making.noise_gate import styles
from weights.making.noise_gate.samples import SampleBatches, draw_pair, tokens_with_marks
from weights.making.noise_gate.texts import marked

from .marked_texts import CAPTIONS

pytestmark = pytest.mark.usefixtures("embedded_is_read_once")


@pytest.fixture(scope="module")
def tokenizer():
    return load_backbone("embedded", device="cpu").tokenizer


@pytest.fixture(scope="module")
def texts():
    return [
        text
        for language, captions in CAPTIONS.items()
        for text in marked(captions, language, [None] * len(captions))
    ]


def batches(texts, tokenizer, **changes) -> SampleBatches:
    given = {"language_shares": {"en": 3, "de": 1}, "source_shares": {}, "batch_size": 32, "steps": 40}
    return SampleBatches(texts, tokenizer, **{**given, **changes})


def test_a_batch_depends_on_seed_epoch_and_step_alone(texts, tokenizer):
    one, other = batches(texts, tokenizer), batches(texts, tokenizer)
    late = one.batch(0, 20)
    assert other.batch(0, 20) == late and other.batch(0, 3) == one.batch(0, 3)
    assert batches(texts, tokenizer, seed=1).batch(0, 20) != late and one.batch(1, 20) != late


def test_right_texts_lose_nothing_and_damaged_ones_something(texts, tokenizer):
    drawn = [sample for step in range(16) for sample in batches(texts, tokenizer).batch(0, step)]
    kinds = Counter(sample.found for sample in drawn)
    assert len(drawn) == 512 and set(kinds) == set(range(6)) and 256 <= kinds[0] <= 330
    for sample in drawn:
        assert (sample.taken == 0) == (sample.found == 0)
        assert len(sample.ids) == len(sample.touched) and sample.touched[0] == sample.touched[-1] == 0
        if sample.found == 0:
            assert not any(sample.touched)
    assert Counter(sample.language for sample in drawn)["en"] > 320


def test_pairs_are_one_text_right_and_damaged(texts):
    chance = random.Random(0)
    pairs = [draw_pair(texts[:3], chance) for _ in range(300)]
    for right, other in pairs:
        assert right.kind == "none" and right.taken == 0 and right.style == other.style
        assert (right == other) == (other.kind == "none")
        assert right == other or right.text != other.text
    assert sum(other.kind == "none" for _, other in pairs) < 60


def test_parts_come_with_a_stop_and_without_and_phrases_are_listed(texts):
    chance = random.Random(0)
    right = [one for one, _ in (draw_pair(texts[:3], chance) for _ in range(2000))]
    phrases = [one.text for one in right if one.style == "noun phrase, as written"]
    stopped = sum(text[-1] in ".!" and text[0].isupper() for text in phrases)
    assert 0.25 < stopped / len(phrases) < 0.55
    listed = [one.text for one in right if one.style == "joined, lower bare" and len(one.text) < 40]
    assert any(", " in text for text in listed)
    assert any(text[-4:].isdecimal() for text in phrases)


def test_marks_lie_on_the_tokens_of_the_touched_words(tokenizer):
    text = "A dog dog runs."
    ((ids, marks),) = tokens_with_marks(tokenizer, [text], [[(2, 9)]])
    pieces = tokenizer.pieces(ids[1:-1])
    touched = "".join(piece for piece, mark in zip(pieces, marks[1:-1], strict=True) if mark)
    assert touched == "▁dog▁dog" and marks[0] == marks[-1] == 0
    # a text that the tokenizer rewrites: places are not known
    ((_, unknown),) = tokens_with_marks(tokenizer, ["ﬁsh  ﬁsh"], [[(0, 3)]])
    assert set(unknown[1:-1]) == {-1}


@pytest.mark.parametrize(
    ("way", "expected"),
    [
        (styles.lower, "two dogs play with a yellow ball in the snow."),
        (styles.upper, "TWO DOGS PLAY WITH A YELLOW BALL IN THE SNOW."),
        (styles.title, "Two Dogs Play With A Yellow Ball In The Snow."),
        (styles.bare, "Two dogs play with a yellow ball in the snow"),
        (styles.spaced, "two dogs play with a yellow ball in the snow ."),
        (styles.unstopped, "Two dogs play with a yellow ball in the snow"),
    ],
)
def test_ways_of_writing(texts, way, expected):
    styled = way(styles.as_written(texts[1]))
    assert styled.text == expected
    nouns = [styled.text[start:end].lower() for start, end in styled.objects]
    assert nouns == ["dogs", "ball", "snow"]


def test_parts_of_a_caption_are_well_formed(texts):
    drawn = [styles.noun_phrase(texts[1], random.Random(seed)).text for seed in range(60)]
    assert {"a yellow ball", "yellow ball"} <= set(drawn) and all(len(part.split()) <= 5 for part in drawn)
    fragment = styles.fragment(texts[1], random.Random(0)).text
    assert fragment.startswith("play with a yellow ball")


def test_a_turkish_i_keeps_its_dot():
    text = marked(["Iki çocuk İstanbul'da."], "tr", [None])[0]
    assert styles.lower(styles.as_written(text)).text == "ıki çocuk istanbul'da."


def test_a_language_without_captions(texts, tokenizer):
    with pytest.raises(InputError, match="there are no captions in fr"):
        batches(texts, tokenizer, language_shares={"fr": 1})


def test_a_language_whose_captions_all_weigh_nothing(texts, tokenizer):
    with pytest.raises(InputError, match="all captions in a language are of data sets with the weight 0"):
        batches(texts, tokenizer, source_shares={"": 0.0})
