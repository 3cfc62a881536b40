"""Captions → the same captions with lexical noise: the five kinds of PR-MCS, and six others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..files.lazy import lazy_attributes

if TYPE_CHECKING:
    from .published import (
        KINDS,
        MASK,
        ORDERS,
        REMOVALS,
        Object,
        P,
        Perturbed,
        find_nouns,
        find_objects,
        noun_finder,
        perturb,
        word_finder,
    )

__all__ = [
    "KINDS",
    "MASK",
    "ORDERS",
    "REMOVALS",
    "Object",
    "P",
    "Perturbed",
    "find_nouns",
    "find_objects",
    "noun_finder",
    "perturb",
    "word_finder",
]

__getattr__, __dir__ = lazy_attributes(
    __name__,
    {
        "KINDS": "published",
        "MASK": "published",
        "ORDERS": "published",
        "Object": "published",
        "P": "published",
        "Perturbed": "published",
        "REMOVALS": "published",
        "find_nouns": "published",
        "find_objects": "published",
        "noun_finder": "published",
        "perturb": "published",
        "word_finder": "published",
        # names that were in the module of this name until 0.1
        "BLANKS": "published",
        "check_captions": "published",
    },
)
