"""Captions → the same captions with lexical noise: the five kinds of PR-MCS, six others, and styles."""

from .kinds import (
    KINDS,
    MASK,
    UNSEEN_KINDS,
    P,
    Perturbed,
    all_kinds,
    check_draws,
    chosen_kinds,
    perturb,
    word_finder,
)
from .objects import ORDERS, Object, find_nouns, find_objects, noun_finder

__all__ = [
    "KINDS",
    "MASK",
    "ORDERS",
    "UNSEEN_KINDS",
    "Object",
    "P",
    "Perturbed",
    "all_kinds",
    "check_draws",
    "chosen_kinds",
    "find_nouns",
    "find_objects",
    "noun_finder",
    "perturb",
    "word_finder",
]
