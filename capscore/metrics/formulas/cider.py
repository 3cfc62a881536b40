"""CIDEr, CIDEr-D and the paper's plain CIDEr (Vedantam et al. 2015) on tokens.

In: a `TokenRows`, and optionally document frequencies. Out: one score per row, 0 to 10.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xxhash

from ...errors import CapscoreError, InputError, Setting
from ...files.write import whole_file
from .ngrams import ORDERS, NGrams, TokenRows, blocks, look_up

SIGMA = 6.0  # width of the length penalty in CIDEr-D (Vedantam et al. 2015)
SCALE = 10.0
_FORMAT = "capscore document frequencies"
_VERSION = 2
_CHECKED = ("format", "version", "fingerprint")
_NAMED, _ARRAYS = ("segmenter", "n_documents", "words"), ("firsts", "prefixes", "lasts", "counts")


def cider(
    rows: TokenRows,
    *,
    frequencies: DocumentFrequencies | None = None,
    variant: Literal["coco", "paper"] = "coco",
) -> np.ndarray:
    """CIDEr as captioning papers report it, or as its paper first defines it.

    "coco" is what coco-caption and the PyPI package pycocoevalcap compute under the name CIDEr, and what
    papers report. It equals CIDEr-D with σ = 6: counts are clipped to the reference's, and differences in
    length are penalised. `cider_d` has the formula and its details.

    "paper" is the plain CIDEr of the paper's eq. 2 and 3: the mean cosine of tf-idf vectors, neither clipped
    nor penalised. As in the authors' code (vrama91/cider, class Cider) it is × 10, and tokens are not stemmed
    as the paper's are; all other details are those of `cider_d`.

    Args:
        rows: n rows of tokens.
        frequencies: Number of documents that contain each n-gram. None counts them in the rows: the
            references of each row are a document, and repeated rows count again. Then a score depends on the
            other rows, and a single row scores 0 because every n-gram is in all documents.
        variant: "coco" or "paper".

    Returns:
        float64 (n,), 0 to 10. A candidate without tokens scores 0.

    Raises:
        InputError: the variant is neither of the two.

    >>> rows = TokenRows.build(["a red kite", "a dog"], [["a red kite"], ["a cat sleeps"]],
    ...                        lambda texts: [text.split() for text in texts])
    >>> cider(rows).round(4).tolist()
    [7.5, 0.0]
    """
    if variant == "coco":
        return cider_d(rows, frequencies=frequencies)
    if variant == "paper":
        return _consensus(rows, frequencies, clip=False, sigma=None)
    raise InputError(f"{variant!r} is not a variant of CIDEr; expected 'coco' or 'paper'", field="variant")


def cider_d(
    rows: TokenRows, *, frequencies: DocumentFrequencies | None = None, sigma: float = SIGMA
) -> np.ndarray:
    """CIDEr-D (Vedantam et al. 2015, eq. 4), as the authors' code computes it (vrama91/cider, class CiderD).

    For a candidate c, its references r₁ … r_m and the tf-idf vectors g_n of their n-grams,

        10 · mean over n = 1 … 4 and all j of  p_j · min(g_n(c), g_n(r_j)) · g_n(r_j) / (‖g_n(c)‖ ‖g_n(r_j)‖)
        with the length penalty  p_j = e^(−(l(c) − l(r_j))² / 2σ²)

    Details, as in that code:

    - idf = ln N − ln max(df, 1), N the number of documents. An n-gram that occurs in no reference
      gets the highest idf, ln N, and lengthens the candidate's vector.
    - Document frequencies count reference lists, never candidates; a row's own references count.
    - l is the number of 2-grams: a caption of one token is as long as one without any.
    - If either vector is zero, as for 4-grams in a caption of three tokens, that n contributes 0.
    - Tokens are not stemmed; tf is the bare count (a cosine does not see its scale).

    Repeating every row equally often changes N and df alike. The scores stay the same, except for candidates
    with n-grams that occur in no reference.

    Args:
        rows: n rows of tokens.
        frequencies: As in `cider`.
        sigma: Width of the length penalty in tokens; above 0. The authors' class takes it but uses 6.

    Returns:
        float64 (n,), 0 to 10. A candidate without tokens scores 0.

    Raises:
        InputError: sigma is not above 0.

    >>> rows = TokenRows.build(["a red kite", "a dog"], [["a red kite flies"], ["a cat sleeps"]],
    ...                        lambda texts: [text.split() for text in texts])
    >>> cider_d(rows).round(4).tolist()
    [5.7696, 0.0]
    """
    if not sigma > 0:
        raise InputError(f"{sigma!r} is not a width; expected a number above 0", field="sigma")
    return _consensus(rows, frequencies, clip=True, sigma=sigma)


def tells_rows_apart(rows: TokenRows) -> bool:
    """Whether some n-gram is in the references of some rows only; otherwise all idf and all scores are 0.

    >>> rows = TokenRows.build(["a dog"], [["a dog"]], lambda texts: [text.split() for text in texts])
    >>> tells_rows_apart(rows)
    False
    """
    held = rows.frequencies
    return bool(((0 < held) & (held < len(rows))).any())


def _consensus(
    rows: TokenRows, frequencies: DocumentFrequencies | None, *, clip: bool, sigma: float | None
) -> np.ndarray:
    """Mean similarity to the references. Each distinct pair of candidate and reference is compared once."""
    if not len(rows):
        return np.zeros(0)
    idf = _idf(rows, frequencies)
    norms = _norms(rows.ngrams, idf)
    sizes = np.diff(rows.offsets)
    n_texts = len(rows.tokens)
    pairs, pair_of = np.unique(
        rows.references * n_texts + np.repeat(rows.candidates, sizes), return_inverse=True
    )
    references, candidates = np.divmod(pairs, n_texts)
    similarity = np.empty(len(pairs))
    for block in blocks(rows.ngrams.sizes[candidates]):
        similarity[block] = _similarity(rows.ngrams, candidates[block], references[block], idf, norms, clip)
    if sigma is not None:
        bigrams = np.maximum(rows.lengths - 1, 0)
        apart = (bigrams[candidates] - bigrams[references]).astype(np.float64)
        similarity *= np.exp(-(apart**2) / (2 * sigma**2))
    return SCALE * np.add.reduceat(similarity[pair_of], rows.offsets[:-1]) / sizes


def _similarity(
    ngrams: NGrams,
    candidates: np.ndarray,
    references: np.ndarray,
    idf: np.ndarray,
    norms: np.ndarray,
    clip: bool,
) -> np.ndarray:
    """Pairs of texts → product of their vectors divided by the norms, mean over the orders, (pairs,)."""
    pair, ids, in_candidate = ngrams.of(candidates)
    in_reference = ngrams.counts_in(references[pair], ids)
    shared = np.flatnonzero(in_reference)
    pair, ids = pair[shared], ids[shared]
    in_candidate, in_reference = in_candidate[shared], in_reference[shared]
    if clip:
        in_candidate = np.minimum(in_candidate, in_reference)
    products = np.bincount(
        pair * ORDERS + ngrams.orders[ids],
        weights=idf[ids] ** 2 * in_candidate * in_reference,
        minlength=len(candidates) * ORDERS,
    ).reshape(-1, ORDERS)
    # if a norm is 0, so is the product
    both = norms[candidates] * norms[references]
    return (products / np.where(both > 0, both, 1.0)).mean(axis=1)


def _idf(rows: TokenRows, frequencies: DocumentFrequencies | None) -> np.ndarray:
    """Inverse document frequencies, float64 (g,), at least 0."""
    if frequencies is None:
        held, n_documents = rows.frequencies, len(rows)
    else:
        held, n_documents = frequencies.of(rows.ngrams), frequencies.n_documents
    return np.log(float(n_documents)) - np.log(np.maximum(held, 1))


def _norms(ngrams: NGrams, idf: np.ndarray) -> np.ndarray:
    """Length of every text's tf-idf vector of each order, (t, 4)."""
    squares = np.zeros((len(ngrams.sizes), ORDERS))
    for block in blocks(ngrams.sizes):
        texts = np.arange(block.start, block.stop)
        text, ids, counts = ngrams.of(texts)
        squares[block] = np.bincount(
            text * ORDERS + ngrams.orders[ids],
            weights=(counts * idf[ids]) ** 2,
            minlength=len(texts) * ORDERS,
        ).reshape(-1, ORDERS)
    return np.sqrt(squares)


# ----------------------------------------------------------------- document frequencies


@dataclass(frozen=True, eq=False)
class DocumentFrequencies:
    """The number of documents that contain each 1- to 4-gram. A document is the references of one row.

    Counted once in many captions, they make the scores of few rows meaningful, and those of different sets of
    rows comparable. N-grams are numbered as in `NGrams`.

    Attributes:
        n_documents: Number of documents, at least 1.
        words: Distinct tokens.
        firsts: int64 (5,), the first number of each order, and g.
        prefixes: int64 (g,), each n-gram without its last token; −1 for a 1-gram.
        lasts: int64 (g,), the word of its last token. Within an order (prefix, last) ascends.
        counts: int64 (g,), number of documents that contain it, 1 to n_documents.
        segmenter: Name of the segmenter that made the tokens, or None if unknown. Tokens of another segmenter
            may not be found.
    """

    n_documents: int
    words: list[str]
    firsts: np.ndarray
    prefixes: np.ndarray
    lasts: np.ndarray
    counts: np.ndarray
    segmenter: str | None = None

    @classmethod
    def from_references(
        cls, reference_lists: Sequence[Sequence[list[str]]], *, segmenter: str | None = None
    ) -> DocumentFrequencies:
        """Count documents of tokens.

        Args:
            reference_lists: Documents, each a list of token lists.
            segmenter: Name of the segmenter that made the tokens.

        Raises:
            InputError: no document, or a text instead of tokens; names the row.

        >>> two = DocumentFrequencies.from_references([[["a", "cat"], ["one", "cat"]], [["a", "dog"]]])
        >>> two.n_documents, len(two), two.count(["a"]), two.count(["one", "cat"]), two.count(["bird"])
        (2, 7, 2, 1, 0)
        """
        documents: list[Any] = []
        for row, document in enumerate(reference_lists):
            if not document:
                raise InputError("no reference; expected at least one", row=row, field="references")
            for tokens in document:
                if isinstance(tokens, str):
                    problem = f"{reprlib.repr(tokens)} is a text; expected its tokens"
                    raise InputError(problem, row=row, field="references")
            documents.append([tuple(tokens) for tokens in document])
        rows = TokenRows.build([], documents, lambda texts: [[*tokens] for tokens in texts])
        return cls.from_rows(rows, segmenter=segmenter)

    @classmethod
    def from_rows(cls, rows: TokenRows, *, segmenter: str | None = None) -> DocumentFrequencies:
        """Count the references of rows, as `cider` does without frequencies.

        Raises:
            InputError: there are no rows.
        """
        if not len(rows.documents):
            raise InputError("no document to count; expected at least one", field="references")
        ngrams, counts = rows.ngrams, rows.frequencies
        # without n-grams of candidates only; a kept n-gram's prefix and last word are kept too
        kept = np.flatnonzero(counts)
        number = np.cumsum(counts > 0) - 1
        is_word = kept < int(ngrams.firsts[1])
        return cls(
            n_documents=int(rows.documents.times.sum()),
            words=[ngrams.words[word] for word in kept[is_word]],
            firsts=np.searchsorted(kept, ngrams.firsts),
            prefixes=np.where(is_word, -1, number[ngrams.prefixes[kept]]),
            lasts=number[ngrams.lasts[kept]],
            counts=counts[kept],
            segmenter=segmenter,
        )

    def __len__(self) -> int:
        return len(self.counts)

    def count(self, ngram: Sequence[str]) -> int:
        """Number of documents that contain an n-gram of 1 to 4 tokens.

        Raises:
            InputError: a text instead of tokens, or not 1 to 4 of them.
        """
        if isinstance(ngram, str) or not 1 <= len(ngram) <= ORDERS:
            raise InputError(f"{ngram!r} is not a list of 1 to {ORDERS} tokens", field="ngram")
        return int(self.of(NGrams.count([ngram]))[-1])  # the longest comes last

    def share_known(self, rows: TokenRows) -> float:
        """Share of the references' words that occur in a document, 0 to 1; NaN if there are no words.

        A word counts once for each row whose references have it. A share near 0 means that the documents were
        in another language than the rows, or were split into words differently.

        >>> two = DocumentFrequencies.from_references([[["a", "cat"]], [["a", "dog"]]])
        >>> rows = TokenRows.build(["a dog"], [["a black dog", "one dog"]],
        ...                        lambda texts: [text.split() for text in texts])
        >>> two.share_known(rows)  # "a" and "dog" of four words
        0.5
        """
        n_words = int(rows.ngrams.firsts[1])
        held, known = rows.frequencies[:n_words], self.of(rows.ngrams)[:n_words] > 0
        return float(held[known].sum() / held.sum()) if held.any() else math.nan

    def of(self, ngrams: NGrams) -> np.ndarray:
        """int64 (g,): number of documents that contain each n-gram of other texts."""
        n_words = max(len(self.words), 1)
        known = np.array([self._word_numbers.get(word, -1) for word in ngrams.words], dtype=np.int64)
        here = np.full(len(ngrams), -1)  # the number that an n-gram has here
        here[: len(known)] = known
        for order in range(1, ORDERS):
            theirs = slice(ngrams.firsts[order], ngrams.firsts[order + 1])
            ours = slice(self.firsts[order], self.firsts[order + 1])
            prefixes, lasts = here[ngrams.prefixes[theirs]], here[ngrams.lasts[theirs]]
            found = look_up(
                self.prefixes[ours] * n_words + self.lasts[ours],
                np.arange(ours.start, ours.stop) + 1,
                np.where((prefixes >= 0) & (lasts >= 0), prefixes * n_words + lasts, -1),
            )
            here[theirs] = found - 1
        return np.append(self.counts, 0)[here]  # −1, for none, is the 0 at the end

    @cached_property
    def _word_numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    @cached_property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that change with any count or word, for a signature."""
        digest = xxhash.xxh3_64(json.dumps([self.n_documents, self.words]).encode())
        for numbers in (self.firsts, self.prefixes, self.lasts, self.counts):
            digest.update(np.ascontiguousarray(numbers, dtype="<i8").tobytes())
        return digest.hexdigest()

    def save(self, path: str | Path) -> Path:
        """Write a .npz archive. The file gets its name only when it is complete.

        Raises:
            ResultWriteError: it cannot be written; an older file of that name is unchanged.
        """
        path = Path(path).expanduser()
        checked = dict(zip(_CHECKED, (_FORMAT, _VERSION, self.fingerprint), strict=True))
        about = {**checked, **{name: getattr(self, name) for name in _NAMED}}
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        with whole_file(path, "document frequencies") as file:
            text = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
            np.savez_compressed(file, about=text, **arrays)
        return path

    @classmethod
    def load(cls, path: str | Path) -> DocumentFrequencies:
        """Read what `save` wrote.

        Raises:
            CapscoreError: the file cannot be read, is not such a file, or is damaged.
        """
        given = Setting("document_frequencies", Path(path))
        try:
            with np.load(Path(path).expanduser(), allow_pickle=False) as file:
                about = json.loads(file["about"].tobytes())
                arrays = {name: file[name].astype(np.int64, casting="safe") for name in _ARRAYS}
            frequencies = cls(**{name: about[name] for name in _NAMED}, **arrays)
            if [about[name] for name in _CHECKED] != [_FORMAT, _VERSION, frequencies.fingerprint]:
                raise ValueError("another format or version, or parts that do not match")
        except OSError as error:
            raise CapscoreError(given, f" cannot be read: {error.strerror or error}") from error
        except Exception as error:  # a damaged archive may raise anything
            # numpy's message would advise unpickling the file
            problem = f" is not what DocumentFrequencies.save writes (version {_VERSION}), or is damaged"
            raise CapscoreError(given, problem) from error
        return frequencies
