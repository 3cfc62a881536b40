"""Captions as tokens, each distinct text once, and the counts of every 1- to 4-gram in each text."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import numpy as np

ORDERS = 4  # n-grams of 1 to 4 tokens
BLOCK = 1 << 19  # array elements at once, each of which takes some tens of bytes


class Pairs(NamedTuple):
    """The p distinct pairs of a candidate and a list of references, with r references in all.

    Attributes:
        candidates, documents: int64 (p,), index into the texts, and into the documents.
        sizes: int64 (p,), number of references; at least one.
        references: int64 (r,), index into the texts, pair after pair.
    """

    candidates: np.ndarray
    documents: np.ndarray
    of_row: np.ndarray
    sizes: np.ndarray
    references: np.ndarray


@dataclass(frozen=True, eq=False)
class TokenRows:
    """n rows of tokenised captions, each distinct text and list of references once; len() is n.

    Attributes:
        tokens: Tokens of each distinct text; an empty list for a text without tokens.
        documents: int64 (n,), index of each row's list of references among the d distinct ones.
        references: int64, index into `tokens`, document after document.
        offsets: int64 (d + 1,), where each document's references start; every one has at least one.
        photos: int64 (n,), the photo of each row, numbered from 0.
    """

    tokens: list[list[str]]
    candidates: np.ndarray
    documents: np.ndarray
    references: np.ndarray
    offsets: np.ndarray
    photos: np.ndarray

    @classmethod
    def build(
        cls,
        candidates: Sequence[str],
        references: Sequence[Sequence[str]],
        tokenize: Callable[[list[str]], list[list[str]]],
        photos: Sequence[Hashable] | None = None,
    ) -> TokenRows:
        """Tokenise each distinct text once: `tokenize` gets all of them, and returns their tokens in order.

        `photos` names the photo of each row; None where each row has its own.

        >>> rows = TokenRows.build(["a cat", "a dog", "a"], [["a cat", "one cat"], ["a dog"], ["a dog"]],
        ...                        lambda texts: [text.split() for text in texts])
        >>> rows.tokens
        [['a', 'cat'], ['a', 'dog'], ['a'], ['one', 'cat']]
        >>> rows.candidates.tolist(), rows.documents.tolist()
        ([0, 1, 2], [0, 1, 1])
        >>> rows.references.tolist(), rows.offsets.tolist()
        ([0, 3, 1], [0, 2, 3])
        """
        index: dict[str, int] = {}
        known: dict[tuple[int, ...], int] = {}
        of_candidates = [index.setdefault(text, len(index)) for text in candidates]
        lists = [tuple(index.setdefault(text, len(index)) for text in texts) for texts in references]
        documents = [known.setdefault(texts, len(known)) for texts in lists]
        named: dict[Hashable, int] = {}
        numbers = [named.setdefault(photo, len(named)) for photo in photos or range(len(lists))]
        return cls(
            list(tokenize(list(index))),
            np.array(of_candidates, dtype=np.int64),
            np.array(documents, dtype=np.int64),
            np.array([*chain.from_iterable(known)], dtype=np.int64),
            starts(np.fromiter(map(len, known), dtype=np.int64, count=len(known))),
            np.array(numbers, dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.candidates)

    @cached_property
    def lengths(self) -> np.ndarray:
        """int64 (t,): number of tokens of each distinct text."""
        return np.fromiter(map(len, self.tokens), dtype=np.int64, count=len(self.tokens))

    @cached_property
    def ngrams(self) -> NGrams:
        """The n-grams of the distinct texts, counted on first use."""
        return NGrams.count(self.tokens)

    @cached_property
    def pairs(self) -> Pairs:
        """What is compared: each distinct candidate with each of its lists of references."""
        n_texts = max(len(self.tokens), 1)
        numbers, of_row = np.unique(self.documents * n_texts + self.candidates, return_inverse=True)
        documents, candidates = np.divmod(numbers, n_texts)
        sizes = np.diff(self.offsets)[documents]
        references = self.references[spans(self.offsets[documents], sizes)]
        return Pairs(candidates, documents, of_row, sizes, references)

    @cached_property
    def document_sizes(self) -> np.ndarray:
        """int64 (d,): number of n-grams of all references of each document."""
        return np.diff(starts(self.ngrams.sizes[self.references])[self.offsets])

    def most(self, documents: slice) -> tuple[np.ndarray, np.ndarray]:
        """Highest count of each n-gram in one of a document's references, for consecutive documents.

        Returns the keys (document − the first) · g + n-gram, ascending, and the counts.
        """
        texts = self.references[self.offsets[documents.start] : self.offsets[documents.stop]]
        owners = np.repeat(np.arange(documents.stop - documents.start), np.diff(self.offsets)[documents])
        which, ids, counts = self.ngrams.of(texts)
        keys = owners[which] * len(self.ngrams) + ids
        order = np.lexsort((-counts, keys))
        keys, counts = keys[order], counts[order]
        first = np.flatnonzero(np.diff(keys, prepend=-1))
        return keys[first], counts[first]

    @cached_property
    def n_photos(self) -> int:
        return int(self.photos.max(initial=-1)) + 1

    @cached_property
    def frequencies(self) -> np.ndarray:
        """int64 (g,): number of photos with a reference, in any of their rows, that contains each n-gram."""
        held = np.zeros(len(self.ngrams), dtype=np.int64)
        n_documents = max(len(self.offsets) - 1, 1)
        photo, document = np.divmod(np.unique(self.photos * n_documents + self.documents), n_documents)
        firsts = np.searchsorted(photo, np.arange(self.n_photos + 1))
        for photos in blocks(np.bincount(photo, self.document_sizes[document]).astype(np.int64)):
            here = slice(firsts[photos.start], firsts[photos.stop])
            n_texts = np.diff(self.offsets)[document[here]]
            texts = self.references[spans(self.offsets[document[here]], n_texts)]
            which, ids, _ = self.ngrams.of(texts)
            keys = np.unique(np.repeat(photo[here], n_texts)[which] * len(held) + ids)
            np.add.at(held, keys % max(len(held), 1), 1)
        return held


@dataclass(frozen=True, eq=False)
class NGrams:
    """The 1- to 4-grams of t texts, and their counts in each text.

    N-grams are numbered from 0 to g − 1 by order, 1-grams first; a 1-gram has the number of its word. An
    entry is an n-gram of a text. Entries are sorted by text, then by n-gram. len() is g.

    Attributes:
        prefixes: int64 (g,), each n-gram without its last token, as a number; −1 for a 1-gram.
        lasts: int64 (g,), the word of its last token. Within an order (prefix, last) ascends.
        offsets: int64 (t + 1,), where each text's entries start.
        keys: int64 (e,), text · g + n-gram of each entry; ascending.
        counts: int32 (e,), how often the n-gram occurs in the text.
    """

    words: list[str]
    firsts: np.ndarray
    prefixes: np.ndarray
    lasts: np.ndarray
    offsets: np.ndarray
    keys: np.ndarray
    counts: np.ndarray

    @classmethod
    def count(cls, texts: Sequence[Sequence[str]]) -> NGrams:
        """Tokens of texts → their n-grams."""
        known, words = number_words(texts)
        sizes = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        text_of = np.repeat(np.arange(len(texts)), sizes)
        end_of = np.cumsum(sizes)[text_of]

        at = np.arange(len(words))  # where an n-gram starts
        gram = words
        occurrences = [(text_of, gram)]
        firsts, prefixes, lasts = [0, len(known)], [np.full(len(known), -1)], [np.arange(len(known))]
        for order in range(2, ORDERS + 1):
            fits = at + order <= end_of[at]
            at, gram = at[fits], gram[fits]
            # an n-gram is a shorter n-gram and one more word
            pairs, gram = np.unique(gram * len(known) + words[at + order - 1], return_inverse=True)
            gram += firsts[-1]
            occurrences.append((text_of[at], gram))
            for parts, part in zip((prefixes, lasts), np.divmod(pairs, max(len(known), 1)), strict=True):
                parts.append(part)
            firsts.append(firsts[-1] + len(pairs))

        n_grams = firsts[-1]
        keys, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
        for block in blocks(ORDERS * sizes):
            here = []
            for owners, grams in occurrences:
                first, end = np.searchsorted(owners, (block.start, block.stop))
                here.append(owners[first:end] * n_grams + grams[first:end])
            some, times = np.unique(np.concatenate(here), return_counts=True)
            keys.append(some)
            counts.append(times.astype(np.int32))
        all_keys = np.concatenate(keys)
        return cls(
            list(known),
            np.array(firsts),
            np.concatenate(prefixes),
            np.concatenate(lasts),
            np.searchsorted(all_keys, np.arange(len(texts) + 1) * n_grams),
            all_keys,
            np.concatenate(counts),
        )

    def __len__(self) -> int:
        return int(self.firsts[-1])

    @cached_property
    def orders(self) -> np.ndarray:
        """int64 (g,): 0 for a 1-gram to 3 for a 4-gram."""
        return np.repeat(np.arange(ORDERS), np.diff(self.firsts))

    @cached_property
    def sizes(self) -> np.ndarray:
        """int64 (t,): number of distinct n-grams of each text."""
        return np.diff(self.offsets)

    def of(self, texts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The entries of texts, text after text: (index of the text among those given, n-gram, count)."""
        entries = spans(self.offsets[texts], self.sizes[texts])
        ids = self.keys[entries] % max(len(self), 1)
        return np.repeat(np.arange(len(texts)), self.sizes[texts]), ids, self.counts[entries]

    def counts_in(self, texts: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """How often the n-gram `ids[i]` occurs in `texts[i]`."""
        return look_up(self.keys, self.counts, texts * len(self) + ids)

    def sums(self, items: np.ndarray, ids: np.ndarray, values: np.ndarray, n_items: int) -> np.ndarray:
        """Sum of the values of the n-grams of each item and order, float64 (n_items, 4)."""
        where = items * ORDERS + self.orders[ids]
        return np.bincount(where, weights=values, minlength=n_items * ORDERS).reshape(-1, ORDERS)


def number_words(texts: Sequence[Sequence[str]]) -> tuple[dict[str, int], np.ndarray]:
    """Tokens of texts → each distinct token's number, and all tokens as numbers, text after text: int64."""
    tokens = list(chain.from_iterable(texts))
    known = {token: number for number, token in enumerate(dict.fromkeys(tokens))}
    return known, np.fromiter(map(known.__getitem__, tokens), dtype=np.int64, count=len(tokens))


def starts(sizes: np.ndarray) -> np.ndarray:
    """Sizes of consecutive groups (n,) → the start of each, and the end: int64 (n + 1,)."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])


def spans(firsts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The numbers first … first + size − 1 of every group, group after group."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(firsts - ends + sizes, sizes)


def look_up(keys: np.ndarray, values: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The value of each wanted key; 0 for keys that are not among the ascending `keys`."""
    if not len(keys):
        return np.zeros(len(wanted), dtype=values.dtype)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, values[at], 0)


def blocks(sizes: np.ndarray, limit: int = BLOCK) -> list[slice]:
    """Cut consecutive items into runs of at most `limit` elements; a larger item is a run of its own."""
    ends = np.cumsum(sizes)
    start, found = 0, []
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = max(int(np.searchsorted(ends, before + limit, side="right")), start + 1)
        found.append(slice(start, stop))
        start = stop
    return found
