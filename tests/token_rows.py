"""Invented captions that the tests of the n-gram metrics share, and rows of words for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from capscore.metrics.formulas.ngrams import TokenRows

# What is there to get wrong: a word more often than in any reference, no common word, one token, no token at
# all, a candidate equal to a reference, references of unlike length, one row twice.
CANDIDATES = [
    "a red kite a red kite over the hill",
    "two goats chew on a green hat",
    "snow",
    "",
    "the old baker sells warm bread at dawn",
    "a boat",
    "the old baker sells warm bread at dawn",
]
REFERENCES = [
    ["a red kite flies over the hill", "one kite above a hill", "a child flies a red paper kite"],
    ["the goats are eating a green hat", "two goats chew a hat on the farm"],
    ["snow covers the whole village", "snow"],
    ["a lamp", "the lamp on the table is not lit"],
    ["the old baker sells warm bread at dawn"],
    ["three ducks cross a road", "ducks walk over the road one after another in a long row"],
    ["the old baker sells warm bread at dawn"],
]


def split(texts: list[str]) -> list[list[str]]:
    return [text.split() for text in texts]


def invented() -> TokenRows:
    return TokenRows.build(CANDIDATES, REFERENCES, split)


def build(rows: list[tuple[str, list[str]]]) -> TokenRows:
    return TokenRows.build([candidate for candidate, _ in rows], [texts for _, texts in rows], split)


# few words, so that n-grams repeat within a caption and between captions; empty captions too
captions = st.lists(st.sampled_from("a b c d e".split()), max_size=9).map(" ".join)
row_lists = st.lists(st.tuples(captions, st.lists(captions, min_size=1, max_size=4)), min_size=1, max_size=8)
