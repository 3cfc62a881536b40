"""What damage makes of a text, where it is, and how much it should take."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.perturbations import KINDS
from weights.making.noise_gate.samples import damaged, taken_of
from weights.making.noise_gate.styles import as_written
from weights.making.noise_gate.texts import marked

SENTENCE = as_written(marked(["A man rides a horse near two old boats."], "en", [None])[0])
NOUN = as_written(marked(["dogs"], "en", [None])[0])


def words_of(text: str) -> list[str]:
    return text.split()


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


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(KINDS), st.integers(0, 10**6))
def test_damage_is_what_its_kind_says(kind, seed):
    found = damaged(SENTENCE, kind, random.Random(seed))
    if found is None:
        assert kind in ("removal", "jumble", "substitution")
        return
    before, after = words_of(SENTENCE.text), words_of(found.text)
    assert 0 < found.taken <= 1
    assert all(0 <= start < end <= len(found.text) for start, end in found.touched) and found.touched
    if kind == "repetition":
        assert len(after) == len(before) + len(found.touched)
    elif kind == "masking":
        assert after.count("[MASK]") + after.count("[MASK].") == len(found.touched)
        assert len(after) == len(before)
    elif kind == "removal":
        rest = iter(before)
        assert all(word in rest for word in after) and len(after) < len(before)
    elif kind == "jumble":
        assert sorted(after) == sorted(before) and after != before
    else:
        assert sorted(word.strip(".") for word in after) == sorted(word.strip(".") for word in before)


def test_the_same_chance_damages_in_the_same_way():
    assert damaged(SENTENCE, "jumble", random.Random(3)) == damaged(SENTENCE, "jumble", random.Random(3))


@pytest.mark.parametrize("kind", ["removal", "jumble", "substitution"])
def test_a_single_noun_cannot_be_damaged_by(kind):
    assert all(damaged(NOUN, kind, random.Random(seed)) is None for seed in range(20))


def test_without_its_articles_a_text_is_right():
    article = as_written(marked(["the dog"], "en", [None])[0])
    assert all(damaged(article, "removal", random.Random(seed)) is None for seed in range(40))
