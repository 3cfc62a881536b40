"""Where two captions differ: every word that is not marked stands in both, in the same order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capscore.perturbations import word_changes

WORDS = st.lists(st.sampled_from("a dog cat runs on the beach".split()), min_size=1, max_size=9)


def unmarked(text, spans):
    for start, end in reversed(spans):
        text = f"{text[:start]} {text[end:]}"
    return text.split()


@settings(max_examples=20)
@given(WORDS, WORDS)
def test_what_is_not_marked_is_the_same(before, after):
    first, second = "  ".join(before), " ".join(after)
    spans = word_changes(first, second)
    assert unmarked(first, spans[0]) == unmarked(second, spans[1])
    assert (spans == ([], [])) == (before == after)
    for text, marks in zip((first, second), spans, strict=True):
        assert marks == sorted(marks) and all(text[a:b] == text[a:b].strip() != "" for a, b in marks)


@pytest.mark.parametrize(
    ("before", "after", "language", "marked"),
    [
        (  # words side by side are one place
            "a dog runs on the beach.",
            "a cat sleeps on the sofa.",
            "en",
            (["dog runs", "beach."], ["cat sleeps", "sofa."]),
        ),
        ("red kites and red dogs", "red dogs and red kites", "en", (["kites", "dogs"], ["dogs", "kites"])),
        ("バイクが棚の前にある。", "棚がバイクの前にある。", "ja", (["バイク", "棚"], ["棚", "バイク"])),
        ("a dog", "a dog dog", None, ([], ["dog"])),
    ],
)
def test_what_is_marked(before, after, language, marked):
    spans = word_changes(before, after, language)
    assert marked == tuple(
        [text[a:b] for a, b in part] for text, part in zip((before, after), spans, strict=True)
    )
