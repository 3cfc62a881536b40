"""Words of each language that perturbations and styles by rule read: rules.json.

A language has some of these entries; words in one text are separated by blanks:

- numbers: rows of numbers that can replace each other in a phrase; "-" for a word that also means something
  else, or needs another form of the noun. One is left out: in most of these languages it is the article.
- counted: numbers written with a measure word or noun: their pattern, and all of them. Chinese has no two
  there, for which there are two words.
- articles: words that open a noun phrase.
- not_before_verb: the word that negates the verb after it; before_verb: words that may stand between them.
- past: irregular past forms, each with its infinitive.
- auxiliaries: auxiliaries and copulas, which taggers count as "other".
- prepositions: without a verb, the negation stands before the first of these: A man not in the street.
- no_articles: article → the word for "no" in its place; not: the negation where there is no article.
- negated_endings: pattern → its negation. The first pattern that the caption contains counts, at its last
  place.
- negated: pattern of the words that say that a caption is negated already; such a caption stays.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def _rules() -> dict[str, dict[str, object]]:
    return json.loads(files(__package__).joinpath("rules.json").read_text(encoding="utf-8"))


def languages_with(entry: str) -> list[str]:
    return [code for code, entries in _rules().items() if entry in entries]


def rule(code: str, entry: str) -> Any:
    """An entry of a language as it stands in the file; None if the language has none."""
    return _rules().get(code, {}).get(entry)


@cache
def listed(code: str, entry: str) -> tuple[str, ...]:
    """The words of an entry of a language; () if it has none."""
    return tuple((rule(code, entry) or "").split())
