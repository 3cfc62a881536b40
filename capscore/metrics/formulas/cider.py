"""CIDEr, CIDEr-D and the paper's plain CIDEr (Vedantam et al. 2015) on tokens.

In: a `TokenRows`, and optionally document frequencies. Out: one score per row, 0 to 10.
"""

from __future__ import annotations

import json
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
from .ngrams import ORDERS, NGrams, TokenRows, blocks, look_up, starts

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

    "coco" is what coco-caption and the PyPI package pycocoevalcap compute under the name CIDEr: CIDEr-D with
    σ = 6 (Vedantam et al. 2015, eq. 4). For a candidate c, its references r₁ … r_m and the tf-idf vectors g_n
    of their n-grams,

        10 · mean over n = 1 … 4 and all j of  p_j · min(g_n(c), g_n(r_j)) · g_n(r_j) / (‖g_n(c)‖ ‖g_n(r_j)‖)
        with the length penalty  p_j = e^(−(l(c) − l(r_j))² / 2σ²)

    "paper" is the plain CIDEr of eq. 2 and 3, without the minimum and the penalty. Details are those of the
    authors' code (vrama91/cider, classes CiderD and Cider):

    - idf = ln N − ln max(df, 1), N the number of documents. An n-gram that occurs in no reference
      gets the highest idf, ln N, and lengthens the candidate's vector.
    - Document frequencies count reference lists, never candidates; a row's own references count.
    - l is the number of 2-grams: a caption of one token is as long as one without any.
    - If either vector is zero, as for 4-grams in a caption of three tokens, that n contributes 0.
    - Tokens are not stemmed; tf is the bare count (a cosine does not see its scale).

    Args:
        rows: n rows of tokens.
        frequencies: Number of documents that contain each n-gram. None counts them in the rows: the
            references of each row are a document, and repeated rows count again. Then a score depends on the
            other rows, and a single row scores 0 because every n-gram is in all documents.
        variant: "coco" or "paper".

    Returns:
        float64 (n,), 0 to 10. A candidate without tokens scores 0.

    >>> rows = TokenRows.build(["a red kite", "a dog"], [["a red kite flies"], ["a cat sleeps"]],
    ...                        lambda texts: [text.split() for text in texts])
    >>> cider(rows).round(4).tolist()
    [5.7696, 0.0]
    """
    if not len(rows):
        return np.zeros(0)
    pairs, ngrams, idf = rows.pairs, rows.ngrams, _idf(rows, frequencies)
    candidates, references, norms = (
        np.repeat(pairs.candidates, pairs.sizes),
        pairs.references,
        _norms(ngrams, idf),
    )
    similarity = np.empty(len(references))
    for block in blocks(ngrams.sizes[candidates]):
        both = norms[candidates[block]] * norms[references[block]]
        products = _products(ngrams, candidates[block], references[block], idf, clip=variant == "coco")
        similarity[block] = (products / np.where(both > 0, both, 1.0)).mean(axis=1)  # 0 / 0 is 0
    if variant == "coco":
        bigrams = np.maximum(rows.lengths - 1, 0)
        apart = (bigrams[candidates] - bigrams[references]).astype(np.float64)
        similarity *= np.exp(-(apart**2) / (2 * SIGMA**2))
    return (SCALE * np.add.reduceat(similarity, starts(pairs.sizes)[:-1]) / pairs.sizes)[pairs.of_row]


def tells_rows_apart(rows: TokenRows) -> bool:
    """Whether some n-gram is in the references of some rows only; otherwise all idf and all scores are 0."""
    held = rows.frequencies
    return bool(((0 < held) & (held < len(rows))).any())


def _products(
    ngrams: NGrams, candidates: np.ndarray, references: np.ndarray, idf: np.ndarray, clip: bool
) -> np.ndarray:
    """Pairs of texts → product of their tf-idf vectors of each order, (pairs, 4)."""
    pair, ids, in_candidate = ngrams.of(candidates)
    in_reference = ngrams.counts_in(references[pair], ids)
    shared = np.flatnonzero(in_reference)
    pair, ids = pair[shared], ids[shared]
    in_candidate, in_reference = in_candidate[shared], in_reference[shared]
    if clip:
        in_candidate = np.minimum(in_candidate, in_reference)
    return ngrams.sums(pair, ids, idf[ids] ** 2 * in_candidate * in_reference, len(candidates))


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
        squares[block] = ngrams.sums(text, ids, (counts * idf[ids]) ** 2, len(texts))
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
        >>> two.n_documents, dict(zip(two.words, two.counts.tolist()))
        (2, {'a': 2, 'cat': 1, 'one': 1, 'dog': 1})
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
            n_documents=len(rows.documents),
            words=[ngrams.words[word] for word in kept[is_word]],
            firsts=np.searchsorted(kept, ngrams.firsts),
            prefixes=np.where(is_word, -1, number[ngrams.prefixes[kept]]),
            lasts=number[ngrams.lasts[kept]],
            counts=counts[kept],
            segmenter=segmenter,
        )

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
            pickled = (b"\x80", b"(dp", b"ccollections", b"ccopy_reg")
            if Path(path).expanduser().read_bytes()[:12].startswith(pickled):
                instead = "count with DocumentFrequencies.from_references instead (docs of the metric cider)"
                problem = f" is a pickle, as coco-caption writes, which can run any code; {instead}"
                raise CapscoreError(given, problem) from error
            problem = f" is not what DocumentFrequencies.save writes (version {_VERSION}), or is damaged"
            raise CapscoreError(given, problem) from error
        return frequencies
