"""Scorers that only read texts: candidates and references, split into words by language."""

from __future__ import annotations

import unicodedata
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any, ClassVar

import numpy as np

from .. import __version__
from ..errors import InputError, LanguageWarning, warn
from ..text.segmentation import not_split_by_blanks, segmenter_name, tokenize
from .base import Scorer
from .ngrams import TokenRows
from .rows import InputRows, PreparedRows, row_settings
from .scores import Scores

UNSTATED = "en"  # how rows without a stated language are split


def splitting_problem(code: str) -> str:
    """Why texts in a language cannot be split into words; "" if they can."""
    try:
        segmenter_name(code or UNSTATED)
    except InputError as error:
        return error.message
    return ""


def splitting_settings(code: str) -> dict[str, str]:
    """What splits texts in a language ("": not stated) into words, for signatures."""
    return {"segmenter": segmenter_name(code or UNSTATED)}


@dataclass(frozen=True)
class Texts:
    """The texts of the rows that did not fail.

    Attributes:
        languages: n primary subtags; "en" for a language that is not stated.
        photos: What each row's photo is known by: its name, or all its references where nothing names it.
    """

    candidates: list[str]
    references: list[list[str]]
    languages: list[str]
    photos: list[tuple[str, ...]]

    @classmethod
    def of(cls, rows: PreparedRows, which: np.ndarray) -> Texts:
        """Texts of some rows, bool (n,), that have references, for a metric that waits."""
        columns = (rows.candidates or [], rows.references or [], rows.languages, rows.photos or [])
        candidates, references, languages, names = (list[Any](compress(column, which)) for column in columns)
        _warn_of_unsplit(candidates, references, languages)
        photos = []
        for name, texts in zip(names, references, strict=True):
            photos.append(("named", name) if name else ("unnamed", *sorted({*texts})))
        return cls(candidates, references, [language or UNSTATED for language in languages], photos)

    @cached_property
    def tokens(self) -> TokenRows:
        return self._tokens(whole=False)

    def tokens_for_rouge(self) -> TokenRows:
        """The same, but an English word that contains a blank ("2 1/2") is one token."""
        return self._tokens(whole=True)

    def distinct_rows(self) -> tuple[list[str], list[list[str]], np.ndarray]:
        """Each distinct row's candidate and references, as tokens joined by spaces, and each row's number."""
        pairs = self.tokens.pairs
        words = [" ".join(tokens) for tokens in self.tokens.tokens]
        lists = np.split(pairs.references, np.cumsum(pairs.sizes)[:-1])
        references = [[words[text] for text in listed] for listed in lists]
        return [words[text] for text in pairs.candidates], references, pairs.of_row

    def _tokens(self, *, whole: bool) -> TokenRows:
        # two languages may split the same letters differently, so each text carries its language
        def split(keys: list[str]) -> list[list[str]]:
            of_language: dict[str, list[str]] = {}
            for key in keys:
                of_language.setdefault(key.partition("\0")[0], []).append(key)
            found: dict[str, list[str]] = {}
            for code, marked in of_language.items():
                texts = [key.partition("\0")[2] for key in marked]
                found.update(zip(marked, tokenize(texts, code, whole=whole), strict=True))
            return [found[key] for key in keys]

        rows = list(zip(self.languages, self.candidates, self.references, strict=True))
        return TokenRows.build(
            [f"{code}\0{candidate}" for code, candidate, _ in rows],
            [[f"{code}\0{text}" for text in texts] for code, _, texts in rows],
            split,
            self.photos,
        )

    def by_language(self) -> Iterator[tuple[str, np.ndarray, Texts]]:
        """For each language, sorted: its code, the indices of its rows, and their texts."""
        codes = np.array(self.languages, dtype=object)
        for code in sorted(set(self.languages)):
            indices = np.flatnonzero(codes == code)
            columns: tuple[list[Any], ...] = (self.candidates, self.references, self.languages, self.photos)
            yield code, indices, Texts(*([column[index] for index in indices] for column in columns))

    @property
    def segmenters(self) -> str | None:
        """Names of the segmenters, for the signature; one per language if they differ, None without texts.

        "nfc" follows where English texts had to be composed, which earlier versions did not do.
        """
        names = dict.fromkeys(segmenter_name(code) for code in sorted(set(self.languages)))
        rows = zip(self.languages, self.candidates, self.references, strict=True)
        english = (text for code, candidate, listed in rows if code == "en" for text in (candidate, *listed))
        if not all(text.isascii() or unicodedata.is_normalized("NFC", text) for text in english):
            names["nfc"] = None
        return "+".join(names) or None


def _warn_of_unsplit(candidates: list[str], references: list[list[str]], languages: list[str]) -> None:
    """Warn about texts that are split at spaces, but whose script is written without spaces."""
    texts_in: dict[str, dict[str, None]] = {}
    for candidate, listed, language in zip(candidates, references, languages, strict=True):
        texts_in.setdefault(language, {}).update(dict.fromkeys([candidate, *listed]))
    for code, texts in texts_in.items():
        for text in not_split_by_blanks(texts, code or UNSTATED)[:1]:
            stated = repr(code) if code else "not stated"
            warn(
                LanguageWarning(
                    f"texts are written without spaces, such as {text!r:.40} (language {stated}), and were "
                    "split at spaces: their scores mean little. State their language: 'ja', 'th' or 'zh'"
                )
            )


@dataclass(frozen=True, eq=False)
class Compared:
    """Result of a comparison of n texts with their references.

    Attributes:
        settings: Settings that the numbers depend on besides references, languages and version.
        statistics: Name → float64 (n,), whose sums make the numbers of all rows together.
    """

    scores: np.ndarray
    settings: dict[str, object]
    components: dict[str, np.ndarray] = field(default_factory=dict)
    statistics: dict[str, np.ndarray] = field(default_factory=dict)


class ReferenceScorer(Scorer):
    """Scores rows by what candidates share with their references, without images or a backbone.

    Texts wait until all rows have come, to be tokenised at once; the score of a row depends on that row alone
    unless the metric `compares_rows`.
    """

    needs_references: ClassVar[bool] = True
    splits_texts: ClassVar[bool] = True
    printed_times_100: ClassVar[bool] = True
    waits: ClassVar[bool] = True

    def language_problem(self, code: str) -> str:
        return splitting_problem(code)

    def measure(self, rows: InputRows, on_error: str) -> dict[str, np.ndarray]:
        return {}

    def finish(self, rows: PreparedRows) -> Scores:
        found = self.compare(Texts.of(rows, rows.kept))
        settings = {**found.settings, **row_settings(rows), "version": __version__}
        return self.make_scores(rows, found.scores, found.components, settings, found.statistics)

    def language_settings(self, code: str) -> dict[str, str]:
        return splitting_settings(code)

    @abstractmethod
    def compare(self, texts: Texts) -> Compared:
        """Score texts; there may be none."""
