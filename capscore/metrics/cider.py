"""CIDEr and CIDEr-D (Vedantam et al. 2015), which count n-grams shared with references.

In: captions, each with a list of references. Out: one score per row in [0, 10], and their mean. A document is
a photo with the references of all its rows; or their frequencies come from a file.
"""

from __future__ import annotations

import json
import reprlib
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import xxhash

from .. import __version__
from ..errors import CapscoreError, CorpusWarning, InputError, Setting, warn
from ..files.text_files import LIST_BYTES, copied_stream
from ..files.write import whole_file
from .ngrams import ORDERS, NGrams, TokenRows, blocks, look_up, starts
from .rows import ExtraColumn, PreparedRows, row_settings
from .scores import Scores
from .with_references import UNSTATED, Compared, ReferenceScorer, Texts, splitting_problem

SIGMA = 6.0  # width of the length penalty in CIDEr-D (Vedantam et al. 2015)
SCALE = 10.0
_FORMAT = "capscore document frequencies"
_VERSION = 2
_CHECKED = ("format", "version", "fingerprint")
_NAMED, _ARRAYS = ("segmenter", "n_documents", "words"), ("firsts", "prefixes", "lasts", "counts")


PHOTO_IDS = ExtraColumn(
    "image_id",
    "ids of photos",
    "list",
    "id of each row's photo, whose references are one document; None for a row without",
    from_files=True,
)


class CIDEr(ReferenceScorer):
    """CIDEr; by default as coco-caption computes it and papers report it, which is CIDEr-D with σ = 6.

    A document is a photo: its references count once, in however many rows they come. Rows show one photo if
    their `image_id`, or else the paths or bytes of their `images`, are equal. Where neither names photos,
    rows with the same references cannot be told apart and count as one photo. A row whose empty caption is
    left out counts too, so that what a system leaves out does not change the scores of its other rows.

    Args:
        document_frequencies: Document frequencies (counted in references of one language, with the same
            segmenter), or the file that holds them. None counts them in the references of the scored rows.
        variant: Formula: "coco", or "paper" for the plain CIDEr of Vedantam et al. (2015, eq. 2 and 3).
    """

    metric = "cider"
    title = "CIDEr"
    citation = ("vedantam-etal-2015-cider",)
    score_range = (0, 10)
    extra_columns = (PHOTO_IDS,)

    def __init__(
        self,
        *,
        document_frequencies: str | Path | DocumentFrequencies | None = None,
        variant: Literal["coco", "paper"] = "coco",
        **common: Any,
    ):
        super().__init__(**common)
        self.consensus = Consensus(document_frequencies, variant)

    @property
    def compares_rows(self) -> bool:
        return self.consensus.given is None

    def language_problem(self, code: str) -> str:
        return self.consensus.language_problem(code)

    def compare(self, texts: Texts) -> Compared:
        return Compared(
            self.consensus.score(texts), {"variant": self.consensus.variant, **self.consensus.settings(texts)}
        )

    def finish(self, rows: PreparedRows) -> Scores:
        which = self.consensus.rows_to_read(rows)
        found = self.compare(Texts.of(rows, which))
        settings = {**found.settings, **row_settings(rows), "version": __version__}
        return self.make_scores(rows, found.scores[rows.kept[which]], {}, settings)


class CIDErD(CIDEr):
    """CIDEr-D with σ = 6, which `CIDEr` computes by default.

    Args:
        document_frequencies, empty: As in `CIDEr`.
    """

    metric = "cider_d"
    title = "CIDEr-D"

    def __init__(
        self,
        *,
        document_frequencies: str | Path | DocumentFrequencies | None = None,
        empty: Literal["worst", "score", "skip", "raise"] = "worst",
    ):
        super().__init__(document_frequencies=document_frequencies, empty=empty)

    def compare(self, texts: Texts) -> Compared:
        return Compared(self.consensus.score(texts), self.consensus.settings(texts))


class Consensus:
    """CIDEr of texts, each language separately; part of every scorer that computes CIDEr.

    Rows are split by the rules of their language, and documents are counted among the rows of one language.
    Otherwise common German words would count as rare if most rows were English. The arguments are those of
    `CIDEr`; raises CapscoreError for an unknown variant, or a file without document frequencies.
    """

    def __init__(self, document_frequencies: object = None, variant: Literal["coco", "paper"] = "coco"):
        if variant not in ("coco", "paper"):
            raise InputError(Setting("variant", variant), ": expected 'coco' or 'paper'")
        self.variant = variant
        if isinstance(document_frequencies, (str, Path)):
            document_frequencies = DocumentFrequencies.load(document_frequencies)
        elif not isinstance(document_frequencies, (DocumentFrequencies, type(None))):
            raise CapscoreError(
                Setting("document_frequencies", document_frequencies),
                ": expected a DocumentFrequencies, or the file that one was saved to",
            )
        self.given: DocumentFrequencies | None = document_frequencies

    def language_problem(self, code: str) -> str:
        """Why texts in a language cannot be split or do not fit the given frequencies; "" if they can."""
        problem = splitting_problem(code)
        if problem or self.given is None or self.given.segmenter is None:
            return problem
        from ..text.segmentation import segmenter_name

        splits, counted = segmenter_name(code or UNSTATED), self.given.segmenter
        if splits == counted:
            return ""
        texts = f"texts in {code!r}" if code else "texts whose language is not stated"
        return (
            f"{texts} are split by {splits}, but the document frequencies were counted on tokens of {counted}"
        )

    def rows_to_read(self, rows: PreparedRows) -> np.ndarray:
        """Rows that are scored, and those whose empty caption is left out: bool (n,)."""
        return rows.fine if self.given is None else rows.kept

    def finish(self, rows: PreparedRows) -> tuple[np.ndarray, dict[str, object]]:
        """Scores of the rows that did not fail, and the settings that they depend on."""
        which = self.rows_to_read(rows)
        texts = Texts.of(rows, which)
        return self.score(texts)[rows.kept[which]], self.settings(texts)

    def score(self, texts: Texts) -> np.ndarray:
        """float64 (n,), 0 to 10; warns where document frequencies say nothing about a language's texts."""
        scores, alike = np.zeros(len(texts.candidates)), []
        for code, rows, part in texts.by_language():
            if self.given is None and not tells_rows_apart(part.tokens):
                alike.append(f"{len(rows):,} in {code!r}")
            scores[rows] = cider(part.tokens, frequencies=self.given, variant=self.variant)
        if alike:
            problem = (
                f"all n-grams are in the references of each photo ({', '.join(alike)}): none is rare, and "
                "each CIDEr is 0 by definition. Score more photos at once, or give "
            )
            warn(CorpusWarning(problem, Setting("document_frequencies")))
        return scores

    def settings(self, texts: Texts) -> dict[str, object]:
        """Settings for the signature: segmenters, documents that were counted, and the formula's constants.

        `df:rows@…` stands for the references of the rows' photos in any order, `df:…` for given frequencies.
        """
        counted = f"rows@{_documents_digest(texts)}" if self.given is None else self.given.fingerprint
        return {
            "segmenter": texts.segmenters,
            "df": counted,
            "n": ORDERS,
            **({"sigma": SIGMA} if self.variant == "coco" else {}),
        }


def _documents_digest(texts: Texts) -> str:
    """8 hexadecimal digits for the languages and references of the photos, whatever their order."""
    documents: dict[tuple[str, tuple[str, ...]], set[str]] = {}
    for code, photo, references in zip(texts.languages, texts.photos, texts.references, strict=True):
        documents.setdefault((code, photo), set()).update(references)
    times = Counter((code, *sorted(references)) for (code, _), references in documents.items())
    counted = sorted(json.dumps([*document, count]) for document, count in times.items())
    return xxhash.xxh3_64_hexdigest("\n".join(counted).encode())[:8]


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
    - Document frequencies count photos, by their references, never candidates; a row's own photo counts.
    - l is the number of 2-grams: a caption of one token is as long as one without any.
    - If either vector is zero, as for 4-grams in a caption of three tokens, that n contributes 0.
    - Tokens are not stemmed; tf is the bare count (a cosine does not see its scale).

    Args:
        frequencies: Number of documents that contain each n-gram. None counts them in the rows: a document is
            a photo of `rows.photos`, with the references of all its rows. Then a score depends on the other
            rows, and those of a single photo score 0 because every n-gram is in all documents.

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
    return bool(((0 < held) & (held < rows.n_photos)).any())


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
        held, n_documents = rows.frequencies, rows.n_photos
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


@dataclass(frozen=True, eq=False)
class DocumentFrequencies:
    """The number of documents that contain each 1- to 4-gram. A document is the references of a photo.

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
        """Count the photos of rows, as `cider` does without frequencies."""
        if not rows.n_photos:
            raise InputError("no document to count; expected at least one", field="references")
        ngrams, counts = rows.ngrams, rows.frequencies
        # without n-grams of candidates only; a kept n-gram's prefix and last word are kept too
        kept = np.flatnonzero(counts)
        number = np.cumsum(counts > 0) - 1
        is_word = kept < int(ngrams.firsts[1])
        return cls(
            n_documents=rows.n_photos,
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
        """Write a .npz archive. The file gets its name only when it is complete."""
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
        given = Setting("document_frequencies", Path(path))
        try:
            copy = copied_stream(Path(path).expanduser(), given.name, LIST_BYTES)
            with zipfile.ZipFile(copy) as archive:
                if sum(entry.file_size for entry in archive.infolist()) > LIST_BYTES.bytes:
                    raise InputError(given, f" unpacks to more than it may: {LIST_BYTES}")
            with np.load(copy, allow_pickle=False) as file:
                about = json.loads(file["about"].tobytes())
                arrays = {name: file[name].astype(np.int64, casting="safe") for name in _ARRAYS}
            frequencies = cls(**{name: about[name] for name in _NAMED}, **arrays)
            if [about[name] for name in _CHECKED] != [_FORMAT, _VERSION, frequencies.fingerprint]:
                raise ValueError("another format or version, or parts that do not match")
        except OSError as error:
            raise CapscoreError(given, f" cannot be read: {error.strerror or error}") from error
        except InputError:
            raise
        except Exception as error:  # a damaged archive may raise anything
            # numpy's message would advise unpickling the file
            pickled = (b"\x80", b"(dp", b"ccollections", b"ccopy_reg")
            with copy.open("rb") as file:
                start = file.read(12)
            if start.startswith(pickled):
                instead = "count with DocumentFrequencies.from_references instead (docs of the metric cider)"
                problem = f" is a pickle, as coco-caption writes, which can run any code; {instead}"
                raise CapscoreError(given, problem) from error
            problem = f" is not what DocumentFrequencies.save writes (version {_VERSION}), or is damaged"
            raise CapscoreError(given, problem) from error
        return frequencies
