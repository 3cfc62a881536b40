"""The base of scorers that only read texts: candidates and references, split into words by language."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from .. import __version__
from ..errors import InputError, LanguageWarning, warn
from .base import Measured, PreparedRows, Scorer, Scores, row_settings
from .input_rows import InputRows

if TYPE_CHECKING:
    from .formulas.ngrams import TokenRows


UNSTATED = "en"  # how rows without a stated language are split


def splitting_problem(code: str) -> str:
    """Why texts in a language cannot be split into words; "" if they can.

    Raises:
        MissingExtraError: the language's segmenter is not installed.
    """
    from ..text.segmentation import segmenter_name

    try:
        segmenter_name(code or UNSTATED)
    except InputError as error:
        return error.message
    return ""


@dataclass(frozen=True)
class Texts:
    """The texts of the rows that did not fail.

    Attributes:
        candidates: n captions.
        references: n lists of at least one reference.
        languages: n primary subtags; "en" for a language that is not stated.
    """

    candidates: list[str]
    references: list[list[str]]
    languages: list[str]

    @classmethod
    def of(cls, rows: PreparedRows) -> Texts:
        """Texts of the rows that did not fail, for a metric that waits."""
        if rows.candidates is None or rows.references is None:
            raise ValueError("these rows were prepared for a metric that does not wait for all of them")
        kept = np.flatnonzero(rows.kept).tolist()
        candidates = [rows.candidates[row] for row in kept]
        references = [rows.references[row] for row in kept]
        languages = [rows.languages[row] for row in kept]
        _warn_of_unsplit(candidates, references, languages)
        return cls(candidates, references, [language or UNSTATED for language in languages])

    @cached_property
    def tokens(self) -> TokenRows:
        """All rows as tokens, each text split by its row's language."""
        return self._tokens(whole=False)

    @cached_property
    def whole_tokens(self) -> TokenRows:
        """The same, but an English word that contains a blank ("2 1/2") is one token, as in ROUGE-L."""
        return self._tokens(whole=True)

    def _tokens(self, *, whole: bool) -> TokenRows:
        from ..text.segmentation import tokenize
        from .formulas.ngrams import TokenRows

        # two languages may split the same letters differently, so each text carries its language
        def split(marked: list[str]) -> list[list[str]]:
            split: list[list[str]] = [[]] * len(marked)
            of_language: dict[str, list[int]] = {}
            for place, text in enumerate(marked):
                of_language.setdefault(text.partition("\0")[0], []).append(place)
            for code, places in of_language.items():
                texts = [marked[place].partition("\0")[2] for place in places]
                for place, words in zip(places, tokenize(texts, code, whole=whole), strict=True):
                    split[place] = words
            return split

        return TokenRows.build(
            [f"{code}\0{text}" for code, text in zip(self.languages, self.candidates, strict=True)],
            [
                [f"{code}\0{text}" for text in texts]
                for code, texts in zip(self.languages, self.references, strict=True)
            ],
            split,
        )

    def by_language(self) -> Iterator[tuple[str, np.ndarray, Texts]]:
        """For each language, sorted: its code, the places of its rows, and their texts."""
        codes = np.array(self.languages, dtype=object)
        for code in sorted(set(self.languages)):
            places = np.flatnonzero(codes == code)
            yield (
                code,
                places,
                Texts(
                    [self.candidates[place] for place in places],
                    [self.references[place] for place in places],
                    [code] * len(places),
                ),
            )

    @property
    def segmenters(self) -> str | None:
        """Names of the segmenters, for the signature; one per language if they differ, None without texts."""
        from ..text.segmentation import segmenter_name

        return "+".join(dict.fromkeys(segmenter_name(code) for code in sorted(set(self.languages)))) or None


def _warn_of_unsplit(candidates: list[str], references: list[list[str]], languages: list[str]) -> None:
    """Warn about texts that are split at spaces, but whose script is written without spaces."""
    from ..text.segmentation import not_split_by_blanks

    texts_in: dict[str, dict[str, None]] = {}
    for candidate, own, language in zip(candidates, references, languages, strict=True):
        texts_in.setdefault(language, {}).update(dict.fromkeys([candidate, *own]))
    unsplit = [
        (text, code)
        for code, texts in texts_in.items()
        for text in not_split_by_blanks(texts, code or UNSTATED)
    ]
    if unsplit:
        text, code = unsplit[0]
        warn(
            LanguageWarning(
                f"{len(unsplit):,} of {sum(map(len, texts_in.values())):,} texts are written without spaces, "
                f"such as {text!r:.40} (language {repr(code) if code else 'not stated'}), and were split at "
                "spaces: their scores mean little. State the language they are in: 'ja', 'th' or 'zh'"
            )
        )


@dataclass(frozen=True, eq=False)
class Compared:
    """Result of a comparison of n texts with their references.

    Attributes:
        scores: float64 (n,).
        settings: Settings that the numbers depend on besides references, languages and version.
        components: Name → float64 (n,).
        corpus: Numbers of all rows together.
    """

    scores: np.ndarray
    settings: dict[str, object]
    components: dict[str, np.ndarray] = field(default_factory=dict)
    corpus: dict[str, float] = field(default_factory=dict)


class ReferenceScorer(Scorer):
    """Scores rows by what candidates share with their references, without images or a backbone.

    Rows wait for each other, so that all of them are tokenised at once, and because CIDEr depends on the
    references of all rows.
    """

    needs_references: ClassVar[bool] = True
    splits_texts: ClassVar[bool] = True
    waits: ClassVar[bool] = True

    @property
    def scores_empty_references(self) -> bool:
        """Whether a reference may be empty: coco-caption scores it, and so does empty="score"."""
        return self.empty == "score"

    def language_problem(self, code: str) -> str:
        return splitting_problem(code)

    def measure(self, rows: InputRows, on_error: str) -> Measured:
        n_rows = len(rows)
        return Measured({}, [""] * n_rows, np.zeros(n_rows, dtype=bool))

    def finish(self, rows: PreparedRows) -> Scores:
        found = self.compare(Texts.of(rows))
        settings = {**found.settings, **row_settings(rows), "version": __version__}
        return self._scores(rows, found.scores, found.components, settings, found.corpus)

    @abstractmethod
    def compare(self, texts: Texts) -> Compared:
        """Score texts; there may be none."""
