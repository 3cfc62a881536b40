"""Captions → the same captions with lexical noise: the five kinds of PR-MCS, six others, and styles."""

from .kinds import KINDS, MASK, REMOVALS, UNSEEN_KINDS, P, Perturbed, all_kinds, perturb, word_finder
from .objects import ORDERS, Object, find_nouns, find_objects, noun_finder
from .words import word_changes

__all__ = [
    "KINDS",
    "MASK",
    "ORDERS",
    "REMOVALS",
    "UNSEEN_KINDS",
    "Object",
    "P",
    "Perturbed",
    "all_kinds",
    "find_nouns",
    "find_objects",
    "noun_finder",
    "perturb",
    "word_changes",
    "word_finder",
]
