"""Batches: pairs of right and damaged texts, the same for the same seed, with marks where damage is."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore import InputError
from capscore.perturbations import KINDS
from weights.making.noise_gate.samples import SampleBatches, damaged, draw_pair, taken_of, tokens_with_marks
from weights.making.noise_gate.styles import as_written
from weights.making.noise_gate.texts import marked

from .captions import marked_captions

TEXTS = marked_captions()
SENTENCE, NOUN, ARTICLE = (
    as_written(text)
    for text in marked(["A man rides a horse near two old boats.", "dogs", "the dog"], "en", [None] * 3)
)


@pytest.fixture(scope="module")
def tokenizer(embedded):
    return embedded.tokenizer


def batches(tokenizer, **changes) -> SampleBatches:
    given = {"language_shares": {"en": 3, "de": 1}, "source_shares": {}, "batch_size": 16, "steps": 40}
    return SampleBatches(TEXTS, tokenizer, **{**given, **changes})


@pytest.mark.parametrize(
    ("kind", "share", "taken"),
    [
        ("repetition", 0.1, 1 - 0.9**6),
        ("masking", 0.5, 1 - 0.5**6),
        ("jumble", 0.2, 1 - 0.8**5),
        ("removal", 0.5, 0.875),
        ("substitution", 0.36, 0.488),
        ("substitution", 1.0, 1.0),
        ("jumble", 0.0, 0.0),
    ],
)
def test_more_noise_takes_more(kind, share, taken):
    assert taken_of(kind, share) == pytest.approx(taken, abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_damage_is_what_its_kind_says_and_takes_by_the_words_that_it_touches(kind, seed):
    found = damaged(SENTENCE, kind, random.Random(seed))
    if found is None:
        assert kind in ("removal", "jumble", "substitution")
        return
    before, after = SENTENCE.text.split(), found.text.split()
    assert 0 < found.taken <= 1 and found == damaged(SENTENCE, kind, random.Random(seed))
    assert all(0 <= start < end <= len(found.text) for start, end in found.touched) and found.touched
    if kind == "repetition":
        assert len(after) == len(before) + len(found.touched)
        assert found.taken == pytest.approx(taken_of(kind, len(found.touched) / 9))
    elif kind == "masking":
        assert sum("[MASK]" in word for word in after) == len(found.touched) and len(after) == len(before)
    elif kind == "removal":
        rest = iter(before)
        assert all(word in rest for word in after) and len(after) < len(before)
        left_out = Counter(before) - Counter(after)
        content = sum(n for word, n in left_out.items() if word.lower() not in ("a", "two"))
        assert found.taken == pytest.approx(taken_of(kind, content / 6))
    elif kind == "jumble":
        assert sorted(after) == sorted(before) and after != before
        order = [before.index(word) for word in after]
        moved = sum(place != number for number, place in enumerate(order))
        parted = sum(later != earlier + 1 for earlier, later in itertools.pairwise(order))
        assert found.taken == pytest.approx(taken_of(kind, (moved / 9 + parted / 8) / 2))
    else:
        assert sorted(word.strip(".") for word in after) == sorted(word.strip(".") for word in before)
        moved = sum(word.strip(".") != other.strip(".") for word, other in zip(after, before, strict=True))
        assert found.taken == pytest.approx(taken_of(kind, moved / 3))


def test_a_single_noun_and_a_missing_article_are_no_damage():
    for seed in range(20):
        assert [
            damaged(NOUN, kind, random.Random(seed)) for kind in ("removal", "jumble", "substitution")
        ] == [None] * 3
        assert damaged(ARTICLE, "removal", random.Random(seed)) is None


def test_a_batch_depends_on_seed_epoch_and_step_alone(tokenizer):
    made = batches(tokenizer)
    late = made.batch(0, 20)
    assert batches(tokenizer).batch(0, 20) == late
    assert late not in (batches(tokenizer, seed=1).batch(0, 20), made.batch(1, 20), made.batch(0, 21))


def test_right_texts_lose_nothing_and_damaged_ones_something(tokenizer):
    made = batches(tokenizer)
    drawn = [sample for step in range(32) for sample in made.batch(0, step)]
    kinds = Counter(sample.found for sample in drawn)
    assert len(drawn) == 512 and set(kinds) == set(range(6)) and 256 <= kinds[0] <= 330
    for sample in drawn:
        assert (sample.taken == 0) == (sample.found == 0) and (sample.found or not any(sample.touched))
        assert len(sample.ids) == len(sample.touched) and sample.touched[0] == sample.touched[-1] == 0
    assert Counter(sample.language for sample in drawn)["en"] > 320


def test_pairs_are_one_text_right_and_damaged_in_all_styles():
    chance = random.Random(0)
    pairs = [draw_pair(TEXTS[:3], chance) for _ in range(2000)]
    for right, other in pairs:
        assert right.kind == "none" and right.taken == 0 and right.style == other.style
        assert (right == other) == (other.kind == "none") and (right == other or right.text != other.text)
    assert sum(other.kind == "none" for _, other in pairs) < 400
    # joined texts lose the share of the damaged one
    lost = {"joined": [], "whole": []}
    for _, other in pairs:
        if other.taken and other.style.partition(",")[0] in lost:
            lost[other.style.partition(",")[0]].append(other.taken)
    assert sum(lost["joined"]) / len(lost["joined"]) < 0.7 * sum(lost["whole"]) / len(lost["whole"])
    phrases = [right.text for right, _ in pairs if right.style == "noun phrase, as written"]
    stopped = sum(text[-1] in ".!" and text[0].isupper() for text in phrases)
    assert 0.25 < stopped / len(phrases) < 0.55 and any(text[-4:].isdecimal() for text in phrases)
    joined = [
        right.text for right, _ in pairs if right.style == "joined, lower bare" and len(right.text) < 40
    ]
    assert any(", " in text for text in joined)


def test_marks_lie_on_the_tokens_of_the_touched_words(tokenizer):
    ((ids, marks),) = tokens_with_marks(tokenizer, ["A dog dog runs."], [[(2, 9)]])
    pieces = tokenizer.pieces(ids[1:-1])
    assert "".join(piece for piece, mark in zip(pieces, marks[1:-1], strict=True) if mark) == "▁dog▁dog"
    assert marks[0] == marks[-1] == 0
    # a text that the tokenizer rewrites: places are not known
    ((_, unknown),) = tokens_with_marks(tokenizer, ["ﬁsh  ﬁsh"], [[(0, 3)]])
    assert set(unknown[1:-1]) == {-1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"language_shares": {"fr": 1}}, "there are no captions in fr"),
        ({"source_shares": {"": 0.0}}, "all captions in a language are of data sets with the weight 0"),
    ],
)
def test_shares_without_captions(tokenizer, changes, message):
    with pytest.raises(InputError, match=message):
        batches(tokenizer, **changes)
