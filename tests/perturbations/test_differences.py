"""Where two captions differ: every word that is not marked stands in both, in the same order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capscore.perturbations import KINDS, perturb, word_changes

WORDS = st.lists(st.sampled_from("a dog cat runs on the beach".split()), min_size=1, max_size=9)


def marked(text: str, spans: list[tuple[int, int]]) -> list[str]:
    return [text[start:end] for start, end in spans]


def unmarked(text: str, spans: list[tuple[int, int]]) -> list[str]:
    for start, end in reversed(spans):
        text = f"{text[:start]} {text[end:]}"
    return text.split()


@given(WORDS, WORDS)
def test_what_is_not_marked_is_the_same(before, after):
    first, second = "  ".join(before), " ".join(after)
    spans = word_changes(first, second)
    assert unmarked(first, spans[0]) == unmarked(second, spans[1])
    assert (spans == ([], [])) == (before == after)
    for text, own in zip((first, second), spans, strict=True):
        assert own == sorted(own) and all(part == part.strip() != "" for part in marked(text, own))


def test_words_side_by_side_are_one_place():
    before, after = "a dog runs on the beach.", "a cat sleeps on the sofa."
    spans = word_changes(before, after, "en")
    assert marked(before, spans[0]) == ["dog runs", "beach."]
    assert marked(after, spans[1]) == ["cat sleeps", "sofa."]


def test_objects_that_change_places_are_marked_and_nothing_else():
    before, after = "red kites and red dogs", "red dogs and red kites"
    spans = word_changes(before, after, "en")
    assert marked(before, spans[0]) == ["kites", "dogs"]
    assert marked(after, spans[1]) == ["dogs", "kites"]


@pytest.mark.parametrize("kind", KINDS)
def test_in_japanese_words_are_those_of_the_segmenter(kind):
    pytest.importorskip("fugashi")
    caption = "赤いバイクが金属の棚の前に止めてある。"
    objects = [["バイク", "棚"]] if kind == "substitution" else None
    changed = perturb([caption], kind, "ja", objects=objects).captions[0]
    spans = word_changes(caption, changed, "ja")
    assert spans[0] or spans[1]
    assert "".join(unmarked(caption, spans[0])) == "".join(unmarked(changed, spans[1]))
    if kind == "substitution":
        assert marked(caption, spans[0]) == ["バイク", "棚"]
        assert marked(changed, spans[1]) == ["棚", "バイク"]
