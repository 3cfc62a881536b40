"""Captions → the same captions with lexical noise: the five kinds of PR-MCS, six others, and styles."""

from .kinds import (
    KINDS,
    UNSEEN_KINDS,
    Kind,
    P,
    Perturbed,
    all_kinds,
    check_draws,
    chosen_kinds,
    kind_of,
    perturb,
    word_finder,
)
from .objects import ORDERS, Object, find_nouns, find_objects, noun_finder
from .published import MASK

__all__ = [
    "KINDS",
    "MASK",
    "ORDERS",
    "UNSEEN_KINDS",
    "Kind",
    "Object",
    "P",
    "Perturbed",
    "all_kinds",
    "check_draws",
    "chosen_kinds",
    "find_nouns",
    "find_objects",
    "kind_of",
    "noun_finder",
    "perturb",
    "word_finder",
]
